"""The points of a cycle at which tests stop, delay or kill the process."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Phase(StrEnum):
    """What a cycle has just done."""

    ENTERED = "entered"
    """Its fence is taken, durably."""
    OBSERVED = "observed"
    """The wallet was looked at."""
    THOUGHT = "thought"
    """The model answered; nothing of it is stored."""
    ACTED = "acted"
    """The skill ended; its transaction is durable, its outcome is not remembered."""
    REMEMBERED = "remembered"
    """Decision, memory and the next cycle are durable."""


PhaseHook = Callable[[str, Phase], None]


def no_hook(agent_id: str, phase: Phase) -> None:
    """Go on."""
