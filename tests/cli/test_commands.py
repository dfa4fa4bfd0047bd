"""The commands that need no running service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from solward import __version__
from solward_cli import _COMMANDS, main


@pytest.fixture
def solward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    return CliRunner(env={"SOLWARD_HOME": str(tmp_path / "home")})


def run(runner: CliRunner, *arguments: str, **environment: str) -> Result:
    return runner.invoke(main, arguments, env=environment)


def test_help_imports_no_command() -> None:
    code = (
        "import sys\nfrom solward_cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'quart', 'solders', 'sqlalchemy', 'solward', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in _COMMANDS:
        assert name in done.stdout


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_explains_itself(solward: CliRunner, name: str) -> None:
    result = run(solward, name, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_a_mistyped_command_is_told_the_nearest(solward: CliRunner) -> None:
    result = solward.invoke(main, ["walet", "list"])
    assert result.exit_code == 2
    assert "No such command 'walet'" in result.stderr
    assert "'wallet'" in result.stderr


def test_the_version_is_the_packages(solward: CliRunner) -> None:
    assert run(solward, "version").output == f"{__version__}\n"


def test_the_configuration_is_shown_without_secrets(solward: CliRunner) -> None:
    secret = "nobody-may-read-this-admin-secret"
    result = run(solward, "config", "show", API_SECRET=secret, KEYSTORE_PASSPHRASE=secret)
    assert result.exit_code == 0
    assert "API_PORT=3001" in result.output
    assert "API_SECRET=********" in result.output
    assert secret not in result.output


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"API_SECRET": "short"}, "API_SECRET"),
        ({"DATABASE_URL": "mysql://host/name"}, "DATABASE_URL"),
        ({"APPROVAL_WEBHOOK_URL": "https://example.com"}, "APPROVAL_WEBHOOK_SECRET"),
        ({"ALERT_WEBHOOK_URL": "https://example.com"}, "ALERT_WEBHOOK_SECRET"),
    ],
)
def test_what_no_start_takes_is_said_below_the_configuration(
    solward: CliRunner, given: dict[str, str], named: str
) -> None:
    result = run(solward, "config", "show", **given)
    assert (result.exit_code, "API_PORT=3001" in result.stdout) == (0, True)
    assert result.stderr.startswith("A service would not start: ")
    assert named in result.stderr
    assert (result.stderr.count("\n"), run(solward, "config", "show").stderr) == (1, "")
    refused = run(solward, "doctor", "settings", **given)
    assert (refused.exit_code, named in refused.output) == (1, True)


def test_a_broken_setting_is_one_line_and_exit_code_2(solward: CliRunner) -> None:
    for command in (("config", "show"), ("server", "start"), ("up",), ("plugins", "list")):
        result = run(solward, *command, API_PORT="many")
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: API_PORT")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [("server", "start"), ("up",)])
def test_the_development_secret_is_refused_on_an_open_host(
    solward: CliRunner, command: tuple[str, ...]
) -> None:
    result = run(solward, *command, "--host", "0.0.0.0", "--port", "0")
    assert result.exit_code == 2
    assert "API_SECRET must be set" in result.stderr


def test_only_the_embedded_ledger_can_be_reset(solward: CliRunner) -> None:
    given = {"SOLANA_RPC_URL": "http://127.0.0.1:1"}
    result = run(solward, "up", "--reset", "--port", "0", **given)
    assert result.exit_code == 2
    assert "--reset" in result.stderr
