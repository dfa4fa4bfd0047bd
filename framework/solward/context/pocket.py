"""What a skill asks for when it calls a program with a pocket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solders.instruction import Instruction

    Build = Callable[[str], Awaitable[bytes | Sequence[Instruction]]]


@dataclass(frozen=True, slots=True)
class PocketRequest:
    """One use of a pocket; see `SkillContext.pocket`. Amounts are smallest units."""

    build: Build
    lamports: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    returns: Mapping[str, int] = field(default_factory=dict)
    mints: tuple[str, ...] = ()
    program: str | None = None
    position: str | None = None
    stays: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
