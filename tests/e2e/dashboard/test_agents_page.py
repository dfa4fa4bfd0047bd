"""The agents' pages in a real browser, before agents whose models are scripted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from selenium.webdriver.common.keys import Keys
from tests.e2e.dashboard.talker import Talker, talker
from tests.promises import promise
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.clock import wait_until
from tests.support.processes import Service
from tests.support.vendors.process import vendor_process

from solward.support.jsontext import loads

pytestmark = pytest.mark.more

SAID = "All is well; nothing to do."


@pytest.fixture(scope="module")
def model() -> Iterator[Talker]:
    """The model of provider grok."""
    with talker() as model:
        yield model


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, model: Talker) -> Iterator[Service]:
    """Openai waits and talks, grok speaks word by word."""
    with vendor_process() as vendor:
        service = Service(
            tmp_path_factory.mktemp("service") / "home",
            OPENAI_API_KEY="k",
            OPENAI_BASE_URL=vendor.base_urls["OPENAI_BASE_URL"],
            XAI_API_KEY="k",
            XAI_API_BASE=model.url,
        ).start()
        yield service
        service.stop(signal.SIGKILL)


@pytest.fixture
def wide(browser: Browser) -> Browser:
    """The browser at a desktop's size."""
    browser.size(*DESKTOP)
    return browser


def _agents(api: httpx.Client) -> dict[str, Any]:
    return {each["name"]: each for each in loads(api.get("/agents").content)["agents"]}


def _body(name: str, provider: str = "openai") -> dict[str, Any]:
    return {
        "name": name,
        "llmProvider": provider,
        "llmModel": "m",
        "strategy": "be calm",
        "loopIntervalMs": 1000,
        "maxSolPerTransaction": 1,
    }


def _made(api: httpx.Client, name: str, provider: str = "openai", **fields: Any) -> str:
    """An agent of the test's own, which runs."""
    made = api.post("/agents", json=_body(name, provider) | fields)
    assert made.status_code == 200, made.text
    agent = str(made.json()["id"])
    assert api.post(f"/agents/{agent}/start").status_code == 200
    return agent


def _row(browser: Browser, agent: str) -> str:
    found = browser.all(f'.ag-center-cols-container [row-id="{agent}"]')
    return found[0].text if found else ""


def _shows(browser: Browser, name: str, text: str, api: httpx.Client) -> None:
    agent = _agents(api)[name]["id"]
    browser.until(lambda: text in _row(browser, agent), f"{text!r} in the row of {name}")


def test_the_first_agent_is_made_and_started_on_an_empty_page(
    wide: Browser, api: httpx.Client
) -> None:
    wide.open("/agents")
    wide.wait_for("No agent yet. Create one")
    wide.click("New agent")
    wide.wait_for("Guardrails")
    wide.press("create")
    wide.wait_for("is required")
    assert _agents(api) == {}
    wide.fill("Name", "first")
    wide.choose("Provider", "openai")
    wide.fill("Model", "m-1")
    wide.fill("Strategy", "be calm")
    wide.fill("Seconds between cycles", "1.5")
    wide.fill("Most SOL in a transaction", "0.000000001")
    wide.click('Expand "Options of the model"')
    wide.fill("Temperature (optional)", "3")
    wide.click('Expand "Budget of the model"')
    wide.fill("Most tokens in a day (optional)", "1000000")
    wide.press("create")
    wide.wait_for("must be at most 2 (got 3)")
    wide.fill("Temperature (optional)", "0.25")
    wide.press("create")
    wide.wait_for("first was created and started")
    _shows(wide, "first", "running", api)
    made = _agents(api)["first"]
    # What the agent does stands on its own page.
    wide.click("first", within=".ag-row")
    wide.wait_for("of 1,000,000")
    wide.wait_for("0 of 10 SOL")
    wide.wait_for("Waited")
    assert made["llmOptions"]["temperature"] == Decimal("0.25")
    assert made["llmBudget"] == {"maxTokensPerDay": 1_000_000, "maxUsdPerDay": 5}
    assert made["loopIntervalMs"] == 1500
    assert made["guardrails"]["maxSolPerTransaction"] == Decimal("0.000000001")
    assert api.get(f"/wallets/{made['walletId']}").json()["name"] == "first-wallet"
    assert wide.errors() == []


@pytest.mark.long
@promise("dashboard-acts")
def test_an_agent_is_paused_started_and_stopped(wide: Browser, api: httpx.Client) -> None:
    wide.open(f"/agents/{_made(api, 'switched')}")
    for verb, status in (
        ("Pause", "paused"),
        ("Start", "running"),
        ("Stop", "stopped"),
        ("Start", "running"),
    ):
        wide.click(f"{verb} switched")
        wide.until(lambda status=status: wide.marked("status").text == status, status)
        assert _agents(api)["switched"]["status"] == status
    labels = [each.get_attribute("aria-label") for each in wide.all("button")]
    assert "Start switched" not in labels


@promise("bulk-goes-on-after-a-failure")
def test_selected_agents_are_paused_and_one_that_fails_is_named(
    wide: Browser, api: httpx.Client
) -> None:
    running = [_made(api, f"many {each}", loopIntervalMs=60_000) for each in "ac"]
    idle = str(api.post("/agents", json=_body("many b")).json()["id"])
    wide.open("/agents?q=many")
    wide.wait_for("3 of")
    wide.one(".ag-header .ag-checkbox").click()
    wide.press("pause-selected")
    wide.wait_for("Pause 3 agents?")
    wide.press("confirm")
    wide.wait_for("Pause: done for 2 of 3 agents. Not for")
    told = wide.marked("bulk-outcome").text
    assert ("many b: " in told, "many a" in told) == (True, False), told
    for agent in running:
        wide.until(lambda agent=agent: "paused" in _row(wide, agent), "paused in its row")
    assert {_agents(api)[f"many {each}"]["status"] for each in "ac"} == {"paused"}
    wide.open("/agents?q=many&status=paused")
    wide.wait_for("2 of")
    wide.one(".ag-header .ag-checkbox").click()
    wide.press("start-selected")
    wide.press("confirm")
    wide.wait_for("Start: done for 2 of 2 agents.")
    for agent in (*running, idle):
        assert api.delete(f"/agents/{agent}").status_code == 200


@promise("dashboard-acts")
def test_a_chat_stays_while_the_page_is_open(wide: Browser, api: httpx.Client) -> None:
    wide.open(f"/agents/{_made(api, 'talker')}")
    wide.click("Chat with talker")
    wide.fill("Message", "how <b>are</b> you?")
    field = wide.one('input[aria-label="Message"]')
    field.send_keys(Keys.ENTER)
    wide.wait_for(SAID)
    assert wide.marked("said").text == "how <b>are</b> you?"
    wide.click("Close")
    wide.wait_gone(SAID)
    wide.click("Chat with talker")
    wide.wait_for(SAID)
    api.post(f"/agents/{_agents(api)['talker']['id']}/stop")
    wide.wait_for("The agent is not running. Start it to chat.")
    assert not wide.marked("send").is_enabled()


def test_an_answer_comes_piece_by_piece_and_is_stopped(
    wide: Browser, api: httpx.Client, model: Talker
) -> None:
    wide.open(f"/agents/{_made(api, 'slow', 'grok', loopIntervalMs=60_000)}")
    wide.click("Chat with slow")
    wide.fill("Message", "tell me")
    wide.click("Send")

    said = ""
    for word in ("Once", " upon <i>a", "</i>"):
        model.say(word)
        said += word
        wide.wait_for(said)
    wide.click("Stop the answer")
    wide.wait_for("Once upon <i>a</i> (stopped)")
    # Nobody listens any more: the model is hung up on, and not paid to go on.
    wide.until(lambda: model.is_left(" time"), "the model to be left")
    while not model.words.empty():
        model.words.get()
    wide.fill("Message", "and now all of it")
    wide.click("Send")
    model.say("The end.")
    model.end()
    wide.wait_for("The end.")
    wide.until(lambda: wide.marked("send").is_enabled(), "to write again")


# 24 cycles of a second each, the shortest there is.
@pytest.mark.long
def test_decisions_are_opened_and_stay_open_while_others_come(
    wide: Browser, api: httpx.Client
) -> None:
    agent = _made(api, "veteran")
    told = f"/agents/{agent}/decisions"
    wait_until(lambda: len(api.get(told).json()["decisions"]) > 23, "24 decisions", 120)
    wide.open("/agents")
    _shows(wide, "veteran", "running", api)
    wide.click("veteran", within=".ag-row")
    newest = wide.one(".sw-decision")
    name = str(newest.get_attribute("data-testid"))
    newest.find_element("css selector", ".q-item").click()
    wide.wait_for("Observation")
    wide.wait_for("veteran-wallet")
    # It slides open; until then what is in it is not displayed.
    wide.until(lambda: "Reasoning" in wide.marked(name).text, "the whole decision")
    wide.until(
        lambda: wide.all(".sw-decision")[0].get_attribute("data-testid") != name, "a newer decision"
    )
    assert "Reasoning" in wide.marked(name).text
    assert "Cycle 1\n" not in wide.text()
    wide.click("Older decisions")
    wide.until(lambda: wide.all('[data-testid="decision-1"]'), "the first decision")
    shown = [str(each.get_attribute("data-testid")) for each in wide.all(".sw-decision")]
    numbers = [int(each.removeprefix("decision-")) for each in shown]
    assert numbers == list(range(numbers[0], 0, -1))
    assert wide.errors() == []


def test_an_agent_is_changed(wide: Browser, api: httpx.Client) -> None:
    agent = _made(api, "draft", llmBudget={"maxTokensPerDay": 500_000})
    wide.open(f"/agents/{agent}")
    wide.wait_for("of 500,000")
    wide.click("Change")
    wide.wait_for("Change draft")
    wide.fill("Name", "final")
    wide.fill("Strategy", "be very calm")
    wide.fill("Most SOL in 24 hours", "2.5")
    wide.click('Expand "Budget of the model"')
    wide.fill("Most tokens in a day (optional)", "")
    wide.press("save")
    wide.wait_for("Save the changes to draft?")
    wide.wait_for("Most SOL in 24 hours: 10 becomes 2.5")
    wide.wait_for("This widens a bound")
    wide.wait_for("Most tokens in a day: 500,000 becomes no limit of its own, which is wider")
    assert _agents(api)["draft"]["strategy"] == "be calm"
    wide.press("save-changes")
    wide.wait_gone("Save the changes to draft?")
    wide.wait_for("be very calm")
    wide.wait_for("0 of 2.5 SOL")
    wide.wait_gone("of 500,000")
    changed = _agents(api)["final"]
    assert (changed["strategy"], changed["llmBudget"]) == ("be very calm", {"maxUsdPerDay": 5})
    assert changed["guardrails"]["dailySpendingLimitSol"] == Decimal("2.5")
    assert changed["llmModel"] == "m"


def test_a_strategy_keeps_its_lines_and_says_what_changes(wide: Browser, api: httpx.Client) -> None:
    lines = "first line\nsecond line\nthird line"
    agent = _made(api, "writer", strategy=lines)
    wide.open(f"/agents/{agent}")
    wide.click("Change")
    wide.wait_for("33 of 20,000 characters")
    field = wide.driver.find_element("css selector", ".sw-strategy textarea")
    field.send_keys(Keys.END, Keys.ENTER, "fourth line")
    wide.wait_for("45 of 20,000 characters")
    wide.wait_for("Not saved")
    assert wide.driver.execute_script("return typeof window.onbeforeunload") == "function"
    # Somebody else changes it meanwhile: what is replaced is what is stored now.
    other = {"strategy": "first line\nsecond line, another\nthird line"}
    assert api.patch(f"/agents/{agent}", json=other).status_code == 200
    wide.press("save")
    wide.wait_for("The strategy was changed elsewhere since you opened it.")
    expected = [
        "  first line",
        "- second line, another",
        "+ second line",
        "  third line",
        "+ fourth line",
    ]
    wide.until(
        lambda: [each.text for each in wide.all('[data-testid="diff"] > *')] == expected,
        "the lines that change",
    )
    wide.click("Go on editing")
    wide.press("save")
    wide.press("save-changes")
    wide.until(lambda: _agents(api)["writer"]["strategy"] == f"{lines}\nfourth line", "it is saved")
    wide.wait_gone("Change writer")
    wide.until(
        lambda: wide.driver.execute_script("return window.onbeforeunload") is None,
        "the page may be left",
    )
    # What it was before can be had again.
    wide.click("Change")
    wide.click('Expand "Earlier strategies (2)"')
    wide.click("Copy into the editor")
    wide.wait_for("Not saved")
    text = wide.driver.find_element("css selector", ".sw-strategy textarea").get_attribute("value")
    assert text == other["strategy"]
    wide.click("Cancel")
    wide.click("Leave")
    wide.wait_gone("Change writer")
    assert wide.errors() == []
    assert api.delete(f"/agents/{agent}").status_code == 200


@pytest.mark.long
def test_an_agent_starts_from_a_template_and_is_cloned(wide: Browser, api: httpx.Client) -> None:
    wide.open("/agents")
    wide.click("New agent")
    wide.fill("Name", "payer")
    wide.choose("Provider", "openai")
    wide.fill("Model", "m")
    wide.choose("Start from", "Balance reporter")
    wide.wait_for("Nothing: such an agent signs no transaction.")
    # Another template replaces what the first one filled in.
    wide.choose("Start from", "Dollar-cost averager")
    wide.wait_for("Buys USDC for 0.01 SOL every six hours")
    wide.wait_for("at most 0.04 SOL")
    wide.press("start-at-once")
    wide.press("create")
    wide.wait_for("Create payer?")
    assert "payer" not in _agents(api)
    wide.press("confirm")
    wide.until(lambda: "payer" in _agents(api), "payer to be made")
    _shows(wide, "payer", "idle", api)
    made = _agents(api)["payer"]
    assert made["strategy"].startswith("You buy USDC at regular times")
    said = _sentences(api, made["id"])
    assert "up to 0.01 SOL at once and 0.04 a day" in said[0]

    wide.open(f"/agents/{made['id']}")
    wide.click("Clone")
    wide.wait_for("Copy of payer")
    wide.wait_for("Grants that the copy gets")
    wide.press("create")
    wide.until(lambda: "payer copy" in _agents(api), "the copy is made")
    copy = _agents(api)["payer copy"]
    same = ("strategy", "guardrails", "loopIntervalMs", "llmProvider", "llmModel", "llmBudget")
    assert {name: copy[name] for name in same} == {name: made[name] for name in same}
    assert copy["walletId"] != made["walletId"]
    assert [each.partition(" may ")[2] for each in _sentences(api, copy["id"])] == [
        each.partition(" may ")[2] for each in said
    ]
    assert wide.errors() == []
    for each in (made, copy):
        assert api.delete(f"/agents/{each['id']}").status_code == 200


def _sentences(api: httpx.Client, agent: str) -> list[str]:
    (grants,) = api.get(f"/agents/{agent}/limits").json()["grants"]
    return [each["sentence"] for each in grants["grants"]]


@pytest.mark.long
def test_a_row_keeps_focus_and_selection_while_others_come_and_go(
    wide: Browser, api: httpx.Client
) -> None:
    steady = _made(api, "steady")
    wide.open("/agents?sort=name")
    _shows(wide, "steady", "running", api)
    wide.one(f'[row-id="{steady}"] .ag-selection-checkbox').click()
    focused = "return document.activeElement.closest('[row-id]')?.getAttribute('row-id')"
    other = _made(api, "before it")
    wide.until(lambda: _row(wide, other), "the other's row")
    assert wide.script(focused) == steady
    api.delete(f"/agents/{other}")
    wide.until(lambda: not _row(wide, other), "the other's row to go")
    assert wide.script(focused) == steady
    assert wide.all(f'.ag-row-selected[row-id="{steady}"]')


@pytest.mark.long
def test_a_whole_strategy_is_offered_where_some_of_it_is_cut_off(
    wide: Browser, api: httpx.Client
) -> None:
    def offered() -> bool:
        return bool(wide.all("button.sw-more[aria-expanded]"))

    # Three lines on a desktop, which is what is shown, and four on a phone.
    short = f"look at the balance\nand wait\n{'and then look at it all again, ' * 2}"
    agent = _made(api, "planner", strategy=short)
    try:
        wide.answered(f"/agents/{agent}")
        wide.wait_for("and wait")
        assert not offered()
        wide.size(*PHONE)
        wide.until(offered, "what is cut off by a narrow page")
        wide.click("Whole strategy")
        wide.click("Less")
        wide.until(lambda: "Whole strategy" in wide.text(), "it to be folded again")
        wide.size(*DESKTOP)
        wide.until(lambda: not offered(), "nothing to be cut off again")
        # Of the same size, with more that is not seen.
        api.patch(f"/agents/{agent}", json={"strategy": f"{short}\na fourth line"})
        wide.until(offered, "what a change cut off")
    finally:
        api.delete(f"/agents/{agent}")
