"""Deliveries of either webhook: their pace in tests, and waiting for what becomes of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from sqlalchemy import select, update
from tests.support.clock import until

from solward.database.database import Database
from solward.database.tables import webhook_deliveries
from solward.notify.deliveries import Pace
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS

TOKEN = "token-of-the-receivers-address"
FAST = Pace(first_retry_s=0.02, longest_retry_s=0.05, timeout_s=20, lease_s=30, poll_s=0.1)
_TWO_DAYS_S = 2 * DAY_MS / 1000
# The next try after a failure is the last one, at the end of the day.
ONCE_MORE = Pace(first_retry_s=_TWO_DAYS_S, longest_retry_s=_TWO_DAYS_S, poll_s=0.05)


async def delivery_states(database: Database) -> list[str]:
    rows = webhook_deliveries.c
    async with database.read() as connection:
        found = await connection.execute(select(rows.state).order_by(rows.created_ms))
        return list(found.scalars())


async def deliveries_ended(database: Database, *expected: str) -> None:
    async with asyncio.timeout(20):
        while await delivery_states(database) != [*expected]:
            await asyncio.sleep(0.01)


async def day_ends(database: Database) -> None:
    """Wait for the first failure of the one delivery that waits, and let its day be over then."""
    row = webhook_deliveries.c

    async def has_failed() -> bool:
        async with database.read() as connection:
            waiting = select(row.next_ms - row.created_ms, row.tries, row.lease_until_ms)
            found = (await connection.execute(waiting)).one_or_none()
        return found is not None and tuple(found) == (DAY_MS, 1, 0)

    await until(has_failed, "a last try at the end of the day")
    async with database.write() as connection:
        now = now_ms()
        over = update(webhook_deliveries).values(created_ms=now - DAY_MS, next_ms=now)
        await connection.execute(over)


def webhook_process(
    kind: str, home: Path, url: str, secret: str, what: str
) -> subprocess.Popen[bytes]:
    """A process that tells or sends by a webhook or to a chat; see the script."""
    script = Path(__file__).with_name("scripts") / "webhook.py"
    return subprocess.Popen([sys.executable, str(script), kind, str(home), url, secret, what])
