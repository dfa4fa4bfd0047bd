"""Holds as stored: one of each, decided once, and over when their time is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from tests.promises import promise
from tests.support.database import hold_row
from tests.support.engine import Bench, open_bench

from solward.database.database import Database
from solward.database.tables import audit
from solward.database.window_clock import Moment
from solward.types.record import HoldState, TransactionStatus
from solward.vault.store import holds
from solward.vault.store import transactions as transaction_store

NOW = 1_800_000_000_000
OPEN = (HoldState.HELD, HoldState.APPROVED)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path, sol=0) as opened:
        yield opened


async def kinds(database: Database) -> list[str]:
    async with database.read() as connection:
        rows = await connection.execute(select(audit.c.event).order_by(audit.c.seq))
        return [row.event for row in rows if row.event.startswith("hold:")]


async def test_a_row_is_read_as_it_was_stored(bench: Bench) -> None:
    row = hold_row(bench.wallet.id, NOW, action_key="a:1:pay", arrives={"mint": 2**63 + 1})
    async with bench.database.write() as connection:
        await holds.add(connection, row)
    async with bench.database.read() as connection:
        assert await holds.get(connection, row.hold.id) == row
        assert await holds.by_action_key(connection, "a:1:pay") == row
        assert await holds.by_digest(connection, row.digest) == row
        assert await holds.list_holds(connection, is_open=True) == [row.hold]
        assert await holds.list_holds(connection, is_open=False) == []
    assert await kinds(bench.database) == ["hold:created"]


async def test_one_open_hold_has_a_digest(bench: Bench) -> None:
    first = hold_row(bench.wallet.id, NOW, digest="same")
    async with bench.database.write() as connection:
        await holds.add(connection, first)
    with pytest.raises(IntegrityError):
        async with bench.database.write() as connection:
            await holds.add(connection, hold_row(bench.wallet.id, NOW, digest="same"))
    async with bench.database.write() as connection:
        assert await holds.refuse(connection, first, HoldState.DENIED, "no", NOW, by="admin")
        await holds.add(connection, hold_row(bench.wallet.id, NOW, digest="same"))
        assert await holds.count_open(connection, "key:k1") == 1


async def test_it_is_moved_once(bench: Bench) -> None:
    row = hold_row(bench.wallet.id, NOW)
    async with bench.database.write() as connection:
        await holds.add(connection, row)
        held, approved = (HoldState.HELD,), (HoldState.APPROVED,)
        assert await holds.move(connection, row.hold.id, held, HoldState.APPROVED, by="admin")
        assert not await holds.move(connection, row.hold.id, held, HoldState.APPROVED, by="admin")
        assert await holds.move(connection, row.hold.id, approved, HoldState.EXECUTED, by="service")
        assert not await holds.move(
            connection, row.hold.id, approved, HoldState.EXECUTED, by="service"
        )
        for state in (HoldState.DENIED, HoldState.EXPIRED, HoldState.REFUSED):
            assert await holds.refuse(connection, row, state, "late", NOW, by="admin") is None
    assert await kinds(bench.database) == ["hold:created", "hold:approved", "hold:executed"]
    assert await bench.history() == []


@promise("approval-ends-in-time")
@pytest.mark.parametrize("state", OPEN)
async def test_its_time_ends_by_the_clock_of_the_windows(bench: Bench, state: HoldState) -> None:
    row = hold_row(bench.wallet.id, NOW, state=state, action_key="a:1:pay")
    over = row.hold.expires_ms
    async with bench.database.write() as connection:
        await holds.add(connection, row)
        # A database's clock set ahead ends nothing, one set back prolongs nothing.
        assert not await holds.expire(connection, row, Moment(over + 10**9, over - 1))
        assert await holds.overdue_holds(connection, over - 1) == []
        assert await holds.overdue_holds(connection, over) == [row]
        assert await holds.expire(connection, row, Moment(over - 10**9, over))
        ended = await holds.get(connection, row.hold.id)
        record = await transaction_store.by_action_key(connection, "a:1:pay")
    assert ended is not None
    assert record is not None
    assert ended.hold.state is HoldState.EXPIRED
    assert ended.hold.transaction_id == record.id
    assert record.status is TransactionStatus.BLOCKED
    assert record.guardrails_applied == ("max_per_tx", "grants")
    assert record.principal == "key:k1"


async def test_what_nobody_living_carries_out_is_found(bench: Bench) -> None:
    approved = hold_row(bench.wallet.id, NOW, state=HoldState.APPROVED)
    others = [
        hold_row(bench.wallet.id, NOW),
        hold_row(bench.wallet.id, NOW, state=HoldState.APPROVED, recipe=None, repeats=True),
    ]
    async with bench.database.write() as connection:
        for row in (approved, *others):
            await holds.add(connection, row)
        assert await holds.abandoned_holds(connection, "me") == [approved]
        assert await holds.claim(connection, approved.hold.id, "dead", None)
        assert not await holds.claim(connection, approved.hold.id, "me", None)
        [found] = await holds.abandoned_holds(connection, "me")
        assert found.owner == "dead"
        assert await holds.claim(connection, approved.hold.id, "me", "dead")
