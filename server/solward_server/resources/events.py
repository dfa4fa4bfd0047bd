"""The audit log: its entries as a stream of server-sent events, and as a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

from quart import Response, request

from solward.audit import log as audit_log
from solward.audit.log import AuditEntry, AuditFilter, search
from solward.resources import events as calls
from solward.resources.declare import fields_of
from solward.support.clock import ms_of
from solward.types.errors import InvalidRequest
from solward.types.events import EventKind
from solward.types.roles import Role
from solward_server.http.auth import Caller, admin, caller
from solward_server.http.body import EVENT_STREAM, event_stream, query_of
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import LAST_EVENT_HEADER
from solward_server.openapi.route import Routes, query_parameter

# Proxies and clients close a connection that is silent for 30 s or more.
HEARTBEAT_S = 15.0
RETRY_MS = 2_000
PAGE = 200
_MAX_DIGITS = 18
_UNTIL = "until must be later than since"


_STREAM = (
    "retry: 2000\n\nid: 1\nevent: wallet:created\n"
    'data: {"address":"9Gk...","name":"ada","walletId":"6c1c..."}\n\n'
)

routes = Routes("events", "Events, live and in the audit log.")


@routes.serve(
    calls.STREAM_EVENTS,
    admin(Role.READ),
    {400: "lastEventId must be the number of an event, a whole number from 0 to 12"},
    parameters=[*map(query_parameter, fields_of(calls.StreamedEvents)), LAST_EVENT_HEADER],
    response={
        "description": "`id` is the number in the audit log, `event` the kind, `data` JSON on one"
        " line.",
        "content": {EVENT_STREAM: {"schema": {"type": "string"}, "example": _STREAM}},
    },
)
async def stream(context: RouteContext) -> Response:
    asked = query_of(calls.StreamedEvents)
    seq = await _resume_after(context, asked.last_event_id)
    kinds = frozenset(asked.types or EventKind)
    # A HEAD request has no body to wait for.
    return event_stream(_stream(context, seq, kinds, caller()) if request.method == "GET" else b"")


@routes.serve(calls.LIST_AUDIT, admin(Role.READ), {400: _UNTIL})
async def list_entries(context: RouteContext) -> dict[str, Any]:
    asked = query_of(calls.ListedAudit)
    since_ms, until_ms = _ms(asked.since), _ms(asked.until)
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise InvalidRequest(_UNTIL)
    wanted = AuditFilter(
        kinds=frozenset(asked.types or ()),
        wallet_id=asked.wallet_id,
        agent_id=asked.agent_id,
        principal=asked.principal,
        about=asked.about,
        since_ms=since_ms,
        until_ms=until_ms,
    )
    async with context.service.database.read() as connection:
        page = await search(connection, wanted, asked.limit, before=asked.before, after=asked.after)
    return {"entries": [entry.to_json() for entry in page.entries], "next": page.next}


def _ms(time: datetime | str | None) -> int | None:
    return None if time is None else ms_of(str(time))


async def _stream(
    context: RouteContext,
    seq: int,
    kinds: frozenset[str],
    who: Caller,
) -> AsyncGenerator[bytes, None]:
    """Yield all entries above `seq`, read from the log; the event bus only wakes the stream.

    So the stream has neither gaps nor duplicates, and a slow reader neither blocks others nor
    loses entries. It ends with the admin credential that opened it: a revocation is an entry, which
    wakes the stream, and nothing is sent before the credential is looked up.
    """
    loop = asyncio.get_running_loop()
    with context.service.events.subscribe(size=1) as subscription:
        yield f"retry: {RETRY_MS}\n\n".encode()
        silent_since = loop.time()
        while not subscription.ended:
            while not subscription.ended and (page := await _entries_after(context, seq)):
                if await context.has_ended(who):
                    return
                text = "".join(_event_text(entry) for entry in page if entry.event in kinds)
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


async def _entries_after(context: RouteContext, seq: int) -> list[AuditEntry]:
    async with context.service.database.read() as connection:
        return await audit_log.entries_after(connection, seq, PAGE)


def _event_text(entry: AuditEntry) -> str:
    # JSON escapes line ends, so the data is one line.
    return f"id: {entry.seq}\nevent: {entry.event}\ndata: {entry.data}\n\n"


async def _resume_after(context: RouteContext, last_event_id: str | None) -> int:
    """Return the number of the client's last event; if it names none, of the log's newest.

    The header takes precedence: a reconnecting browser sends it with its first request's URL.
    """
    async with context.service.database.read() as connection:
        end = await audit_log.newest_seq(connection)
    for name, value in (
        ("Last-Event-ID", request.headers.get("Last-Event-ID")),
        ("lastEventId", last_event_id),
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
