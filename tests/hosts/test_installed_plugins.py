"""From `solward plugins install` to a running skill: plugins of folders of their own in hosts."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.promises import promise
from tests.support.plugins import Shelf, shelf, skill_source, wheel

from solward.plugins import load_registry
from solward.plugins.folders import layout
from solward.settings import Settings
from solward.testing.stand import open_stand
from solward.vault.money.request import ADMIN
from solward_cli import main
from solward_server.resources.plugins import plugins_report

__all__ = ["shelf"]

SECRET = (
    "__import__('solward').Manifest(sites=('a.example.com',),"
    " secrets=(__import__('solward').Secret('ACME_KEY', 'a.example.com'),))"
)
SITES = "__import__('solward').Manifest(sites=({},))"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def alone(_target: str, name: str, _into: Path, _have: object) -> object:
        return {name: {}}

    # pip takes a second each time, and has nothing to find.
    monkeypatch.setattr("solward.plugins.folders.install._checked_report", alone)
    monkeypatch.setenv("SOLWARD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def solward(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, ["plugins", *arguments])
    assert result.exit_code == status, result.output
    return result


def listed() -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows of others' plugins by name, and distributions by name."""
    raw = json.loads(solward("list", "--json").stdout)
    rows = {row["name"]: row for row in raw["plugins"] if row["distribution"] != "solward"}
    return rows, {each["name"]: each for each in raw["distributions"]}


def with_manifest(*sites: str) -> str:
    return skill_source("acme", manifest=SITES.format(", ".join(map(repr, sites))))


@pytest.mark.more
def test_one_that_the_settings_do_not_name_is_not_said_to_take_effect(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wheel(tmp_path)
    monkeypatch.setenv("SOLWARD_PLUGINS", "solward")
    said = solward("install", str(path), "--yes").output
    assert "SOLWARD_PLUGINS does not name it, so its plugins are not loaded: add acme-tools" in said
    assert listed()[0]["acme"]["problem"] == "not_allowed"
    monkeypatch.setenv("SOLWARD_PLUGINS", "solward,Acme_Tools")
    assert "next start" in solward("upgrade", str(path), "--yes").output
    assert listed()[0]["acme"]["status"] == "loaded"


@pytest.mark.more
def test_it_is_listed_with_its_place_and_loaded_while_enabled(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wheel(tmp_path)
    said = solward("install", str(path), "--yes").output
    assert "Installed acme-tools 1.0: skill acme. Takes effect at the service's next start" in said
    [one], _ = layout.installed(home)
    assert solward("list").stderr.splitlines()[0] == f"Plugins of SOLWARD_HOME {home}."
    rows, places = listed()
    assert (rows["acme"]["status"], rows["acme"]["where"]) == ("loaded", str(one.folder))
    assert places["acme-tools"] == {
        "name": "acme-tools",
        "version": "1.0",
        "own": {
            "folder": str(one.folder),
            "enabled": True,
            "wheels": [{"file": path.name, "sha256": one.wheels[0].sha256}],
            "leftOut": [],
        },
        "runsInService": [],
        "trust": None,
    }
    [line] = [line for line in solward("list").stdout.splitlines() if line.startswith("acme ")]
    assert line.endswith(str(one.folder))
    solward("disable", "acme-tools")
    monkeypatch.setenv("SOLWARD_PLUGINS", "Acme_Tools")
    assert {name: row["problem"] for name, row in listed()[0].items()} == {"acme": "disabled"}
    solward("enable", "acme-tools")
    monkeypatch.setenv("SOLWARD_PLUGINS", "another")
    assert listed()[0]["acme"]["problem"] == "not_allowed"
    [problem] = load_registry(home=home).problems
    assert (problem.plugin, problem.code) == ("acme", "needs_host")
    solward("remove", "acme-tools")
    rows, places = listed()
    # The name that was to be loaded in its place is nobody's.
    assert {name: row["problem"] for name, row in rows.items()} == {"*": "not_installed"}
    assert (rows["*"]["distribution"], places) == ("another", {})
    assert "acme_tools_acme" not in sys.modules


@pytest.mark.more
async def test_its_skill_runs_in_a_host_with_the_modules_of_its_folder(
    home: Path, tmp_path: Path
) -> None:
    from solward.plugins.folders.install import install

    body = "import acme_words, os; return f'{acme_words.WORD} {os.getpid()}'"
    source = skill_source("acme", body=body)
    path = wheel(tmp_path, {"acme_words.py": "WORD = 'hello'"}, source=source)
    # No manifest is accepted where nobody declared one, and this plugin needs none.
    install(home, str(path), accept=lambda _proposal: True)
    async with open_stand(home) as stand:
        wallet = await stand.wallet()
        word, pid = (await stand.service.skill_runs.run("acme", {}, wallet.id, ADMIN)).split()
        report = plugins_report(stand.service.live.registry, stand.service.settings)
        # Upgrades and removals leave what a running service imports from.
        await asyncio.to_thread(solward, "remove", "acme-tools")
        assert (await stand.service.skill_runs.run("acme", {}, wallet.id, ADMIN)).startswith(
            "hello "
        )
    assert word == "hello"
    assert int(pid) != os.getpid()
    assert "acme_words" not in sys.modules
    [place] = report["distributions"]
    assert (place["name"], place["ownFolder"], place["trust"]) == ("acme-tools", True, None)
    assert (place["state"], place["accepted"]) == ("loaded", [])


@pytest.mark.more
def test_what_was_accepted_is_reported_also_while_nothing_is_loaded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of its secrets whether they are set, not their values."""
    source = skill_source("acme", manifest=SECRET)
    solward("install", str(wheel(tmp_path, source=source)), "--yes")
    solward("disable", "acme-tools")

    def reported() -> Any:
        settings = Settings()
        [place] = plugins_report(load_registry(home=home), settings)["distributions"]
        return place

    assert listed()[0]["acme"]["needs"][-1] == "secret: ACME_KEY to a.example.com (not set)"
    place = reported()
    [accepted] = place["accepted"]
    assert (place["state"], accepted["plugin"]) == ("disabled", "solward.skills:acme")
    assert accepted["manifest"]["sites"] == ["a.example.com"]
    assert accepted["secrets"] == [{"env": "ACME_KEY", "set": False}]
    monkeypatch.setenv("ACME_KEY", "words-of-the-operator")
    assert listed()[0]["acme"]["needs"][-1] == "secret: ACME_KEY to a.example.com"
    assert reported()["accepted"][0]["secrets"] == [{"env": "ACME_KEY", "set": True}]
    assert "words-of-the-operator" not in json.dumps(reported())
    solward("enable", "acme-tools")
    # Here nothing is imported from a folder of its own, which is a problem too.
    assert reported()["state"] == "problem"


@pytest.mark.more
def test_what_it_needs_is_shown_and_more_at_an_upgrade_is_asked_about(
    home: Path, tmp_path: Path
) -> None:
    paths = [
        str(wheel(tmp_path, version=version, source=with_manifest(*sites)))
        for version, *sites in (
            ("1.0", "a.example.com"),
            ("1.1", "a.example.com"),
            ("1.2", "a.example.com", "b.example.com"),
        )
    ]
    refused = solward("install", paths[0], status=2)
    assert "acme needs network: a.example.com" in refused.stdout
    assert "was not accepted; nothing has changed" in refused.stderr
    solward("install", paths[0], "--yes")
    # The same needs: nobody is asked.
    assert "needs" not in solward("upgrade", paths[1]).stdout
    refused = solward("upgrade", paths[2], status=2)
    assert "acme needs network: b.example.com" in refused.stdout
    [kept], _ = layout.installed(home)
    assert kept.version == "1.1"
    solward("upgrade", paths[2], "--yes")
    assert listed()[0]["acme"]["needs"] == ["network: a.example.com", "network: b.example.com"]


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        ("acme", {"schema": "{'type': 'object'}"}, "bad_schema: schema: an object must have"),
        ("acme", {"settings": "{'type': 'object'}"}, "bad_schema: settings: schema: an object"),
        ("acme", {"examples": "({'x': 1},)"}, "bad_contract: examples[0]: unknown field 'x'"),
        ("transfer", {}, "name_conflict: also provided by solward"),
        ("acme", {"extra": "raise RuntimeError('no luck')"}, "import_failed"),
        ("Acme", {}, "bad_contract: an entry point's name must be like my_skill"),
    ],
)
def test_what_a_service_would_leave_out_is_not_installed(
    home: Path, tmp_path: Path, name: str, spec: dict[str, str], said: str
) -> None:
    path = wheel(tmp_path, plugin=name, source=skill_source(name, **spec))
    refused = solward("install", str(path), "--yes", status=2)
    assert f"{name} of acme-tools 1.0 cannot be loaded: {said}" in refused.stderr
    assert layout.installed(home) == ([], {})
    # Nor does it take the place of a version that is loaded.
    solward("install", str(wheel(tmp_path, version="0.9")), "--yes")
    assert said in solward("upgrade", str(path), "--yes", status=2).stderr
    [kept], _ = layout.installed(home)
    assert kept.version == "0.9"


@pytest.mark.more
@promise("no-more-than-accepted")
def test_needs_that_were_not_accepted_are_not_loaded(home: Path, tmp_path: Path) -> None:
    """A declaration is code: here it says something else than it did at the installation."""
    solward("install", str(wheel(tmp_path, source=with_manifest("a.example.com"))), "--yes")
    [one], _ = layout.installed(home)
    (one.folder / "acme_tools_acme.py").write_text(with_manifest("a.example.com", "b.example.com"))
    row = listed()[0]["acme"]
    assert row["problem"] == "not_accepted"
    assert "network: b.example.com" in row["detail"]
    assert "a.example.com" not in row["detail"]


PROVIDER = """
from solward import Completion, Manifest, ProviderSpec, Secret, hookimpl

@hookimpl
def provider_spec():
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    key, address = SPEC
    manifest = Manifest(("a.example.com",), secrets=(Secret(key, "a.example.com"),))
    return ProviderSpec("acme", "m", schema, key, address, manifest=manifest)

@hookimpl
async def provider_complete(request, options):
    return Completion("fine")
"""


@promise("no-more-than-accepted")
@pytest.mark.more
@pytest.mark.parametrize(
    ("group", "accepted", "loaded", "words"),
    [
        (
            "solward.skills",
            skill_source("acme"),
            skill_source("acme", effects="__import__('solward').Effects.SPEND"),
            "effects: spend",
        ),
        (
            "solward.providers",
            PROVIDER.replace("SPEC", "'ACME_KEY', 'ACME_URL'"),
            PROVIDER.replace("SPEC", "'OPENAI_API_KEY', 'ACME_URL'"),
            "key: OPENAI_API_KEY",
        ),
        (
            "solward.providers",
            PROVIDER.replace("SPEC", "'ACME_KEY', 'ACME_URL'"),
            PROVIDER.replace("SPEC", "'ACME_KEY', 'OTHER_URL'"),
            "address, which gets the key: OTHER_URL",
        ),
    ],
)
def test_effects_and_variables_that_were_not_accepted_are_not_loaded(
    home: Path, tmp_path: Path, group: str, accepted: str, loaded: str, words: str
) -> None:
    path = wheel(tmp_path, source=accepted, group=group)
    assert words not in solward("install", str(path), "--yes").output
    assert listed()[0]["acme"]["status"] == "loaded"
    [one], _ = layout.installed(home)
    (one.folder / "acme_tools_acme.py").write_text(loaded)
    row = listed()[0]["acme"]
    assert (row["problem"], words in row["detail"]) == ("not_accepted", True)
    assert "ACME_KEY" not in row["detail"]
    assert "ACME_URL" not in row["detail"]
    # Installed anew it is shown before it is accepted.
    solward("remove", "acme-tools")
    path = wheel(tmp_path, source=loaded, group=group)
    assert f"acme needs {words}" in solward("install", str(path), status=2).stdout


@pytest.mark.more
def test_what_the_environment_has_too_runs_from_there_and_is_said_to(
    home: Path, tmp_path: Path, shelf: Shelf
) -> None:
    solward("install", str(wheel(tmp_path)), "--yes")
    shelf.install("acme-tools", {"acme": skill_source("acme")})
    info = shelf.path / "acme_tools-1.5.dist-info"
    (info / "RECORD").write_text("acme.pth,,\nacme/x.pth,,\nacme/__init__.py,,\n")
    (shelf.path / "acme.pth").touch()
    raw = json.loads(solward("list", "--json").stdout)
    found = {(row["version"], row["status"], row["problem"]) for row in raw["plugins"]}
    assert ("1.5", "loaded", "") in found
    assert ("1.0", "left out", "name_conflict") in found
    [place] = raw["distributions"]
    assert (place["version"], place["own"], place["runsInService"]) == ("1.5", None, ["acme.pth"])
    trust = "acme-tools 1.5 is in the service's environment: the service runs its acme.pth"
    assert trust in solward("list").stderr


@pytest.mark.more
def test_a_folder_without_its_metadata_is_named(home: Path, tmp_path: Path) -> None:
    solward("install", str(wheel(tmp_path)), "--yes")
    [one], _ = layout.installed(home)
    [info] = one.folder.glob("*.dist-info")
    info.rename(one.folder / "elsewhere")
    [problem] = load_registry(home=home).problems
    assert (problem.plugin, problem.distribution, problem.code) == (
        "*",
        "acme-tools",
        "import_failed",
    )
