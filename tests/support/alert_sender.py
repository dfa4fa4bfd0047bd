"""A process that has something to tell the alerts' webhook, and may be killed before it does.

python alert_sender.py HOME URL SECRET tell   be refused, and be killed when that is committed
python alert_sender.py HOME URL SECRET send   send what is left
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from solward.database import outbox
from solward.database.database import Database
from solward.notify.alert_webhook import AlertWebhook
from solward.notify.webhook_sender import Pace
from solward.types.events import Event


def die(_events: Sequence[Event]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(home: str, url: str, secret: str, what: str) -> None:
    database = await Database.open(None, Path(home))
    pace = Pace(first_retry_s=0.1, poll_s=0.1)
    if what == "tell":
        # Called by the commit, before the sender is woken.
        database.on_committed = die
    sender = AlertWebhook(database, url, secret, dashboard="https://d.example", pace=pace)
    async with sender.delivering():
        if what == "tell":
            record = {
                "id": "t-1",
                "walletId": "w-1",
                "principal": "key:k-1",
                "type": "transfer",
                "status": "blocked",
                "error": "Over",
                "guardrailsApplied": ["daily_limit"],
            }
            async with database.write() as connection:
                outbox.record(connection, "transaction:blocked", record)
        await asyncio.sleep(60)


asyncio.run(main(*sys.argv[1:]))
