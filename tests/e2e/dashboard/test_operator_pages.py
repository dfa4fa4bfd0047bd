"""The freeze of everything, the audit log, settings, and what plugins are set to and keep."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.promises import promise
from tests.support.browser import PHONE, Browser
from tests.support.plugins import DISTRIBUTION, SKILL, install_keeping
from tests.support.processes import Service, funded_wallet

from solward_dashboard.frame import GOES_ON, STOPS

pytestmark = pytest.mark.more

CANARY = "canary-4f1d0c9e7b-do-not-show-me-anywhere"
SECRETS = {
    "OPENAI_API_KEY": f"sk-{CANARY}",
    "JUPITER_API_KEY": f"jup-{CANARY}",
    "COINGECKO_API_KEY": f"cg-{CANARY}",
    "APPROVAL_WEBHOOK_URL": f"http://127.0.0.1:9/{CANARY}",
    "APPROVAL_WEBHOOK_SECRET": f"webhook-{CANARY}",
    "KEYSTORE_PASSPHRASE": f"passphrase-{CANARY}",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    install_keeping(folder / "home", folder)
    given = {
        "MAX_SOL_PER_TRANSACTION": "1.5",
        "JUPITER_API_URL": f"http://u:{CANARY}@127.0.0.1:9",
        "COINGECKO_API_URL": f"https://coingecko.example/{CANARY}/v3",
    }
    service = Service(folder / "home", **SECRETS, **given).start()
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def wallet(api: httpx.Client) -> str:
    return str(funded_wallet(api, "till", 2))


def audit(api: httpx.Client, kind: str) -> list[dict[str, object]]:
    return list(api.get("/audit", params={"types": kind}).json()["entries"])


@promise("freeze-all-anywhere")
def test_everything_is_frozen_and_unfrozen_from_any_page_only_when_confirmed(
    browser: Browser, api: httpx.Client, wallet: str
) -> None:
    transfer = {"to": "11111111111111111111111111111112", "amount": 0.01}
    browser.open("/payments")
    browser.press("freeze-all")
    browser.wait_for("Freeze everything?")
    assert all(each in browser.text() for each in (*STOPS, *GOES_ON))
    browser.click("Cancel")
    browser.wait_gone("Freeze everything?")
    assert api.get("/freeze").json()["frozen"] is False

    browser.press("freeze-all")
    browser.marked("freeze-reason").send_keys("drill <b>7</b>")
    browser.press("confirm")
    browser.wait_for("(drill <b>7</b>): no wallet makes a new transaction.")
    assert "drill" in api.post(f"/wallets/{wallet}/transfer", json=transfer).json()["error"]
    for path in ("/", "/settings", f"/wallets/{wallet}"):
        browser.open(path)
        browser.wait_for("Everything is frozen since")

    browser.size(*PHONE)
    browser.open("/plugins")
    browser.press("freeze-all")
    browser.wait_for("Unfreeze everything?")
    browser.click("Cancel")
    browser.wait_gone("Unfreeze everything?")
    assert api.get("/freeze").json()["frozen"] is True
    browser.press("freeze-all")
    browser.press("confirm")
    browser.wait_gone("Everything is frozen since")
    assert api.post(f"/wallets/{wallet}/transfer", json=transfer).status_code == 200
    assert browser.errors() == []


def test_freeze_all_waits_for_a_service_that_has_not_answered_yet(
    browser: Browser, service: Service
) -> None:
    assert service.process is not None
    service.process.send_signal(signal.SIGSTOP)
    try:
        browser.open("/payments")
        browser.press("freeze-all")
        browser.until(lambda: browser.all('[data-testid="freeze-all"]:disabled'), "that it waits")
    finally:
        service.process.send_signal(signal.SIGCONT)
    browser.wait_for("Freeze everything?")
    browser.click("Cancel")
    browser.wait_gone("Freeze everything?")
    assert browser.errors() == []


def test_a_frozen_wallet_is_named_on_every_page(
    browser: Browser, api: httpx.Client, wallet: str
) -> None:
    browser.size(1280, 900)
    api.post("/freeze", json={"walletId": wallet, "reason": "lost"})
    browser.open("/api-keys")
    browser.wait_for("One wallet is frozen:")
    assert "till" in browser.marked("frozen").text
    assert browser.marked("freeze-all").text.casefold().endswith("freeze all")
    browser.click("till", within='[data-testid="frozen"]')
    browser.wait_for("Balance")
    api.post("/unfreeze", json={"walletId": wallet})
    browser.until(lambda: not browser.all('[data-testid="frozen"]'), "the banner to go")


def test_entries_of_the_log_are_filtered_opened_and_added_without_moving_any(
    browser: Browser, api: httpx.Client, wallet: str
) -> None:
    browser.open(f"/audit?wallet={wallet}")
    browser.wait_for("till")
    first = browser.one('[data-testid^="entry-"]')
    number = first.get_attribute("data-testid")
    first.find_element("css selector", "summary").click()
    browser.wait_for("Chain, and number in the chain")
    hash_ = api.get("/audit", params={"walletId": wallet, "limit": 1}).json()["entries"][0]["hash"]
    assert hash_ in browser.text()

    place = first.rect["y"]
    api.post("/wallets", json={"name": "of no interest"})
    api.patch(f"/wallets/{wallet}", json={"tags": ["watched"]})
    browser.until(lambda: "1 new entry" in browser.text(), "the news")
    assert browser.one(f'[data-testid="{number}"]').get_attribute("data-testid") == number
    shown = [each.get_attribute("data-testid") for each in browser.all('[data-testid^="entry-"]')]
    assert shown[0] == number
    assert "wallet:changed" not in browser.marked("entries").text
    assert abs(browser.one(f'[data-testid="{number}"]').rect["y"] - place) < 60
    browser.press("news")
    browser.until(
        lambda: "wallet:changed" in browser.one('[data-testid^="entry-"]').text, "the new one"
    )
    # What was opened is open still.
    assert hash_ in browser.text()

    browser.click("Clear filters")
    browser.wait_for("of no interest")
    browser.choose("Kinds of events", "wallet:changed")
    browser.wait_gone("of no interest")
    assert browser.errors() == []


def test_what_is_filtered_is_saved_as_json_lines_and_older_pages_are_added(
    browser: Browser, api: httpx.Client, wallet: str, tmp_path: Path
) -> None:
    for tag in range(60):
        api.patch(f"/wallets/{wallet}", json={"tags": [f"tag-{tag}"]})
    behavior = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behavior)
    browser.open(f"/audit?wallet={wallet}")
    browser.wait_for("50 entries")
    browser.press("export")
    file = tmp_path / "solward-audit.jsonl"
    browser.until(file.exists, "the file")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    expected = api.get("/audit", params={"walletId": wallet, "limit": 500}).json()["entries"]
    assert lines == expected
    assert len(lines) > 60
    browser.press("older")
    browser.until(lambda: len(browser.all('[data-testid^="entry-"]')) > 60, "older ones")
    browser.open(f"/audit?agent={wallet}")
    browser.wait_for("No entry fits.")
    browser.press("export")
    browser.wait_for("No entry fits the filters, so nothing was exported.")


@promise("service-secrets-not-on-page")
def test_settings_are_shown_with_their_origins_and_no_secret(browser: Browser) -> None:
    browser.open("/settings")
    browser.wait_for("MAX_SOL_PER_TRANSACTION")
    ceilings = browser.marked("ceilings").text
    assert "MAX_SOL_PER_TRANSACTION\n1.5\ndefault: 2\nenvironment" in ceilings
    for name in SECRETS:
        assert browser.marked(f"setting-{name}").text == f"{name}\nsecret\nset\nenvironment"
    assert browser.marked("setting-GEMINI_API_KEY").text.endswith("not set\ndefault")
    assert "\nhttp://127.0.0.1:9/…\n" in browser.marked("setting-JUPITER_API_URL").text
    assert "\nhttps://coingecko.example/…\n" in browser.marked("setting-COINGECKO_API_URL").text
    assert CANARY not in browser.driver.page_source
    browser.fill("Search settings", "slippage")
    browser.wait_for("1 of ")
    assert "MAX_SLIPPAGE_BPS" in browser.text()
    browser.one(".q-toggle").click()
    browser.wait_for("0 of ")
    assert browser.errors() == []


@promise("plugin-secret-written-only")
def test_settings_of_a_skill_are_set_checked_by_field_and_its_secret_is_written_only(
    browser: Browser, api: httpx.Client
) -> None:
    browser.open("/plugins")
    browser.click(f"Settings of {SKILL}")
    browser.wait_for("Changes apply from the skill's next call on.")
    assert browser.marked("field-token").get_attribute("type") == "password"
    browser.marked("field-token").send_keys("short")
    browser.marked("field-label").send_keys("till")
    browser.press("save-settings")
    browser.wait_for("token must be text of 8 to 4096 characters")
    # What fits is set all the same.
    path = f"/plugins/skills/{SKILL}/settings"
    stored = {each["name"]: each for each in api.get(path).json()["settings"]}
    assert (stored["label"].get("value"), stored["token"]["set"]) == ("till", False)
    assert stored["hours"]["set"] is False

    browser.marked("field-token").send_keys(CANARY)
    browser.press("save-settings")
    browser.wait_gone("Changes apply from the skill's next call on.")
    stored = {each["name"]: each for each in api.get(path).json()["settings"]}
    assert stored["token"] == {"name": "token", "secret": True, "set": True}
    assert CANARY not in browser.driver.page_source

    browser.click(f"Settings of {SKILL}")
    browser.wait_for("set; a new value replaces it")
    assert browser.marked("field-token").get_attribute("value") == ""
    assert browser.marked("field-label").get_attribute("value") == "till"
    browser.click("Unset token")
    browser.press("confirm")
    browser.wait_gone("set; a new value replaces it")
    assert not api.get(path).json()["settings"][2]["set"]
    browser.click("Close")
    browser.wait_gone("Changes apply from the skill's next call on.")
    assert browser.errors() == []


def test_entries_of_a_plugin_are_listed_page_by_page_and_deleted_only_when_confirmed(
    browser: Browser, api: httpx.Client, wallet: str
) -> None:
    kept = api.post(f"/wallets/{wallet}/skills/{SKILL}", json={"count": 25})
    assert kept.status_code == 200, kept.text
    browser.open("/plugins")
    browser.click(f"Entries of {DISTRIBUTION}")
    browser.wait_for("entry/000")
    assert "entry/020" not in browser.text()
    browser.click("Load more")
    browser.wait_for("entry/024")
    browser.fill("Key begins with", "entry/01")
    browser.wait_gone("entry/000")
    browser.click("Delete entry/012")
    browser.wait_for("Delete the entry entry/012?")
    browser.press("confirm")
    browser.wait_for("entry/012 is deleted")
    entries = api.get(f"/wallets/{wallet}/plugins/{DISTRIBUTION}/store?limit=200").json()["entries"]
    assert len(entries) == 24
    (told,) = audit(api, "plugin:entry")
    assert (told["data"]["key"], told["data"]["principal"]) == ("entry/012", "admin")  # type: ignore[index]
    assert browser.errors() == []


def test_a_freeze_that_the_service_does_not_answer_says_so(
    browser: Browser, service: Service
) -> None:
    browser.open("/settings")
    browser.wait_for("MAX_SOL_PER_TRANSACTION")
    browser.press("freeze-all")
    browser.wait_for("Freeze everything?")
    service.stop(signal.SIGKILL)
    browser.press("confirm")
    browser.one(".q-notification.bg-negative")
    browser.marked("banner")
    assert "Everything is frozen" not in browser.text()
