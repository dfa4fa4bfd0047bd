"""The contract's examples for health, keys, wallets, balances and records, on the wire."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import httpx
from tests.promises import promise
from tests.support.processes import Service, funded_wallet

STRANGER = "11111111111111111111111111111112"


def timestamp(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


@promise("health-shape")
def test_health_is_public(contract: Service) -> None:
    answer = httpx.get(f"{contract.url}/health")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    assert body["status"] == "ok"
    assert re.fullmatch(r"\d+\.\d+\.\d+", body["version"])
    assert body["solana"]["healthy"] is True
    assert body["solana"]["network"] == "localnet"
    assert isinstance(body["solana"]["slot"], int)
    assert body["agents"]["total"] == body["agents"]["totalAgents"] == 0
    assert body["agents"]["running"] == body["agents"]["runningAgents"] == 0
    assert {"stoppedAgents", "idleAgents"} <= set(body["agents"])


def test_a_key_is_made_listed_used_and_revoked(contract: Service, client: httpx.Client) -> None:
    made = client.post("/keys", json={"name": "my-bot"})
    assert made.status_code == 200
    body = made.json()
    assert sorted(body) == ["apiKey", "id", "name"]
    assert re.fullmatch(r"sk-[0-9a-f]{32}", body["apiKey"])
    assert body["name"] == "my-bot"

    def listed() -> dict[str, Any]:
        keys = client.get("/keys").json()["keys"]
        return next(key for key in keys if key["id"] == body["id"])

    record = listed()
    assert sorted(record) == [
        "createdAt",
        "id",
        "lastUsedAt",
        "name",
        "permissions",
        "walletId",
    ]
    assert record["permissions"] == ["read", "write"]
    assert record["lastUsedAt"] is None
    timestamp(record["createdAt"])
    with contract.client(body["apiKey"]) as bot:
        assert bot.get("/wallets").status_code == 200
        assert timestamp(listed()["lastUsedAt"]) >= timestamp(record["createdAt"])
        assert client.delete(f"/keys/{body['id']}").status_code == 200
        refused = bot.get("/wallets")
    assert (refused.status_code, refused.json()) == (401, {"error": "Invalid API key"})


@promise("times-are-utc")
def test_a_wallet_is_made_and_listed(client: httpx.Client) -> None:
    made = client.post("/wallets", json={"name": "trading"})
    assert made.status_code == 200
    body = made.json()
    assert sorted(body) == ["address", "createdAt", "name", "walletId"]
    assert re.fullmatch(r"[1-9A-HJ-NP-Za-km-z]{32,44}", body["address"])
    timestamp(body["createdAt"])
    default = client.post("/wallets", json={}).json()
    assert default["name"] == "external-wallet"
    wallets = {wallet["id"]: wallet for wallet in client.get("/wallets").json()["wallets"]}
    assert wallets[body["walletId"]] == {
        "id": body["walletId"],
        "name": "trading",
        "publicKey": body["address"],
        "createdAt": body["createdAt"],
        "tags": [],
    }


@promise("balance-shape")
def test_a_balance_shows_sol_and_tokens(client: httpx.Client) -> None:
    wallet = funded_wallet(client, "balance", 2)
    assert client.get(f"/wallets/{wallet}/balance").json() == {"sol": 2, "tokens": []}
    body = {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.5}
    swapped = client.post(f"/wallets/{wallet}/swap", json=body)
    assert swapped.status_code == 200, swapped.text
    balance = client.get(f"/wallets/{wallet}/balance").json()
    assert balance["sol"] < 1.5
    (token,) = balance["tokens"]
    assert sorted(token) == ["decimals", "mint", "rawBalance", "symbol", "uiBalance"]
    assert (token["symbol"], token["decimals"]) == ("USDC", 6)
    assert int(token["rawBalance"]) == round(token["uiBalance"] * 10**6) > 0


@promise("record-fields")
def test_records_are_listed_newest_first_up_to_the_limit(client: httpx.Client) -> None:
    wallet = funded_wallet(client, "history", 1)
    client.post(f"/wallets/{wallet}/transfer", json={"to": STRANGER, "amount": 0.1})
    client.post(f"/wallets/{wallet}/transfer", json={"to": STRANGER, "amount": 2.5})
    records = client.get(f"/wallets/{wallet}/transactions").json()["transactions"]
    assert [(r["type"], r["status"]) for r in records] == [
        ("transfer", "blocked"),
        ("transfer", "confirmed"),
        ("airdrop", "confirmed"),
    ]
    blocked, confirmed, _ = records
    assert sorted(confirmed) == [
        "details",
        "guardrailsApplied",
        "id",
        "principal",  # beside the contract's fields
        "signature",
        "status",
        "timestamp",
        "type",
        "walletId",
    ]
    assert sorted(confirmed["details"]) == ["amount", "from", "to"]
    assert "signature" not in blocked
    assert blocked["guardrailsApplied"] == ["max_per_tx"]
    assert "2 SOL" in blocked["error"]
    one = client.get(f"/wallets/{wallet}/transactions", params={"limit": 1}).json()
    assert one["transactions"] == [blocked]
    everything = client.get("/transactions").json()["transactions"]
    assert everything[:3] == records
    assert len(client.get("/transactions", params={"limit": 1}).json()["transactions"]) == 1
