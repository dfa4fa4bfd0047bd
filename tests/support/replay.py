"""Answers from a recording of `solward doctor --record`, and fails where it has none.

A request is that of an exchange if method, path, query and JSON body are equal, but for the id of a
JSON-RPC call and for addresses: where the recording has one of `placeholder`, any address fits, the
same one everywhere in the exchange, and the answer names it in place of the placeholder. The host
is not compared: a recording does not have the real one.

    async with replaying(RECORDINGS / "rpc.json") as url:           # any client, any process
        ...
    httpx.AsyncClient(transport=ReplayTransport(RECORDINGS / "jupiter.json"), base_url="https://x")
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
from aiohttp import web

from solward.support import jsontext
from solward.support.base58 import b58decode, b58encode
from solward_cli.doctor.recording import decoded_base64, is_address, placeholder

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"

# More than any recording has.
_PLACEHOLDERS = {placeholder(number): b58decode(placeholder(number)) for number in range(64)}

Bound = dict[str, str]
"""Placeholder -> the address that a request had in its place."""


class UnrecordedRequest(AssertionError):
    """A request that the recording does not have."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes


@dataclass(slots=True)
class Replay:
    """The exchanges of a file. Of equal requests each gets its own answer in order, further ones
    the last.

    Attributes:
        unrecorded: requests that it had no answer for.
        left: exchanges that nobody asked for yet.
    """

    exchanges: Sequence[Mapping[str, Any]]
    unrecorded: list[str] = field(default_factory=list)
    left: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = list(range(len(self.exchanges)))

    @classmethod
    def of(cls, file: Path) -> Replay:
        return cls(jsontext.loads(file.read_bytes()))

    def answer(self, method: str, url: str, content: bytes) -> Answer:
        """Raises `UnrecordedRequest`."""
        body: Any = None
        if content:
            try:
                body = jsontext.loads(content)
            except ValueError:
                body = content.decode()
        found: tuple[int, Bound] | None = None
        for number, exchange in enumerate(self.exchanges):
            bound = _matched(exchange["request"], method, url, body)
            if bound is not None:
                found = number, bound
                if number in self.left:
                    break
        if found is None:
            asked = f"{method} {url} {body}"
            self.unrecorded.append(asked)
            raise UnrecordedRequest(f"not in the recording: {asked}")
        number, bound = found
        if number in self.left:
            self.left.remove(number)
        return _rendered(self.exchanges[number]["response"], bound, body)


def _matched(recorded: Mapping[str, Any], method: str, url: str, body: Any) -> Bound | None:
    was, now = urlsplit(recorded["url"]), urlsplit(url)
    if recorded["method"] != method or (was.path or "/") != (now.path or "/"):
        return None
    bound: Bound = {}
    asked, given = (sorted(parse_qsl(each.query, keep_blank_values=True)) for each in (was, now))
    same = _same([list(each) for each in asked], [list(each) for each in given], bound)
    return (
        bound if same and _same(_without_id(recorded["body"]), _without_id(body), bound) else None
    )


def _without_id(body: Any) -> Any:
    if isinstance(body, Mapping) and "jsonrpc" in body:
        return {name: value for name, value in body.items() if name != "id"}
    return body


def _same(was: Any, now: Any, bound: Bound) -> bool:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        return was.keys() == now.keys() and all(_same(was[key], now[key], bound) for key in was)
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(
            _same(one, other, bound) for one, other in zip(was, now, strict=True)
        )
    if isinstance(was, str) and isinstance(now, str):
        return _same_text(was, now, bound)
    return type(was) is type(now) and bool(was == now)


def _same_text(was: str, now: str, bound: Bound) -> bool:
    if was in _PLACEHOLDERS:
        return is_address(now) and bound.setdefault(was, now) == now
    raw, other = decoded_base64(was), decoded_base64(now)
    if raw is None or other is None or len(raw) != len(other):
        return was == now
    for name, held in _PLACEHOLDERS.items():
        at = raw.find(held)
        while at >= 0:
            address = b58encode(other[at : at + len(held)])
            if bound.setdefault(name, address) != address:
                return False
            at = raw.find(held, at + 1)
    return _with_bound(raw, bound) == other


def _with_bound(raw: bytes, bound: Bound) -> bytes:
    for name, address in bound.items():
        raw = raw.replace(_PLACEHOLDERS[name], b58decode(address))
    return raw


def _rendered(recorded: Mapping[str, Any], bound: Bound, asked: Any) -> Answer:
    body = _named(recorded["body"], bound)
    if isinstance(body, dict) and isinstance(asked, Mapping) and "jsonrpc" in asked:
        body["id"] = asked.get("id")
    if body is None:
        content = b""
    elif isinstance(body, str):
        content = body.encode()
    else:
        content = jsontext.dumps(body).encode()
    return Answer(recorded["status"], dict(recorded["headers"]), content)


def _named(value: Any, bound: Bound) -> Any:
    if isinstance(value, Mapping):
        return {_named(name, bound): _named(item, bound) for name, item in value.items()}
    if isinstance(value, list):
        return [_named(item, bound) for item in value]
    if not isinstance(value, str):
        return value
    for name, address in bound.items():
        value = value.replace(name, address)
    raw = decoded_base64(value)
    if raw is None:
        return value
    changed = _with_bound(raw, bound)
    return value if changed == raw else base64.b64encode(changed).decode()


class ReplayTransport(httpx.AsyncBaseTransport):
    """A recording as the transport of an HTTP client in this process."""

    def __init__(self, file: Path) -> None:
        self.replay = Replay.of(file)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        found = self.replay.answer(request.method, str(request.url), await request.aread())
        return httpx.Response(found.status, headers=found.headers, content=found.content)


@asynccontextmanager
async def replaying(file: Path) -> AsyncIterator[str]:
    """A recording as a server on loopback; a request that it does not have fails the block."""
    replay = Replay.of(file)

    async def handle(asked: web.Request) -> web.Response:
        try:
            found = replay.answer(asked.method, asked.path_qs, await asked.read())
        except UnrecordedRequest as error:
            return web.Response(status=501, text=str(error))
        return web.Response(status=found.status, headers=found.headers, body=found.content)

    async with answering(handle) as url:
        yield url
        if replay.unrecorded:
            raise UnrecordedRequest("; ".join(replay.unrecorded)[:2_000])


@asynccontextmanager
async def answering(
    handle: Callable[[web.Request], Awaitable[web.Response]],
) -> AsyncIterator[str]:
    """The address of a server that answers every request by `handle`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
