"""Pages lead to each other: from a thing to what it belongs to, and from a refusal to its limit."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx
import pytest
from tests.e2e.dashboard.furnished import held
from tests.support.browser import DESKTOP, Browser
from tests.support.processes import Service

pytestmark = pytest.mark.more

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LINKS = """
return [...document.querySelectorAll(".sw-main a[href]")].map(each => each.href);
"""
_SHOWN_PLACE = """
const found = document.querySelector(".sw-place"), box = found?.getBoundingClientRect();
return box && box.bottom > 0 && box.top < innerHeight ? found.dataset.place : null;
"""


@pytest.fixture(scope="module")
def service(furnished: Service) -> Service:
    return furnished


def links(browser: Browser) -> list[str]:
    """The addresses that the page's content links to, without the dashboard's own part."""
    parts = map(urlsplit, browser.script(_LINKS))
    return [each._replace(scheme="", netloc="").geturl() for each in parts]


def shows_place(browser: Browser, place: str) -> None:
    browser.until(lambda: browser.script(_SHOWN_PLACE) == place, f"{place} on the screen")


def record_of(api: httpx.Client, hold: str) -> str:
    return str(api.get(f"/holds/{hold}").json()["transactionId"])


def test_each_link_leads_to_a_page_that_exists(browser: Browser, ids: dict[str, str]) -> None:
    browser.size(*DESKTOP)
    found: dict[str, str] = {}
    for kind in ("transaction", "wallet", "agent", "hold"):
        browser.answered(f"/{kind}s/{ids[f'{kind}_id']}")
        for each in links(browser):
            found.setdefault(_UUID.sub("-", each), each)
    for path in ("/holds", "/audit", "/api-keys", "/payments"):
        browser.answered(path)
        browser.script("document.querySelectorAll('details').forEach(each => each.open = true)")
        for each in links(browser):
            found.setdefault(_UUID.sub("-", each), each)
    kinds = {urlsplit(each).path for each in found}
    assert kinds >= {"/wallets/-", "/agents/-", "/transactions/-", "/holds/-", "/policy"}
    for address in found.values():
        browser.answered(address)
        assert "There is no such" not in browser.text(), address
        assert not browser.all(".sw-banner[data-testid=banner]:not(.hidden)"), address


def test_a_refusal_leads_to_the_limit_that_refused_it(
    browser: Browser, ids: dict[str, str]
) -> None:
    browser.answered(f"/transactions/{ids['transaction_id']}")
    why = browser.marked("refusal").text
    assert why.startswith("You (admin) asked for a transfer of 3 SOL to wallet shop, from wallet")
    assert "Refused by max_per_tx: the maximum in one transaction. Nothing was sent." in why
    assert "3 SOL is more than the 2 SOL allowed per transaction" in why
    assert "Ask for less at once, or raise the limit." in why
    browser.click("The limits of wallet treasury of the northern office")
    browser.until(lambda: f"/wallets/{ids['wallet_id']}#limits" in browser.driver.current_url, "it")
    shows_place(browser, "limits")


def test_a_denied_payment_leads_to_its_hold_key_grants_and_entries(
    browser: Browser, service: Service, ids: dict[str, str]
) -> None:
    hold = held(service, ids["wallet_id"])
    with service.client() as api:
        key = api.get(f"/holds/{hold}").json()["principal"].removeprefix("key:")
        assert api.post(f"/holds/{hold}/deny", json={"note": "not ours"}).status_code == 200
        record = record_of(api, hold)
        browser.answered(f"/transactions/{record}")
        why = browser.marked("refusal").text
        assert why.startswith("Key till asked for a transfer of 0.2 SOL to wallet")
        assert (
            "A person denied it; nothing was sent. If it is still wanted, it must be asked" in why
        )
        assert {
            f"/wallets/{ids['wallet_id']}",
            f"/api-keys#key:{key}",
            f"/holds/{hold}",
            f"/policy#key:{key}",
            f"/policy?grant=key%3A{key}",
            f"/audit?about={record}&wallet={ids['wallet_id']}",
        } <= set(links(browser))
        browser.answered(f"/audit?about={record}&wallet={ids['wallet_id']}")
        kinds = [each.text for each in browser.all('[data-testid="entries"] summary .sw-tag')]
        assert sorted(kinds) == ["hold:denied", "transaction:blocked"]
        browser.answered(f"/holds/{hold}")
        assert f"/transactions/{record}" in links(browser)
        browser.answered(f"/policy#key:{key}")
        shows_place(browser, f"key:{key}")
        browser.answered(f"/api-keys#key:{key}")
        shows_place(browser, f"key:{key}")
        assert f"/transactions?key={key}" in links(browser)
        # A key that is gone keeps its name, and leads nowhere.
        assert api.delete(f"/keys/{key}").status_code == 200
        browser.answered(f"/transactions/{record}")
        browser.wait_for("key till (deleted)")
        assert f"/api-keys#key:{key}" not in links(browser)
        browser.answered(f"/holds/{hold}")
        browser.wait_for("key till (deleted)")
        assert f"/api-keys#key:{key}" not in links(browser)
