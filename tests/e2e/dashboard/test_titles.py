"""The page of one wallet, agent, hold or transaction names it, to a tab and to a screen reader."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from tests.e2e.dashboard.furnished import GRANT
from tests.promises import promise
from tests.support.browser import PHONE, Browser
from tests.support.processes import Service

from solward.resources.declare import moment
from solward_dashboard.wording import second

pytestmark = pytest.mark.more

# An override of the direction, and the longest name twice over.
TURNED = "\N{RIGHT-TO-LEFT OVERRIDE}yrusaert<b>"
LONG = "w" * 200


@pytest.fixture(scope="module")
def service(furnished: Service) -> Service:
    return furnished


def read_aloud(browser: Browser) -> tuple[str, list[str]]:
    """The page's name and its first-level headings, as a screen reader has them."""
    nodes = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    page = next(each for each in nodes if each["role"]["value"] == "RootWebArea")
    headings = [
        str(each["name"]["value"])
        for each in nodes
        if each["role"]["value"] == "heading"
        and {"name": "level", "value": {"type": "integer", "value": 1}} in each["properties"]
    ]
    return str(page["name"]["value"]), headings


@promise("pages-have-titles")
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/wallets/{wallet_id}", "Wallet treasury of the northern office"),
        ("/agents/{agent_id}", "Agent watcher"),
        ("/holds/{hold_id}", "Hold {hold_id}"),
        ("/transactions/{transaction_id}", "Transaction {transaction_id}"),
        ("/wallets", "Wallets"),
    ],
    ids=["wallet", "agent", "hold", "transaction", "list"],
)
def test_it_names_what_it_shows(
    browser: Browser, ids: dict[str, str], path: str, name: str
) -> None:
    browser.answered(path.format(**ids))
    expected = name.format(**ids)
    assert browser.driver.title == f"{expected} - Solward"
    assert read_aloud(browser) == (f"{expected} - Solward", [expected])


def test_a_name_that_was_changed_is_shown_without_loading_anew(
    browser: Browser, service: Service, ids: dict[str, str]
) -> None:
    browser.answered(f"/agents/{ids['agent_id']}")
    with service.client() as api:
        api.patch(f"/agents/{ids['agent_id']}", json={"name": "keeper"})
        browser.until(lambda: browser.driver.title == "Agent keeper - Solward", "its new name")
        assert read_aloud(browser)[1] == ["Agent keeper"]
        api.patch(f"/agents/{ids['agent_id']}", json={"name": "watcher"})


@promise("title-is-name-or-id")
@pytest.mark.parametrize("page", ["wallets", "agents", "holds", "transactions"])
@pytest.mark.parametrize(
    ("asked", "shown"),
    [(TURNED, "\ufffdyrusaert<b>"), (LONG, "w" * 99 + "…")],
    ids=["turned", "long"],
)
def test_what_is_asked_for_by_an_address_stays_text_and_bounded(
    browser: Browser, ids: dict[str, str], page: str, asked: str, shown: str
) -> None:
    browser.size(*PHONE)
    browser.answered(f"/{page}/{quote(asked)}")
    kind = page.removesuffix("s").capitalize()
    assert browser.driver.title == f"{kind} {shown} - Solward"
    assert read_aloud(browser)[1] == [f"{kind} {shown}"]
    assert not browser.all(".sw-title b")
    assert browser.script("return document.documentElement.scrollWidth") == PHONE[0]
    browser.wait_for(f"There is no such {kind.lower()}.")


def test_a_hold_that_an_agent_was_told_of_ends_at_a_time_as_pages_tell_it(
    browser: Browser, service: Service, ids: dict[str, str]
) -> None:
    with service.client() as api:
        to = api.get(f"/wallets/{ids['frozen']}").json()["publicKey"]
        body = {
            "name": "spender",
            "walletId": ids["wallet_id"],
            "llmProvider": "rules",
            "llmModel": "rules",
            "strategy": f"when cycle == 1 do transfer to={to} amount=0.2",
            "loopIntervalMs": 3_600_000,
            "grants": [GRANT],
        }
        agent = api.post("/agents", json=body).json()["id"]
        api.post(f"/agents/{agent}/start", json={})
        browser.answered(f"/agents/{agent}")
        browser.one(".sw-decision .q-item", 30).click()
        told = browser.one(".sw-decision .sw-facts")
        browser.until(lambda: "may approve it until" in told.text, "the hold it was told of")
        (hold,) = (
            each
            for each in api.get("/holds", params={"state": "held"}).json()["holds"]
            if each["principal"] == f"agent:{agent}"
        )
    assert f"until {second(moment(hold['expiresAt']))}. After approval" in told.text
