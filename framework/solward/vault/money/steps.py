"""The steps of the money path, in the order a transaction passes them, and their log lines.

A process may die at any step; tests kill it there and check the state afterwards. Reservation,
refusal and end are audit events, logged when they are committed (`solward.database.outbox`). The
other log lines have the same fields, so that one transaction can be followed over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import structlog
from structlog.contextvars import bound_contextvars

from solward.telemetry import metrics, tracing
from solward.types.record import TransactionRecord

_log = structlog.get_logger(__name__)


class Step(StrEnum):
    """A point of the money path, named after what has just happened."""

    BUILT = "built"
    """The message is built; nothing is stored."""
    ASSESSED = "assessed"
    """The exact message was simulated and its effects computed; nothing is stored."""
    RESERVED = "reserved"
    """Verdict, rate slot and reservation are durable; no signature exists."""
    SIGNED = "signed"
    """Signed bytes exist in memory only."""
    WRITTEN_AHEAD = "written_ahead"
    """The signed bytes are durable; they have not left the process."""
    SENT = "sent"
    """The bytes were handed to the ledger."""
    LANDED = "landed"
    """The ledger's status is known; it is not stored yet."""
    SETTLED = "settled"
    """Status and actual debit are durable; the caller has no answer yet."""
    HANDED_OVER = "handed_over"
    """A payment's bytes are durable, and the seller may now get and send them."""
    ANSWERED = "answered"
    """The seller's answer to a paid request is durable; the caller has no answer yet."""
    HELD = "held"
    """A hold is durable in place of a record, and its caller has no answer yet."""
    APPROVED = "approved"
    """A person's approval is durable; nothing is reserved."""


PAID_STEPS = tuple(
    each for each in Step if each not in (Step.HELD, Step.APPROVED, Step.HANDED_OVER, Step.ANSWERED)
)
"""The steps of every transaction that this service sends."""


StepHook = Callable[[Step], None]


def no_hook(_step: Step) -> None:
    """Ignore a step; tests pass another hook."""


@contextmanager
def bound_log_fields(record: TransactionRecord, trace: str | None) -> Iterator[None]:
    """Add the transaction's fields to the block's log lines, and put the block in one span."""
    fields = _log_fields(record, trace)
    with bound_contextvars(**fields), tracing.span("transaction", **fields):
        yield


def log_taken_over(record: TransactionRecord, trace: str | None, process_id: str) -> None:
    """Log that this process continues a transaction that another process left open."""
    metrics.TAKEOVERS.inc()
    fields = _log_fields(record, trace)
    if record.signature is not None:
        fields["signature"] = record.signature
    _log.info("transaction_taken_over", **fields, by=process_id)


def _log_fields(record: TransactionRecord, trace: str | None) -> dict[str, str]:
    fields = {
        "transaction_id": record.id,
        "wallet_id": record.wallet_id,
        "principal": record.principal,
        "type": record.type,
    }
    if record.agent_id is not None:
        fields["agent_id"] = record.agent_id
    if trace is not None:
        fields["trace"] = trace
    return fields
