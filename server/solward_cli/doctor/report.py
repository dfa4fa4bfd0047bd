"""What a check found, a line for each thing it looked at, and how people and programs read it."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from solward.types.errors import SolwardError
from solward_cli.render import visible

if TYPE_CHECKING:
    from solward_cli.doctor.subject import Subject

Check: TypeAlias = "Callable[[Subject], Awaitable[list[Line]]]"

NOTHING: Final = "nothing"
_WIDTH: Final = 80
_MARK: Final = 6


class Status(StrEnum):
    """What a line says of the service as it is set up."""

    OK = "ok"
    """It works."""
    WARN = "warn"
    """It works, and less well than it could: the advice says what to do."""
    FAIL = "FAIL"
    """Something that the product does would not work; the exit code is 1."""


class Line(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: what it is, a few words.
        found: what was found, without secrets.
        advice: what to do about it, `NOTHING` where there is nothing to do.
    """

    name: str
    found: str
    advice: str = NOTHING
    status: Status = Status.OK

    def to_json(self, check: str) -> dict[str, Any]:
        """For `--json`; `check` is the name of the check whose line it is."""
        return {"check": check, **self._asdict()}


def ok(name: str, found: str) -> Line:
    """A line of something that works."""
    return Line(name, found)


def warn(name: str, found: str, advice: str) -> Line:
    """A line of something that works less well than it could."""
    return Line(name, found, advice, Status.WARN)


def fail(name: str, found: str, advice: str) -> Line:
    """A line of something that would not work."""
    return Line(name, found, advice, Status.FAIL)


def graded(name: str, found: str, advice: str, *, at: float, bounds: tuple[float, float]) -> Line:
    """A line that warns from the first bound on, and fails from the second."""
    if at < bounds[0]:
        return ok(name, found)
    return warn(name, found, advice) if at < bounds[1] else fail(name, found, advice)


def otherwise(name: str, advice: str) -> Callable[[Check], Check]:
    """A check whose error is a line that fails, with this advice."""

    def decorated(check: Check) -> Check:
        @functools.wraps(check)
        async def run(subject: Subject) -> list[Line]:
            try:
                return await check(subject)
            except SolwardError as error:
                return [fail(name, str(error), advice)]

        return run

    return decorated


def failed(lines: Iterable[Line]) -> bool:
    """Whether anything would not work."""
    return any(line.status is Status.FAIL for line in lines)


def text(check: str, lines: Sequence[Line]) -> str:
    """A check's lines in 80 columns: `ok`, `warn` or `FAIL`, then what was found and what to do."""
    shown = [check]
    for line in lines:
        head = f"  {line.status.value:<{_MARK - 2}} {line.name}: {line.found}"
        shown.append(_wrapped(head, " " * (_MARK + 3)))
        if line.advice != NOTHING:
            shown.append(_wrapped(f"{' ' * (_MARK + 1)}-> {line.advice}", " " * (_MARK + 4)))
    return "\n".join(shown)


def _wrapped(line: str, indent: str) -> str:
    # A vendor's or a node's words may be in it.
    return textwrap.fill(
        visible(line),
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
