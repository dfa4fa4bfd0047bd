"""A refusal by Solward's own rules or by grants: its sentence, and the numbers in the sentence.

A rule computes the numbers first and words the sentence from them, so that the two agree.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class RefusalNumbers:
    """The numbers of one refusal, written as its sentence writes them.

    Attributes:
        asked: what the transaction would take or add, an exact amount in `unit`.
        limit: what is allowed.
        left: the unused part of the limit.
        used: the used part of the limit.
        unit: of these four, such as `SOL`; None if they begin with `$`.
        window: the time that the limit is for, such as `24 hours`.
        mint: the token's, if the unit names the token by its mint; amounts are whole tokens.
    """

    asked: str | None = None
    limit: str | None = None
    left: str | None = None
    used: str | None = None
    unit: str | None = None
    window: str | None = None
    mint: str | None = None

    def to_json(self) -> dict[str, str]:
        """Return them as records store them and answers show them, without those that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule's reason to refuse, and the numbers in it; None if it has none."""

    reason: str
    numbers: RefusalNumbers | None = None
