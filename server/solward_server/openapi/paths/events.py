"""The audit log, live and as a list."""

from __future__ import annotations

from solward_server.http.auth import Access
from solward_server.openapi.operation import answers, operation
from solward_server.openapi.parameters import (
    BEFORE_ENTRY,
    EVENT_TYPES,
    LAST_EVENT_HEADER,
    LAST_EVENT_ID,
    LIMIT,
)
from solward_server.openapi.schema import array, closed, ref

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
            answer={
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
            answer=answers(
                closed({"entries": array(ref("AuditEntry"), "Newest first.")}),
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
