"""What a process that stays imports of what is installed, and what it leaves out."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from solward.support.child_processes import child_environment
from solward.support.extras import hide_modules


def _imported(code: str) -> set[str]:
    """Top-level modules of a process of its own that ran `code`."""
    program = f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", program]
    environment = child_environment(values={"PYTHONPATH": ":".join(sys.path)})
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_a_library_is_missing_in_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with hide_modules("colorsys"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("colorsys")
    assert importlib.import_module("colorsys").rgb_to_hsv(0, 0, 0) == (0, 0, 0)


def test_a_library_that_is_imported_stays() -> None:
    with hide_modules("json", "subprocess"):
        assert importlib.import_module("subprocess") is subprocess
    assert sys.modules["subprocess"] is subprocess


def test_after_an_error_in_the_block_the_library_can_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with pytest.raises(RuntimeError), hide_modules("colorsys"):
        raise RuntimeError
    assert importlib.import_module("colorsys")


@pytest.mark.more
def test_a_service_imports_nothing_for_a_terminal_or_for_trio() -> None:
    code = (
        "from solward_cli.entrypoint import import_lean; import_lean()\n"
        "import solward.service.service, solward_server.serve\n"
        "import solward_cli.up.demo"
    )
    assert not _imported(code) & {"pygments", "rich", "trio", "watchfiles"}


@pytest.mark.more
def test_the_dashboard_imports_no_client_of_sockets_and_no_ledgers_library() -> None:
    code = (
        "from solward_cli.entrypoint import import_lean, read_settings; import_lean()\n"
        "from solward_cli.server import import_pages; import_pages(); read_settings()"
    )
    assert not _imported(code) & {
        "aiohttp",
        "h2",
        "jsonschema",
        "pygments",
        "requests",
        "rich",
        "solders",
        "trio",
        "urllib3",
        "watchfiles",
        "websocket",
    }
