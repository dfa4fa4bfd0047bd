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


class Commitment:
    """The word that a cluster's nodes are asked for."""

    def __init__(self) -> None:
        self.word = CONFIRMED

    def saw_certificate(self, answer: Any) -> None:
        """Take an answer to `getAgGenesisCert`: null before Alpenglow, else its certificate."""
        if isinstance(answer, dict) and answer:
            self.word = FINALIZED

    def is_refused(self, error: LedgerRejected) -> bool:
        """Whether a node does not know the word any more; then it is not asked for again."""
        if error.code != _INVALID or CONFIRMED not in str(error):
            return False
        self.word = FINALIZED
        return True


def in_word(params: Sequence[Any], word: str) -> tuple[Any, ...]:
    """Parameters of a call, with `word` in place of `confirmed`."""
    return tuple(
        each | {"commitment": word}
        if isinstance(each, dict) and each.get("commitment") == CONFIRMED
        else each
        for each in params
    )
