"""What a transfer and a payment ask of the database, statement by statement: what is added to them
is added here, and paid for by each."""

from __future__ import annotations

import asyncio
import re
from decimal import Decimal
from pathlib import Path

from tests.promises import promise
from tests.support.database import statements_of
from tests.support.engine import LIMITS, UNLIMITED, Bench, open_bench
from tests.vault.money.handed_payments import open_shop

from solward.database.database import Database

AMOUNT = Decimal("0.001")

_APPENDED = ["read audit_heads", "add audit", "change audit_heads"]
_JUDGED = ["read switches", "read reservations"]
_RESERVED = ["add reservations", "add judged_effects", "add paid_recipients", *_APPENDED]
_WRITTEN_AHEAD = ["change transactions", "add attempts"]
_SETTLED = ["read transactions", "change transactions", "change attempts", *_APPENDED]
# Where there is more than one writer: locks of the service, the site that is paid and the wallet,
# and a clock that is everybody's.
_JUDGED_SHARED = ["lock wallets", "read switches", "read clock", "read reservations"]

TRANSFER = {
    "sqlite": [*_JUDGED, "add transactions", *_RESERVED, *_WRITTEN_AHEAD, *_SETTLED],
    "postgresql": [
        *("lock", *_JUDGED_SHARED, "add transactions", *_RESERVED, *_WRITTEN_AHEAD, *_SETTLED),
    ],
}
_PAYMENT = ["read wallets", "add transactions", "add payments", *_RESERVED]
PAYMENT = {
    "sqlite": [*_JUDGED, *_PAYMENT, *_WRITTEN_AHEAD, *_APPENDED],
    "postgresql": [
        *("lock", "read grant_version", "lock"),
        *(*_JUDGED_SHARED, *_PAYMENT, *_WRITTEN_AHEAD, *_APPENDED),
    ],
}


def _name(statement: str) -> str:
    text = " ".join(statement.split()).replace('"', "")
    for pattern, verb in (
        (r"^INSERT INTO (\w+)", "add"),
        (r"^UPDATE (\w+)", "change"),
        (r"^DELETE FROM (\w+)", "remove"),
        (r"^SELECT pg_advisory_xact_lock()", "lock"),
        (r"^SELECT \(extract\(epoch()", "read clock"),
        (r"^SELECT wallets\.id FROM (wallets) .* FOR", "lock"),
        # A sum of windows is asked for as a list.
        (r"CROSS JOIN (reservations)", "read"),
        (r"FROM (audit_heads)", "read"),
        (r"FROM (\w+)", "read"),
    ):
        found = re.search(pattern, text)
        if found is not None:
            return f"{verb} {found[1]}".strip()
    return text


def named(statements: list[str]) -> list[str]:
    """What each does to which table; once in a row, as SQLite runs one for many rows many times."""
    names: list[str] = []
    for statement in statements:
        # Beginnings, ends, and what finds out whether a connection is alive.
        if re.match(r"BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|;", statement):
            continue
        name = _name(statement)
        if not names or names[-1] != name:
            names.append(name)
    return names


def kind(database: Database) -> str:
    return "postgresql" if database.shared else "sqlite"


async def transfer(bench: Bench) -> None:
    await bench.transfer(AMOUNT)


@promise("three-commits-a-transfer")
async def test_a_transfer_is_these_statements_in_three_commits(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        await transfer(bench)
        before = bench.database.commits
        async with statements_of(bench.database) as seen:
            await transfer(bench)
        assert named(seen) == TRANSFER[kind(bench.database)]
        assert bench.database.commits - before == 3


@promise("three-commits-a-transfer")
async def test_a_payment_is_these_statements_in_two_commits(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        database = shop.bench.database
        shop.bench.engine.watcher.pace = 100
        await shop.hand_over(memo="a" * 32)
        before = database.commits
        async with statements_of(database) as seen:
            await shop.hand_over(memo="b" * 32)
        assert named(seen) == PAYMENT[kind(database)]
        assert database.commits - before == 2


async def test_transfers_at_once_share_their_commits(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=UNLIMITED) as bench:
        await transfer(bench)
        before = bench.database.commits
        await asyncio.gather(*(transfer(bench) for _ in range(16)))
        commits = bench.database.commits - before
        # PostgreSQL groups what its sessions commit by itself.
        assert commits >= 32 if bench.database.shared else commits <= 16
