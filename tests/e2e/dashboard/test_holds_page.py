"""The approvals' page in a real browser: what a person reads and decides, and what is paid then."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx
import pytest
from selenium.webdriver import ActionChains
from tests.e2e.dashboard.furnished import GRANT
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.processes import Service, funded_wallet, sol_of
from websockets.sync.client import connect
from websockets.typing import Origin

pytestmark = pytest.mark.more

_numbers = itertools.count()


@dataclass(frozen=True)
class Till:
    """A wallet with 2 SOL, who is paid, and a key whose payments above 0.1 SOL wait."""

    api: httpx.Client
    asker: httpx.Client
    wallet: str
    shop: str
    key: str

    @property
    def address(self) -> str:
        return str(self.api.get(f"/wallets/{self.shop}").json()["publicKey"])

    def held(self, sol: str = "0.5") -> str:
        body = {"to": self.address, "amount": float(sol)}
        answer = self.asker.post(f"/wallets/{self.wallet}/transfer", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["holdId"])

    def hold(self, hold: str) -> dict[str, Any]:
        return dict(self.api.get(f"/holds/{hold}").json())

    def paid(self) -> Decimal:
        return sol_of(self.api, self.shop)


@pytest.fixture
def till(
    api: httpx.Client, service: Service, request: pytest.FixtureRequest, browser: Browser
) -> Iterator[Till]:
    name = request.node.name[5:40]
    wallet, shop = funded_wallet(api, name, 2), funded_wallet(api, "shop", 0)
    # Of two keys of one name the id is said too.
    made = api.post("/keys", json={"name": f"till{next(_numbers)}", "grants": [GRANT]})
    assert made.status_code == 200, made.text
    with service.client(str(made.json()["apiKey"])) as asker:
        yield Till(api, asker, wallet, shop, str(made.json()["name"]))
    for left in api.get("/holds?open=true").json()["holds"]:
        api.post(f"/holds/{left['id']}/deny", json={})
    browser.size(*DESKTOP)


class Stranger:
    """A socket on the dashboard from a program that can name any origin."""

    def __init__(self, url: str) -> None:
        path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        self._opening = connect(url.replace("http", "ws", 1) + path, origin=Origin(url))

    def __enter__(self) -> Stranger:
        self._socket = self._opening.__enter__()
        assert str(self._socket.recv(10)).startswith("0{")
        self._socket.send("40")
        assert str(self._socket.recv(10)).startswith("40")
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def emit(self, name: str, message: object) -> None:
        self._socket.send("42" + json.dumps([name, message]))

    def asked(self, name: str, message: object) -> Any:
        """What a message is answered with."""
        self._socket.send("421" + json.dumps([name, message]))
        while not (answer := str(self._socket.recv(10))).startswith("431"):
            pass
        return json.loads(answer.removeprefix("431"))[0]


def decide(browser: Browser, hold: str, way: str, note: str = "") -> None:
    """Press the button, read what is asked again, and confirm."""
    browser.press(f"{way}-{hold}")
    assert "0.5 SOL" in browser.marked("asked").text
    if note:
        browser.fill("Note (optional)", note)
    browser.press("confirm")


def ends(browser: Browser, hold: str, text: str) -> None:
    where = f'[data-testid="end-{hold}"]'
    browser.until(lambda: any(text in each.text for each in browser.all(where)), text)


def fits(browser: Browser) -> None:
    width = browser.script("return document.documentElement.scrollWidth")
    assert width <= browser.script("return window.innerWidth")


def test_a_held_payment_is_approved_on_a_phone_and_paid_once(browser: Browser, till: Till) -> None:
    browser.size(*PHONE)
    browser.open("/holds")
    hold = till.held()
    # It comes by itself, with its number in the header.
    card = browser.marked(f"hold-{hold}")
    browser.until(lambda: browser.marked("waiting-link").text.endswith("1"), "the number")
    for words in (
        till.address,
        f"Key {till.key} asks to fund your wallet ",
        f" with 0.5 SOL to {till.address}, from wallet ",
        f"more than the 0.1 SOL above which grant 1 of key {till.key} asks a person",
        "0.000005 SOL",
        "min left)",
    ):
        assert words in card.text
    fits(browser)
    for way in ("approve", "deny"):
        size = browser.marked(f"{way}-{hold}").size
        assert size["height"] >= 44, size
        assert size["width"] >= 120, size
    assert till.paid() == 0
    decide(browser, hold, "approve", "as agreed")
    ends(browser, hold, "Approved and carried out.")
    assert till.paid() == Decimal("0.5")
    ended = till.hold(hold)
    assert (ended["state"], ended["decidedBy"], ended["note"]) == ("executed", "admin", "as agreed")
    browser.until(lambda: not browser.all('[data-testid="waiting-link"]'), "the number to go")
    browser.click("Show the transaction", within=f'[data-testid="hold-{hold}"]')
    browser.marked("signature")
    fits(browser)
    assert browser.errors() == []


def test_a_double_click_pays_once(browser: Browser, till: Till) -> None:
    hold = till.held()
    browser.open(f"/holds/{hold}")
    # Twice each, on the button and in the dialog, on a desktop.
    for button in (f"approve-{hold}", "confirm"):
        element = browser.marked(button)
        browser.still()
        ActionChains(browser.driver).double_click(element).perform()
    ends(browser, hold, "Approved and carried out.")
    assert till.paid() == Decimal("0.5")
    assert not browser.all('[data-testid="confirm"]')
    records = till.api.get(f"/wallets/{till.wallet}/transactions").json()["transactions"]
    assert [each["type"] for each in records].count("transfer") == 1


def test_what_is_denied_is_not_paid(browser: Browser, till: Till) -> None:
    hold = till.held()
    browser.open("/holds")
    browser.marked(f"deny-{hold}")
    assert browser.marked("waiting-count").text == "1"
    fits(browser)
    browser.press(f"deny-{hold}")
    browser.click("Cancel", within=".q-dialog")
    browser.until(lambda: not browser.all(".q-dialog .sw-dialog"), "the dialog to go")
    assert till.hold(hold)["state"] == "held"
    decide(browser, hold, "deny", "not ours")
    ends(browser, hold, "Denied. Nothing was sent.")
    browser.wait_for("not ours")
    assert till.hold(hold)["state"] == "denied"
    assert till.paid() == 0
    assert browser.errors() == []


def test_what_was_decided_elsewhere_meanwhile_is_told(browser: Browser, till: Till) -> None:
    hold = till.held()
    browser.open("/holds")
    browser.press(f"approve-{hold}")
    browser.marked("confirm")
    till.api.post(f"/holds/{hold}/deny", json={})
    browser.press("confirm")
    ends(browser, hold, "Denied. Nothing was sent.")
    assert till.paid() == 0


def test_what_cannot_be_paid_any_more_says_why(browser: Browser, till: Till) -> None:
    hold = till.held()
    till.api.post("/freeze", json={"walletId": till.wallet, "reason": "incident"})
    browser.open("/holds")
    decide(browser, hold, "approve")
    browser.wait_for("Transactions are frozen; nothing was approved")
    assert till.paid() == 0


def test_another_socket_presses_no_button_of_a_page(browser: Browser, till: Till) -> None:
    hold = till.held()
    browser.open("/holds")
    button = browser.marked(f"approve-{hold}")
    event = browser.script(
        "const sent = []; const emit = window.socket.emit;"
        "window.socket.emit = (...all) => { sent.push(all); };"
        "arguments[0].click(); window.socket.emit = emit;"
        "return JSON.parse(JSON.stringify(sent.find(all => all[0] === 'event')));",
        button,
    )
    # What the button would send, from a socket that is not the page's, and again after it asked to
    # be one of the page.
    page = {"client_id": event[1]["client_id"], "tab_id": "t", "document_id": "d"}
    with Stranger(browser.url) as stranger:
        stranger.emit("event", event[1])
        assert stranger.asked("handshake", page) is False
        stranger.emit("event", event[1])
        # It is answered after what came before.
        stranger.asked("handshake", page)
    # Had the button been pressed, its dialog would be open and this would open none.
    browser.script("document.querySelector(arguments[0]).click()", f'[data-testid="deny-{hold}"]')
    browser.marked("confirm")
    assert "Deny this transaction?" in browser.text()
    assert "Approve this transaction?" not in browser.text()
    browser.click("Cancel", within=".q-dialog")
    browser.until(lambda: not browser.all(".q-dialog .sw-dialog"), "the dialog to go")
    # From the page's own socket the same event is the button.
    browser.script("window.socket.emit(...arguments[0])", event)
    browser.wait_for("Approve this transaction?")
    assert till.hold(hold)["state"] == "held"
