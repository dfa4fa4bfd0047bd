"""What committed events count for, and what is logged of them: exactly what is on record.

A transaction's line in the log and its count follow its event in the audit log, so that of several
processes only the one that stored its end says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog

from solward.events import Event, EventKind
from solward.telemetry import metrics

_log = structlog.get_logger(__name__)

_LINES: dict[str, str] = {
    EventKind.TRANSACTION_PENDING: "transaction_reserved",
    EventKind.TRANSACTION_CONFIRMED: "transaction_settled",
    EventKind.TRANSACTION_FAILED: "transaction_settled",
    EventKind.TRANSACTION_BLOCKED: "transaction_blocked",
}


def committed(events: Sequence[Event]) -> None:
    """Count and log events that are in the audit log."""
    for event in events:
        metrics.AUDIT_EVENTS.labels(event.event).inc()
        line = _LINES.get(event.event)
        if line is not None:
            metrics.TRANSACTIONS.labels(event.data["type"], event.data["status"]).inc()
            if event.event == EventKind.TRANSACTION_BLOCKED:
                metrics.GUARDRAIL_BLOCKS.labels(event.data["guardrailsApplied"][-1]).inc()
            _log.info(line, **_fields(event))
        elif event.event == EventKind.ALERT_RAISED:
            metrics.ALERTS.labels(event.data["alert"]).inc()
            _log.error("alert_raised", **event.data, trace=event.trace)


def _fields(event: Event) -> dict[str, Any]:
    record = event.data
    fields = {
        "transaction_id": record["id"],
        "wallet_id": record["walletId"],
        "agent_id": record.get("agentId"),
        "type": record["type"],
        "status": record["status"],
        "signature": record.get("signature"),
        "error": record.get("error"),
        "trace": event.trace,
    }
    return {name: value for name, value in fields.items() if value is not None}
