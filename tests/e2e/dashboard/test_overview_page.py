"""The overview in a real browser."""

from __future__ import annotations

import httpx
import pytest
from tests.support.browser import Browser
from tests.support.service_process import funded_wallet

pytestmark = pytest.mark.samples("test_a_fresh_home_says_what_to_do_next")


def test_a_fresh_home_says_what_to_do_next(browser: Browser) -> None:
    browser.open("/")
    browser.wait_for("No wallet yet")
    assert browser.errors() == []


def test_what_was_spent_shows_without_a_reload(browser: Browser, api: httpx.Client) -> None:
    browser.open("/")
    wallet = funded_wallet(api, "payroll", 2)
    other = funded_wallet(api, "shop", 0)
    to = api.get(f"/wallets/{other}").json()["publicKey"]
    api.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 0.25})
    browser.wait_for("0.25 of 10 SOL")
