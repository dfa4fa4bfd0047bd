"""`solward mcp` where it cannot start: one line on standard error, nothing on standard output."""

from __future__ import annotations

import signal
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
