"""A wallet's first minutes on the real devnet, through a real service. `make test-devnet`."""

from __future__ import annotations

import os
import time
from typing import Any

import httpx
import pytest
from solders.keypair import Keypair
from tests.support.processes import sol_of

pytestmark = pytest.mark.devnet

PUBLIC = "https://api.devnet.solana.com"
CONNECT_S = 5.0
# A public node may need most of a blockhash's life to confirm what it was sent.
SETTLE_S = 120.0
FUNDED = 0.1
# Above the rent-exempt minimum of a new account.
PAID = 0.002


@pytest.fixture(scope="module")
def rpc() -> str:
    """The first address of SOLWARD_DEVNET_RPC_URL that answers; skips where none does."""
    given = os.environ.get("SOLWARD_DEVNET_RPC_URL") or PUBLIC
    ask = {"jsonrpc": "2.0", "id": 1, "method": "getGenesisHash"}
    why = ""
    for url in filter(None, (part.strip() for part in given.split(","))):
        host = httpx.URL(url).host
        try:
            answer = httpx.post(url, json=ask, timeout=CONNECT_S)
        except httpx.HTTPError as error:
            why += f"; {host}: {type(error).__name__}"
            continue
        if answer.status_code == 200:
            return given
        why += f"; {host}: HTTP {answer.status_code}"
    pytest.skip(f"no devnet RPC is reachable within {CONNECT_S:g} s{why}")


def settled(client: httpx.Client, record: dict[str, Any]) -> dict[str, Any]:
    """A transaction's record once the ledger has decided."""
    deadline = time.monotonic() + SETTLE_S
    while record["status"] == "pending" and time.monotonic() < deadline:
        time.sleep(1)
        listed = client.get("/transactions").json()["transactions"]
        [record] = [each for each in listed if each["signature"] == record["signature"]]
    return record


@pytest.mark.timeout(600)
def test_a_wallet_is_funded_and_pays_on_devnet(rpc: str, services: Any) -> None:
    service = services(SOLANA_RPC_URL=rpc, SOLANA_NETWORK="devnet").start()
    with service.client() as client:
        client.timeout = httpx.Timeout(SETTLE_S)
        health = client.get("/health").json()
        assert health["solana"]["network"] == "devnet"
        assert health["solana"]["healthy"], health
        assert health["solana"]["slot"] > 0

        wallet = client.post("/wallets", json={"name": "devnet-smoke"}).json()
        path = f"/wallets/{wallet['walletId']}"
        answer = client.post(f"{path}/airdrop", json={"amount": FUNDED})
        if answer.status_code != 200:
            pytest.skip(f"devnet's faucet refused: {answer.json()['error']}")
        if settled(client, answer.json())["status"] != "confirmed":
            pytest.skip("devnet's faucet took the request and paid nothing")
        assert float(sol_of(client, wallet["walletId"])) == FUNDED

        recipient = str(Keypair().pubkey())
        answer = client.post(f"{path}/transfer", json={"to": recipient, "amount": PAID})
        assert answer.status_code == 200, answer.text
        paid = settled(client, answer.json())
        assert paid["status"] == "confirmed", paid
        left = float(sol_of(client, wallet["walletId"]))
        assert FUNDED - PAID - 0.001 < left < FUNDED - PAID

        history = client.get(f"{path}/transactions").json()["transactions"]
        assert [each["type"] for each in history] == ["transfer", "airdrop"]
        assert history[0]["signature"] == paid["signature"]
