"""A refusal by Solward's own rules or by grants: its sentence, and the numbers in the sentence.

A rule computes the numbers first and words the sentence from them, so that the two agree.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class RefusalNumbers:
    """The numbers in one refusal, formatted as in its sentence.

    Attributes:
        asked: the exact amount in `unit` that the transaction would take or add.
        limit: the allowed amount.
        left: the unused part of the limit.
        used: the used part of the limit.
        unit: unit of these four amounts, such as `SOL`; None if they begin with `$`.
        window: the period of the limit, such as `24 hours`.
        mint: the token's mint, if the unit is that mint; amounts are whole tokens.
    """

    asked: str | None = None
    limit: str | None = None
    left: str | None = None
    used: str | None = None
    unit: str | None = None
    window: str | None = None
    mint: str | None = None

    def to_json(self) -> dict[str, str]:
        """Return the numbers in the form of records and answers, without those that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule's reason to refuse, and the numbers in the reason; None if it has no numbers."""

    reason: str
    numbers: RefusalNumbers | None = None
