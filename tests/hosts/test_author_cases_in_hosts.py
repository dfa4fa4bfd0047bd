"""The tests that come with the template and the examples, with their skills in plugin hosts."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.hosts import opened_hosts
from tests.support.plugins import Shelf, shelf
from tests.support.repository import ROOT

from solward.plugins import LoadedSkill
from solward.testing.stand import Stand

__all__ = ["shelf"]

# One in which SOL leaves and one in which a token does; the others, which say less of hosts, are
# long.
SAMPLES = (
    "test_tip_a_tip_arrives_in_the_jar",
    "test_token_transfer_tokens_arrive_and_are_recorded",
)
pytestmark = pytest.mark.samples(SAMPLES[0])

# Project -> the folder of its package.
PROJECTS = {
    ROOT / "plugin_template": "src",
    ROOT / "examples" / "solana_skills": ".",
}


@pytest.fixture
async def solward_stand(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Stand]:
    """In place of the fixture of the same name: a service with both projects installed."""
    for project, sources in PROJECTS.items():
        declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        # Its guardrail holds and refuses transfers, which the tests of the others do not expect.
        groups = {
            group: plugins
            for group, plugins in declared["entry-points"].items()
            if group != "solward.guardrails"
        }
        lines = [
            line
            for group, plugins in groups.items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in plugins.items()))
        ]
        shelf.metadata(declared["name"], "\n".join(lines))
        monkeypatch.syspath_prepend(str(project / sources))
    found = Stand.skill

    def skill(self: Stand, asked: object) -> LoadedSkill:
        """A module is loaded into the test's process; here it means the service's skill."""
        if isinstance(asked, ModuleType):
            loaded = self.service.live.registry.skills[asked.skill_spec().name]
            assert loaded.distribution != "solward"
            assert loaded.calls["skill_execute"].__module__ == "solward.hosts.plugins"
            return loaded
        return found(self, asked)

    monkeypatch.setattr(Stand, "skill", skill)
    async with opened_hosts(monkeypatch, tmp_path)() as hosted:
        assert not hosted.problems
        yield hosted.stand


def _cases() -> Iterator[tuple[str, Any]]:
    """Every test of the projects that runs a skill on a wallet, named after its module; none that
    patches the skill, which a plugin host has to itself."""
    for project, sources in PROJECTS.items():
        sys.path.insert(0, str(project / sources))
        try:
            for file in sorted((project / "tests").glob("test_*.py")):
                name = f"{project.name}_{file.stem}"
                spec = importlib.util.spec_from_file_location(name, file)
                assert spec is not None
                assert spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                for each, function in vars(module).items():
                    if not each.startswith("test_"):
                        continue
                    given = inspect.signature(function).parameters.keys()
                    if "wallet" in given and "monkeypatch" not in given:
                        found = f"{file.stem}_{each.removeprefix('test_')}"
                        yield found, function if found in SAMPLES else pytest.mark.long(function)
        finally:
            sys.path.remove(str(project / sources))


globals().update(_cases())
