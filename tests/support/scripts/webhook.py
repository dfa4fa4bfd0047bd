"""A process that has something to tell one of the two webhooks, and may be killed at a point of it.

python webhook.py approvals|alerts HOME URL SECRET tell  tell, and be killed when it is committed
python webhook.py approvals|alerts HOME URL SECRET tell-and-send  until it is killed from outside
python webhook.py approvals|alerts HOME URL SECRET send  send what is left
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solward.database import outbox
from solward.database.database import Database
from solward.notify.alerts import AlertWebhook
from solward.notify.deliveries import Pace
from solward.notify.webhook import Webhook
from solward.types.events import Event

HOLD = {"id": "h-1", "walletId": "w-1", "principal": "agent:a", "asked": "agent:a"}
BLOCKED = {
    "id": "t-1",
    "walletId": "w-1",
    "principal": "key:k-1",
    "type": "transfer",
    "status": "blocked",
    "error": "Over",
    "guardrailsApplied": ["daily_limit"],
}


def die(_events: Sequence[Event]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(kind: str, home: str, url: str, secret: str, what: str) -> None:
    database = await Database.open(None, Path(home))
    places: dict[str, Any] = {"dashboard": "https://d.example"}
    webhook: type[Webhook] | type[AlertWebhook] = AlertWebhook
    told: tuple[str, dict[str, Any]] = ("transaction:blocked", BLOCKED)
    if kind == "approvals":
        webhook, told = Webhook, ("hold:created", HOLD)
        places["api"] = "https://a.example"
    if what == "tell":
        # Called by the commit, before what waits for delivery is woken.
        database.on_committed = die
    pace = Pace(first_retry_s=0.1, poll_s=0.1)
    async with webhook(database, url, secret, pace=pace, **places).delivering():
        if what != "send":
            async with database.write() as connection:
                outbox.record(connection, *told)
        await asyncio.sleep(60)


asyncio.run(main(*sys.argv[1:]))
