"""The environment of child processes: what reaches them, and that all of them use it."""

from __future__ import annotations

import ast
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.promises import promise
from tests.support.repository import ROOT

from solward.settings import Settings
from solward.support.child_processes import child_environment
from solward_cli import up

HOSTILE = {
    "API_SECRET": "secret",
    "OPENAI_API_KEY": "secret",
    "DATABASE_URL": "postgresql://user:secret@host",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "PYTHONPATH": "/tmp/evil",
    "PYTHONSTARTUP": "/tmp/evil.py",
    "LD_PRELOAD": "/tmp/evil.so",
    "LD_LIBRARY_PATH": "/tmp",
    "HOME": "/root",
}
KEPT = {"PATH": "/bin", "LANG": "C.UTF-8", "LC_ALL": "C", "LC_TIME": "de_DE", "TZ": "UTC"}
STARTERS = {
    *(("subprocess", name) for name in ("run", "Popen", "call", "check_call", "check_output")),
    ("asyncio", "create_subprocess_exec"),
    ("asyncio", "create_subprocess_shell"),
    ("os", "posix_spawn"),
    ("os", "system"),
}


@promise("child-environment-is-minimal")
def test_a_child_gets_path_language_and_time_zone_and_what_is_named() -> None:
    parent = HOSTILE | KEPT
    assert child_environment(parent=parent) == KEPT
    assert child_environment("HOME", "MISSING", parent=parent) == KEPT | {"HOME": "/root"}
    given = child_environment("TZ", values={"TZ": "CET", "KEY": "of the child"}, parent=parent)
    assert given == KEPT | {"TZ": "CET", "KEY": "of the child"}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """The environments of children, with a parent whose own is full of secrets."""
    environments: list[dict[str, str]] = []
    processes = []

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        environments.append(options["env"])
        processes.append(popen([sys.executable, "-c", ""], stdin=-1, stdout=-1, env={}))
        return processes[-1]

    popen = subprocess.Popen
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(subprocess, "Popen", start)
    yield environments
    for process in processes:
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@promise("child-environment-is-minimal")
def test_the_dashboards_process_gets_the_secrets_of_the_dashboard_alone(
    started: list[dict[str, str]], tmp_path: Path
) -> None:
    settings = Settings(solward_home=tmp_path, dashboard_password=SecretStr("of the pages"))
    with socket.socket() as listening:
        process = up._start(settings, "http://127.0.0.1:1", listening)
    with process:
        assert process.stdin
        process.stdin.close()
    (environment,) = started
    assert not environment.keys() & HOSTILE.keys()
    assert environment.keys() - child_environment().keys() == {
        "NEXT_PUBLIC_API_URL",
        "NEXT_PUBLIC_API_SECRET",
        "DASHBOARD_PASSWORD",
    }


@pytest.mark.more
@promise("child-environment-is-minimal")
def test_every_child_of_the_service_has_such_an_environment() -> None:
    calls = [
        (f"{path.relative_to(ROOT)}:{call.lineno}", made_from_nothing(call, tree))
        for folder in ("framework", "server")
        for path in (ROOT / folder).rglob("*.py")
        for tree in [ast.parse(path.read_text())]
        for call in starts(tree)
    ]
    assert len(calls) >= 2
    assert [place for place, good in calls if not good] == []


def made_from_nothing(call: ast.Call, module: ast.Module) -> bool:
    """Whether `env` is `child_environment(...)`, or a dictionary of constants, or a name of one."""
    given = next((each.value for each in call.keywords if each.arg == "env"), None)
    values = [given]
    if isinstance(given, ast.Name):
        assigned = [each for each in ast.walk(module) if isinstance(each, ast.Assign)]
        values = [each.value for each in assigned if ast.unparse(each.targets[0]) == given.id]
    return bool(values) and all(
        (isinstance(value, ast.Call) and ast.unparse(value.func) == "child_environment")
        or (
            isinstance(value, ast.Dict)
            and all(isinstance(each, ast.Constant) for each in value.values)
        )
        for value in values
    )


def starts(module: ast.Module) -> Iterator[ast.Call]:
    """Calls that start a process."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if (owner, node.func.attr) in STARTERS:
                yield node
