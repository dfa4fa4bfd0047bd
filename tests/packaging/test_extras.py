"""Whatever names an extra names one that exists, and an extra has what it says."""

from __future__ import annotations

import re
import subprocess

from tests.support.environments import PROJECT
from tests.support.repository import ROOT

EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
_NAMED = re.compile(r"solward\[([a-z][\w, ]*)\]|needs\([^)]*\"(\w+)\"\)")


def files_that_name_extras() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.toml", "deploy", "Makefile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.split() if not name.startswith("tests/")]


def test_every_extra_that_is_named_exists() -> None:
    named = {
        extra.strip()
        for name in files_that_name_extras()
        for found in _NAMED.findall((ROOT / name).read_text(errors="replace"))
        for extra in (found[0] or found[1]).split(",")
    }
    assert named >= {"up", "test", "mcp", "dashboard", "postgres", "otel"}
    assert named - EXTRAS.keys() == set()


def test_a_plugin_of_the_template_needs_the_base_alone() -> None:
    template = (ROOT / "plugin_template" / "pyproject.toml").read_text()
    assert '\ndependencies = ["solward"]\n' in template
    assert '\ntest = ["solward[test]"]\n' in template


def test_up_has_every_part_but_what_is_kept_away_from_keys() -> None:
    assert "solward[dashboard,mcp]" in EXTRAS["up"]
    assert not any("llm" in each for name in EXTRAS.keys() - {"llm"} for each in EXTRAS[name])
    assert "solward[up]" in EXTRAS["test"]
