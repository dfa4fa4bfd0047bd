"""One word for one thing: no page and no screen has a word that CONTRIBUTING's table refuses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.assurance import PAGE as PROMISES
from tests.support.repository import DOCS, ROOT

# What people read: titles, helps, notices and descriptions of the interface.
SCREENS = (
    "server",
    "framework/solward/resources",
    "framework/solward/operations/declared.py",
    "plugins/solward_plugins/skills",
)
CODE = re.compile(r"^ *```.*?^ *```$|`[^`]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def refused() -> dict[str, str]:
    """Return each refused word with the term that stands in its place."""
    rows = (ROOT / "CONTRIBUTING.md").read_text().partition("| say | for | not |\n")[2]
    table = [row.split("|")[1:4] for row in rows.partition("\n\n")[0].splitlines()[1:]]
    return {word: say.strip() for say, _, words in table for word in re.findall("`(.+?)`", words)}


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page, with its text without code."""
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        if page != PROMISES:
            yield str(page.relative_to(ROOT)), CODE.sub("", page.read_text())


def screens() -> Iterator[tuple[str, str]]:
    """Yield each sentence in the code of what people look at, with its place."""
    for place in SCREENS:
        found = ROOT / place
        for file in [found] if found.is_file() else sorted(found.rglob("*.py")):
            yield from sentences(file)


def sentences(file: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value


def test_the_table_refuses_words() -> None:
    assert refused()["sandbox"] == "plugin host"


def test_one_word_stands_for_one_thing() -> None:
    words = refused()
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})(?:s|es)?\b", re.IGNORECASE)
    found = [
        f"{place}: {match[0]}"
        for place, text in [*pages(), *screens()]
        for match in pattern.finditer(text)
    ]
    assert found == []
