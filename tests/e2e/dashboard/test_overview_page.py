"""The overview in a real browser."""

from __future__ import annotations

from decimal import Decimal

import httpx
import pytest
from tests.promises import promise
from tests.support.browser import Browser
from tests.support.processes import funded_wallet

from solward.support.jsontext import loads

pytestmark = pytest.mark.more


@promise("refusals-shown-with-numbers")
def test_a_refusal_shows_with_its_numbers_and_links_to_its_transaction(
    browser: Browser, api: httpx.Client
) -> None:
    wallet = funded_wallet(api, "guarded", 2)
    to = api.get(f"/wallets/{funded_wallet(api, 'stall', 0)}").json()["publicKey"]
    browser.open("/")
    assert api.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 3}).status_code == 500
    card = browser.marked("refusals")
    browser.until(lambda: "3 SOL over 2 SOL" in card.text, "the refusal")
    for text in ("max_per_tx", "1 time", "guarded, asked by you (admin): 3 SOL over 2 SOL"):
        assert text in card.text, card.text
    assert browser.marked("figure-block").text == "1"
    for _ in range(2):
        api.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 3})
    browser.until(lambda: "3 times" in card.text, "the count")
    assert card.text.count("max_per_tx") == 1
    browser.click("the last", within='[data-testid="refusals"]')
    refusal = browser.marked("refusal")
    assert "Refused by max_per_tx: the maximum in one transaction" in refusal.text
    assert [each.text for each in browser.all('[data-testid="refusal"] li')] == [
        "Asked 3 SOL", "Allowed 2 SOL",
    ]  # fmt: skip
    assert f"to wallet stall, {to}" in browser.marked("could-leave").text
    assert "nothing was sent" in browser.text()
    # The JSON is there for who wants it.
    assert '"couldLeave"' not in browser.text()
    browser.one('[data-testid="raw"] .q-item').click()
    browser.wait_for('"refusal"')
    assert browser.errors() == []


def test_what_is_held_and_can_leave_is_added_up(browser: Browser, api: httpx.Client) -> None:
    funded_wallet(api, "till", 1)
    # Without grants any token may be swapped, which is said plainly.
    api.post("/keys", json={"name": "loose"})
    wallets = api.get("/wallets").json()["wallets"]
    held = sum(loads(api.get(f"/wallets/{each['id']}/balance").content)["sol"] for each in wallets)
    browser.open("/")
    # Balances that were read before the wallet was made are shown for half a minute.
    card = browser.marked("exposure")
    browser.until(lambda: f"Across {len(wallets)} wallets" in card.text, "the wallet", 90)
    row = browser.marked("asset-SOL")
    assert f"{Decimal(held).normalize():,f}" in row.text
    # The localnet's market has a price.
    assert "($" in row.text
    assert "can leave" in row.text
    assert "not bounded in" in browser.marked("exposure").text
    assert "Add a grant" in browser.marked("through").text


def test_what_waits_is_decided_from_the_overview(browser: Browser, api: httpx.Client) -> None:
    wallet, other = funded_wallet(api, "purse", 2), funded_wallet(api, "kiosk", 0)
    to = api.get(f"/wallets/{other}").json()["publicKey"]
    grant = {"may": ["transfer", "fund"], "assets": {"SOL": {"per": {"24h": "2"}, "hold": "0.1"}}}
    key = api.post("/keys", json={"name": "asker", "grants": [grant]}).json()["apiKey"]
    asked = [
        api.post(
            f"/wallets/{wallet}/transfer",
            json={"to": to, "amount": amount},
            headers={"Authorization": f"Bearer {key}"},
        ).json()["holdId"]
        for amount in (0.2, 0.3, 0.4, 0.5)
    ]
    browser.open("/")
    waits = browser.marked("waits")
    browser.until(lambda: "4 transactions to approve or deny" in waits.text, "the holds")
    assert "and 1 more" in waits.text
    card = browser.marked(f"hold-{asked[0]}")
    for text in ("0.2 SOL", f"to wallet kiosk, {to}", "asks a person", "min left)"):
        assert text in card.text, card.text
    browser.press(f"approve-{asked[0]}")
    dialog = browser.one(".q-dialog .sw-dialog")
    browser.until(lambda: "of 10 SOL in 24 hours" in dialog.text, "what is left")
    browser.press("confirm")
    browser.until(lambda: "3 transactions to approve or deny" in waits.text, "one less")
    assert loads(api.get(f"/wallets/{other}/balance").content)["sol"] == Decimal("0.2")
    for each in asked[1:]:
        browser.press(f"deny-{each}")
        browser.press("confirm")
        # The cards are drawn anew then.
        gone = f'[data-testid="hold-{each}"], .q-dialog .sw-dialog'
        browser.until(lambda gone=gone: not browser.all(gone), f"{each} to go")
    assert not browser.all('[data-testid="waits"]')
