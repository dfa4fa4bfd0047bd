"""The template is a plugin like any other, and so is each copy that is made of it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.repository import ROOT

from solward_cli.plugins import KINDS, project_files

NAMES = {
    "skill": "tip_jar",
    "provider": "pacer",
    "guardrail": "careful",
    "venue": "bazaar",
    "payment": "tollgate",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This tree's wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    [made] = folder.glob("*.whl")
    return made


def python(*arguments: str, cwd: Path, path: Path | None = None) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)}
        | ({"PYTHONPATH": str(path)} if path else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_tests_of_new_plugins_pass(tmp_path: Path) -> None:
    for kind, name in NAMES.items():
        python("-m", "solward_cli", "plugins", "new", name, "--kind", kind, cwd=tmp_path)
    sources = " ".join(str(tmp_path / name / "src") for name in NAMES.values())
    options = ("--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error")
    of_each = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    paths = ("-o", f"pythonpath={sources}")
    said = python("-m", "pytest", "-q", *options, *of_each, *paths, *NAMES.values(), cwd=tmp_path)
    assert "passed" in said.splitlines()[-1]
    assert "skipped" not in said.splitlines()[-1]


@pytest.mark.more
def test_the_wheel_makes_the_same_plugins_as_the_tree(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    for kind, name in NAMES.items():
        python(
            "-m",
            "solward_cli",
            "plugins",
            "new",
            name,
            "--kind",
            kind,
            cwd=tmp_path,
            path=installed,
        )
        made = {
            path.relative_to(tmp_path / name): path.read_text()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        assert made == dict(project_files(name, KINDS[kind]))


@pytest.mark.more
def test_the_wheel_has_the_template_and_nothing_that_was_left_in_it(wheel: Path) -> None:
    shipped = "solward_cli/plugin_template/"
    with zipfile.ZipFile(wheel) as archive:
        found = {name.removeprefix(shipped) for name in archive.namelist() if shipped in name}
    listed = subprocess.run(
        ["git", "ls-files"],
        cwd=ROOT / "plugin_template",
        capture_output=True,
        text=True,
        check=True,
    )
    assert found == set(listed.stdout.split())


def test_an_editable_install_has_no_copy_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hatchling.build import build_editable

    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build_editable(str(tmp_path))) as archive:
        assert not any("plugin_template" in name for name in archive.namelist())
