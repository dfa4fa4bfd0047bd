"""The stream on PostgreSQL tells what every process does, quickly, and whatever connection dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from tests.support.services import Served, serving_events, settings, shared_ledger

from solward.audit.log import AuditEntry, AuditLog
from solward.database.database import Database
from solward.service import event_feed as feed
from solward.service.service import Solward
from solward_server.resources import events

pytestmark = pytest.mark.more

NEVER_S = 600.0
FEEDS = "query IN ('LISTEN solward_events', 'NOTIFY solward_events')"


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


@pytest.fixture
def told_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but NOTIFY lets a stream read the log: no poll, no heartbeat."""
    monkeypatch.setattr(feed, "POLL_S", NEVER_S)
    monkeypatch.setattr(events, "HEARTBEAT_S", NEVER_S)


@contextmanager
def administrator(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


async def connected(admin: psycopg.Connection[Any], count: int = 4) -> None:
    """Until each service listens and has told something."""
    async with asyncio.timeout(20):
        while len(admin.execute(f"SELECT FROM pg_stat_activity WHERE {FEEDS}").fetchall()) < count:
            await asyncio.sleep(0.02)


@pytest.mark.usefixtures("told_alone")
async def test_an_event_of_one_process_is_told_by_the_other_at_once(
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


@pytest.mark.usefixtures("told_alone")
async def test_nothing_is_lost_or_told_twice_while_the_connections_are_killed(
    two: tuple[Served, Served], postgres_url: str
) -> None:
    total, kills = 150, 0
    with administrator(postgres_url) as admin:
        async with two[0].listening() as first, two[1].listening() as second:
            await asyncio.gather(*(served.append(1) for served in two))
            told = [await stream.events(2) for stream in (first, second)]
            await connected(admin)
            writing = asyncio.gather(*(served.append(total) for served in two))
            while not writing.done():
                ended = admin.execute(
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {FEEDS}"
                )
                kills += len(ended.fetchall())
                await asyncio.sleep(0.05)
            await writing
            told[0] += await first.events(2 * total)
            told[1] += await second.events(2 * total)
            await two[0].append(1)
            assert await first.event() == await second.event()
    assert kills > 4
    assert told[0] == told[1]
    seqs = [seq for seq, _, _ in told[0]]
    assert seqs == sorted(set(seqs))
    numbers = [data["number"] for _, _, data in told[0]]
    assert sorted(numbers[2:]) == sorted([*range(total), *range(total)])


async def test_what_a_process_could_not_tell_any_more_is_found_soon(
    two: tuple[Served, Served], postgres_url: str, tmp_path: Path
) -> None:
    """As where it was killed between its commit and its NOTIFY."""
    assert feed.POLL_S == 2
    async with two[0].listening() as heard:
        await heard.block()
        silent = await Database.open(postgres_url, tmp_path)
        await AuditLog(silent).append("key:revoked", {"keyId": "k"})
        await silent.close()
        async with asyncio.timeout(10):
            assert (await heard.event())[1:] == ("key:revoked", {"keyId": "k"})


@pytest.mark.usefixtures("told_alone")
async def test_what_an_open_transaction_held_up_is_told_once_that_ended(
    two: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, too.
    monkeypatch.setattr(feed, "READ_AGAIN_S", (0.1,) * 100)
    one, other = two
    log = other.service.audit
    pages: list[list[AuditEntry]] = []

    async def after(seq: int, limit: int) -> list[AuditEntry]:
        pages.append(await AuditLog.after(log, seq, limit))
        return pages[-1]

    async with other.listening() as heard:
        await heard.block()
        monkeypatch.setattr(log, "after", after)
        async with one.service.database.write() as connection:
            await connection.execute(text("SELECT pg_current_xact_id()"))
            await one.append(1)
            async with asyncio.timeout(20):
                while not pages:
                    await asyncio.sleep(0.01)
            assert not any(pages)
        assert (await heard.event())[2] == {"number": 0}
