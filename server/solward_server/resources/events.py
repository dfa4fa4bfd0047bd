"""The audit log: its entries as a live stream of server-sent events, and as a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from quart import Blueprint, Response, request

from solward.audit.chains import AuditEntry
from solward.errors import InvalidRequest
from solward.events import EventKind
from solward_server.http.body import query_limit, query_text, query_whole
from solward_server.http.edge import Edge
from solward_server.resources.chat import EVENT_STREAM

# Proxies and clients take a silent connection for a dead one after half a minute or more.
HEARTBEAT_S = 15.0
RETRY_MS = 2_000
PAGE = 200
_MAX_DIGITS = 18
_MAX_SEQ = 10**_MAX_DIGITS - 1


def blueprint(edge: Edge) -> Blueprint:
    """`GET /events` and `GET /audit`, the admin's alone."""
    routes = Blueprint("events", __name__)

    @routes.get("/events")
    async def stream() -> Response:
        kinds = _kinds()
        seq = await _resume_after(edge)
        # A HEAD request has no body to wait for.
        body = _stream(edge, seq, kinds) if request.method == "GET" else b""
        response = Response(body, 200, content_type=f"{EVENT_STREAM}; charset=utf-8")
        response.timeout = None
        # Reverse proxies hold small pieces back otherwise.
        response.headers["X-Accel-Buffering"] = "no"
        return response

    @routes.get("/audit")
    async def listing() -> dict[str, Any]:
        before = query_whole("before", None, 1, _MAX_SEQ)
        entries = await edge.service.audit.latest(query_limit(), before)
        return {"entries": [entry.to_json() for entry in entries]}

    return routes


async def _stream(edge: Edge, seq: int, kinds: frozenset[str]) -> AsyncGenerator[bytes, None]:
    """Everything above `seq`, read from the log; the bus only says when there is more.

    So a stream has neither gap nor duplicate, and a slow reader holds nothing up and loses
    nothing: it is where it has read to.
    """
    loop = asyncio.get_running_loop()
    with edge.service.events.subscribe(size=1) as told:
        yield f"retry: {RETRY_MS}\n\n".encode()
        silent_since = loop.time()
        while not told.ended:
            while not told.ended and (page := await edge.service.audit.after(seq, PAGE)):
                text = "".join(_event(entry) for entry in page if entry.event in kinds)
                if text:
                    yield text.encode()
                    silent_since = loop.time()
                seq = page[-1].seq
            try:
                async with asyncio.timeout_at(silent_since + HEARTBEAT_S):
                    await told.news()
            except TimeoutError:
                yield b":\n\n"
                silent_since = loop.time()


def _event(entry: AuditEntry) -> str:
    # JSON escapes line ends, so the data is one line.
    return f"id: {entry.seq}\nevent: {entry.event}\ndata: {entry.data}\n\n"


def _kinds() -> frozenset[str]:
    given = query_text("types")
    if given is None:
        return frozenset(EventKind)
    kinds = frozenset(kind.strip() for kind in given.split(","))
    unknown = sorted(kinds - set(EventKind))
    if unknown:
        raise InvalidRequest(
            f"types must be a comma-separated list of {', '.join(EventKind)}; "
            f"{', '.join(unknown)!r} is none"
        )
    return kinds


async def _resume_after(edge: Edge) -> int:
    """The number of the last event the client has; without one it gets what comes from now on.

    The header wins: a browser that reconnects sends it beside the address it began with.
    """
    end = await edge.service.audit.end()
    for name, given in (
        ("Last-Event-ID", request.headers.get("Last-Event-ID")),
        ("lastEventId", query_text("lastEventId")),
    ):
        if given is None:
            continue
        plain = given.isascii() and given.isdecimal() and len(given) <= _MAX_DIGITS
        if not plain or int(given) > end:
            raise InvalidRequest(
                f"{name} must be the number of an event, a whole number from 0 to {end}"
            )
        return int(given)
    return end
