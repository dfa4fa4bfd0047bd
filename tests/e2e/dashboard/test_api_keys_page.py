"""The API keys page in a real browser."""

from __future__ import annotations

import re

import httpx
import pytest
from tests.promises import promise
from tests.support.browser import Browser
from tests.support.processes import Service, funded_wallet

pytestmark = pytest.mark.more


@promise("dashboard-acts")
def test_a_key_is_shown_once_works_and_is_revoked(
    browser: Browser, service: Service, api: httpx.Client
) -> None:
    browser.open("/api-keys")
    browser.wait_for("No key yet")
    browser.click("New key")
    browser.press("create")
    browser.wait_for("is required")
    browser.fill("Name", "shop")
    browser.press("create")
    key = browser.marked("key").text
    assert re.fullmatch(r"sk-[0-9a-f]{32}", key)
    browser.click("Copy key")
    browser.click("I copied it")
    browser.wait_gone(key)
    # Not in the page's source either, once it was shown.
    browser.until(lambda: key not in browser.driver.page_source, "the key to leave the page")
    browser.wait_for("never used")
    with service.client(key) as program:
        assert program.get("/wallets").status_code == 200
        browser.open("/api-keys")
        browser.wait_for("used ")
        browser.click("Revoke shop")
        browser.wait_for("Programs that use the key are refused from now on")
        browser.press("confirm")
        browser.wait_for("No key yet")
        assert program.get("/wallets").status_code == 401
    assert browser.errors() == []


def test_a_key_gets_another_secret_and_its_limits_are_shown(
    browser: Browser, service: Service, api: httpx.Client
) -> None:
    body = {"name": "shop", "spendingLimitSol": 0.5, "rateLimit": 7}
    old = api.post("/keys", json=body).json()["apiKey"]
    browser.open("/api-keys")
    browser.wait_for("0 of 0.5 SOL in 24 hours")
    browser.wait_for("0 of 7 requests in a minute")
    browser.click("Rotate shop")
    browser.wait_for("The limits stay")
    browser.press("confirm")
    new = browser.marked("key").text
    browser.click("I copied it")
    browser.wait_for("the former secret works until")
    for secret in (old, new):
        with service.client(secret) as program:
            assert program.get("/wallets").status_code == 200
    assert new != old
    assert browser.errors() == []


def test_a_key_can_be_confined_to_one_wallet(
    browser: Browser, service: Service, api: httpx.Client
) -> None:
    wallet = funded_wallet(api, "till", 0)
    funded_wallet(api, "vault", 0)
    browser.open("/api-keys")
    browser.click("New key")
    browser.fill("Name", "cashier")
    browser.choose("May use", "till")
    browser.press("create")
    key = browser.marked("key").text
    browser.click("I copied it")
    browser.wait_for("till, made")
    with service.client(key) as program:
        assert [each["id"] for each in program.get("/wallets").json()["wallets"]] == [wallet]
