"""Reads of a wallet with a long history, against the same reads of one with a short one."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
from benchmarks import load
from benchmarks.report import Ratio
from sqlalchemy import insert, select

from solward.clock import now_ms
from solward.store.database import Database
from solward.store.tables import transactions, wallets

SHORT, LONG = 100, 10_000
COUNT = 600
ROUNDS = 3


async def _fill(home: Path, records: int) -> str:
    """Give the home's only wallet a history; returns its id."""
    database = await Database.open(None, home)
    try:
        async with database.write() as connection:
            wallet_id = (await connection.execute(select(wallets.c.id))).scalar_one()
            details = json.dumps({"from": "a" * 44, "to": "b" * 44, "amount": 0.001})
            await connection.execute(
                insert(transactions),
                [
                    {
                        "id": f"{number:032x}",
                        "wallet_id": wallet_id,
                        "principal": "admin",
                        "type": "transfer",
                        "status": "confirmed",
                        "signature": "s" * 88,
                        "details": details,
                        "guardrails_applied": ["max_per_tx"] * 9,
                        "held_lamports": 1_005_000,
                        "created_ms": now_ms(),
                    }
                    for number in range(records)
                ],
            )
    finally:
        await database.close()
    return str(wallet_id)


async def measure(tmp: Path) -> Iterator[Ratio]:
    """Balance and the last 50 records, with 100 and with 10,000 records, in turns."""
    ids: dict[int, str] = {}
    for records in (SHORT, LONG):
        with load.service(tmp / str(records)) as url:
            async with load.client(f"{url}/api/v1") as client:
                (await client.post("/wallets", json={})).raise_for_status()
        ids[records] = await _fill(tmp / str(records), records)
    best: dict[tuple[int, str], float] = {}
    with load.service(tmp / str(SHORT)) as short, load.service(tmp / str(LONG)) as long:
        for _ in range(ROUNDS):
            for records, url in ((SHORT, short), (LONG, long)):
                async with load.client(f"{url}/api/v1") as client:
                    paths = {
                        "balance": f"/wallets/{ids[records]}/balance",
                        "transactions": f"/wallets/{ids[records]}/transactions?limit=50",
                        "all": "/transactions?limit=50",
                    }
                    for name, path in paths.items():
                        rate = await load.per_second(client, [_get(client, path)] * COUNT)
                        best[records, name] = max(rate, best.get((records, name), 0))
    names = {
        "balance": "GET balance",
        "transactions": "GET a wallet's last 50 transactions",
        "all": "GET the last 50 transactions",
    }
    return iter(
        [
            Ratio(f"{title}: {LONG:,} / {SHORT} records", best[LONG, name], best[SHORT, name],
                  "1/s", 0.9)
            for name, title in names.items()
        ]
    )  # fmt: skip


def _get(client: httpx.AsyncClient, path: str) -> functools.partial[httpx.Request]:
    return functools.partial(client.build_request, "GET", path)
