"""A process that has something to tell a webhook or a chat, and may be killed at a point of it.

python webhook.py KIND HOME URL SECRET tell  tell, and be killed when it is committed
python webhook.py KIND HOME URL SECRET tell-and-send  until it is killed from outside
python webhook.py KIND HOME URL SECRET send  send what is left

KIND is approvals, alerts, slack or telegram; a chat's URL is that of its API.
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
from solward.notify.chats import Chat, HoldMessages, SlackChannel, TelegramChat
from solward.notify.deliveries import Pace, Sender
from solward.notify.webhook import Webhook
from solward.solana.token_list import token_list
from solward.types.events import Event

HOLD = {
    "id": "h-1",
    "walletId": "w-1",
    "principal": "agent:a",
    "asked": "agent:a",
    "sentence": "Agent a asks.",
    "lines": [],
    "costsLamports": "5000",
    "expiresAt": "2026-11-22T12:00:00.000Z",
}
# To the chats of `tests.support.webhooks`.
CHATS: dict[str, tuple[type[Chat], str]] = {
    "slack": (SlackChannel, "C0123456789"),
    "telegram": (TelegramChat, "-1001234567890"),
}
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
    sender: Sender
    if kind in CHATS:
        chat, to = CHATS[kind]
        tokens = token_list("localnet")
        sender = HoldMessages(database, chat(secret, to, url), tokens, "", pace)
        told = "hold:created", HOLD
    else:
        sender = webhook(database, url, secret, pace=pace, **places)
    async with sender.delivering():
        if what != "send":
            async with database.write() as connection:
                outbox.record(connection, *told)
        await asyncio.sleep(60)


asyncio.run(main(*sys.argv[1:]))
