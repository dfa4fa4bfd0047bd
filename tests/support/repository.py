"""Folders of the checkout the tests run in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
DOCS = ROOT / "docs"
# Writes what is made from declarations.
WRITER = "tests/operations/generate.py"


def recipe(title: str) -> str:
    """The text below a heading of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the product's source and of the docs."""

    tree: Path

    @classmethod
    def made(cls, tree: Path) -> Copy:
        """The source as it is now."""
        ignore = shutil.ignore_patterns("__pycache__")
        for folder in ("framework", "plugins", "server", "docs"):
            shutil.copytree(ROOT / folder, tree / folder, ignore=ignore)
        (tree / WRITER).parent.mkdir(parents=True)
        shutil.copy(ROOT / WRITER, tree / WRITER)
        return cls(tree)

    def run(self, *arguments: str) -> str:
        """What Python prints in the copy; it must succeed."""
        roots = [*(str(self.tree / each) for each in ("framework", "plugins", "server")), str(ROOT)]
        done = subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(roots)},
            cwd=self.tree,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def put(self, path: str, behind: str, more: str) -> None:
        """Put lines behind the first line of a text that the file has once."""
        text = (self.tree / path).read_text()
        assert text.count(behind) == 1, behind
        line, _, rest = behind.partition("\n")
        (self.tree / path).write_text(text.replace(behind, f"{line}\n{more}{rest}"))

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace a text that the file has once."""
        text = (self.tree / path).read_text()
        assert text.count(old) == 1, old
        (self.tree / path).write_text(text.replace(old, new))
