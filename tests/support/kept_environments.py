"""Environments of programs that others made: made from a lock by the ordinary package clients, and
kept outside the tree, so that a later run only starts them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path


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
