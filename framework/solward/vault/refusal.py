"""A refusal of our own rules and of grants: its sentence, and the numbers that the sentence says.

A rule makes the numbers first and its sentence of them, so that the two cannot differ.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class RefusalNumbers:
    """The numbers of one refusal, written as its sentence writes them; None where it says none.

    Attributes:
        asked: what the transaction would take or add, an exact amount in `unit`.
        limit: what is allowed.
        left: what of it was left.
        used: what of it was used.
        unit: of these four, such as `SOL`; None where they begin with `$`.
        window: the time that the limit is for, such as `24 hours`.
        mint: of the token that the amounts are whole ones of, where the unit names it by its mint.
    """

    asked: str | None = None
    limit: str | None = None
    left: str | None = None
    used: str | None = None
    unit: str | None = None
    window: str | None = None
    mint: str | None = None

    def to_json(self) -> dict[str, str]:
        """As records have them and answers show them: what is None is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a rule refuses, and the numbers that say so, None where there are none."""

    reason: str
    numbers: RefusalNumbers | None = None
