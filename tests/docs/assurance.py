"""Writes docs/assurance/promises.md: each promise of the docs with its sentence and its tests.

Run it by `make assurance`. It reads pages and tests as text, so it takes a second and runs no test.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.repository import DOCS, ROOT, TESTS

PAGE = DOCS / "assurance/promises.md"
MARK = re.compile(r"\[([a-z0-9-]+)\]\((?:[\w./]*/)?promises\.md#([a-z0-9-]+)\)")
_ITEM = re.compile(r"\s*(?:[-|]|\d+\. )")
_HEADER = """# Assurance

Each promise of these pages with the tests that attack it. `make assurance` writes this page
from the marks on pages and tests: change those.
"""


class Shown(NamedTuple):
    """A promise on a page: the page's path from the root, the sentence without its marks."""

    page: str
    sentence: str


def pages() -> list[Path]:
    """Returns every page that may make a promise."""
    others = [ROOT / "SECURITY.md", *sorted((ROOT / "examples").glob("*/README.md"))]
    return [page for page in sorted(DOCS.rglob("*.md")) if page != PAGE] + others


def shown() -> dict[str, list[Shown]]:
    """Returns the marks on the pages, each with its sentences in the order of the pages.

    Raises:
        ValueError: a link's text is another mark than the one that it leads to.
    """
    found: dict[str, list[Shown]] = {}
    for page in pages():
        name = str(page.relative_to(ROOT))
        for block in _blocks(page.read_text()):
            start = 0
            sentence = ""
            for link in MARK.finditer(block):
                if link[1] != link[2]:
                    raise ValueError(f"{name}: the link [{link[1]}] leads to #{link[2]}")
                # Marks that follow each other belong to the same sentence.
                sentence = _plain(block[start : link.start()]) or sentence
                found.setdefault(link[1], []).append(Shown(name, sentence))
                start = link.end()
    return found


def carried() -> dict[str, list[str]]:
    """Returns the marks on tests, each with its tests: `path::name`, or `path` of a module."""
    found: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        text = file.read_text()
        if "promise" not in text:
            continue
        path = str(file.relative_to(ROOT))
        for node in ast.parse(text).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for mark in _marks(node.decorator_list):
                    found.setdefault(mark, []).append(f"{path}::{node.name}")
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
                for mark in _marks([node.value]):
                    found.setdefault(mark, []).append(path)
    return found


def written() -> str:
    """Returns the text of docs/assurance/promises.md as pages and tests are now."""
    tests = carried()
    parts = [_HEADER]
    last = ""
    for mark, promises in shown().items():
        first = promises[0]
        if first.page != last:
            last = first.page
            link = os.path.relpath(ROOT / last, PAGE.parent)
            parts.append(f"## In {last}\n\n[{last}]({link})\n")
        sentences = dict.fromkeys(each.sentence for each in promises)
        cited = " ".join(f"`{test}`" for test in tests.get(mark, []))
        parts.append(f"### {mark}\n\n" + "\n\n".join(sentences) + f"\n\n{cited}\n")
    return "\n".join(parts)


def _marks(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "promise":
                yield from (each.value for each in call.args if isinstance(each, ast.Constant))


def _blocks(text: str) -> Iterator[str]:
    """List items, table rows and paragraphs, each as one line; samples are left out."""
    block: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        if line.startswith("```"):
            fenced = not fenced
        if fenced or not line.strip() or _ITEM.match(line) or line.startswith("#"):
            if block:
                yield " ".join(block)
            block = []
        if line.strip() and not fenced:
            block.append(line.strip())


def _plain(text: str) -> str:
    """A sentence without list sign and links: from another page these would lead elsewhere."""
    text = re.sub(r"^(?:- |\d+\. )", "", text.strip())
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text) if cell.strip()]
    return " · ".join(cells).strip(" ().,;:")


if __name__ == "__main__":
    PAGE.write_text(written())
