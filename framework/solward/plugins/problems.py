"""What is wrong with plugins: most of it is why one is not loaded."""

from __future__ import annotations

from dataclasses import dataclass

from solward.types.manifest import ProblemCode

_MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class Problem:
    """One plugin that was left out, or that something is wrong with.

    Attributes:
        plugin: the entry point's name.
        distribution: the installed distribution it belongs to.
        detail: what was found and what was expected.
        group: its entry-point group, empty where its distribution could not be read.
        version: the distribution's version, empty likewise.
    """

    code: ProblemCode
    plugin: str
    distribution: str
    detail: str
    group: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.plugin!r} of {self.distribution}: {self.code}: {self.detail}"


class Rejected(Exception):
    """A plugin fails a check; turned into a `Problem` by the loader."""

    def __init__(self, code: ProblemCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = shortened(detail)


def shortened(text: str) -> str:
    """`text` on one line of at most `_MAX_TEXT` characters."""
    # A plugin's text may have half of a surrogate pair, which no answer and no terminal can show.
    line = " ".join(text[: 4 * _MAX_TEXT].encode("utf-8", "replace").decode().split())
    return line if len(line) <= _MAX_TEXT else line[: _MAX_TEXT - 1] + "…"


def described(error: BaseException) -> str:
    """An error's type and text."""
    try:
        text = str(error)
    except Exception:  # a hostile __str__ must not stop the start
        text = ""
    name = type(error).__name__
    return shortened(f"{name}: {text}" if text else name)
