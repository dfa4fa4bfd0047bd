"""How one transaction is followed through logs and traces, over processes.

Its reservation, refusal and end are events on record, logged as they are committed
(`solward.vault.store.commit_log`); the other steps are logged here, with the same fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.contextvars import bound_contextvars

from solward.record import TransactionRecord
from solward.telemetry import metrics, tracing
from solward.vault.transactions.request import Actor

_log = structlog.get_logger(__name__)


@contextmanager
def following(record: TransactionRecord, actor: Actor) -> Iterator[None]:
    """Inside the block every line in the log names the transaction and what asked for it."""
    fields = _named(record, actor.trace)
    with bound_contextvars(**fields), tracing.span("transaction", **fields):
        yield


def signed(signature: str) -> None:
    """Its bytes are signed and durable; inside `following`."""
    _log.info("transaction_signed", signature=signature)


def sent(signature: str) -> None:
    """Its bytes were handed to the ledger for the first time; inside `following`."""
    _log.info("transaction_sent", signature=signature)


def taken_over(record: TransactionRecord, trace: str | None, process_id: str) -> None:
    """This process goes on with what another left behind."""
    metrics.TAKEOVERS.inc()
    fields = _named(record, trace)
    if record.signature is not None:
        fields["signature"] = record.signature
    _log.info("transaction_taken_over", **fields, by=process_id)


def _named(record: TransactionRecord, trace: str | None) -> dict[str, str]:
    fields = {"transaction_id": record.id, "wallet_id": record.wallet_id, "type": record.type}
    if record.agent_id is not None:
        fields["agent_id"] = record.agent_id
    if trace is not None:
        fields["trace"] = trace
    return fields
