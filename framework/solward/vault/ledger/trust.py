"""Whose word gives money back: the one statement of it.

That money left may be believed of anybody. That it did not leave (a transaction is dead, failed on
the ledger, or took less than was reserved) frees budget that can be spent again, so a node that
lies, or two names of it, must not be able to say it alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from solward.vault.ledger.transport import IN_PROCESS

WITNESSES: Final = 2


def is_enough(origins: Collection[str]) -> bool:
    """Whether the same word of these hosts frees money: two hosts, or our own process."""
    return IN_PROCESS in origins or len(set(origins)) >= WITNESSES
