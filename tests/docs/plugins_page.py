"""Writes the tables of docs/reference/plugins.md that the code has: tiers and codes of problems."""

import inspect
import re
from collections.abc import Iterator

from solward.testing import conformance
from solward.types.manifest import ProblemCode

_DECLARED = re.compile(r'= "(\w+)"\n +"""(.*?)"""', re.DOTALL)


def tiers(_page: str) -> Iterator[str]:
    """Yields the tiers of the conformance kit, with their checks."""
    yield "| tier | what holds | checks |"
    yield "|---|---|---|"
    for tier in conformance.TIERS:
        yield f"| {tier.name} | {tier.means} | {', '.join(f'`{check}`' for check in tier.checks)} |"
    yield ""


def problems(_page: str) -> Iterator[str]:
    """Yields the codes of plugins' problems, with their docstrings."""
    yield "| code | meaning |"
    yield "|---|---|"
    for code, meaning in _DECLARED.findall(inspect.getsource(ProblemCode)):
        yield f"| `{code}` | {' '.join(meaning.split())} |"
