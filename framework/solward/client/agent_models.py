"""The service's answers about templates of agents, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solward.resources.answers import Answer


@dataclass(frozen=True, slots=True)
class AgentTemplate(Answer):
    """A starting point of agents.

    Attributes:
        grants: documents; none of them: it signs nothing.
        sentences: the grants in words.
        can_leave: the most that this agent alone can move out of a wallet in any 24 hours:
            `assets`, name -> `most` in whole units, and `sentence`.
    """

    name: str
    title: str
    summary: str
    strategy: str
    loop_interval_ms: int
    guardrails: Mapping[str, Any]
    grants: tuple[Mapping[str, Any], ...]
    sentences: tuple[str, ...]
    can_leave: Mapping[str, Any]
