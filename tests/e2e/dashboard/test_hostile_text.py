"""Text of strangers - tokens, wallets, agents, models, plugins - is shown as text everywhere."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.agents import agent_body
from tests.support.browser import PHONE, Browser, Pages
from tests.support.clock import wait_until
from tests.support.examples import rest_is_long
from tests.support.plugins import Shelf
from tests.support.processes import Service, funded_wallet
from tests.support.vendors.process import vendor_process

pytestmark = pytest.mark.more

# Markup, a script, and what a template of Vue would run.
EVIL = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
    "{{constructor.constructor('window.hacked=1')()}}"
)
# A token's name has 32 bytes, its symbol 10.
EVIL_NAME = "<img src=x onerror=hacked=1>"
EVIL_SYMBOL = "<b>x</b>"
MODEL = f"model {EVIL}"
ACT = f"tool:transfer:{json.dumps({'to': EVIL, 'amount': 0.1})}"
PLUGIN = f"raise ImportError({EVIL!r})"
PATHS = ("/", "/agents", "/wallets", "/transactions", "/api-keys", "/plugins")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose models and plugins are hostile."""
    shelf = Shelf(tmp_path_factory.mktemp("site"))
    shelf.install("evil-skills", {"evil_skill": PLUGIN})
    with vendor_process() as vendor:
        service = Service(
            tmp_path_factory.mktemp("service") / "home",
            PYTHONPATH=str(shelf.path),
            OPENAI_API_KEY=f"k~text:{MODEL}",
            ANTHROPIC_API_KEY=f"k~{ACT}",
            **vendor.base_urls,
        ).start()
        yield service
        service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def crew(api: httpx.Client) -> dict[str, str]:
    """A hostile wallet, token, key and agents, which have decided."""
    assert api.post("/wallets", json={"name": "plain"}).status_code == 200
    wallet = funded_wallet(api, f"wallet {EVIL_NAME}", 4)
    token = {"name": EVIL_NAME, "symbol": EVIL_SYMBOL}
    launched = api.post(f"/wallets/{wallet}/launch-token", json=token)
    assert launched.status_code == 200, launched.text
    api.post(f"/wallets/{wallet}/transfer", json={"to": EVIL, "amount": 1})
    api.post("/keys", json={"name": f"key {EVIL_NAME}"})
    agents = {}
    for provider in ("openai", "anthropic"):
        body = agent_body(
            wallet,
            provider,
            name=f"{provider} {EVIL_NAME}",
            llmModel="m",
            strategy=f"strategy {EVIL}",
            loopIntervalMs=1000,
        )
        made = api.post("/agents", json=body)
        assert made.status_code == 200, made.text
        agents[provider] = str(made.json()["id"])
        api.post(f"/agents/{agents[provider]}/start")
    for agent in agents.values():
        told = f"/agents/{agent}/decisions"
        wait_until(lambda told=told: api.get(told).json()["decisions"], "a decision")
    return {"wallet": wallet, **agents}


def harmless(browser: Browser) -> None:
    """Nothing was run, and nothing of it became an element."""
    assert browser.script("return window.hacked ?? null") is None
    assert browser.script("return document.querySelectorAll('img[src=x]').length") == 0
    assert browser.script("return document.querySelectorAll('b').length") == 0
    # A script that the policy stopped would be told here.
    assert browser.errors() == []


def opened(browser: Browser) -> None:
    """Everything that can be unfolded is."""
    for each in browser.all("[aria-expanded=false]"):
        if each.is_displayed() and each.get_attribute("role") != "combobox":
            browser.script("arguments[0].click()", each)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", rest_is_long(["desktop", "phone"], "phone"))
def test_it_is_shown_as_text(browser: Browser, crew: dict[str, str], path: str, size: str) -> None:
    browser.size(*(PHONE if size == "phone" else (1280, 900)))
    browser.open(path)
    expected = {
        "/": "transfer(" if size == "phone" else f"openai {EVIL_NAME}",
        "/agents": f"openai {EVIL_NAME}",
        "/wallets": f"wallet {EVIL_NAME}",
        "/transactions": "confirmed" if size == "phone" else "token launch",
        "/api-keys": f"key {EVIL_NAME}",
        "/plugins": EVIL[:36],
    }[path]
    browser.wait_for(expected)
    opened(browser)
    harmless(browser)


def test_a_wallets_own_page_and_its_forms(browser: Browser, crew: dict[str, str]) -> None:
    browser.size(1280, 900)
    browser.open(f"/wallets/{crew['wallet']}")
    browser.wait_for(f'("{EVIL_SYMBOL}", unverified)')
    title = f"Wallet wallet {EVIL_NAME} - Solward"
    browser.until(lambda: browser.driver.title == title, "the name in the title")
    # As long as an address may be.
    recipient = EVIL[: EVIL.index("<script>")]
    browser.fill("To", recipient)
    browser.fill("Amount", "0.1")
    browser.press("run-transfer")
    # Nobody is called so, and what was filled in stays there as text.
    browser.wait_for("to must be an address, or the name of a contact")
    field = browser.one('input[aria-label="To"]')
    assert field.get_attribute("value") == recipient
    harmless(browser)


def test_an_agents_own_page_and_what_its_model_says(browser: Browser, crew: dict[str, str]) -> None:
    browser.size(1280, 900)
    browser.open(f"/agents/{crew['openai']}")
    browser.wait_for(f"openai {EVIL_NAME}")
    browser.wait_for("Cycle ")
    opened(browser)
    browser.wait_for(f"strategy {EVIL}"[:60])
    harmless(browser)
    browser.click(f"Chat with openai {EVIL_NAME}")
    browser.fill("Message", EVIL)
    browser.click("Send")
    browser.until(lambda: browser.text().count(EVIL[:40]) > 2, "question and answer")
    browser.wait_for(MODEL[:40])
    harmless(browser)


def test_a_transactions_details(browser: Browser, crew: dict[str, str]) -> None:
    browser.size(1280, 900)
    browser.open("/transactions")
    browser.until(
        lambda: any("token launch" in each.text for each in browser.all(".ag-row")), "the launch"
    )
    row = next(each for each in browser.all(".ag-row") if "token launch" in each.text)
    row.find_element("css selector", ".ag-cell").click()
    browser.wait_for(EVIL_NAME)
    harmless(browser)


def test_the_files_a_page_loads_are_its_own(browser: Browser, pages: Pages) -> None:
    browser.open("/")
    names = browser.script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert names
    assert all(name.startswith((pages.url, "data:")) for name in names)
    assert Path(pages.folder / "dashboard.log").read_text() == ""
