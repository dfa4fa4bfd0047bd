"""Plugins as third parties ship them: a real distribution on a path, and a module beside it."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from typing import Any

import pytest

_numbers = itertools.count(1)

CLOSED = '{"type": "object", "properties": {}, "additionalProperties": False}'

HEAD = """
import asyncio
from solward import Effects, InvalidRequest, SkillError, SkillSpec
from solward import hookimpl
"""


def skill_source(
    name: str, *, schema: str = CLOSED, body: str = "return 'done'", extra: str = "", **spec: str
) -> str:
    """The module of a skill; every argument is source text."""
    arguments = {"name": repr(name), "description": repr(f"Does {name}."), "parameters": schema}
    given = ", ".join(f"{key}={value}" for key, value in {**arguments, **spec}.items())
    return (
        HEAD
        + textwrap.dedent(
            f"""
        {extra}

        @hookimpl
        def skill_spec():
            return SkillSpec({given})

        @hookimpl
        async def skill_execute(params, context):
        """
        )
        + textwrap.indent(textwrap.dedent(body), "    ")
    )


@dataclass
class Shelf:
    """A folder of installed distributions, importable for the length of a test."""

    path: Path
    modules: list[str] = field(default_factory=list)

    def install(
        self, distribution: str, plugins: Mapping[str, str], group: str = "solward.skills"
    ) -> str:
        """Install plugins (entry-point name -> module source); returns the last module's name."""
        lines = [f"[{group}]"]
        for name, source in plugins.items():
            module = f"shelf_plugin_{next(_numbers)}"
            (self.path / f"{module}.py").write_text(source)
            self.modules.append(module)
            lines.append(f"{name} = {module}")
        self.metadata(distribution, "\n".join(lines))
        return self.modules[-1]

    def metadata(self, distribution: str, entry_points: str) -> None:
        folder = self.path / f"{distribution.replace('-', '_')}-1.5.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n"
        )
        (folder / "entry_points.txt").write_text(entry_points + "\n")

    def entry_points(self) -> list[EntryPoint]:
        """What is on the shelf, found by importlib.metadata, without what is installed."""
        return [
            entry_point
            for distribution in distributions(path=[str(self.path)])
            for entry_point in distribution.entry_points
        ]


def built_ins(*names: str) -> list[EntryPoint]:
    """Entry points of the installed Solward, by name."""
    return [
        each
        for solward in distributions(name="solward")
        for each in solward.entry_points
        if each.name in names and each.value.startswith("solward_plugins.")
    ]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made = Shelf(folder)
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)
