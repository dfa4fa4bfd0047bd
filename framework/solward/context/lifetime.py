"""How long a skill's context lasts: as long as the call it was made for."""

from __future__ import annotations

from solward.types.errors import SkillError


class Lifetime:
    """Whether a call still runs. It ends once, and for good."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended = False

    def end(self) -> None:
        """End it."""
        self._ended = True

    def check(self) -> None:
        """Raise `SkillError` `call_ended` once the call has ended."""
        if self._ended:
            raise SkillError(
                "call_ended", "The skill's call has ended; its context can do nothing any more"
            )
