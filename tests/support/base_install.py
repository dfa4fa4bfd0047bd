"""What a plain `pip install solward` has, as a subprocess that finds no other library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.utils import canonicalize_name
from tests.support.requirements import needed

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

_BLOCK = """
import importlib.abc, json, os, sys

class Blocked(importlib.abc.MetaPathFinder):
    names = frozenset(json.loads(os.environ["BLOCKED_MODULES"]))
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run_in_base(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code where only the standard library, Solward and its base can be imported."""
    return subprocess.run(
        [sys.executable, "-c", _BLOCK + code, *arguments],
        cwd=cwd,
        env={**os.environ, "BLOCKED_MODULES": json.dumps(sorted(_blocked())), "HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=False,
    )


@cache
def _blocked() -> frozenset[str]:
    """Top-level modules of the distributions that the base does not install."""
    base = {"solward", *needed(PROJECT["dependencies"])}
    return frozenset(
        module
        for module, owners in packages_distributions().items()
        if not any(canonicalize_name(owner) in base for owner in owners)
    )
