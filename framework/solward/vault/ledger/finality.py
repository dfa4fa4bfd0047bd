"""Which commitment is asked for, and what is final: the one place that compares the words.

Where Alpenglow runs, a block is final some 150 ms after it, `confirmed` reports the same block as
`finalized`, and the word is to go. Before, `finalized` is some thirty slots behind `confirmed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from solward.types.errors import LedgerRejected

CONFIRMED: Final = "confirmed"
FINALIZED: Final = "finalized"
# JSON-RPC 2.0: invalid parameters.
_INVALID: Final = -32602


def is_final(status: str | None) -> bool:
    """Whether a transaction of this `confirmationStatus` stays on the ledger."""
    return status in (CONFIRMED, FINALIZED)


def has_certificate(answer: Any) -> bool:
    """Whether an answer to `getAgGenesisCert` is Alpenglow's certificate; null before it."""
    return isinstance(answer, dict) and bool(answer)


def refuses_confirmed(error: LedgerRejected) -> bool:
    """Whether a node does not know the word `confirmed` any more."""
    return error.code == _INVALID and CONFIRMED in str(error)


def in_word(params: Sequence[Any], word: str) -> tuple[Any, ...]:
    """Parameters of a call, with `word` in place of `confirmed`."""
    return tuple(
        each | {"commitment": word}
        if isinstance(each, dict) and each.get("commitment") == CONFIRMED
        else each
        for each in params
    )
