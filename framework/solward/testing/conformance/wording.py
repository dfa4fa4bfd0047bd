"""Whether the errors that a plugin raises on purpose are for people and models to read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from solward.testing.conformance.report import Finding, Outcome, joined
from solward.types.errors import SkillError

MAX_ERROR = 500
_CODE = re.compile(r"[a-z][a-z0-9_]{1,63}")
_OF_A_PROGRAM = re.compile(r"Traceback \(most recent|<[\w. ]+ at 0x[0-9a-f]+>")


def errors_finding(errors: Iterable[BaseException | str]) -> Finding:
    """The finding `errors`: of errors as their caller gets them, or of their texts."""
    errors = list(errors)
    trouble = []
    for error in errors:
        text = str(error)
        if not text.strip():
            trouble.append(f"a {type(error).__name__} says nothing")
        elif len(text) > MAX_ERROR:
            trouble.append(f"an error has {len(text)} characters; at most {MAX_ERROR}")
        elif _OF_A_PROGRAM.search(text):
            trouble.append(f"an error shows the program's inside: {text[:80]!r}")
        if type(error) is SkillError and not _CODE.fullmatch(error.code):
            trouble.append(f"an error's code is {error.code!r}; write it like not_enough")
    if trouble:
        return Finding("errors", Outcome.WARNING, joined(trouble))
    return Finding("errors", Outcome.OK, f"{len(errors)} in words" if errors else "none raised")
