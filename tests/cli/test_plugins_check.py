"""`solward plugins check`: findings, advice and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from solward.testing.conformance import Finding, Outcome, Report
from solward_cli import main
from solward_cli.plugins import KINDS, create
from solward_cli.plugins.check import advice


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plugins", "check", *arguments])


@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_conforms_without_being_installed(tmp_path: Path, kind: str) -> None:
    name = f"fresh_{kind}"
    create(name, KINDS[kind], tmp_path / name)
    result = check(name)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == f"{kind} {name} of fresh-{kind} 0.1.0"
    assert "conform" in lines[-1]
    # Its folder, not a wheel, is all that keeps it from platinum.
    reached = [line for line in lines if line.startswith("  gold: ")]
    assert reached, result.output
    assert all(line.endswith("; for platinum it lacks wheels") for line in reached), result.output
    assert not any(line.startswith(("  failed", "  warning")) for line in lines), result.output


@pytest.mark.more
def test_a_plugin_that_breaks_its_contract_is_exit_code_1_with_what_to_mend(tmp_path: Path) -> None:
    create("greedy", KINDS["skill"], tmp_path / "greedy")
    tip = tmp_path / "greedy" / "src" / "greedy" / "tip.py"
    tip.write_text(tip.read_text().replace("Effects.SPEND", "Effects.READ"))
    result = check("greedy")
    assert result.exit_code == 1, result.output
    assert any(line.startswith("  failed ") for line in result.output.splitlines())
    assert "Mend before you install: greedy (" in result.output
    told = json.loads(check("greedy", "--json").output)
    assert (told["ok"], told["tier"]) == (False, None)
    assert {plugin["name"]: plugin["ok"] for plugin in told["plugins"]} == {
        "greedy": False,
        "greedy_total": True,
    }


def test_in_process_is_said_to_check_less(tmp_path: Path) -> None:
    create("fresh", KINDS["guardrail"], tmp_path / "fresh")
    hosted, here = check("fresh"), check("fresh", "--in-process")
    assert (hosted.exit_code, here.exit_code) == (0, 0), here.output
    assert "  ok       host: in a plugin host, confined as in production" in hosted.output
    assert "  skipped  host: in this process, for debugging: limits by plugin host" in here.output


def test_json_is_all_there_is_on_standard_output(tmp_path: Path) -> None:
    create("quiet", KINDS["provider"], tmp_path / "quiet")
    result = check("quiet", "--json")
    assert result.exit_code == 0, result.output
    [plugin] = json.loads(result.stdout)["plugins"]
    assert (plugin["kind"], plugin["distribution"], plugin["ok"]) == ("provider", "quiet", True)
    assert {"check", "outcome", "detail"} == set(plugin["findings"][0])


@pytest.mark.parametrize("target", ["nobody_has_this", "./missing", "empty", "plain"])
def test_what_is_no_plugin_is_one_line_and_exit_code_2(tmp_path: Path, target: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "pyproject.toml").write_text('[project]\nname = "plain"\n')
    result = check(target)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_advice_names_what_failed_and_what_to_look_at() -> None:
    ok = Finding("loads", Outcome.OK)
    warned = Report("b", "skill", "d", "1", (ok, Finding("spends", Outcome.WARNING)))
    failed = Report("c", "skill", "d", "1", (ok, Finding("bounds", Outcome.FAILED, "why")))
    assert advice([failed, warned]) == [
        "Mend before you install: c (bounds).",
        "Look at the warnings: b (spends).",
    ]
    assert advice([warned])[-1].startswith("The plugin conforms.")
    assert advice([warned, warned])[-1].startswith("All 2 plugins conform.")
