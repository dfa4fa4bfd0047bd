"""Deliveries of either webhook: their pace in tests, and waiting for what becomes of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from sqlalchemy import select

from solward.database.database import Database
from solward.database.service_tables import webhook_deliveries
from solward.notify.webhook_sender import Pace

TOKEN = "token-of-the-receivers-address"
FAST = Pace(first_retry_s=0.02, longest_retry_s=0.05, timeout_s=0.5, lease_s=1, poll_s=0.1)


async def delivery_states(database: Database) -> list[str]:
    rows = webhook_deliveries.c
    async with database.read() as connection:
        found = await connection.execute(select(rows.state).order_by(rows.created_ms))
        return list(found.scalars())


async def deliveries_ended(database: Database, *expected: str) -> None:
    async with asyncio.timeout(20):
        while await delivery_states(database) != [*expected]:
            await asyncio.sleep(0.01)


def webhook_process(
    kind: str, home: Path, url: str, secret: str, what: str
) -> subprocess.Popen[bytes]:
    """A process that tells or sends by the webhook of `approvals` or `alerts`; see the script."""
    script = Path(__file__).with_name("scripts") / "webhook.py"
    return subprocess.Popen([sys.executable, str(script), kind, str(home), url, secret, what])
