"""`solward mcp` where it cannot start: one line on standard error, nothing on standard output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from solward.telemetry import logs
from solward_cli import main


@pytest.mark.parametrize(
    ("arguments", "environment", "named"),
    [
        (["--url", "nonsense"], {}, "url"),
        (["--url", "http://me:secret@127.0.0.1:3001"], {}, "url"),
        ([], {"SOLWARD_API_URL": "ftp://127.0.0.1"}, "SOLWARD_API_URL"),
        ([], {"SOLWARD_API_KEY": "sk-two\tparts"}, "token"),
        ([], {"API_PORT": "many"}, "API_PORT"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    environment: dict[str, str],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    # What the command does to its own process is not for this one.
    monkeypatch.setattr(logs, "configure", lambda _level: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    runner = CliRunner(env={"SOLWARD_HOME": str(tmp_path / "home")} | environment)
    result = runner.invoke(main, ["mcp", *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
    assert "secret" not in result.stderr
    assert "sk-two" not in result.stderr


@pytest.mark.more
@pytest.mark.parametrize("key", [None, "sk-of-a-key"])
def test_a_session_without_a_key_of_its_own_says_whose_rights_it_has(
    tmp_path: Path, key: str | None
) -> None:
    environment = {"PATH": os.environ["PATH"], "SOLWARD_HOME": str(tmp_path / "home")}
    if key is not None:
        environment["SOLWARD_API_KEY"] = key
    command = [sys.executable, "-m", "solward_cli", "mcp", "--url", "http://127.0.0.1:9"]
    done = subprocess.run(
        command, input="", env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    said = "the operator's rights on every wallet" in done.stderr
    assert said is (key is None)
    assert ("solward mcp config CLIENT --wallet NAME" in done.stderr) is said
