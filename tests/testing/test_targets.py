"""Which plugins are checked: by name, by distribution, by module, by folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.plugins import Shelf, shelf, skill_source
from tests.testing import bad_plugins

from solward import InvalidRequest
from solward.testing.conformance import (
    Outcome,
    check_path_or_name,
    check_provider,
    check_skill,
    guardrail_test,
    provider_test,
    skill_test,
)
from solward.testing.targets import target_of

__all__ = ["shelf"]

GREET = skill_source(
    "greet",
    schema='{"type": "object", "properties": {"who": {"type": "string", "description": "Whom.",'
    ' "maxLength": 20, "default": "you"}}, "additionalProperties": False}',
    body="return f'Hello {params[\"who\"]}.'",
    examples="({'who': 'Ada'},)",
)
RUDE = skill_source("rude", body="return ''")


def project(folder: Path, entry_points: str, **modules: str) -> Path:
    """A plugin project that is installed nowhere, its modules under src/."""
    package = folder / "src" / f"{folder.name}_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name, source in modules.items():
        (package / f"{name}.py").write_text(source)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{folder.name}"\nversion = "2.5"\n{entry_points}'
    )
    return folder


@pytest.mark.more
def test_a_folder_is_checked_without_installing_it(tmp_path: Path) -> None:
    declared = (
        '[project.entry-points."solward.skills"]\ngreet = "greeter_package.greet"\n'
        'rude = "greeter_package.rude"\ngone = "greeter_package.gone"\n'
        '[project.entry-points."solward.venues"]\nhalf = "greeter_package.greet"\n'
    )
    folder = project(tmp_path / "greeter", declared, greet=GREET, rude=RUDE)
    path = list(sys.path)
    greet, rude, gone, half = check_path_or_name(str(folder))
    assert sys.path == path
    assert (greet.plugin, greet.kind, greet.distribution, greet.version) == (
        "greet",
        "skill",
        "greeter",
        "2.5",
    )
    assert greet.ok, str(greet)
    assert not greet.warnings
    assert rude.failed == ("outcome",)
    assert gone.failed == ("contract",)
    assert "import_failed: ModuleNotFoundError" in gone.finding("contract").detail
    assert half.failed == ("contract",)
    assert "bad_hook" in half.finding("contract").detail


@pytest.mark.more
def test_a_folders_plugin_must_not_take_a_built_ins_name(tmp_path: Path) -> None:
    source = skill_source("transfer")
    declared = '[project.entry-points."solward.skills"]\ntransfer = "thief_package.transfer"\n'
    [report] = check_path_or_name(str(project(tmp_path / "thief", declared, transfer=source)))
    assert report.failed == ("contract",)
    assert "name_conflict: also provided by solward" in report.finding("contract").detail


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read"),
        ("[project\n", "cannot read"),
        ('[project]\nname = "x"\n', "declares no entry point of solward.skills"),
        (
            '[project.entry-points."solward.types.skill"]\nx = "x"\n'
            '[project.entry-points."solward.skills"]\ny = "y"\n',
            "solward.types.skill is no group of Solward's entry points, which are solward.skills, ",
        ),
    ],
)
def test_a_folder_that_is_no_plugin_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InvalidRequest, match=said):
        check_path_or_name(str(tmp_path))


@pytest.mark.more
def test_a_distribution_is_checked_by_its_name_and_a_plugin_by_its_own(shelf: Shelf) -> None:
    shelf.install("Kind-Words", {"greet": GREET, "rude": RUDE})
    reports = check_path_or_name("kind_words")
    assert [(each.plugin, each.version) for each in reports] == [("greet", "1.5"), ("rude", "1.5")]
    [report] = check_path_or_name("greet")
    assert report.ok
    [report] = check_path_or_name("solward.skills:greet")
    assert report.distribution == "Kind-Words"


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'no_such' is neither a project's folder nor"):
        check_path_or_name("no_such")


def test_a_venue_is_held_to_its_contract() -> None:
    [report] = check_path_or_name("jupiter")
    assert (report.kind, report.ok) == ("venue", True)
    assert report.skipped == ("quotes", "swaps", "executed")
    assert report.finding("venue_failures").outcome is Outcome.OK


def test_a_name_in_two_groups_must_say_which(shelf: Shelf) -> None:
    shelf.install("kind-words", {"greet": GREET})
    shelf.install("other-words", {"greet": "x = 1"}, "solward.providers")
    with pytest.raises(InvalidRequest, match=r"more than one plugin: .*solward\.providers:greet"):
        target_of("greet")
    assert target_of("solward.skills:greet").kind == "skill"


def test_a_module_is_found_with_the_distribution_that_installs_it() -> None:
    import solward_plugins.skills.pay_request as module

    for given in (module, "solward_plugins.skills.pay_request", "pay_request"):
        target = target_of(given)
        assert (target.name, target.distribution) == ("pay_request", "solward")


async def test_a_plugin_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'openai' is a provider, not a skill"):
        await check_skill("openai")
    with pytest.raises(InvalidRequest, match="'wait' is a skill, not a provider"):
        await check_provider("wait")


@pytest.mark.more
def test_one_line_makes_a_test_of_each_kind(capsys: Any) -> None:
    skill_test("wait", cases=[{"reason": "Nothing to do."}])()
    provider_test("rules")()
    guardrail_test(bad_plugins.Guardrail(), in_process=True)()
    told = capsys.readouterr().out
    assert "skill wait (solward 0.1.0) conforms" in told
    assert "3 ran" in told
    assert "provider rules (solward 0.1.0) conforms\n" in told
    but = "conforms, except for checks that could not run: host\n"
    assert f"guardrail no_swaps (unknown unknown) {but}" in told
    with pytest.raises(AssertionError, match=r"skill emptyoutcome .* does not conform: outcome"):
        skill_test("tests.testing.bad_plugins:made.EmptyOutcome")()


@pytest.mark.more
async def test_a_host_imports_by_name_so_an_object_needs_this_process() -> None:
    with pytest.raises(InvalidRequest, match="'skill' is an object of this process"):
        await check_skill(bad_plugins.Skill())
    with pytest.raises(InvalidRequest, match="neither an installed plugin's name nor a module"):
        await check_skill("tests.testing.bad_plugins:made.Nothing")
