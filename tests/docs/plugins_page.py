"""Writes the tables of docs/reference/plugins.md that the code has: tiers and codes of problems."""

import inspect
import re

from tests.support.repository import DOCS

from solward.testing import conformance
from solward.types.manifest import ProblemCode

PAGE = DOCS / "reference/plugins.md"
_DECLARED = re.compile(r'= "(\w+)"\n +"""(.*?)"""', re.DOTALL)


def page() -> str:
    """Returns the page with its generated tables made anew."""
    text = PAGE.read_text()
    for name, table in {"tiers": _tiers(), "problems": _problems()}.items():
        before, begin, rest = text.partition(f"<!-- generated: {name} -->\n")
        text = before + begin + "\n".join(table) + "\n" + rest[rest.index("<!-- end -->") :]
    return text


def _tiers() -> list[str]:
    rows = (
        f"| {tier.name} | {tier.means} | {', '.join(f'`{check}`' for check in tier.checks)} |"
        for tier in conformance.TIERS
    )
    return ["| tier | what holds | checks |", "|---|---|---|", *rows, ""]


def _problems() -> list[str]:
    found = _DECLARED.findall(inspect.getsource(ProblemCode))
    rows = (f"| `{code}` | {' '.join(meaning.split())} |" for code, meaning in found)
    return ["| code | meaning |", "|---|---|", *rows]
