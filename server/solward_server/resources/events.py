"""The audit log: its entries as a stream of server-sent events, and as a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from quart import Blueprint, Response, request

from solward.audit.log import AuditEntry
from solward.errors import InvalidRequest
from solward.events import EventKind
from solward.roles import Role
from solward_server.http.admin_credentials import AdminCredential
from solward_server.http.auth import Access, admin, caller
from solward_server.http.body import query_limit, query_text, query_whole
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, success
from solward_server.openapi.parameters import (
    BEFORE_ENTRY,
    EVENT_TYPES,
    LAST_EVENT_HEADER,
    LAST_EVENT_ID,
    LIMIT,
)
from solward_server.openapi.schema import array, ref, response_object
from solward_server.resources.chat import EVENT_STREAM

# Proxies and clients close a connection that is silent for 30 s or more.
HEARTBEAT_S = 15.0
RETRY_MS = 2_000
PAGE = 200
_MAX_DIGITS = 18
_MAX_SEQ = 10**_MAX_DIGITS - 1


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /events` and `GET /audit`."""
    routes = Blueprint("events", __name__)

    @routes.get("/events")
    @admin(Role.READ)
    async def stream() -> Response:
        kinds = _kinds()
        seq = await _resume_after(context)
        # A HEAD request has no body to wait for.
        who = caller().credential
        body = _stream(context, seq, kinds, who) if request.method == "GET" else b""
        response = Response(body, 200, content_type=f"{EVENT_STREAM}; charset=utf-8")
        response.timeout = None
        # Without it reverse proxies buffer small pieces.
        response.headers["X-Accel-Buffering"] = "no"
        return response

    @routes.get("/audit")
    @admin(Role.READ)
    async def listing() -> dict[str, Any]:
        before = query_whole("before", None, 1, _MAX_SEQ)
        entries = await context.service.audit.latest(query_limit(), before)
        return {"entries": [entry.to_json() for entry in entries]}

    return routes


async def _stream(
    context: RouteContext,
    seq: int,
    kinds: frozenset[str],
    credential: AdminCredential | None,
) -> AsyncGenerator[bytes, None]:
    """All entries above `seq`, read from the log; the event bus only says when there are more.

    So the stream has neither gaps nor duplicates, and a slow reader neither blocks others nor
    loses entries. It ends with the admin credential that it was opened by: a revocation is an
    entry, which awakes the stream, and nothing is sent before the credential was looked up.
    """

    async def has_ended() -> bool:
        return credential is not None and await context.credentials.find(credential.hash) is None

    loop = asyncio.get_running_loop()
    with context.service.events.subscribe(size=1) as subscription:
        yield f"retry: {RETRY_MS}\n\n".encode()
        silent_since = loop.time()
        while not subscription.ended:
            while not subscription.ended and (page := await context.service.audit.after(seq, PAGE)):
                if await has_ended():
                    return
                text = "".join(_event(entry) for entry in page if entry.event in kinds)
                if text:
                    yield text.encode()
                    silent_since = loop.time()
                seq = page[-1].seq
            try:
                async with asyncio.timeout_at(silent_since + HEARTBEAT_S):
                    await subscription.news()
            except TimeoutError:
                if await has_ended():
                    return
                yield b":\n\n"
                silent_since = loop.time()


def _event(entry: AuditEntry) -> str:
    # JSON escapes line ends, so the data is one line.
    return f"id: {entry.seq}\nevent: {entry.event}\ndata: {entry.data}\n\n"


def _kinds() -> frozenset[str]:
    types = query_text("types")
    if types is None:
        return frozenset(EventKind)
    kinds = frozenset(kind.strip() for kind in types.split(","))
    unknown = sorted(kinds - set(EventKind))
    if unknown:
        raise InvalidRequest(
            f"types must be a comma-separated list of {', '.join(EventKind)}; "
            f"{', '.join(unknown)!r} is none"
        )
    return kinds


async def _resume_after(context: RouteContext) -> int:
    """The number of the last event the client has; without one, the newest in the log.

    The header wins: a browser that reconnects sends it with the URL of its first request.
    """
    end = await context.service.audit.end()
    for name, value in (
        ("Last-Event-ID", request.headers.get("Last-Event-ID")),
        ("lastEventId", query_text("lastEventId")),
    ):
        if value is None:
            continue
        plain = value.isascii() and value.isdecimal() and len(value) <= _MAX_DIGITS
        if not plain or int(value) > end:
            raise InvalidRequest(
                f"{name} must be the number of an event, a whole number from 0 to {end}"
            )
        return int(value)
    return end


_STREAM = (
    "retry: 2000\n\nid: 1\nevent: wallet:created\n"
    'data: {"address":"9Gk...","name":"ada","walletId":"6c1c..."}\n\n'
)

PATHS = {
    "/events": {
        "get": operation(
            "streamEvents",
            "What happens, as server-sent events without end",
            tag="events",
            access=Access.ADMIN,
            description="From now on, or after the event that `Last-Event-ID` or `lastEventId` "
            "names; the header wins. A comment comes every 15 seconds of silence.",
            parameters=[EVENT_TYPES, LAST_EVENT_ID, LAST_EVENT_HEADER],
            response={
                "description": "`id` is the number in the audit log, `event` the kind, `data` "
                "JSON on one line.",
                "content": {
                    "text/event-stream": {"schema": {"type": "string"}, "example": _STREAM}
                },
            },
            errors={400: "lastEventId must be the number of an event, a whole number from 0 to 12"},
        )
    },
    "/audit": {
        "get": operation(
            "listAudit",
            "Entries of the audit log",
            tag="events",
            access=Access.ADMIN,
            parameters=[LIMIT, BEFORE_ENTRY],
            response=success(
                response_object({"entries": array(ref("AuditEntry"), "Newest first.")}),
                {
                    "entries": [
                        {
                            "seq": 1,
                            "timestamp": "2026-11-21T09:00:00.000Z",
                            "event": "wallet:created",
                            "data": {
                                "address": "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh",
                                "name": "ada",
                                "walletId": "e05136c2-0095-4472-9b84-19b9e354eeee",
                            },
                            "chain": "",
                            "number": 1,
                            "hash": "5f0c" * 16,
                        }
                    ]
                },
            ),
            errors={400: "limit must be a whole number from 1 to 500"},
        )
    },
}
