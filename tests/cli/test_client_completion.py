"""Completion in a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from solward_cli import _COMMANDS, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_SOLWARD_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr


def completed(words: str) -> list[str]:
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
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    offered, _, heavy = done.stdout.partition("|")
    assert heavy.strip() == ""
    return [line.removeprefix("plain,") for line in offered.split()]


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
