"""`solward doctor machine`: what it finds on machines of every kind, and what it advises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from solward.hosts.confinement import landlock, seccomp
from solward.plugins.folders import models
from solward_cli import main

RUN = "run Linux 6.2 or later"
PROFILE = (
    "allow the system calls prctl, seccomp and landlock_* in a container's seccomp profile and in a"
    " systemd unit's SystemCallFilter"
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLWARD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    # Whatever this test's environment has.
    monkeypatch.setattr(models, "beside_the_service", lambda: False)


def run(*options: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "machine", *options], env=environment)


def lines(**environment: str) -> dict[str, tuple[str, str]]:
    found = json.loads(run("--json", **environment).output)["lines"]
    return {line["name"]: (line["found"], line["advice"]) for line in found}


def test_this_machine_confines_hosts() -> None:
    found = lines()
    assert [*found] == [
        "Python",
        "Platform",
        "Landlock",
        "seccomp",
        "Confinement",
        "Plugin hosts",
        "Language models",
    ]
    assert found["Confinement"] == ("tested in a child process: works", "nothing")
    assert found["Plugin hosts"] == ("third-party plugins are confined", "nothing")
    shown = run()
    assert shown.exit_code == 0
    assert "third-party plugins are confined" in shown.output
    assert all(len(line) <= 80 for line in shown.output.splitlines())


@pytest.mark.parametrize(
    ("abi", "found", "advice"),
    [
        (-1, "switched off", "add landlock to the kernel's parameter lsm= and restart the machine"),
        (-2, "refused by a seccomp filter", PROFILE),
        (0, "none", f"{RUN}; {PROFILE}"),
        (2, "ABI 2", RUN),
    ],
)
def test_a_kernel_that_cannot_says_what_to_do_and_refuses_third_parties(
    abi: int, found: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: abi)
    shown = lines()
    assert shown["Landlock"] == (found, advice)
    assert shown["Confinement"][1] == "see the lines above"
    assert shown["Plugin hosts"][0] == "third-party plugins are refused"
    assert "SOLWARD_PLUGINS_UNCONFINED" in shown["Plugin hosts"][1]
    assert run().exit_code == 1


def test_a_container_that_lets_a_step_fail_is_found_by_trying(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse_calls() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(seccomp, "refuse_calls", refuse_calls)
    found, advice = lines()["Confinement"]
    assert found.endswith("the kernel refused to confine it: [Errno 1] Operation not permitted")
    assert advice == PROFILE


def test_an_unknown_architecture_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "supported", lambda: False)
    shown = lines()
    assert shown["seccomp"] == (
        "unknown architecture",
        "use x86-64 or ARM with a 64-bit Python",
    )
    assert shown["Plugin hosts"][0] == "third-party plugins are refused"


def test_another_system_has_no_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    shown = lines(SOLWARD_PLUGINS_UNCONFINED="a-plugin")
    assert shown["Platform"][1] == shown["Plugin hosts"][1] == "run the service on Linux 6.2"
    assert shown["Plugin hosts"][0] == "none on darwin"
    assert (
        shown["Confinement"][0]
        == "tested in a child process: needs Linux; this machine runs darwin"
    )


def test_who_runs_unconfined_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"SOLWARD_PLUGINS_UNCONFINED": "a-plugin,another"}
    assert lines(**named)["Plugin hosts"][1] == "unset SOLWARD_PLUGINS_UNCONFINED"
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert lines(**named)["Plugin hosts"] == (
        "unconfined: a-plugin, another; all other third-party plugins are refused",
        "mend the lines above; or remove these plugins, which mainnet refuses",
    )


@pytest.mark.parametrize(
    ("folder", "beside", "found", "advice"),
    [
        (True, False, "litellm is in a folder of its own", "nothing"),
        (False, False, "litellm is not installed", "solward models install"),
        (True, True, "litellm is in the service's environment", "(pip uninstall litellm)"),
        (False, True, "litellm is in the service's environment", "then `solward models install`"),
    ],
)
def test_where_the_language_models_are_is_said(
    folder: bool,
    beside: bool,
    found: str,
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "beside_the_service", lambda: beside)
    if folder:
        (tmp_path / "models" / models._digest()).mkdir(parents=True)
    shown = lines(MODELS_FOLDER=str(tmp_path / "models"))["Language models"]
    assert shown[0].startswith(found)
    assert shown[1].endswith(advice)
