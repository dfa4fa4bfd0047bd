"""The policy's page, and what a wallet's and an agent's page say of grants, in a real browser."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx
import pytest
from selenium.webdriver.common.keys import Keys
from tests.support.browser import DESKTOP, PHONE, Browser, Keyboard
from tests.support.processes import Service, funded_wallet

pytestmark = pytest.mark.more

GRANT_JSON = (
    '{"who": "%s", "may": ["transfer"],'
    ' "assets": {"SOL": {"perTx": "1", "per": {"24h": "2"}}}, "to": ["any"]}'
)
STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
_numbers = itertools.count()


@dataclass(frozen=True)
class Key:
    """A key of the test's own."""

    id: str
    name: str
    token: str

    @property
    def who(self) -> str:
        return f"key:{self.id}"


@pytest.fixture
def key(api: httpx.Client, browser: Browser) -> Iterator[Key]:
    made = api.post("/keys", json={"name": f"till{next(_numbers)}"}).json()
    yield Key(made["id"], made["name"], made["apiKey"])
    api.delete(f"/keys/{made['id']}")
    browser.size(*DESKTOP)


def grants_of(api: httpx.Client, key: Key) -> list[dict[str, Any]] | None:
    """None where it is not under grants."""
    policy = api.get("/policy").json()["policy"]
    if key.who in policy["readOnly"]:
        return []
    return [each for each in policy["grants"] if each["who"] == key.who] or None


def sentences(api: httpx.Client) -> list[str]:
    return list(api.get("/policy").json()["sentences"])


def written(browser: Browser) -> str:
    return str(browser.one('textarea[aria-label="Grant"]').get_attribute("value"))


def add(browser: Browser, text: str) -> None:
    browser.click("Add a grant")
    browser.fill("Grant", text)


def test_a_grant_is_written_as_a_sentence_read_back_and_removed(
    browser: Browser, api: httpx.Client, key: Key
) -> None:
    browser.size(*PHONE)
    browser.answered("/policy")
    add(browser, "Key nobody may do as it likes")
    browser.until(lambda: browser.one("[role=alert].sw-error").text, "what is wrong")
    assert not browser.all('[data-testid="confirm"]')
    api.put(f"/policy/{key.who}", json={"grants": []})
    browser.fill("Grant", GRANT_JSON % key.who)
    said = f"Key {key.name} may transfer up to 1 SOL at once and 2 a day, to anybody."
    browser.until(lambda: browser.marked("said").text == said, "what is understood")
    assert browser.script("return document.documentElement.scrollWidth") <= PHONE[0]
    assert grants_of(api, key) == []
    browser.press("confirm")
    # Somebody changed the policy since the page read it.
    browser.wait_for("The policy was changed meanwhile")
    assert grants_of(api, key) == []
    add(browser, said)
    browser.until(lambda: browser.marked("said").text == said, "the sentence read back")
    browser.until(lambda: "the last 30 days" in browser.marked("consequences").text, "effects")
    browser.press("confirm")
    browser.wait_for("The grant is in force")
    assert sentences(api) == [said]
    # Its last grant gone it may only read: never more than before.
    browser.click("Remove grant 1")
    browser.wait_for(f"without it {key.who} may only read.")
    browser.wait_for("In the last 30 days")
    browser.press("confirm")
    browser.wait_for("The grant is removed")
    assert grants_of(api, key) == []
    assert browser.errors() == []


def test_a_grant_in_a_persons_words_is_read_back_and_asked_back(
    browser: Browser, api: httpx.Client, key: Key
) -> None:
    browser.answered("/policy")
    add(browser, f"{key.name.upper()} can send 1 SOL to anyone")
    browser.until(lambda: "a week" in browser.marked("meanings").text, "its meanings")
    assert not browser.all('[data-testid="confirm"]')
    browser.fill("Grant", f"{key.name} can send 1 sol per day to anyone, ask me above 0.5")
    stored = f"Key {key.name} may transfer up to 1 SOL a day, to anybody; above 0.5 SOL a person"
    browser.until(lambda: browser.marked("said").text == f"{stored} is asked.", "what is stored")
    browser.press("confirm")
    browser.wait_for("The grant is in force")
    assert f"{stored} is asked." in sentences(api)
    assert browser.errors() == []


def test_fields_write_the_grant_and_say_what_it_changes_by_the_keyboard(
    browser: Browser, api: httpx.Client, service: Service, key: Key
) -> None:
    wallet = funded_wallet(api, f"of {key.name}", 2)
    alice = "FAe4sisG95oZ42w7buUn5qEE4TAnfTTFPiguZUHmhiF"
    api.post("/contacts", json={"address": alice, "name": f"alice {key.name}"})
    with service.client(key.token) as asker:
        sent = asker.post(f"/wallets/{wallet}/transfer", json={"to": STRANGER, "amount": 0.25})
        assert sent.status_code == 200, sent.text
    (record, *_) = api.get(f"/wallets/{wallet}/transactions").json()["transactions"]
    keys = Keyboard(browser)
    # As the links of an agent's and a wallet's page open it.
    browser.answered(f"/policy?grant={key.who}")
    browser.one('[data-testid="grant-who"]')
    keys.write("Asset", "SOL")
    keys.write("At most", "0.5")
    browser.until(lambda: "may transfer up to 0.5 SOL" in written(browser), "the sentence")
    keys.to("To whom")
    keys.press(f"alice {key.name}", Keys.ENTER)
    keys.write("Ask me above", "0.2")
    stored = f"Key {key.name} may transfer up to 0.5 SOL a day, to {alice}; above 0.2 SOL a person"
    said = f"{stored} is asked.\n{alice} is alice {key.name}."
    browser.until(lambda: browser.marked("said").text == said, "what is stored")
    browser.wait_for("1 would have been refused")
    effects = browser.marked("consequences").text
    assert f"Grant 1 does not let key {key.name} transfer SOL to {STRANGER}" in effects
    assert browser.one(f'a[href="/transactions/{record["id"]}"]').is_displayed()
    # Now it may swap any token.
    assert {each.text for each in browser.all(".sw-before-after .sw-bad")} == {"any amount"}
    rows = [each.text for each in browser.all(".sw-before-after tr")]
    assert "Every other token\nany amount\nnothing" in rows
    assert grants_of(api, key) is None
    keys.enter("Save")
    browser.wait_for("The grant is in force")
    assert f"{stored} is asked." in sentences(api)
    assert browser.errors() == []


def test_a_changed_sentence_fills_in_the_fields_and_an_older_meaning_cannot_be_saved(
    browser: Browser, api: httpx.Client, key: Key
) -> None:
    browser.answered("/policy?grant=")
    browser.fill("Grant", f"{key.name} can stake 3 SOL a week, at most 1 at once")
    browser.until(lambda: browser.all('[data-testid="confirm"]'), "its effects")
    values = {
        name: browser.one(f'[aria-label="{name}"]').get_attribute("value")
        for name in ("Asset", "At most", "At most at once")
    }
    assert values == {"Asset": "SOL", "At most": "3", "At most at once": "1"}
    browser.fill("Grant", f"{key.name} can stake 3 SOL a week, fees up to 0.005 SOL a day")
    browser.wait_for("more than the fields can")
    browser.fill("Grant", f"{key.name} can stake 3 SOL")
    browser.until(lambda: "a week" in browser.marked("meanings").text, "its meanings")
    assert not browser.all('[data-testid="confirm"]')
    assert grants_of(api, key) is None
    assert browser.errors() == []


def test_a_principal_is_let_only_read_and_addresses_are_whole(
    browser: Browser, api: httpx.Client, key: Key
) -> None:
    address = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
    grant = {"who": key.who, "may": ["transfer"], "assets": {"SOL": {"per": {"24h": "1"}}}}
    book = {"bakery": [address]}
    document = {"grants": [{**grant, "to": ["@bakery"]}], "book": book}
    api.post("/contacts", json={"address": address, "name": "Baker"})
    stored = api.put("/policy", json=document)
    assert stored.status_code == 200, stored.text
    browser.answered("/policy")
    browser.wait_for(stored.json()["sentences"][0])
    browser.wait_for("Baker")
    assert address in browser.marked("book").text
    browser.click(f"Let {key.who} only read")
    browser.press("confirm")
    browser.wait_for(f"{key.who} may only read")
    assert grants_of(api, key) == []
    assert api.get("/policy").json()["policy"]["book"] == book


def test_a_site_is_paid_nothing_once_its_grants_go(
    browser: Browser, api: httpx.Client, key: Key
) -> None:
    pays = f"Key {key.name} may pay up to 1 SOL a day, to anybody, through api.example.com."
    site = "Site api.example.com may be paid up to 2 SOL a day."
    stored = api.put("/policy", json={"grants": [pays, site]})
    assert stored.status_code == 200, stored.text
    browser.answered("/policy")
    browser.wait_for(pays)
    browser.wait_for(site)
    browser.click("Pay site:api.example.com nothing")
    browser.press("confirm")
    browser.wait_for("Site api.example.com may not be paid.")
    assert api.get("/policy").json()["policy"]["readOnly"] == ["site:api.example.com"]
    api.put("/policy/site:api.example.com", json={"grants": None})


def test_a_wallet_says_what_can_leave_it_and_what_is_left_of_grants(
    browser: Browser, api: httpx.Client, service: Service, key: Key
) -> None:
    wallet = funded_wallet(api, "left", 2)
    limit = {"per": {"24h": "1"}, "hold": "0.5"}
    grant = {"may": ["transfer"], "assets": {"SOL": limit}}
    assert api.put(f"/policy/{key.who}", json={"grants": [grant]}).status_code == 200
    with service.client(key.token) as asker:
        to = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
        for amount, status in ((0.25, 200), (0.6, 202)):
            sent = asker.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": amount})
            assert sent.status_code == status, sent.text
    limits = api.get(f"/wallets/{wallet}/limits").json()
    browser.open(f"/wallets/{wallet}")
    leaving = browser.until(lambda: browser.marked("can-leave").text, "what can leave")
    for asset, each in limits["canLeave"]["assets"].items():
        if each["most"] is None:
            assert f"not bounded: {each['reason']}" in leaving
        else:
            assert f"at most {each['most']}" in leaving, asset
    (report,) = (each for each in limits["grants"] if each["who"] == key.who)
    (said,) = report["grants"]
    shown = browser.marked("grants").text
    assert said["sentence"] in shown
    (of_sol,) = (each for each in said["limits"] if each["asset"] == "SOL")
    assert (Decimal(of_sol["used"]), of_sol["sentence"] in shown) == (Decimal("0.25"), True)
    assert f"Key {key.name} asks to transfer 0.6 SOL to {to}" in browser.marked("open-holds").text
    browser.click("Decide")
    browser.wait_for("May be approved until")
    (hold,) = api.get("/holds?open=true").json()["holds"]
    api.post(f"/holds/{hold['id']}/deny", json={})
