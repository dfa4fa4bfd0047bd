"""Docstrings of the product begin with a sentence that is understood at first reading.

A function's begins with a verb in the imperative, as PEP 257 has it: one of `verbs.txt`. A class, a
module or a property may be described by a noun. None begins with a clause ("What it takes") or a
preposition ("As of ...").
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.repository import ROOT, TESTS

VERBS = frozenset((TESTS / "docs" / "verbs.txt").read_text().split())
# What begins a clause or goes on from something before.
CLAUSES = re.compile(
    r"(?:After|And|As|At|Because|Before|Beside|Between|But|By|For|From|He|How|If|In|Into|It|Its|Of"
    r"|On|Or|Since|So|That|Their|They|This|Those|To|Under|Until|What|When|Where|Whether|Which|While"
    r"|Who|Whose|Why|With|Within|Without)\b"
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring: where it stands, and of what."""

    place: str
    node: Documented
    text: str

    @property
    def first(self) -> str:
        return self.text.split()[0].rstrip(",;")

    @property
    def names_its_subject(self) -> bool:
        """Whether it is of something that a noun describes: a class, a module, a property."""
        if not isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return True
        return any("property" in ast.unparse(each) for each in self.node.decorator_list)

    @property
    def fails(self) -> bool:
        if self.names_its_subject:
            return CLAUSES.match(self.text) is not None
        return self.first not in VERBS and not self.text.startswith("See `")


def docstrings() -> Iterator[Docstring]:
    for folder in ("framework", "plugins", "server"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield from in_file(file)


def in_file(file: Path) -> Iterator[Docstring]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            line = getattr(node, "lineno", 1)
            yield Docstring(f"{file.relative_to(ROOT)}:{line}", node, text)


def test_every_docstring_begins_with_a_sentence() -> None:
    found = list(docstrings())
    assert len(found) > 4_000
    assert [f"{each.place}: {each.text[:60]}" for each in found if each.fails] == []
