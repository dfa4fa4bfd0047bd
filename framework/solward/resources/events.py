"""Events: entries of the audit log, as a list and as a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from solward.resources.declare import Answer, Call, Request, declared, resource
from solward.resources.fields import (
    AgentId,
    Choice,
    Choices,
    Json,
    Past,
    Principal,
    Shape,
    Text,
    Time,
    WalletId,
    Whole,
)
from solward.resources.shared import LIMIT, Example
from solward.types.events import EventKind

MAX_SEQ = 10**18 - 1
LAST_EVENT = "The number of the last received event; 0 replays all events."
_KINDS = tuple(map(str, EventKind))
_TYPES = Choices("Only these kinds of events.", each="A kind.", options=_KINDS, cli="--type")


@resource
class StreamedEvents(Request):
    """A request for the stream of events."""

    types: Sequence[str] | None = declared(_TYPES, default=None)
    last_event_id: str | None = declared(
        Shape(LAST_EVENT, form=Whole("").answer_schema(), cli="--after"), default=None
    )


@resource
class AuditFilter(Request):
    """A filter of the audit log; a field that is left out matches every entry."""

    types: Sequence[str] | None = declared(_TYPES, default=None)
    wallet_id: str | None = declared(
        WalletId("Only entries of this wallet.", cli="--wallet"), default=None
    )
    agent_id: str | None = declared(
        AgentId("Only entries of this agent.", cli="--agent"), default=None
    )
    principal: str | None = declared(
        Principal(
            "Only requests of this principal: `admin`, `key:<id>`; commands accept names, too."
        ),
        default=None,
    )
    about: str | None = declared(
        Text("Only entries of the record, hold or payment with this id.", most=100), default=None
    )
    since: datetime | str | None = declared(Past("Only entries from this time on."), default=None)
    until: datetime | str | None = declared(Past("Only entries before this time."), default=None)


@resource
class ListedAudit(AuditFilter):
    """A request for a page of the audit log's entries."""

    limit: int = declared(LIMIT, default=50)
    before: int | None = declared(
        Whole("Only entries with a lower number.", least=1, most=MAX_SEQ), default=None
    )
    after: int = declared(Whole("Only entries with a higher number.", most=MAX_SEQ), default=0)


@resource
class Event(Answer):
    """An entry of the audit log, as the event stream sends it."""

    seq: int = declared(
        Whole("The event's rising number in the log; one process's log begins at 1.", least=1)
    )
    kind: str = declared(Choice("The event's kind.", options=_KINDS), named="event")
    data: Mapping[str, Any] = declared(
        Json(
            "The event's data, which depends on its kind; see docs/reference/events.md.",
            example={"address": Example.ADDRESS, "name": "ada", "walletId": Example.WALLET},
        )
    )


@resource
class AuditEntry(Event):
    """An entry of the audit log."""

    component: ClassVar = "AuditEntry"

    timestamp: datetime = declared(Time("When the entry was written."))
    chain: str = declared(
        Text("The entry's chain: `wallet:<id>`, `agent:<id>`, or empty for neither.", example="")
    )
    number: int = declared(Whole("The entry's number in its chain, from 1.", least=1))
    hash: str = declared(
        Text(
            "SHA-256 of the entry and of the hash before it in its chain.",
            pattern="[0-9a-f]{64}",
            example="5f0c" * 16,
        )
    )


@resource
class AuditPage(Answer):
    """A page of the audit log's entries. It may be shorter than requested and not be the last."""

    entries: tuple[AuditEntry, ...] = declared(Json("Newest first."))
    next: int | None = declared(
        Whole("`before` of the next page; null if none.", least=1, most=MAX_SEQ, example=None)
    )


STREAM_EVENTS: Call[Event] = Call(
    "streamEvents",
    "GET /events",
    "Stream events, without end.",
    None,
    query=StreamedEvents,
    name=None,
    about="The stream begins now, or after the event that `Last-Event-ID` or `lastEventId` names;"
    " the header wins. A comment is sent after every 15 seconds of silence.",
)
LIST_AUDIT = Call(
    "listAudit",
    "GET /audit",
    "List entries of the audit log, newest first.",
    AuditPage,
    query=ListedAudit,
    name="audit",
    about="A request searches a bounded number of entries, so any page may have fewer than `limit`,"
    " or none. Pass `next` as `before` until `next` is null.",
)
