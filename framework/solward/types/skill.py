"""The declaration of a skill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from solward.types.bounds import Name
from solward.types.manifest import Manifest


class Effects(StrEnum):
    """Whether a skill may request transactions."""

    READ = "read"
    """Reads only; its transactions are refused."""
    SPEND = "spend"
    """May request transactions; each passes every guardrail."""


@dataclass(frozen=True, slots=True)
class SkillSpec:
    """A skill's declaration, returned by its `skill_spec` hook.

    Attributes:
        name: equal to the entry point's name; `[a-z][a-z0-9_]{0,63}`.
        description: for the model: the skill's purpose and use. At most 1,024 characters.
        parameters: JSON Schema 2020-12 of an object with `additionalProperties: false`.
        effects: READ or SPEND.
        timeout_s: seconds before the skill is cancelled; 0 < timeout_s <= 600.
        examples: parameters that work on a new test wallet that holds 10 SOL, each valid by
            `parameters`. The conformance kit runs them; they need no preparation.
        manifest: what it needs beside its wallet; None: no network, no storage, no secrets.
        settings: JSON Schema, as `parameters`, of what the operator sets for it; a property of type
            string with `secret: true` is stored sealed and shown to nobody. None: it has none.
    """

    name: Name
    description: str
    parameters: Mapping[str, Any]
    effects: Effects = Effects.READ
    timeout_s: float = 60.0
    examples: Annotated[tuple[Mapping[str, Any], ...], Meta(max_length=64)] = ()
    manifest: Manifest | None = None
    settings: Mapping[str, Any] | None = None
