"""`solward plugins new`: what it makes, and what it refuses."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from solward.plugins import load_registry
from solward_cli import main, plugins
from solward_cli.plugins import KINDS, TEMPLATE, create, project_files, template_root

MODULES = {
    "skill": {"tip", "total"},
    "provider": {"provider"},
    "guardrail": {"guardrail"},
    "venue": {"venue"},
    "payment": {"payment"},
}


def entry_points(project: Path) -> dict[str, dict[str, str]]:
    read = tomllib.loads((project / "pyproject.toml").read_text())
    found: dict[str, dict[str, str]] = read["project"]["entry-points"]
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; packages made and imported in it are forgotten."""
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - known:
        if module.partition(".")[0] in ("tip_jar", "b52"):
            del sys.modules[module]


def new(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plugins", "new", *arguments])


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_is_of_its_kind_and_loads(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    result = new("tip_jar", "--kind", kind)
    assert result.exit_code == 0, result.output
    project = folder / "tip_jar"
    group = KINDS[kind].group
    assert entry_points(project) == {group: KINDS[kind].entry_points("tip_jar")}
    modules = {path.stem for path in (project / "src" / "tip_jar").glob("*.py")}
    assert modules == MODULES[kind] | {"__init__"}
    tests = {path.stem for path in (project / "tests").glob("*.py")}
    assert tests == {f"test_{module}" for module in MODULES[kind]}
    readme = (project / "README.md").read_text()
    assert readme.startswith("# tip-jar\n")
    headings = [line for line in readme.splitlines() if line.startswith("## ")]
    assert headings == [f"## {kind.capitalize()}"]
    monkeypatch.syspath_prepend(str(project / "src"))
    made = [
        EntryPoint(name, module, group) for name, module in entry_points(project)[group].items()
    ]
    registry = load_registry(entry_points=made)
    assert registry.problems == ()
    loaded = [*registry.skills, *registry.providers, *(each.name for each in registry.guardrails)]
    loaded += [*registry.venues, *registry.payments]
    assert loaded == list(KINDS[kind].entry_points("tip_jar"))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_templates_name_is_left(folder: Path, kind: str) -> None:
    assert new("b52", "--kind", kind).exit_code == 0
    for path in (folder / "b52").rglob("*"):
        said = str(path) + (path.read_text() if path.is_file() else "")
        assert TEMPLATE not in said
        assert TEMPLATE.replace("_", "-") not in said


def test_it_goes_into_the_folder_that_is_named_and_says_what_is_next(folder: Path) -> None:
    result = new("tip_jar", "my jar")
    assert result.output.splitlines() == [
        "Made ./my jar: skill tip_jar and tip_jar_total. Next:",
        "  pip install -e './my jar[test]'",
        "  pytest './my jar'",
        "  solward plugins check './my jar'",
    ]
    assert [path.name for path in folder.iterdir()] == ["my jar"]
    assert (folder / "my jar" / "src" / "tip_jar" / "tip.py").is_file()
    # As a person's own mkdir would have made it.
    (folder / "other").mkdir()
    assert (folder / "my jar").stat().st_mode == (folder / "other").stat().st_mode


@pytest.mark.parametrize(
    "name", ["Tip", "tip-jar", "1tip", "tip__jar", "_tip", "tip_", "tip.jar", "../tip", "x" * 41]
)
def test_a_bad_name_is_refused_with_an_example(folder: Path, name: str) -> None:
    refused(folder, "NAME must be like tip_jar", name)


@pytest.mark.parametrize(
    ("reason", "arguments"),
    [
        ("the skill transfer is built in", ("transfer",)),
        ("the provider openai is built in", ("openai", "--kind", "provider")),
        ("the provider openai is built in", ("openai",)),
        ("the venue jupiter is built in", ("jupiter",)),
        ("the payment x402 is built in", ("x402",)),
        ("the guardrail rate_limit is built in", ("rate_limit", "--kind", "guardrail")),
        ("a module rich is installed already", ("rich",)),
        ("a distribution python-dateutil is installed already", ("python_dateutil",)),
        ("a module or keyword of Python", ("json",)),
        ("a module or keyword of Python", ("import",)),
        ("missing is not a folder", ("tip_jar", "missing/tip_jar")),
        ("cannot be made", ("tip_jar", "x" * 300)),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    folder: Path, reason: str, arguments: tuple[str, ...]
) -> None:
    refused(folder, reason, *arguments)


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_is_there_is_left_as_it_is(folder: Path, kind: str) -> None:
    there = folder / "tip_jar"
    if kind == "folder":
        there.mkdir()
    elif kind == "file":
        there.write_text("mine")
    else:
        there.symlink_to("nowhere")
    before = there.lstat()
    result = new("tip_jar")
    assert result.exit_code == 2
    assert result.stderr == "Error: tip_jar exists; name a new folder, or remove it\n"
    assert there.lstat() == before
    assert [path.name for path in folder.iterdir()] == ["tip_jar"]


def test_an_unknown_kind_is_refused_with_the_known_ones(folder: Path) -> None:
    result = new("tip_jar", "--kind", "signer")
    assert result.exit_code == 2
    for kind in KINDS:
        assert kind in result.stderr
    assert list(folder.iterdir()) == []


def test_a_failure_half_way_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(name: str, kind: plugins.Kind) -> Iterator[tuple[Path, str]]:
        yield from list(project_files(name, kind))[:3]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plugins, "project_files", full)
    result = new("tip_jar")
    assert result.exit_code == 2
    assert result.stderr == "Error: tip_jar cannot be made: No space left on device\n"
    assert list(folder.iterdir()) == []


def test_what_tests_and_builds_left_in_the_template_is_not_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder / "template"
    create(TEMPLATE, KINDS["skill"], root)
    for name in ("__pycache__", ".pytest_cache", ".mypy_cache", "dist"):
        (root / "src" / name).mkdir()
        (root / "src" / name / "left.pyc").write_bytes(b"\xff\xfe")
    monkeypatch.setattr(plugins, "template_root", lambda: root)
    assert new("tip_jar").exit_code == 0
    assert list((folder / "tip_jar").rglob("left.pyc")) == []


def test_the_template_is_of_the_kinds_that_can_be_made() -> None:
    kinds = (KINDS["skill"], KINDS["provider"])
    assert entry_points(template_root()) == {
        kind.group: kind.entry_points(TEMPLATE) for kind in kinds
    }


def refused(folder: Path, reason: str, *arguments: str) -> None:
    result = new(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr
    assert list(folder.iterdir()) == []


def test_two_venues_are_told_their_pools_apart(tmp_path: Path) -> None:
    for name in ("my_venue", "other"):
        create(name, KINDS["venue"], tmp_path / name)
        texts = [each.read_text() for each in (tmp_path / name).rglob("*") if each.is_file()]
        assert not any("TEMPLATE" in text for text in texts)
        module = (tmp_path / name / "src" / name / "venue.py").read_text()
        assert f'pools_env="{name.upper()}_POOLS"' in module
