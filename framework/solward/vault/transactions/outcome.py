"""A stored record that did not succeed, as the error its caller gets."""

from __future__ import annotations

from solward.errors import GuardrailBlocked, TransactionError, TransactionFailed
from solward.record import TransactionRecord, TransactionStatus


def refusal(record: TransactionRecord) -> TransactionError:
    """The error of a blocked or failed record."""
    if record.status is TransactionStatus.BLOCKED:
        rule = record.guardrails_applied[-1]
        return GuardrailBlocked(rule, record.error or "", record)
    return TransactionFailed(record.error or "The transaction failed", record)
