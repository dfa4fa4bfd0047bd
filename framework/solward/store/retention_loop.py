"""Keeps decisions and events for as long as the settings say (docs/events.md, Retention)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from solward.clock import DAY_MS, now_ms
from solward.errors import StoreError
from solward.settings import Settings
from solward.store import retention as store
from solward.vault.store import locks
from solward.vault.store.database import Database

# Rows of one transaction, which others wait for, and the time they have before the next.
BATCH = 500
PAUSE_S = 0.05
EVERY_S = 3600.0

_LOCK = "retention"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Retained:
    """How many decisions and entries of the audit log one run deleted."""

    decisions: int = 0
    events: int = 0


async def retain(database: Database, settings: Settings, now_ms: int) -> Retained:
    """Delete what is older than the settings keep it, oldest first, in small transactions.

    Whatever ends it halfway, the audit log is whole, and the next run goes on. Where another
    process on the same database is at it, this one leaves it to that.

    Args:
        now_ms: the time to count from, in Unix milliseconds.

    Raises:
        StoreError: the database refused.
    """
    decisions = events = 0
    days = settings.decision_retention_days
    if days is not None:
        decisions = await _decisions(database, now_ms - days * DAY_MS)
    days = settings.event_retention_days
    if days is not None:
        events = await _events(database, now_ms - days * DAY_MS)
    if decisions or events:
        _log.info("retained", decisions=decisions, events=events)
    return Retained(decisions, events)


@asynccontextmanager
async def retaining(database: Database, settings: Settings) -> AsyncIterator[None]:
    """Run `retain` now and every hour; on PostgreSQL that is for the workers."""
    kept_for_ever = settings.decision_retention_days is settings.event_retention_days is None
    if database.shared or kept_for_ever:
        yield
        return
    task = asyncio.create_task(_hourly(database, settings))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _hourly(database: Database, settings: Settings) -> None:
    while True:
        try:
            await retain(database, settings, now_ms())
        except StoreError as error:
            _log.warning("retention_failed", error=str(error))
        await asyncio.sleep(EVERY_S)


async def _decisions(database: Database, before_ms: int) -> int:
    total = 0
    while True:
        async with database.write() as connection:
            if not await locks.try_exclusive(connection, _LOCK):
                return total
            deleted = await store.cut_decisions(connection, before_ms, BATCH)
        total += deleted
        if deleted < BATCH:
            return total
        await asyncio.sleep(PAUSE_S)


async def _events(database: Database, before_ms: int) -> int:
    total, seq = 0, 0
    while True:
        async with database.write() as connection:
            if not await locks.try_exclusive(connection, _LOCK):
                return total
            cut = await store.cut_events(connection, before_ms, seq, BATCH)
        total += cut.deleted
        if cut.last_seq is None:
            return total
        seq = cut.last_seq
        await asyncio.sleep(PAUSE_S)
