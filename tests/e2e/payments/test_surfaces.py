"""A seller that settles is paid by the command and over MCP, and the dashboard's page shows it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.payments.buyers import Buyer, command, may_pay
from tests.e2e.payments.settling_seller import Handed, Reply, SettlingSeller
from tests.e2e.payments.stage import Counterparts
from tests.support.browser import DESKTOP, PHONE, Browser, Pages
from tests.support.processes import Service

pytestmark = pytest.mark.more

MAX = ("--max", "0.1 USDC")
SERVED, REFUSED, NOT_SERVED, UNDECIDED = 0, 3, 5, 6


@pytest.fixture(scope="module")
def open_seller(stage: Counterparts) -> Iterator[SettlingSeller]:
    with SettlingSeller().on(stage.ledger) as seller:
        yield seller


@pytest.fixture
def seller(open_seller: SettlingSeller) -> SettlingSeller:
    open_seller.forget()
    return open_seller


@pytest.fixture(scope="module")
def service(open_seller: SettlingSeller, serving: Callable[..., Service]) -> Service:
    return serving(open_seller.site)


@pytest.fixture
def buyer(service: Service, stage: Counterparts, seller: SettlingSeller) -> Buyer:
    return Buyer.made(service, stage.ledger, may_pay(seller.site))


def test_the_command_pays_once_and_pipes_what_was_served(
    buyer: Buyer, seller: SettlingSeller
) -> None:
    quoted = command(buyer, "pay", "curl", seller.url, *MAX, "--dry-run")
    assert quoted.returncode == 0, quoted.stderr
    assert f"0.05 USDC to {seller.pay_to}" in quoted.stdout.replace("\n", "")
    assert (buyer.spent(), buyer.payments(), seller.handed) == (0, [], [])
    done = command(buyer, "pay", "curl", seller.url, *MAX)
    assert (done.returncode, json.loads(done.stdout)) == (SERVED, {"served": 1}), done.stderr
    assert "served: yes. Paid 0.05 USDC to " in done.stderr
    [payment] = buyer.payments()
    assert payment["id"] in done.stderr
    assert buyer.spent() == seller.price

    listed = command(buyer, "pay", "list").stdout
    assert "0.05 USDC" in listed
    assert seller.site in listed
    shown = command(buyer, "pay", "show", payment["id"][:8]).stdout
    assert payment["signature"] in shown.replace("\n", "").replace(" ", "")
    assert '{"served": 1}' in shown


def test_the_command_tells_what_became_of_the_money(buyer: Buyer, seller: SettlingSeller) -> None:
    above = command(buyer, "pay", "curl", seller.url, "--max", "0.01 USDC")
    assert (above.returncode, above.stdout) == (REFUSED, "")
    assert buyer.spent() == 0

    seller.act = seller.fails_and_settles
    kept = command(buyer, "pay", "curl", seller.url, *MAX)
    assert kept.returncode == NOT_SERVED, kept.stderr
    assert json.loads(kept.stdout) == {"error": "out of order"}
    assert buyer.spent() == seller.price

    seller.act = seller.keeps
    lost = command(buyer, "pay", "curl", seller.url, *MAX)
    assert lost.returncode == UNDECIDED, lost.stderr
    assert "Handed over, not on the ledger yet: 0.05 USDC" in lost.stderr


def call(buyer: Buyer, tool: str, key: str | None = None, **arguments: Any) -> dict[str, Any]:
    """A tool of `POST /mcp`, by the buyer's key."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if key is not None:
        params["_meta"] = {"solward/idempotencyKey": key}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    address = buyer.service.url.removesuffix("/api/v1") + "/mcp"
    accept = {"Accept": "application/json, text/event-stream"}
    with buyer.service.client(buyer.token) as http:
        answer = http.post(address, json=message, headers=accept)
    return dict(answer.json()["result"])


def test_the_mcp_tools_quote_and_pay_once(buyer: Buyer, seller: SettlingSeller) -> None:
    asked = {"url": seller.url, "max": "0.1 USDC"}
    quote = call(buyer, "quote_payment", **asked)["structuredContent"]
    assert (quote["allowed"], quote["offer"]["amount"]) == (True, 0.05)
    assert buyer.spent() == 0

    paid = call(buyer, "pay", key="order-1", **asked)
    told = paid["structuredContent"]
    assert paid["isError"] is False
    assert (told["payment"]["served"], told["response"]["body"]) == ("yes", '{"served": 1}')
    assert call(buyer, "pay", key="order-1", **asked)["structuredContent"] == told
    assert (len(seller.handed), buyer.spent()) == (1, seller.price)

    above = call(buyer, "pay", url=seller.url, max="0.01 USDC")
    assert above["isError"] is True
    assert buyer.spent() == seller.price


def test_the_page_of_payments_shows_what_was_paid_and_a_sellers_page_as_text(
    buyer: Buyer, seller: SettlingSeller, tmp_path: Path
) -> None:
    seller.price = 40_000
    served = buyer.paid(seller.url)["payment"]

    def markup(handed: Handed) -> Reply:
        honest = seller.fails_and_settles(handed)
        return Reply(honest.status, {"page": "<b id=planted>bold</b>"}, {"X-Note": "<i>n</i>"})

    seller.price, seller.act = 45_000, markup
    kept = buyer.paid(seller.url)["payment"]
    with buyer.service.client() as admin:
        other = admin.post("/wallets", json={"name": "other"}).json()["walletId"]
        fields = {"name": "scout", "walletId": buyer.wallet, "llmProvider": "openai"}
        made = admin.post("/agents", json=fields | {"llmModel": "gpt-5.4", "strategy": "Buy."})
        assert made.status_code == 200, made.text
        agent = made.json()["id"]
    pages = Pages(buyer.service.url.removesuffix("/api/v1"), tmp_path).start()
    browser = Browser(pages.url)
    try:
        for size in (PHONE, DESKTOP):
            browser.size(*size)
            browser.open(f"/payments?wallet={buyer.wallet}")
            first = browser.marked(f"payment-{served['id']}")
            assert "0.04 USDC" in first.text
            assert seller.site in first.text
            assert "served" in first.text
            second = browser.marked(f"payment-{kept['id']}")
            assert "not served" in second.text
            assert "confirmed" in second.text
            wide = "return document.documentElement.scrollWidth <= innerWidth"
            assert browser.driver.execute_script(wide)
        second.find_element("css selector", "button").click()
        assert "Status 500" in browser.marked("answer-status").text
        assert "x-note: <i>n</i>" in browser.marked("answer-headers").text
        assert "<b id=planted>bold</b>" in browser.marked("answer-body").text
        assert browser.driver.find_elements("css selector", "#planted") == []
        assert browser.marked("signature").text == buyer.payment(kept["id"])["signature"]

        browser.open(f"/payments?wallet={other}")
        browser.until(
            lambda: "has not paid for a request" in browser.marked("empty").text, "an empty list"
        )
        link = f'a[href$="/payments?wallet={buyer.wallet}"]'
        for path in (f"/wallets/{buyer.wallet}", f"/agents/{agent}"):
            browser.open(path)
            browser.until(lambda: browser.all(link), f"a link to the payments on {path}")
    finally:
        browser.quit()
        pages.stop(signal.SIGKILL)
