"""Slack and Telegram as their APIs answer, on loopback; what a reader of a message sees of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web
from tests.support.http import served

from solward.notify.chats import Chat, SlackChannel, TelegramChat

SLACK_TOKEN = "xoxb-1111111111-c4n4ry0f5l4ckt0k3n"
SLACK = "C0123456789"
TELEGRAM_TOKEN = "1234567890:c4n4ry0f7313gr4m-70k3n_aaaaaaaaaaa"
TELEGRAM = "-1001234567890"


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
