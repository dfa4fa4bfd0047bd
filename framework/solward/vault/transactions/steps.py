"""The named points of the money path, in the order a transaction passes them.

A process may die at any of them; what holds afterwards is tested by killing it there.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """One point of the money path; after it, the named thing has happened."""

    BUILT = "built"
    """The message exists; nothing is stored."""
    ASSESSED = "assessed"
    """The exact message was simulated and its effects computed; nothing is stored."""
    RESERVED = "reserved"
    """Verdict, rate slot and reservation are durable; no signature exists."""
    SIGNED = "signed"
    """Signed bytes exist in memory only."""
    WRITTEN_AHEAD = "written_ahead"
    """The signed bytes are durable; none has left the process."""
    SENT = "sent"
    """The bytes were handed to the ledger."""
    LANDED = "landed"
    """The ledger's status is known; it is not stored yet."""
    SETTLED = "settled"
    """Status and actual debit are durable; the caller has no answer yet."""


StepHook = Callable[[Step], None]


def no_hook(_step: Step) -> None:
    """The hook of a service nobody watches."""
