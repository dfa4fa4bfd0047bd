"""The audit log of a process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from solward.audit import AuditLog
from solward.errors import StoreError
from solward.events import EventBus
from solward.store.database import Database


async def test_what_is_appended_is_stored_then_published(tmp_path: Path) -> None:
    database, bus = await Database.open(None, tmp_path), EventBus()
    log = AuditLog(database, bus)
    with bus.subscribe() as heard:
        assert await log.append("freeze", {"reason": "test"}) == 1
        event = await anext(aiter(heard))
    assert (event.event, event.data) == ("freeze", {"reason": "test"})
    (entry,) = await log.latest()
    assert (entry.seq, entry.event, entry.data) == (1, "freeze", '{"reason":"test"}')
    assert await log.verify() == 1
    await database.close()


async def test_concurrent_appends_make_one_chain(tmp_path: Path) -> None:
    database = await Database.open(None, tmp_path)
    log = AuditLog(database, EventBus())
    numbers = await asyncio.gather(*(log.append("x", {"n": n}) for n in range(20)))
    assert sorted(numbers) == list(range(1, 21))
    assert await log.verify() == 20
    await database.close()


async def test_what_cannot_be_stored_is_not_published(tmp_path: Path) -> None:
    database, bus = await Database.open(None, tmp_path), EventBus()
    async with database.write() as connection:
        pages = (await connection.execute(text("PRAGMA page_count"))).scalar_one()
        await connection.execute(text(f"PRAGMA max_page_count = {pages}"))
    with bus.subscribe() as heard:
        with pytest.raises(StoreError):
            await AuditLog(database, bus).append("x", "y" * 200_000)
        bus.close()
        assert [event async for event in heard] == []
    await database.close()
