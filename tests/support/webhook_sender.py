"""A process that tells the approvals' webhook of a hold, and may be killed at a point of it.

python webhook_sender.py HOME URL SECRET tell          tell, and be killed when it is committed
python webhook_sender.py HOME URL SECRET tell-and-send tell, and send until killed from outside
python webhook_sender.py HOME URL SECRET send          send what is left
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
from solward.notify.webhook import Webhook
from solward.notify.webhook_sender import Pace
from solward.types.events import Event


def die(_events: Sequence[Event]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(home: str, url: str, secret: str, what: str) -> None:
    database = await Database.open(None, Path(home))
    pace = Pace(first_retry_s=0.1, poll_s=0.1)
    places = {"dashboard": "https://d.example", "api": "https://a.example"}
    if what == "tell":
        # Called by the commit, before what waits for delivery is woken.
        database.on_committed = die
    async with Webhook(database, url, secret, pace=pace, **places).delivering():
        if what != "send":
            hold = {"id": "h-1", "walletId": "w-1", "principal": "agent:a", "asked": "agent:a"}
            async with database.write() as connection:
                outbox.record(connection, "hold:created", hold)
        await asyncio.sleep(60)


asyncio.run(main(*sys.argv[1:]))
