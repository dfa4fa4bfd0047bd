"""A plain `pip install solward` does what authors and clients need, and names the extra for the
rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.environments import run_in_base

import solward_cli
from solward.support.extras import ExtraMissing, needs

pytestmark = pytest.mark.more

CLI = "from solward_cli import main; main(prog_name='solward')"

WORKING = ["--help", "version", "completion bash", "up --help", "wallet --help"]
# The others run in `make test-more`.
FIRST = {"up", "dashboard", "mcp", "wallet list", "plugins check"}
NEEDING = {
    "up": "up",
    "server start": "up",
    "worker": "up",
    "localnet": "up",
    "dashboard": "dashboard",
    "mcp": "mcp",
    "mcp config": "mcp",
    "wallet list": "up",
    "admin list": "up",
    "alerts test": "up",
    "contacts list": "up",
    "frozen": "up",
    "pay list": "up",
    "tx list": "up",
    "agent list": "up",
    "key list": "up",
    "events tail": "up",
    "hold list": "up",
    "schedule list": "up",
    "policy show": "up",
    "freeze": "up",
    "unfreeze": "up",
    "keystore rotate": "up",
    "database upgrade": "up",
    "backup": "up",
    "restore": "up",
    "audit list": "up",
    "doctor": "up",
    "config show": "up",
    "models install": "up",
    "plugins list": "up",
    "plugins check": "up",
    "skills list": "up",
    "tokens list": "up",
}
ARGUMENTS = {
    "schedule list": ["w"],
    "mcp config": ["cursor", "--wallet", "w"],
    "backup": ["a.backup"],
    "restore": [__file__],
    "plugins check": ["."],
}


@pytest.mark.parametrize("command", WORKING)
def test_a_light_command_works(command: str, tmp_path: Path) -> None:
    done = run_in_base(CLI, *command.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_plugin_can_be_made_and_imported(tmp_path: Path) -> None:
    done = run_in_base(CLI, "plugins", "new", "tip_jar", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    code = "import sys; sys.path.insert(0, 'tip_jar/src'); import tip_jar.tip, tip_jar.total"
    assert run_in_base(code, cwd=tmp_path).stderr == ""


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        pytest.param(command, extra, id=command, marks=[] if command in FIRST else pytest.mark.more)
        for command, extra in NEEDING.items()
    ],
)
def test_a_command_names_the_extra_it_needs(command: str, extra: str, tmp_path: Path) -> None:
    done = run_in_base(CLI, *command.split(), *ARGUMENTS.get(command, []), cwd=tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"Error: solward {command} needs more than this install has (no module ")
    assert line.endswith(f"): pip install 'solward[{extra}]'")


def test_every_command_is_covered() -> None:
    covered = {command.split()[0] for command in (*NEEDING, *WORKING)}
    assert covered - {"--help"} == set(solward_cli._COMMANDS)


@pytest.mark.parametrize(
    ("statement", "what", "extra"),
    [
        ("import solward.service.service", "solward.service.service", "up"),
        ("from solward.settings import Settings", "solward.settings", "up"),
        ("from solward.plugins import load_registry", "solward.plugins", "up"),
        ("from solward.testing import open_stand", "solward.testing", "test"),
        (
            "from solward.testing import conformance; conformance.check_path_or_name('.')",
            "solward.testing.conformance",
            "test",
        ),
    ],
)
def test_an_import_names_the_extra_it_needs(
    statement: str, what: str, extra: str, tmp_path: Path
) -> None:
    last = run_in_base(statement, cwd=tmp_path).stderr.splitlines()[-1]
    assert last.startswith(
        f"solward.support.extras.ExtraMissing: {what} needs more than this install has"
    )
    assert last.endswith(f"pip install 'solward[{extra}]'")


def test_the_outer_of_two_parts_names_itself() -> None:
    with pytest.raises(ExtraMissing, match=r"^the whole needs .*\(no module nowhere\).*\[up\]'$"):  # noqa: SIM117
        with needs("the whole", "up"), needs("a part", "mcp"):
            raise ModuleNotFoundError(name="nowhere")


def test_a_module_of_ours_that_is_missing_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, needs("a part", "up"):
        raise ModuleNotFoundError(name="solward.nowhere")
    assert not isinstance(caught.value, ExtraMissing)
