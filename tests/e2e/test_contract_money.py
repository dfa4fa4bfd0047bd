"""The contract's examples for transfer, swap and airdrop, and for what is refused, on the wire."""

from __future__ import annotations

import re

import httpx
import pytest
from tests.promises import promise
from tests.support.processes import Service, funded_wallet, sol_of

STRANGER = "11111111111111111111111111111112"
NOBODY = "00000000-0000-4000-8000-000000000000"
SIGNATURE = re.compile(r"[1-9A-HJ-NP-Za-km-z]{86,88}")


def refused(client: httpx.Client, answer: httpx.Response, wallet: str, rule: str) -> None:
    """A guardrail block: 500, its text, and the stored record."""
    assert answer.status_code == 500
    assert list(answer.json()) == ["error"]
    assert rule in answer.json()["error"]
    newest = client.get(f"/wallets/{wallet}/transactions?limit=1").json()["transactions"][0]
    assert newest["status"] == "blocked"
    assert newest["guardrailsApplied"][-1] == rule
    assert "signature" not in newest


@promise("rules-in-their-order")
def test_a_transfer_is_confirmed_on_the_ledger(client: httpx.Client) -> None:
    wallet = funded_wallet(client, "sender", 1)
    recipient = client.post("/wallets", json={"name": "recipient"}).json()
    body = {"to": recipient["address"], "amount": 0.1}
    answer = client.post(f"/wallets/{wallet}/transfer", json=body)
    assert answer.status_code == 200
    record = answer.json()
    assert SIGNATURE.fullmatch(record["signature"])
    assert record["status"] == "confirmed"
    assert record["type"] == "transfer"
    assert record["walletId"] == wallet
    assert record["metadata"] == {"to": recipient["address"], "amount": 0.1}
    assert record["details"] | record["metadata"] == record["details"]
    assert record["guardrailsApplied"] == [
        "max_per_tx",
        "rate_limit",
        "daily_limit",
        "program_allowlist",
        "blocked_address",
        "spending_limit_check",
        "fee_limit",
        "simulated_effects",
        "authority_change",
        "costs_limit",
        "swap_bounds",
    ]
    assert {"id", "timestamp"} <= set(record)
    assert float(sol_of(client, recipient["walletId"])) == 0.1


@promise("airdrop-at-most-two")
def test_an_airdrop_is_at_most_two_sol(client: httpx.Client) -> None:
    wallet = client.post("/wallets", json={}).json()["walletId"]
    answer = client.post(f"/wallets/{wallet}/airdrop", json={})
    assert answer.status_code == 200
    assert answer.json()["status"] == "confirmed"
    assert SIGNATURE.fullmatch(answer.json()["signature"])
    assert sol_of(client, wallet) == 1
    too_much = client.post(f"/wallets/{wallet}/airdrop", json={"amount": 2.1})
    assert too_much.status_code == 400
    assert too_much.json() == {"error": "amount must be at most 2 SOL for an airdrop"}


@promise("swap-fields")
@pytest.mark.parametrize("output", ["USDC", "BONK"])
def test_a_swap_shows_amounts_and_price_impact(client: httpx.Client, output: str) -> None:
    wallet = funded_wallet(client, "swapper", 1)
    body = {"inputToken": "SOL", "outputToken": output, "amount": 0.1, "slippageBps": 100}
    answer = client.post(f"/wallets/{wallet}/swap", json=body)
    assert answer.status_code == 200, answer.text
    swap = answer.json()
    assert SIGNATURE.fullmatch(swap["signature"])
    assert swap["inputAmount"] == 0.1
    assert swap["outputAmount"] > 0
    assert isinstance(swap["priceImpact"], int | float)
    record = client.get(f"/wallets/{wallet}/transactions?limit=1").json()["transactions"][0]
    assert (record["type"], record["status"]) == ("swap", "confirmed")
    details = record["details"]
    assert {"inputToken", "outputToken", "inputAmount", "outputAmount", "slippageBps"} <= set(
        details
    )
    assert details["slippageBps"] == 100
    assert details["outputAmount"] == swap["outputAmount"]
    (token,) = client.get(f"/wallets/{wallet}/balance").json()["tokens"]
    assert token["uiBalance"] == swap["outputAmount"]


@promise("swap-fields")
def test_an_unknown_symbol_is_400(client: httpx.Client) -> None:
    wallet = client.post("/wallets", json={}).json()["walletId"]
    body = {"inputToken": "SOL", "outputToken": "NOPE", "amount": 0.1}
    answer = client.post(f"/wallets/{wallet}/swap", json=body)
    assert answer.status_code == 400
    assert "outputToken" in answer.json()["error"]


@promise("block-is-stored-500", "contract-limits-by-default", "admin-exceeds-no-limits")
def test_two_sol_pass_and_more_is_blocked(client: httpx.Client) -> None:
    wallet = funded_wallet(client, "whale", 4)
    path = f"/wallets/{wallet}/transfer"
    assert client.post(path, json={"to": STRANGER, "amount": 2}).status_code == 200
    answer = client.post(path, json={"to": STRANGER, "amount": 2.000000001})
    refused(client, answer, wallet, "max_per_tx")
    assert sol_of(client, wallet) < 2


@promise("contract-limits-by-default", "five-a-minute")
def test_the_sixth_transaction_of_a_minute_is_blocked(client: httpx.Client) -> None:
    wallet = funded_wallet(client, "fast", 1)
    path = f"/wallets/{wallet}/transfer"
    # The airdrop is none of them.
    for _ in range(5):
        assert client.post(path, json={"to": STRANGER, "amount": 0.01}).status_code == 200
    answer = client.post(path, json={"to": STRANGER, "amount": 0.01})
    refused(client, answer, wallet, "rate_limit")


def test_a_keys_daily_limit_is_a_block_and_its_rate_a_429(
    contract: Service, client: httpx.Client
) -> None:
    wallet = funded_wallet(client, "shared", 1)
    made = client.post(
        "/keys", json={"name": "small", "rateLimit": 2, "spendingLimitSol": 0.1}
    ).json()
    origin = {"Origin": "http://localhost:3000"}
    with contract.client(made["apiKey"]) as bot:
        path = f"/wallets/{wallet}/transfer"
        paid = bot.post(path, json={"to": STRANGER, "amount": 0.1})
        assert paid.status_code == 200
        over = bot.post(path, json={"to": STRANGER, "amount": 0.01}, headers=origin)
        refused(client, over, wallet, "spending_limit_check")
        assert over.headers["Access-Control-Allow-Origin"] == origin["Origin"]
        limited = bot.post(path, json={"to": STRANGER, "amount": 0.01}, headers=origin)
        assert limited.status_code == 429
        assert 1 <= int(limited.headers["Retry-After"]) <= 60
        assert limited.headers["Access-Control-Allow-Origin"] == origin["Origin"]
        assert "Retry-After" in limited.headers["Access-Control-Expose-Headers"]
        assert list(limited.json()) == ["error"]
        assert bot.get(f"/wallets/{wallet}/balance").status_code == 200


def test_too_little_balance_is_a_failed_record(client: httpx.Client) -> None:
    wallet = funded_wallet(client, "poor", 1)
    answer = client.post(f"/wallets/{wallet}/transfer", json={"to": STRANGER, "amount": 1.5})
    assert answer.status_code == 500
    newest = client.get(f"/wallets/{wallet}/transactions?limit=1").json()["transactions"][0]
    assert newest["status"] == "failed"
    assert newest["error"] in answer.json()["error"]
    assert sol_of(client, wallet) == 1


def test_a_frozen_wallet_sends_nothing_until_it_is_thawed(client: httpx.Client) -> None:
    wallet = funded_wallet(client, "icy", 1)
    path = f"/wallets/{wallet}/transfer"
    assert client.post("/freeze", json={"walletId": wallet}).status_code == 200
    refused(client, client.post(path, json={"to": STRANGER, "amount": 0.1}), wallet, "freeze")
    assert client.post("/unfreeze", json={"walletId": wallet}).status_code == 200
    assert client.post(path, json={"to": STRANGER, "amount": 0.1}).status_code == 200


@pytest.mark.parametrize("operation", ["transfer", "swap", "airdrop", "skills/transfer"])
def test_an_unknown_wallet_is_404(client: httpx.Client, operation: str) -> None:
    answer = client.post(f"/wallets/{NOBODY}/{operation}", json={})
    assert (answer.status_code, answer.json()) == (404, {"error": "Wallet not found"})
