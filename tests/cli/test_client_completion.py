"""Completion in a shell."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner
from tests.support.cli_service import Live
from tests.support.service_process import SECRET

from solward_cli import _COMMANDS, completed_names, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_SOLWARD_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr


def completed(words: str, **variables: str) -> list[str]:
    program = (
        "import sys\nfrom solward_cli import main\n"
        "try:\n    main(prog_name='solward', complete_var='_SOLWARD_COMPLETE')\n"
        "finally:\n    print('|', *{'quart', 'solders', 'sqlalchemy'} & set(sys.modules))\n"
    )
    environment = {
        "_SOLWARD_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    offered, _, heavy = done.stdout.partition("|")
    assert heavy.strip() == ""
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in offered.splitlines() if line]


def test_commands_and_options_are_completed_without_the_services_libraries() -> None:
    assert completed("solward ") == list(_COMMANDS)
    assert completed("solward wal") == ["wallet"]
    assert completed("solward wallet tr") == ["transfer"]
    assert "--dry-run" in completed("solward wallet transfer --d")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_takes_the_script_and_completes_with_it(tmp_path: Path) -> None:
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout
    (tmp_path / "script").write_text(script)
    program = tmp_path / "solward"
    program.write_text(
        f"#!{sys.executable}\nfrom solward_cli import main\nmain(prog_name='solward')\n"
    )
    program.chmod(0o755)
    line = (
        "source ./script; COMP_WORDS=(solward age); COMP_CWORD=1; "
        '_solward_completion ./solward; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["agent"]


def offered(*words: str) -> list[str]:
    complete = BashComplete(main, {}, "solward", "_SOLWARD_COMPLETE")
    return [each.value for each in complete.get_completions([*words[:-1]], words[-1])]


def test_names_of_the_running_service_are_completed(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A shell does not wait as long as a busy machine may take.
    monkeypatch.setattr(completed_names, "TIMEOUT_S", 60)
    monkeypatch.setenv("SOLWARD_API_URL", live.url)
    monkeypatch.setenv("SOLWARD_API_KEY", SECRET)
    wallet, agent = live.wallet(0), live.agent()
    for words in ("wallet balance", "tx list --wallet", "wallet transfer x", "wallet sweep x"):
        assert wallet in offered(*words.split(), "wallet-"), words
        assert offered(*words.split(), "nobody") == []
    for words in ("agent show", "agent chat"):
        assert agent in offered(*words.split(), agent[:3]), words
    assert offered("skills", "run", "tr") == ["transfer", "transfer_token"]
    monkeypatch.setenv("SOLWARD_API_URL", "http://127.0.0.1:9")
    assert wallet in offered("wallet", "balance", "--url", live.url, "wallet-")


@pytest.mark.parametrize("given", ["http://127.0.0.1:9", "no address", ""])
def test_without_a_service_no_name_is_offered_and_nothing_said(given: str) -> None:
    assert completed("solward wallet balance x", SOLWARD_API_URL=given) == []


def test_a_service_that_refuses_or_does_not_answer_is_not_waited_for(live: Live) -> None:
    wrong = {"SOLWARD_API_URL": live.url, "SOLWARD_API_KEY": "sk-wrong"}
    assert completed("solward wallet balance wallet-", **wrong) == []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert completed("solward wallet balance x", SOLWARD_API_URL=address) == []
