"""How the built-in skills tell a model what became of a transaction."""

from __future__ import annotations

from solward import TransactionRecord, TransactionStatus


def tell(record: TransactionRecord, done: str, submitted: str, again: str = "repeat it") -> str:
    """What was done (`done`), or what is on its way (`submitted`) and must not be done `again`, the
    status and the signature."""
    if record.status is TransactionStatus.CONFIRMED:
        outcome = f"{done} Status: confirmed."
    else:
        outcome = (
            f"Submitted {submitted} Status: {record.status}."
            f" It is not known yet whether it lands; do not {again}."
        )
    return f"{outcome} Signature: {record.signature}."
