"""Payments over two RPCs in bad weather: each lands once, by the ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.localnet import localnet_process
from tests.support.processes import SECRET
from tests.support.scripts.weather import Weather

pytestmark = pytest.mark.more

PAYMENTS = 12
LAMPORTS = 10_000_000
BAD = {
    "throttle": 0.05,
    "fail": 0.05,
    "drop": 0.05,
    "deafen": 0.1,
    "delay": 0.1,
    "duplicate": 0.2,
}


async def ask(url: str, method: str, *params: Any) -> Any:
    """The ledger itself, past every weather."""
    async with httpx.AsyncClient() as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await client.post(url, json=body)).json()["result"]


@promise("bad-weather-lands-once")
async def test_payments_over_two_rpcs_in_bad_weather_land_once(
    tmp_path: Path, services: Any
) -> None:
    with localnet_process(tmp_path / "ledger.db") as localnet:
        async with (
            Weather(localnet.http, seed=1).blowing() as first,
            Weather(localnet.http, seed=2).blowing() as second,
        ):
            service = services(
                SOLANA_RPC_URL=f"{first.url},{second.url}", SOLANA_NETWORK="localnet"
            )
            await asyncio.to_thread(service.start)
            async with httpx.AsyncClient(
                base_url=service.url, headers={"Authorization": f"Bearer {SECRET}"}, timeout=60
            ) as client:
                wallet = (await client.post("/wallets", json={"name": "w"})).json()["walletId"]
                answer = await client.post(f"/wallets/{wallet}/airdrop", json={"amount": 2})
                assert answer.status_code == 200, answer.text
                for weather in (first, second):
                    weather.change(BAD)
                recipient = str(Keypair().pubkey())

                async def pay(number: int) -> None:
                    # A payment that failed before it was signed may be asked for anew.
                    for attempt in range(20):
                        answer = await client.post(
                            f"/wallets/{wallet}/transfer",
                            json={"to": recipient, "amount": 0.01},
                            headers={"Idempotency-Key": f"payment-{number}-{attempt}"},
                        )
                        if answer.status_code == 200:
                            return
                        assert "nothing was" in answer.text or "ledger" in answer.text
                    raise AssertionError(answer.text)

                await asyncio.gather(*(pay(number) for number in range(PAYMENTS)))
                await settled(client, wallet)
                records = (await client.get(f"/wallets/{wallet}/transactions")).json()
                states = Counter(
                    each["status"] for each in records["transactions"] if each["type"] == "transfer"
                )
                paid = (await ask(localnet.http, "getBalance", recipient))["value"]
                assert paid == PAYMENTS * LAMPORTS == states["confirmed"] * LAMPORTS
                happened = first.counts + second.counts
                assert happened["requests"] > PAYMENTS
                for weather in (first, second):
                    assert weather.counts["answered"] > 0, "both were in use"


async def settled(client: httpx.AsyncClient, wallet: str) -> None:
    """Wait until nothing is pending."""
    async with asyncio.timeout(60):
        while True:
            listed = (await client.get(f"/wallets/{wallet}/transactions")).json()["transactions"]
            if all(each["status"] != "pending" for each in listed):
                return
            await asyncio.sleep(0.1)
