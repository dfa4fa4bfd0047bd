"""What is installed: environments from locks, the base alone, Solward beside other frameworks."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.support.repository import ROOT

# What distributions need, by their metadata.


def of_this_environment(name: str) -> list[str]:
    """What an installed distribution requires; nothing where it is not installed."""
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def needed_by(
    lines: Iterable[str], requires: Callable[[str], Iterable[str]] = of_this_environment
) -> set[str]:
    """The names of all that requirements need on this machine, theirs among them.

    Args:
        requires: the lines of a distribution's own requirements, by its name.
    """
    seen: set[tuple[str, str]] = set()
    waiting = [*map(Requirement, lines)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [
                    each
                    for each in map(Requirement, requires(name))
                    if each.marker is None or each.marker.evaluate({"extra": extra})
                ]
    return {name for name, _ in seen}


# Environments of programs that others made: made from a lock by the ordinary package clients,
# and kept outside the tree, so that a later run only starts them.


def kept(name: str, lock: Path) -> Path:
    """Where an environment is kept: another lock, another folder."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "solward-tests" / f"{name}-{digest}"


@contextlib.contextmanager
def unmade(folder: Path) -> Iterator[bool]:
    """Whether `folder` is still to be filled; one process at a time fills it, from nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "made"
        if done.exists():
            yield False
            return
        shutil.rmtree(folder, ignore_errors=True)
        yield True
        done.touch()


def run(*command: str | Path, cwd: Path) -> str:
    """What a command that succeeds writes to standard output."""
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=580)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def python_environment(programs: Path) -> Path:
    """The interpreter of the environment whose lock is `requirements.txt` in a folder."""
    lock = programs / "requirements.txt"
    folder = kept(programs.name, lock)
    python = folder / "bin" / "python"
    with unmade(folder) as to_make:
        if to_make:
            venv.create(folder, symlinks=True, with_pip=True)
            install = ("install", "--quiet", "--no-deps", "--require-hashes", "--no-compile")
            run(python, "-m", "pip", *install, "-r", lock, cwd=folder)
    return python


def require_node() -> None:
    """Fails the test that calls it where Node.js or npm is not installed.

    It never skips: a machine without Node.js would say nothing about the vendors' own clients.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise AssertionError(
                f"This test needs Node.js, and there is no {program}: apt-get install nodejs npm"
            )


def npm_environment(programs: Path, name: str, *options: str) -> Path:
    """The folder `node_modules` of a folder's `package-lock.json`, whose every package has a hash.

    Args:
        name: of the environment, among those that are kept.
        options: further ones of `npm ci`.
    """
    require_node()
    folder = kept(name, programs / "package-lock.json")
    with unmade(folder) as to_make:
        if to_make:
            folder.mkdir()
            for each in ("package.json", "package-lock.json"):
                shutil.copy(programs / each, folder)
            install = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
            run("npm", *install, *options, cwd=folder)
    return folder / "node_modules"


# What a plain `pip install solward` has, as a subprocess that finds no other library.

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
    base = {"solward", *needed_by(PROJECT["dependencies"])}
    return frozenset(
        module
        for module, owners in packages_distributions().items()
        if not any(canonicalize_name(owner) in base for owner in owners)
    )


# Solward's wheel beside frameworks of others, and their examples run by scripted vendors.

LOCKS = ROOT / "tests" / "e2e" / "agents_elsewhere"
EXAMPLES = ROOT / "examples" / "agents_elsewhere"

# What the frameworks would tell their makers of a run.
_SILENT = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TESTING": "true",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


def built_wheel(folder: Path) -> Path:
    """Solward's wheel, built into a folder."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    [wheel] = folder.glob("*.whl")
    return wheel


class BesideFramework:
    """The environment of a lock with Solward's wheel in it, as `pip install` would leave it.

    The wheel is in a folder of its own, so that the kept environment is of its lock alone.
    """

    def __init__(self, lock: str, folder: Path) -> None:
        self.python = python_environment(LOCKS / lock)
        self.site, self.bin, self.home = folder / "site", folder / "bin", folder / "home"
        with zipfile.ZipFile(built_wheel(folder)) as wheel:
            wheel.extractall(self.site)
        for each in (self.bin, self.home):
            each.mkdir()
        script = self.bin / "solward"
        paths = f"import sys; sys.path.insert(0, {str(self.site)!r})"
        start = "from solward_cli import main; main()"
        script.write_text(f"#!{self.python}\n{paths}\n{start}\n")
        script.chmod(0o755)

    def release(self, distribution: str) -> str:
        """The version that is installed."""
        code = f"from importlib.metadata import version; print(version({distribution!r}))"
        return run(self.python, "-c", code, cwd=self.home).strip()

    def example(self, name: str, task: str, **environment: str) -> str:
        """What an example prints, whose last step answers the task."""
        ran = subprocess.run(
            [self.python, EXAMPLES / name, task],
            cwd=self.home,
            env={
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "HOME": str(self.home),
                **_SILENT,
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
        return ran.stdout
