"""Receivers of messages: deliveries of both webhooks, and Slack and Telegram on loopback as their
APIs answer, with what a reader of a message sees of it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web
from sqlalchemy import select, update
from tests.support.clock import until
from tests.support.http import served

from solward.database.database import Database
from solward.database.tables import webhook_deliveries
from solward.notify.chats import Chat, SlackChannel, TelegramChat
from solward.notify.deliveries import Pace
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS

SLACK_TOKEN = "xoxb-1111111111-c4n4ry0f5l4ckt0k3n"
SLACK = "C0123456789"
TELEGRAM_TOKEN = "1234567890:c4n4ry0f7313gr4m-70k3n_aaaaaaaaaaa"
TELEGRAM = "-1001234567890"
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


@dataclass
class ChatServer:
    """Both APIs. It answers what `answers` says next, and after that as the services do."""

    url: str = ""
    sent: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of accepted messages."""
    asked: list[str] = field(default_factory=list)
    """The path of each request."""
    answers: list[Callable[[], web.Response]] = field(default_factory=list)
    never: asyncio.Event = field(default_factory=asyncio.Event)
    hangs: bool = False

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        body = json.loads(await request.read())
        if self.answers:
            return self.answers.pop(0)()
        if request.path.startswith("/api/"):
            answer = self._slack(request, body)
        else:
            answer = self._telegram(request.path, body)
        if self.hangs:
            await self.never.wait()
        return answer

    def _slack(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {SLACK_TOKEN}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if request.path == "/api/chat.postMessage":
            if body["channel"] != SLACK:
                return web.json_response({"ok": False, "error": "channel_not_found"})
            assert 0 < len(body["text"]) <= 40_000
            assert not body["unfurl_links"]
            assert body["parse"] == "none"
            self.sent.append(body)
        return web.json_response({"ok": True, "message": body})

    def _telegram(self, path: str, body: dict[str, Any]) -> web.Response:
        bot, _, method = path.lstrip("/").partition("/")
        if bot != f"bot{TELEGRAM_TOKEN}":
            return refusal(401, "Unauthorized")
        if body["chat_id"] != TELEGRAM:
            return refusal(400, "Bad Request: chat not found")
        if method == "sendMessage":
            size = len(body["text"].encode("utf-16-le")) // 2
            assert 0 < size <= 4096
            ends = [(each["offset"], each["offset"] + each["length"]) for each in body["entities"]]
            assert all(0 <= start < end <= size for start, end in ends)
            assert "parse_mode" not in body
            assert body["link_preview_options"] == {"is_disabled": True}
            self.sent.append(body)
        return web.json_response({"ok": True, "result": body})

    @property
    def texts(self) -> list[str]:
        return [each["text"] for each in self.sent]

    def slack(self, **changes: Any) -> Chat:
        return replace(SlackChannel(SLACK_TOKEN, SLACK, self.url), **changes)

    def telegram(self, **changes: Any) -> Chat:
        return replace(TelegramChat(TELEGRAM_TOKEN, TELEGRAM, self.url), **changes)


@asynccontextmanager
async def chat_server(port: int = 0) -> AsyncIterator[ChatServer]:
    made = ChatServer()
    async with served(made.handle, port) as made.url:
        yield made
        made.never.set()


def refusal(code: int, description: str, **parameters: Any) -> web.Response:
    """Telegram's answer to a request that it refuses."""
    body = {"ok": False, "error_code": code, "description": description}
    return web.json_response(body | {"parameters": parameters} if parameters else body, status=code)


def live_text(body: dict[str, Any]) -> str:
    """What of a message is not code, so that the service makes links, mentions and formats of it;
    each code is a full stop in it."""
    if "entities" not in body:
        return re.sub(r"`[^`\n]+`", ".", body["text"])
    text = body["text"].encode("utf-16-le")
    for each in reversed(body["entities"]):
        start, end = 2 * each["offset"], 2 * (each["offset"] + each["length"])
        text = text[:start] + ".".encode("utf-16-le") + text[end:]
    return text.decode("utf-16-le")
