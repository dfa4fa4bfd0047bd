"""Reads of a wallet with a long history, against the same reads of one with a short one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load
from benchmarks.report import Ratio, middle
from sqlalchemy import insert, select

from solward.database.database import Database
from solward.database.tables import transactions, wallets
from solward.support.clock import now_ms

SHORT, LONG = 100, 10_000
SLICE = 100
ROUNDS = 15

PATHS = {
    "GET balance": "wallets/{wallet}/balance",
    "GET a wallet's last 50 transactions": "wallets/{wallet}/transactions?limit=50",
    "GET the last 50 transactions": "transactions?limit=50",
}


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
    """Balance and the last 50 records, with 100 and with 10,000 records, slice by slice.

    Each ratio is the median of the slices', so that what else the machine does hits both.
    """
    ids: dict[int, str] = {}
    for records in (SHORT, LONG):
        with load.service(tmp / str(records)) as url:
            async with load.client(f"{url}/api/v1/") as client:
                await load.answer(client, load.Request("POST", "wallets", {}))
        ids[records] = await _fill(tmp / str(records), records)
    found: dict[str, list[tuple[float, float]]] = {title: [] for title in PATHS}
    with load.service(tmp / str(SHORT)) as short, load.service(tmp / str(LONG)) as long:
        async with (
            load.client(f"{short}/api/v1/") as on_short,
            load.client(f"{long}/api/v1/") as on_long,
        ):
            for _ in range(ROUNDS):
                for title, path in PATHS.items():
                    rates = []
                    for client, records in ((on_short, SHORT), (on_long, LONG)):
                        get = load.Request("GET", path.format(wallet=ids[records]))
                        rates.append(await load.per_second(client, [get] * SLICE))
                    found[title].append((rates[1], rates[0]))
    return iter(
        [
            middle(f"{title}: {LONG:,} / {SHORT} records", pairs, "1/s", 0.9)
            for title, pairs in found.items()
        ]
    )
