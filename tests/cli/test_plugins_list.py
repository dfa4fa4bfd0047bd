"""`solward plugins list`: what is loaded, and what is left out and why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.plugins import Shelf, shelf, skill_source

from solward_cli import main
from solward_cli.plugins import LEFT_OUT, LOADED, Row, _print_rows

__all__ = ["shelf"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLWARD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def listed(*options: str, **environment: str) -> Result:
    result = CliRunner().invoke(main, ["plugins", "list", *options], env=environment)
    assert result.exit_code == 0, result.output
    return result


def rows(**environment: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = json.loads(listed("--json", **environment).stdout)["plugins"]
    return {(row["name"], row["distribution"]): row for row in found}


def test_every_plugin_has_its_kind_version_and_status(shelf: Shelf) -> None:
    shelf.install("my-plugin", {"greet": skill_source("greet")})
    found = rows()
    assert found["greet", "my-plugin"] == {
        "name": "greet",
        "kind": "skill",
        "distribution": "my-plugin",
        "version": "1.5",
        "status": "loaded",
        "problem": "",
        "detail": "",
        "needs": [],
        "where": "",
    }
    assert found["rules", "solward"]["status"] == "with --demo"
    assert found["jupiter", "solward"]["kind"] == "venue"
    assert found["x402", "solward"]["kind"] == found["mpp", "solward"]["kind"] == "payment"


@pytest.mark.more
def test_what_a_plugin_needs_is_listed(shelf: Shelf) -> None:
    manifest = "__import__('solward').Manifest(sites=('api.example.com',), operations=())"
    shelf.install("my-plugin", {"greet": skill_source("greet", manifest=manifest)})
    shelf.install("bad", {"wave": skill_source("wave", manifest=manifest.replace("api", "*"))})
    found = rows()
    assert found["greet", "my-plugin"]["needs"] == ["network: api.example.com", "operations: none"]
    assert found["openai", "solward"]["needs"] == [
        "key: OPENAI_API_KEY (not set)",
        "address, which gets the key: OPENAI_BASE_URL",
        "network: api.openai.com",
        "secret: OPENAI_API_KEY to api.openai.com (not set)",
    ]
    wave = found["wave", "bad"]
    assert wave["problem"] == "bad_contract"
    assert "manifest.sites[0]" in wave["detail"]
    [line] = [line for line in listed().stdout.splitlines() if line.startswith("greet ")]
    assert "  network: api.example.com; operations: none  " in line


def test_what_is_left_out_says_why_and_keeps_its_version(shelf: Shelf) -> None:
    shelf.install("broken", {"crash": "raise RuntimeError('no [red]luck')"})
    shelf.install("rival", {"transfer": skill_source("transfer")})
    found = rows()
    crash, transfer = found["crash", "broken"], found["transfer", "rival"]
    assert (crash["status"], crash["problem"], crash["version"]) == (
        "left out",
        "import_failed",
        "1.5",
    )
    assert "no [red]luck" in crash["detail"]
    assert (transfer["status"], transfer["problem"]) == ("left out", "name_conflict")
    assert found["transfer", "solward"]["status"] == "loaded"


def test_what_solward_plugins_does_not_name_is_left_out(shelf: Shelf) -> None:
    shelf.install("my-plugin", {"greet": skill_source("greet")})
    row = rows(SOLWARD_PLUGINS="other")["greet", "my-plugin"]
    assert (row["status"], row["problem"], row["kind"]) == ("left out", "not_allowed", "skill")
    assert "SOLWARD_PLUGINS" in row["detail"]


@pytest.mark.more
def test_a_line_is_a_plugin_for_other_programs(shelf: Shelf) -> None:
    shelf.install("broken", {"crash": "raise RuntimeError('one\\ntwo \\x1b[2J')"})
    lines = listed().stdout.splitlines()
    [crash] = [line for line in lines if line.startswith("crash ")]
    assert crash.split()[1:6] == ["skill", "broken", "1.5", "left", "out"]
    assert r"one two \x1b[2J" in crash
    assert lines[0].split() == [
        "NAME", "KIND", "DISTRIBUTION", "VERSION", "STATUS", "PROBLEM", "DETAIL", "NEEDS", "FOLDER"
    ]  # fmt: skip
    assert len(lines) == 1 + len(rows())
    # Every row has every column, also where a cell is empty.
    assert {len(re.split("  +", line)) for line in lines} == {9}
    assert not any(line.endswith(" ") for line in lines)


def test_a_terminal_is_shown_third_parties_text_as_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("solward_cli.render.is_terminal", lambda: True)
    _print_rows(
        [
            Row("greet", "skill", "my-[bold]plugin", "1.5", LOADED, needs=("a", "b"), where="/f"),
            Row(
                "crash", "skill", "broken", "1.5", LEFT_OUT, "import_failed", "x\x1b[2J[/nonsense]"
            ),
        ]
    )
    said = capsys.readouterr().out
    assert "my-[bold]plugin" in said
    assert "greet needs a; b\ngreet is in /f\n" in said
    assert r"crash of broken: import_failed: x\x1b[2J[/nonsense]" in said


def test_a_name_that_no_distribution_has_is_told_by_list_and_doctor(shelf: Shelf) -> None:
    shelf.metadata("no-plugins", "[console_scripts]\nx = x:x")
    found = rows(SOLWARD_PLUGINS="solwrd,no-plugins,Solward")
    told = [dist for (name, dist), row in found.items() if row["problem"] == "not_installed"]
    assert sorted(told) == ["no-plugins", "solwrd"]
    assert found["rules", "solward"]["problem"] == ""
    environment = {"SOLWARD_PLUGINS": "solwrd"}
    doctor = CliRunner().invoke(main, ["doctor", "plugins"], env=environment)
    assert "'*' of solwrd: not_installed: SOLWARD_PLUGINS names it" in doctor.output
