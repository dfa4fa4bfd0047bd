"""The stream on PostgreSQL tells what every process does, within half a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.database import AuditLog
from tests.support.services import Served, serving_events, settings, shared_ledger

from solward.audit import log
from solward.audit.log import AuditEntry
from solward.database.database import Database
from solward.service.service import Solward

pytestmark = pytest.mark.more


@pytest.fixture
async def two(tmp_path: Path, postgres_url: str) -> AsyncIterator[tuple[Served, Served]]:
    """Two services of one database, each on a socket of its own."""
    async with AsyncExitStack() as stack:
        home = tmp_path / "home"
        given: dict[str, Any] = {
            "database_url": postgres_url,
            "solana_rpc_url": await stack.enter_async_context(shared_ledger(home)),
            "solana_network": "localnet",
        }
        served = []
        for _ in range(2):
            service = await stack.enter_async_context(Solward.open(settings(home, **given)))
            served.append(await stack.enter_async_context(serving_events(service)))
        yield served[0], served[1]


async def test_an_event_of_one_process_is_told_by_the_other_within_half_a_second(
    two: tuple[Served, Served],
) -> None:
    one, other = two
    loop = asyncio.get_running_loop()
    took: list[float] = []
    async with one.listening() as mine, other.listening() as heard:
        await one.append(1)
        assert await heard.event() == await mine.event()
        for _ in range(10):
            await one.append(1)
            began = loop.time()
            told = await heard.event()
            took.append(loop.time() - began)
            assert told == await mine.event()
    assert sorted(took)[5] < 0.5


async def test_nothing_is_lost_or_told_twice_while_both_write(two: tuple[Served, Served]) -> None:
    total = 150
    async with two[0].listening() as first, two[1].listening() as second:
        await asyncio.gather(*(served.append(total) for served in two))
        told = [await stream.events(2 * total) for stream in (first, second)]
        await two[0].append(1)
        assert await first.event() == await second.event()
    assert told[0] == told[1]
    seqs = [seq for seq, _, _ in told[0]]
    assert seqs == sorted(set(seqs))
    numbers = [data["number"] for _, _, data in told[0]]
    assert sorted(numbers) == sorted([*range(total), *range(total)])


async def test_what_a_process_stored_and_then_died_is_told(
    two: tuple[Served, Served], postgres_url: str, tmp_path: Path
) -> None:
    async with two[0].listening() as heard:
        await heard.block()
        silent = await Database.open(postgres_url, tmp_path)
        await AuditLog(silent).append("key:revoked", {"keyId": "k"})
        await silent.close()
        async with asyncio.timeout(10):
            assert (await heard.event())[1:] == ("key:revoked", {"keyId": "k"})


async def test_what_an_open_transaction_held_up_is_told_once_that_ended(
    two: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    stored_after = log.entries_after
    pages: list[list[AuditEntry]] = []

    async def after(connection: AsyncConnection, seq: int, limit: int) -> list[AuditEntry]:
        pages.append(await stored_after(connection, seq, limit))
        return pages[-1]

    async with other.listening() as heard:
        await heard.block()
        monkeypatch.setattr(log, "entries_after", after)
        async with one.service.database.write() as connection:
            await connection.execute(text("SELECT pg_current_xact_id()"))
            await one.append(1)
            pages.clear()
            async with asyncio.timeout(20):
                while not pages:
                    await asyncio.sleep(0.01)
            assert not any(pages)
        assert (await heard.event())[2] == {"number": 0}
