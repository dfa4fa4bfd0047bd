"""How many examples a property test tries: a tenth in `make test`, all in `make test-more`."""

from __future__ import annotations

import os

ALL = os.environ.get("SOLWARD_TEST_EXAMPLES") == "all"
"""Whether this run tries all examples; the Makefile sets the variable."""


def examples(count: int, *, least: int = 1) -> int:
    """Returns `count` where all are tried, else a tenth of it.

    A test that calls this carries the mark `property`, by which `make test-more` selects it again.
    Hypothesis tests get the mark by themselves.

    Args:
        count: of a whole run; the number in a test's name is this one.
        least: how many a test needs to show anything.
    """
    return count if ALL else max(count // 10, least)
