"""How the built-in skills tell a model what became of a transaction."""

from __future__ import annotations

from solward import TransactionRecord, TransactionStatus


def tell(record: TransactionRecord, done: str, submitted: str) -> str:
    """What was done (`done`), or what is on its way (`submitted`), the status and the signature."""
    if record.status is TransactionStatus.CONFIRMED:
        outcome = f"{done} Status: confirmed."
    else:
        outcome = (
            f"Submitted {submitted} Status: {record.status}."
            " It is not known yet whether it lands; do not repeat it."
        )
    return f"{outcome} Signature: {record.signature}."
