"""Deliveries of either webhook: their pace in tests, and waiting for what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from solward.database.database import Database
from solward.database.service_tables import webhook_deliveries
from solward.notify.webhook_sender import Pace

TOKEN = "token-of-the-receivers-address"
FAST = Pace(first_retry_s=0.02, longest_retry_s=0.05, timeout_s=0.5, lease_s=1, poll_s=0.1)


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not done():
            await asyncio.sleep(0.01)


async def states(database: Database) -> list[str]:
    rows = webhook_deliveries.c
    async with database.read() as connection:
        found = await connection.execute(select(rows.state).order_by(rows.created_ms))
        return list(found.scalars())


async def ended(database: Database, *expected: str) -> None:
    async with asyncio.timeout(20):
        while await states(database) != [*expected]:
            await asyncio.sleep(0.01)
