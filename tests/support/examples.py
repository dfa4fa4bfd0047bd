"""How many examples a test tries in each size of the suite."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

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


def rest_is_long(cases: Iterable[Any], *first: Any) -> list[Any]:
    """Returns `cases` for `parametrize`, of which only `first` run outside `make test-long`.

    For cases that take seconds each and differ little.
    """
    return [each if each in first else pytest.param(each, marks=pytest.mark.long) for each in cases]
