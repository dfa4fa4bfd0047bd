"""The audit log: its entries as a stream of server-sent events, and as a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from quart import Blueprint, Response, request

from solward.audit.log import AuditEntry
from solward.audit.search import AuditFilter, search
from solward.resources.fields import nullable
from solward.resources.schema import array, ref, response_object, text, timestamp, whole
from solward.types.errors import InvalidRequest
from solward.types.events import EventKind
from solward.types.roles import Role
from solward_server.http.auth import Access, Caller, admin, caller
from solward_server.http.body import query_limit, query_text, query_time, query_whole
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, success
from solward_server.openapi.parameters import (
    BEFORE_ENTRY,
    EVENT_TYPES,
    LAST_EVENT_HEADER,
    LAST_EVENT_ID,
    LIMIT,
    query,
)
from solward_server.resources.chat import EVENT_STREAM

# Proxies and clients close a connection that is silent for 30 s or more.
HEARTBEAT_S = 15.0
RETRY_MS = 2_000
PAGE = 200
_MAX_DIGITS = 18
_MAX_SEQ = 10**_MAX_DIGITS - 1
_MAX_NAME = 200


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /events` and `GET /audit`."""
    routes = Blueprint("events", __name__)

    @routes.get("/events")
    @admin(Role.READ)
    async def stream() -> Response:
        kinds = _kinds()
        seq = await _resume_after(context)
        # A HEAD request has no body to wait for.
        body = _stream(context, seq, kinds, caller()) if request.method == "GET" else b""
        response = Response(body, 200, content_type=f"{EVENT_STREAM}; charset=utf-8")
        response.timeout = None
        # Without it reverse proxies buffer small pieces.
        response.headers["X-Accel-Buffering"] = "no"
        return response

    @routes.get("/audit")
    @admin(Role.READ)
    async def listing() -> dict[str, Any]:
        before = query_whole("before", None, 1, _MAX_SEQ)
        after = query_whole("after", None, 0, _MAX_SEQ) or 0
        limit, wanted = query_limit(), _filter()
        async with context.service.database.read() as connection:
            page = await search(connection, wanted, limit, before=before, after=after)
        return {"entries": [entry.to_json() for entry in page.entries], "next": page.next}

    return routes


def _filter() -> AuditFilter:
    """Raises `InvalidRequest`, naming the field."""
    since_ms, until_ms = query_time("since"), query_time("until")
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise InvalidRequest("until must be later than since")
    return AuditFilter(
        kinds=frozenset() if query_text("types") is None else _kinds(),
        wallet_id=_name("walletId"),
        agent_id=_name("agentId"),
        principal=_name("principal"),
        since_ms=since_ms,
        until_ms=until_ms,
    )


def _name(field: str) -> str | None:
    value = query_text(field)
    if value is not None and not 0 < len(value) <= _MAX_NAME:
        raise InvalidRequest(f"{field} must be a string of 1 to {_MAX_NAME} characters")
    return value


async def _stream(
    context: RouteContext,
    seq: int,
    kinds: frozenset[str],
    who: Caller,
) -> AsyncGenerator[bytes, None]:
    """All entries above `seq`, read from the log; the event bus only says when there are more.

    So the stream has neither gaps nor duplicates, and a slow reader neither blocks others nor
    loses entries. It ends with the admin credential that it was opened by: a revocation is an
    entry, which awakes the stream, and nothing is sent before the credential was looked up.
    """
    loop = asyncio.get_running_loop()
    with context.service.events.subscribe(size=1) as subscription:
        yield f"retry: {RETRY_MS}\n\n".encode()
        silent_since = loop.time()
        while not subscription.ended:
            while not subscription.ended and (page := await context.service.audit.after(seq, PAGE)):
                if await context.has_ended(who):
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
                if await context.has_ended(who):
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

_FILTERS = (
    query("after", whole("A number in the log: only newer entries.", 0, _MAX_SEQ)),
    EVENT_TYPES,
    query("walletId", text("Only entries of this wallet.", _MAX_NAME)),
    query("agentId", text("Only entries of this agent.", _MAX_NAME)),
    query("principal", text("Only what this principal asked for: `admin`, `key:<id>`.", _MAX_NAME)),
    query("since", timestamp("Only entries of this moment or later.")),
    query("until", timestamp("Only entries before this moment.")),
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
            "Entries of the audit log, or those that fit a filter",
            tag="events",
            access=Access.ADMIN,
            description="A page looks at a bounded number of entries, so it may have fewer than "
            "`limit`, or none, and be followed by another: go on with `next` as `before` until it "
            "is null.",
            parameters=[LIMIT, BEFORE_ENTRY, *_FILTERS],
            response=success(
                response_object(
                    {
                        "entries": array(ref("AuditEntry"), "Newest first."),
                        "next": nullable(whole("The `before` of the next page.", 1, _MAX_SEQ)),
                    }
                ),
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
                    ],
                    "next": None,
                },
            ),
            errors={
                400: [
                    "limit must be a whole number from 1 to 500",
                    "until must be later than since",
                ]
            },
        )
    },
}
