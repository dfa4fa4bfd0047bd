"""The wallets' pages in a real browser: every action, and what the ledger says of it afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest
import segno
from selenium.webdriver.common.action_chains import ActionChains
from tests.promises import promise
from tests.support.browser import Browser
from tests.support.processes import Service, funded_wallet, sol_of

from solward.support.jsontext import loads

pytestmark = pytest.mark.more

FEE = Decimal("0.000005")


@pytest.fixture
def wallet(api: httpx.Client, request: pytest.FixtureRequest) -> str:
    """A wallet of the test's own with 4 SOL; its name is the test's."""
    return funded_wallet(api, request.node.name[5:40], 4)


@pytest.fixture
def shown(browser: Browser, wallet: str) -> Browser:
    """Its page."""
    browser.open(f"/wallets/{wallet}")
    browser.wait_for("4 SOL")
    return browser


def _records(api: httpx.Client, wallet: str) -> list[dict[str, Any]]:
    return list(loads(api.get(f"/wallets/{wallet}/transactions").content)["transactions"])


def _outcome(browser: Browser, action: str) -> Callable[[str], None]:
    def tells(text: str) -> None:
        where = f'[data-testid="outcome-{action}"]'
        browser.until(
            lambda: any(text in each.text for each in browser.all(where)),
            f"{text!r} of {action}",
        )

    return tells


def _address(api: httpx.Client, wallet: str) -> str:
    return str(api.get(f"/wallets/{wallet}").json()["publicKey"])


def test_the_first_wallet_is_made_on_an_empty_page(browser: Browser) -> None:
    browser.open("/wallets")
    browser.wait_for("No wallet yet. Create the first one.")
    browser.click("New wallet")
    browser.fill("Name (optional)", "treasury")
    browser.click("Add to tags")
    browser.fill("Tag", "cold")
    browser.click("Create")
    browser.wait_for("0 SOL")
    assert "treasury" in browser.text()
    assert "cold" in browser.text()
    browser.open("/wallets")
    browser.wait_for("1 in all")
    browser.wait_for("0.0000")
    assert browser.errors() == []


def test_a_transfer_is_asked_once_more_and_paid_to_the_lamport(
    shown: Browser, api: httpx.Client, wallet: str
) -> None:
    other = funded_wallet(api, "shop", 0)
    shown.fill("To", _address(api, other))
    shown.fill("Amount", "0.300000001")
    shown.press("run-transfer")
    shown.wait_for("Rest of the wallet's limits after the transaction")
    effects = shown.marked("effects").text
    for text in ("0.300000001 SOL", "0.000005 SOL", "9.699999999 of 10 SOL in 24 hours"):
        assert text in effects, effects
    # Whose address it is.
    assert "wallet shop" in shown.one(".q-dialog").text
    shown.click("Cancel")
    shown.wait_gone("Rest of the wallet's limits after the transaction")
    assert sol_of(api, other) == 0
    shown.press("run-transfer")
    shown.press("confirm")
    _outcome(shown, "transfer")("Transfer confirmed")
    shown.wait_for("3.699994999 SOL")
    shown.wait_for("0.300000001 of 10 SOL")
    shown.wait_for("records that add up exactly")
    assert sol_of(api, other) == Decimal("0.300000001")
    assert sol_of(api, wallet) == 4 - Decimal("0.300000001") - FEE


@promise("recipient-by-name-everywhere")
def test_a_contact_is_paid_by_its_name(shown: Browser, api: httpx.Client, wallet: str) -> None:
    landlord = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
    api.post("/contacts", json={"address": landlord, "name": "Landlord"})
    shown.fill("To", "Landlord")
    shown.fill("Amount", "0.1")
    shown.press("run-transfer")
    shown.wait_for("Rest of the wallet's limits after the transaction")
    assert f"{landlord}\nLandlord" in shown.one(".q-dialog").text
    shown.press("confirm")
    _outcome(shown, "transfer")("Transfer confirmed")
    assert sol_of(api, wallet) == 4 - Decimal("0.1") - FEE


@promise("name-becomes-address-once")
def test_a_recipient_is_given_by_name_and_one_of_two_is_not_guessed(
    shown: Browser, api: httpx.Client, wallet: str
) -> None:
    others = [funded_wallet(api, name, 0) for name in ("bakery", "twins", "twins")]
    shown.fill("To", "bakers")
    shown.fill("Amount", "0.1")
    shown.press("run-transfer")
    shown.wait_for("to must be an address, or the name of a contact")
    shown.fill("To", "twins")
    shown.press("run-transfer")
    shown.wait_for("to is the name of 2 addresses; give one of them: ")
    shown.fill("To", "bakery")
    shown.press("run-transfer")
    shown.wait_for("Rest of the wallet's limits after the transaction")
    # What is agreed to is the address that the name had then.
    assert f"{_address(api, others[0])}\nwallet bakery" in shown.one(".q-dialog").text
    shown.press("confirm")
    _outcome(shown, "transfer")("Transfer confirmed")
    assert [sol_of(api, each) for each in others] == [Decimal("0.1"), 0, 0]


@promise("preview-promises-nothing")
def test_what_is_refused_after_its_preview_is_told_in_the_words_of_the_service(
    shown: Browser, api: httpx.Client, wallet: str
) -> None:
    shown.fill("To", _address(api, wallet))
    shown.fill("Amount", "1")
    shown.press("run-transfer")
    shown.marked("confirm")
    api.post("/freeze", json={"walletId": wallet, "reason": "incident 9"})
    shown.press("confirm")
    _outcome(shown, "transfer")("transactions are frozen: incident 9")
    assert "blocked by guardrail freeze" in shown.one(".q-notification").text
    shown.wait_for("blocked")
    assert sol_of(api, wallet) == 4


@promise("changed-form-sends-nothing")
def test_a_form_that_is_changed_under_its_preview_sends_nothing(
    shown: Browser, api: httpx.Client, wallet: str
) -> None:
    shown.fill("To", _address(api, funded_wallet(api, "target", 0)))
    shown.fill("Amount", "0.5")
    shown.press("run-transfer")
    shown.marked("confirm")
    # Under the dialog, as a program on the page, or another hand at a keyboard, might.
    field = shown.one('input[aria-label="Amount"]')
    shown.script(
        "arguments[0].value = '0.6'; arguments[0].dispatchEvent(new Event('input'))", field
    )
    shown.press("confirm")
    shown.wait_for("The form has changed")
    assert not shown.all('[data-testid="confirm"]')
    shown.click("Cancel")
    shown.press("run-transfer")
    shown.wait_for("0.6 SOL")
    shown.click("Cancel")
    assert sol_of(api, wallet) == 4
    assert len(_records(api, wallet)) == 2


@promise("one-press-one-payment")
def test_a_double_click_sends_once(shown: Browser, api: httpx.Client, wallet: str) -> None:
    other = funded_wallet(api, "once", 0)
    shown.fill("To", _address(api, other))
    shown.fill("Amount", "0.25")
    for button in ("run-transfer", "confirm"):
        element = shown.marked(button)
        shown.still()
        ActionChains(shown.driver).double_click(element).perform()
    _outcome(shown, "transfer")("Transfer confirmed")
    assert not shown.all('[data-testid="confirm"]')
    assert [each["type"] for each in _records(api, wallet)].count("transfer") == 1
    assert sol_of(api, other) == Decimal("0.25")


def test_any_skill_is_run_from_its_schema(shown: Browser, api: httpx.Client, wallet: str) -> None:
    shown.click("Any skill")
    _skill(shown, "launch_token")
    shown.wait_for("Create a new Token-2022 token")
    shown.press("run-launch_token")
    shown.wait_for("is required")
    shown.fill("Name", "Paper")
    shown.fill("Symbol", "PPR")
    shown.fill("Initial supply (optional)", "21.5")
    shown.press("run-launch_token")
    shown.wait_for("nothing but fee and rent")
    shown.until(lambda: "21.5" in shown.one(".q-dialog").text, "the amount in the dialog")
    shown.press("confirm")
    _outcome(shown, "launch_token")("Paper")
    shown.wait_for("21.5")
    (record,) = (each for each in _records(api, wallet) if each["type"] == "token_launch")
    assert record["details"]["supply"] == Decimal("21.5")


def test_a_skill_that_only_reads_is_run_without_asking(shown: Browser) -> None:
    shown.click("Any skill")
    _skill(shown, "check_balance")
    shown.press("run-check_balance")
    _outcome(shown, "check_balance")("4.0000")


def test_a_stake_is_made_listed_and_undone(shown: Browser, api: httpx.Client, wallet: str) -> None:
    shown.wait_for("No stake yet")
    shown.click("Any skill")
    _skill(shown, "stake_sol")
    shown.fill("Amount", "1.5", within='.q-tab-panel:has([data-testid="run-stake_sol"])')
    shown.press("run-stake_sol")
    shown.press("confirm")
    _outcome(shown, "stake_sol")("1.5")
    (stake,) = api.get(f"/wallets/{wallet}/stakes").json()["stakes"]
    short = f"{stake['address'][:4]}…{stake['address'][-4:]}"
    shown.wait_for("1.5000 SOL")
    shown.click(f"Unstake {short}")
    shown.wait_for(stake["address"])
    shown.wait_for("Network fee")
    shown.press("confirm")
    shown.wait_for("Unstake: confirmed")
    assert "unstake" in [each["type"] for each in _records(api, wallet)]


def test_a_wallet_is_frozen_and_unfrozen_only_when_confirmed(
    shown: Browser, api: httpx.Client, wallet: str
) -> None:
    def frozen() -> bool:
        return bool(api.get(f"/wallets/{wallet}/limits").json()["frozen"])

    shown.press("freeze")
    shown.wait_for("The wallet makes no new transaction")
    shown.click("Cancel")
    shown.wait_gone("The wallet makes no new transaction")
    assert not frozen()
    shown.press("freeze")
    shown.fill("Reason (optional)", "incident 7")
    shown.press("confirm")
    shown.wait_for("Unfreeze")
    assert frozen()
    shown.click("Airdrop")
    shown.press("run-airdrop")
    _outcome(shown, "airdrop")("transactions are frozen: incident 7")
    shown.press("freeze")
    # What then can leave.
    shown.wait_for("can leave wallet")
    shown.press("confirm")
    shown.wait_gone("Unfreeze")
    assert not frozen()


def test_tags_are_changed_in_place(shown: Browser, api: httpx.Client, wallet: str) -> None:
    line = "input[aria-label=Tag]"
    for lines, tag in enumerate(("hot", "<b>bold</b>"), 1):
        shown.click("Edit tags")
        shown.click("Add to tags")
        # The lines that were there are made anew with it.
        shown.until(lambda lines=lines: len(shown.all(line)) == lines, "a line for the tag")
        shown.all(line)[-1].send_keys(tag)
        shown.press("confirm")
        shown.wait_for(tag)
    assert api.get(f"/wallets/{wallet}").json()["tags"] == ["hot", "<b>bold</b>"]
    shown.click("Edit tags")
    shown.click("Remove tags 1")
    shown.press("confirm")
    shown.wait_gone("hot")
    assert api.get(f"/wallets/{wallet}").json()["tags"] == ["<b>bold</b>"]


@promise("wallet-ceilings-bind-everybody")
def test_ceilings_are_set_shown_and_lifted(shown: Browser, api: httpx.Client, wallet: str) -> None:
    def own() -> Any:
        return loads(api.get(f"/wallets/{wallet}/limits").content)["ceilings"]

    shown.press("ceilings")
    shown.fill("Most SOL in a transaction (optional)", "0")
    shown.fill("Most SOL in 24 hours (optional)", "11")
    shown.press("confirm")
    shown.wait_for("dailySpendingLimitSol must be at most 10 SOL")
    assert own() == {}
    shown.fill("Most SOL in 24 hours (optional)", "0.75")
    shown.press("confirm")
    shown.wait_for("of 0.75 SOL")
    shown.wait_for("Ceilings of this wallet: Most SOL in a transaction, Most SOL in 24 hours")
    assert own() == {"maxSolPerTransaction": 0, "dailySpendingLimitSol": Decimal("0.75")}
    shown.press("ceilings")
    shown.fill("Most SOL in a transaction (optional)", "")
    shown.press("confirm")
    shown.wait_gone("Most SOL in a transaction")
    assert own() == {"dailySpendingLimitSol": Decimal("0.75")}


def test_an_address_is_copied_and_scanned(shown: Browser, api: httpx.Client, wallet: str) -> None:
    address = _address(api, wallet)
    shown.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": shown.url},
    )
    shown.click("Copy address")
    shown.wait_for("Address copied")
    copied = "navigator.clipboard.readText().then(arguments[0], each => arguments[0](String(each)))"
    shown.until(lambda: shown.driver.execute_async_script(copied) == address, "the address")
    shown.click("Show the QR code")
    image = shown.marked("qr")
    drawn = shown.until(
        lambda: shown.script(
            "const image = arguments[0].querySelector('img');"
            "return image && image.naturalWidth > 0 ? image.src : null",
            image,
        ),
        "the code to be drawn",
    )
    code = segno.make_qr(address, error="m")
    assert drawn == code.svg_data_uri(scale=8, border=3, dark="#000", light="#fff")


ROWS = """return [...document.querySelectorAll(".ag-center-cols-container .ag-row")]
    .sort((a, b) => a.getAttribute("row-index") - b.getAttribute("row-index"))
    .map(row => row.querySelector("[col-id=name]").innerText)"""


def test_hundreds_of_wallets_are_searched_sorted_and_turned_over(
    browser: Browser, api: httpx.Client
) -> None:
    for number in range(60):
        api.post("/wallets", json={"name": f"till {number:03d}", "tags": [f"shop-{number % 7}"]})
    # One that never fits, whatever the tests before this one made.
    api.post("/wallets", json={"name": "safe"})
    funded_wallet(api, "till 900", 3)
    total = len(api.get("/wallets").json()["wallets"])
    browser.size(1280, 800)
    browser.open("/wallets")
    browser.wait_for(f"{total} in all")
    height = browser.one(".ag-body-viewport").rect["height"]
    assert height >= 12 * browser.one(".ag-row").rect["height"], height
    browser.fill("Search by name, tag or address", "TILL 05")
    browser.wait_for(f"11 of {total}")
    browser.until(lambda: len(browser.script(ROWS)) == 11, "those that fit")
    browser.until(lambda: "…\n" not in browser.text(), "balances")
    browser.fill("Search by name, tag or address", "shop-3")
    browser.wait_for(f"9 of {total}")
    browser.fill("Search by name, tag or address", "nobody")
    browser.wait_for("No wallet fits the filters.")
    browser.fill("Search by name, tag or address", "till")
    browser.wait_for(f"61 of {total}")
    # Every wallet is sorted, not only those of the page.
    name = browser.one('.ag-header-cell[col-id="name"]')
    for first in ("till 000", "till 900"):
        name.click()
        browser.until(lambda first=first: browser.script(ROWS)[0] == first, f"{first} to be first")
    browser.one('.ag-header-cell[col-id="sol"]').click()
    browser.one('.ag-header-cell[col-id="sol"]').click()
    browser.until(lambda: "sort=-sol" in browser.driver.current_url, "it to be in the address")
    browser.until(lambda: browser.script(ROWS)[0] == "till 900", "the richest to be first")
    browser.open("/wallets?q=till&page=2")
    browser.wait_for("till 059")
    assert browser.errors() == []


def test_selected_wallets_are_frozen_with_a_reason_and_unfrozen(
    browser: Browser, api: httpx.Client
) -> None:
    ids = [
        api.post("/wallets", json={"name": f"crowd {each}"}).json()["walletId"] for each in "abc"
    ]

    def frozen() -> list[bool]:
        return [api.get(f"/wallets/{each}/limits").json()["frozen"] for each in ids]

    browser.open("/wallets?q=crowd")
    browser.wait_for("3 of")
    browser.one(".ag-header .ag-checkbox").click()
    browser.press("freeze-selected")
    browser.wait_for("Freeze 3 wallets?")
    browser.wait_for("crowd a, crowd b, crowd c")
    browser.click("Cancel")
    assert frozen() == [False] * 3
    browser.press("freeze-selected")
    browser.fill("Reason (optional)", "lost key")
    browser.press("confirm")
    browser.wait_for("Freeze: done for 3 of 3 wallets.")
    assert frozen() == [True] * 3
    reasons = {each["reason"] for each in api.get("/freeze?limit=500").json()["wallets"]}
    assert reasons >= {"lost key"}
    browser.open("/wallets?q=crowd&status=frozen")
    browser.wait_for("3 of")
    browser.one(".ag-header .ag-checkbox").click()
    browser.press("unfreeze-selected")
    browser.press("confirm")
    browser.wait_for("Unfreeze: done for 3 of 3 wallets.")
    assert frozen() == [False] * 3


# The client asks for half a minute before it gives up.
@promise("one-press-one-payment")
def test_a_payment_whose_answer_was_lost_is_paid_once(
    shown: Browser, api: httpx.Client, wallet: str, service: Service
) -> None:
    other = funded_wallet(api, "waiting", 0)
    shown.fill("To", _address(api, other))
    shown.fill("Amount", "0.5")
    service.stop()
    service.start(armed="kill:sent:1")
    shown.press("run-transfer")
    shown.wait_for("Rest of the wallet's limits after the transaction")
    shown.press("confirm")
    service.wait_killed()
    _outcome(shown, "transfer")("pays at most once")
    service.start()
    shown.press("run-transfer")
    # No dry run: it would judge a second payment.
    shown.wait_for("This request was already sent")
    shown.press("confirm")
    _outcome(shown, "transfer")("Transfer confirmed")
    assert sol_of(api, other) == Decimal("0.5")


def _skill(browser: Browser, name: str) -> None:
    browser.press("skill")
    browser.marked("skill").send_keys(name)
    browser.click(f"{name} (solward)", within=".q-menu")


def test_a_schedule_is_made_paused_resumed_and_deleted(
    shown: Browser, api: httpx.Client, wallet: str
) -> None:
    def schedules() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = api.get(f"/wallets/{wallet}/schedules").json()["schedules"]
        return found

    shown.wait_for("This wallet has no schedule.")
    shown.click("New schedule")
    shown.choose("Skill", "check_balance", within=".q-dialog")
    shown.fill("Name", "look")
    shown.fill("Every (optional)", "1h")
    shown.click("Continue")
    # What it is to do is asked once more.
    shown.wait_for("Every: 1h")
    assert schedules() == []
    shown.click("Create")
    shown.wait_for("check_balance, every 1h")
    # As other pages tell times, in the row and in the notice.
    assert len(re.findall(r"[Rr]uns next \d{4}-\d\d-\d\d \d\d:\d\d\b", shown.text())) == 2
    (made,) = schedules()
    assert (made["name"], made["skill"], made["status"]) == ("look", "check_balance", "active")
    # The list is drawn anew as the event of the schedule comes.
    shown.still()
    shown.click("Runs of look")
    shown.wait_for("The schedule has not run yet.")
    shown.click("Close")
    shown.click("Run now of look")
    # What is to run is told once more, and then the button of the dialog.
    shown.wait_for("This run is in addition to the scheduled ones, and counts like them.")
    shown.click("Run now", within=".q-dialog")
    run = ("runs", "isRunning")
    shown.until(lambda: [schedules()[0][each] for each in run] == [1, False], "it has run", 20)
    shown.click("Runs of look")
    shown.wait_for("succeeded")
    shown.click("Close")
    shown.click("Pause of look")
    shown.wait_for("It was paused")
    assert schedules()[0]["status"] == "paused"
    shown.click("Resume of look")
    shown.click("Resume")
    shown.until(lambda: schedules()[0]["status"] == "active", "it is active again", 20)
    shown.wait_for("Runs next")
    shown.click("Delete of look")
    shown.click("Delete")
    shown.wait_for("This wallet has no schedule.")
    assert schedules() == []


@promise("fields-on-every-surface")
def test_a_schedule_has_a_form_of_all_its_fields_and_of_its_skills_own(
    shown: Browser, api: httpx.Client, wallet: str
) -> None:
    """The dialog lacked its start, its end, its grants and the upper bound of its runs, and took
    the skill's parameters as raw JSON."""

    def fill(**values: str) -> None:
        for label, value in values.items():
            shown.fill(label.replace("_", " "), value, within=".q-dialog")

    def rent() -> dict[str, Any]:
        found = loads(api.get(f"/wallets/{wallet}/schedules").content)["schedules"]
        return dict(next(each for each in found if each["name"] == "rent"))

    shown.click("New schedule")
    shown.wait_for("Start at (optional)")
    shown.click("Continue")
    shown.until(lambda: shown.text().count("is required") == 2, "skill and name are missing")
    shown.choose("Skill", "transfer", within=".q-dialog")
    fill(To=_address(api, wallet), Amount="much", Name="rent")
    shown.fill("Every (optional)", "1h")
    shown.fill("Start at (optional)", "2199-01-01T00:00:00Z")
    shown.fill("End at (optional)", "2199-06-01T00:00:00Z")
    shown.fill("Max runs (optional)", "1000001")
    shown.click("Add to grants")
    fill(Sentence="may transfer up to 0.1 SOL a day, to anybody")
    shown.click("Continue")
    # The errors of both forms at once.
    shown.wait_for("must be a number such as 0.5")
    shown.wait_for("must be at most 1000000")
    fill(Amount="0.01")
    shown.fill("Max runs (optional)", "1000000")
    shown.click("Continue")
    shown.wait_for("Max runs: 1000000")
    shown.click("Create")
    shown.wait_for("transfer, every 1h")
    made = rent()
    assert made["parameters"] == {"to": _address(api, wallet), "amount": Decimal("0.01")}
    assert (made["startAt"], made["endAt"]) == (
        "2199-01-01T00:00:00.000Z", "2199-06-01T00:00:00.000Z",
    )  # fmt: skip
    assert made["maxRuns"] == 1_000_000
    (granted,) = api.get(f"/wallets/{wallet}/limits").json()["grants"]
    assert granted["who"] == made["principal"]
    shown.still()
    shown.click("Change of rent")
    shown.wait_for("Parameters of transfer")
    # The list is built anew under the dialog, which stays.
    look = {"name": "look", "skill": "check_balance", "every": "1h"}
    assert api.post(f"/wallets/{wallet}/schedules", json=look).status_code == 200
    shown.wait_for("check_balance, every 1h")
    fill(Amount="0.02")
    shown.fill("Every (optional)", "")
    shown.fill("Cron (optional)", "0 9 * * *")
    shown.fill("End at (optional)", "")
    shown.click("Continue")
    shown.wait_for("End at: none")
    shown.click("Change", within=".q-dialog")
    shown.wait_for("transfer, 0 9 * * * UTC")
    changed = rent()
    kept = ("id", "name", "startAt", "maxRuns", "missed")
    assert {each: changed[each] for each in kept} == {each: made[each] for each in kept}
    assert changed["parameters"]["amount"] == Decimal("0.02")
    assert changed["endAt"] is None
    assert (granted,) == tuple(api.get(f"/wallets/{wallet}/limits").json()["grants"])


@promise("reclaim-gives-the-excess")
def test_rent_comes_back_once_it_is_confirmed(
    shown: Browser, api: httpx.Client, wallet: str
) -> None:
    run = f"/wallets/{wallet}"
    coin = {"name": "Empty", "symbol": "MT", "decimals": 0, "initialSupply": 5}
    mint = api.post(f"{run}/launch-token", json=coin).json()["mint"]
    assert api.post(f"{run}/burn", json={"mint": mint, "amount": 5}).status_code == 200
    shown.open(f"/wallets/{wallet}")
    shown.wait_for("Rent that can be reclaimed")
    shown.wait_for("SOL from 1 token account")
    before = sol_of(api, wallet)
    shown.click("Reclaim")
    shown.wait_for("Reclaim this rent?")
    shown.wait_for("its SOL goes to")
    shown.press("confirm")
    shown.wait_for("Reclaim: confirmed")
    [record] = [each for each in _records(api, wallet) if each["type"] == "reclaim_rent"]
    reclaimed = Decimal(str(record["details"]["reclaimed"]))
    assert sol_of(api, wallet) == before + reclaimed - FEE
    shown.wait_gone("Rent that can be reclaimed")
