"""`solward plugins list --outdated`: pip asks the index it is configured with, and nothing runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.plugins import Shelf, shelf, skill_source, wheel

from solward.plugins.folders.install import install
from solward_cli import main

__all__ = ["shelf"]

# Each asks a pip of its own.
pytestmark = pytest.mark.more


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which is all that pip finds; Acme 1.0 is installed from it."""
    folder = tmp_path / "index"
    home = tmp_path / "home"
    monkeypatch.setenv("SOLWARD_HOME", str(home))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    path = wheel(folder)
    with monkeypatch.context() as patched:
        patched.setattr(
            "solward.plugins.folders.resolve._resolved", lambda _target, name, *_more: {name: {}}
        )
        install(home, str(path), accept=lambda _proposal: True)
    return folder


def outdated(*options: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, ["plugins", "list", "--outdated", *options])
    assert result.exit_code == status, result.output
    return result


def of(name: str, *, status: int = 0) -> dict[str, Any]:
    listed = json.loads(outdated("--json", status=status).stdout)["distributions"]
    [found] = [each for each in listed if each["name"] == name]
    return dict(found)


def test_a_newer_version_is_listed_with_the_command_for_it(index: Path) -> None:
    assert "Nothing could be upgraded" in outdated().stdout
    for version in ("0.9", "1.1", "1.2", "2.0rc1"):
        wheel(index, version=version)
    header, line = outdated().stdout.splitlines()
    assert header.split("  ")[0] == "DISTRIBUTION"
    assert line.split() == [
        "acme-tools",
        "1.0",
        "1.2",
        "solward",
        "plugins",
        "upgrade",
        "acme-tools",
    ]
    assert of("acme-tools") == {
        "name": "acme-tools",
        "installed": "1.0",
        "newest": "1.2",
        "own": True,
        "compatible": True,
        "conflict": None,
        "upgrade": "solward plugins upgrade acme-tools",
        "unknown": None,
    }


def test_one_that_needs_another_solward_says_so(index: Path) -> None:
    wheel(index, version="1.1", requires=("solward>=99",))
    found = of("acme-tools")
    assert (found["newest"], found["compatible"], found["upgrade"]) == ("1.1", False, None)
    assert "solward>=99" in found["conflict"]
    [line] = outdated().stdout.splitlines()[1:]
    assert "solward>=99" in line


def test_one_in_the_services_environment_is_listed_too(index: Path, shelf: Shelf) -> None:
    shelf.install("beside", {"greet": skill_source("greet")})
    found = of("beside")
    assert (found["own"], found["newest"]) == (False, None)
    assert found["unknown"] == "no version of it is there"
    wheel(index, name="beside", version="9.0", plugin="greet")
    assert of("beside")["upgrade"] == "pip install --upgrade beside"


def test_without_an_index_nothing_is_known_and_that_is_said(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    found = of("acme-tools", status=1)
    assert (found["newest"], found["compatible"]) == (None, None)
    assert found["unknown"] == "the package index did not answer"
    result = outdated(status=1)
    assert result.stderr == "acme-tools 1.0: not known: the package index did not answer\n"


def test_a_pip_that_takes_too_long_is_ended(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solward.plugins.folders.resolve.PIP_S", 0.001)
    assert of("acme-tools", status=1)["unknown"] == "the package index did not answer"
