"""What a backup covers of plugins: what was accepted, byte for byte, and what plugins keep."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.cli import PASSPHRASE, TWICE, backed_up, home_with_wallets, refused, solward
from tests.support.plugins import skill_source, wheel

from solward.backup.archive import (
    copy_plugins,
    is_plugin_path,
    read_archive,
    refused_plugins,
    write_archive,
)
from solward.hosts.plugins import plugin_hosts
from solward.plugins import Registry, open_registry
from solward.plugins.folders import layout
from solward.plugins.folders.install import install
from solward.testing.stand import open_stand
from solward.types.errors import GuardrailBlocked
from solward.types.manifest import Manifest, Terms
from solward.vault.store import spending

pytestmark = pytest.mark.samples(
    "test_any_change_of_the_files_is_found",
    "test_a_backup_cannot_name_files_elsewhere",
    "test_a_guardrail_that_is_not_restored_refuses_until_somebody_gives_it_up",
)

PICKY = """
from solward import hookimpl

@hookimpl
def guardrail_check(intent, effects):
    return None
"""
RECEIVER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
ONCE = f"{PASSPHRASE}\n"
SITE = skill_source("acme", manifest="__import__('solward').Manifest(sites=('a.example.com',))")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With three wallets, and a distribution in a folder of its own."""
    # pip takes a second, and has nothing to find.
    monkeypatch.setattr(
        "solward.plugins.folders.install._checked_report", lambda *_: {"acme-tools": {}}
    )
    home_with_wallets(tmp_path / "home")
    accepted = {"solward.skills:acme": Terms(Manifest(sites=("a.example.com",)))}
    install(
        tmp_path / "home",
        str(wheel(tmp_path, {"acme_words/a.py": "A = 1"}, source=SITE)),
        accept=lambda _proposal: True,
        declare=lambda _new: accepted,
    )
    return tmp_path / "home"


def tree(home: Path) -> Path:
    """Where the distribution's wheels are unpacked."""
    [one], unreadable = layout.installed(home)
    assert not unreadable
    return one.folder


def loaded(home: Path) -> Registry:
    """What a service would load of a home."""

    async def load() -> Registry:
        async with plugin_hosts() as hosts:
            return await open_registry(("*",), hosts=hosts, home=home)

    return asyncio.run(load())


def test_it_is_restored_as_it_was_accepted_and_runs(tmp_path: Path, home: Path) -> None:
    (tree(home) / "__pycache__").mkdir()
    (tree(home) / "__pycache__" / "acme_tools_acme.cpython-311.pyc").write_bytes(b"planted")
    kept = home / "storage" / "acme-tools" / "deep"
    kept.mkdir(parents=True)
    (kept / "ledger.txt").write_text("what it keeps")
    file = tmp_path / "a.backup"
    made = solward(home, "backup", file, typed=TWICE)
    assert "solward.db, keystore.key, plugins/acme-tools, storage/acme-tools\n" in made.output
    assert "Left out" not in made.output
    target = tmp_path / "restored"
    restored = solward(target, "restore", file, typed=ONCE)
    assert "3 of 3 keys open and match" in restored.output
    assert "Left out" not in restored.output
    before, after = (layout.read(each, "acme-tools") for each in (home, target))
    assert before is not None
    assert after is not None
    assert (after.wheels, after.accepted) == (before.wheels, before.accepted)
    assert not (tree(target) / "__pycache__").exists()
    assert (target / "storage" / "acme-tools" / "deep" / "ledger.txt").read_text() == (
        "what it keeps"
    )
    for place in (target / "plugins", target / "storage"):
        found = [place, *place.rglob("*")]
        assert {each.stat().st_mode & 0o077 for each in found} == {0}
    assert "acme" in loaded(target).skills


def changed(folder: Path) -> None:
    (folder / "acme_words" / "a.py").write_text("A = 2")


def added(folder: Path) -> None:
    (folder / "acme_words" / "b.py").write_text("B = 1")


def removed(folder: Path) -> None:
    (folder / "acme_words" / "a.py").unlink()


def moved(folder: Path) -> None:
    (folder / "acme_words" / "a.py").rename(folder / "acme_a.py")


@promise("restored-plugins-as-accepted")
@pytest.mark.parametrize("change", [changed, added, removed, moved])
def test_any_change_of_the_files_is_found(
    tmp_path: Path, home: Path, change: Callable[[Path], None]
) -> None:
    change(tree(home))
    copy_plugins(home, tmp_path / "copy")
    assert list(refused_plugins(tmp_path / "copy")) == ["acme-tools"]


@promise("restored-plugins-as-accepted")
def test_bytes_that_were_not_accepted_are_not_restored(tmp_path: Path, home: Path) -> None:
    changed(tree(home))
    file = backed_up(home, tmp_path / "a.backup")
    said = "Left out: acme-tools 1.0: its files are not those that were accepted"
    assert said in solward(home, "backup", "verify", file, typed=ONCE).output
    target = tmp_path / "restored"
    restored = solward(target, "restore", file, typed=ONCE)
    assert said in restored.output
    assert "3 of 3 keys open and match" in restored.output
    assert layout.installed(target) == ([], {})


@promise("restored-plugins-as-accepted")
def test_terms_wider_than_accepted_are_not_loaded_in_a_restored_home(
    tmp_path: Path, home: Path
) -> None:
    one = layout.read(home, "acme-tools")
    assert one is not None
    # The code asks for a site; the record, from before, has none accepted.
    raw = (home / "plugins" / "acme-tools" / layout.RECORD).read_text()
    record = raw.replace('["a.example.com"]', "[]")
    assert record != raw
    (home / "plugins" / "acme-tools" / layout.RECORD).write_text(record)
    target = tmp_path / "restored"
    solward(target, "restore", backed_up(home, tmp_path / "a.backup"), typed=ONCE)
    registry = loaded(target)
    assert "acme" not in registry.skills
    assert [each.code for each in registry.problems] == ["not_accepted"]


@promise("restored-plugins-as-accepted")
def test_what_plugins_plant_in_their_storage_is_neither_followed_nor_waited_for(
    tmp_path: Path, home: Path
) -> None:
    kept = home / "storage" / "acme-tools"
    kept.mkdir(parents=True)
    (kept / "key").symlink_to(home / "keystore.key")
    (kept / "all").symlink_to(home)
    os.mkfifo(kept / "fifo")
    (kept / "plain").write_text("kept")
    (kept / os.fsdecode(b"\xff" * 255)).write_text("a name that is no text")
    (kept / ("n" * 255)).write_text("a long name")
    file = tmp_path / "a.backup"
    made = solward(home, "backup", file, typed=TWICE)
    assert made.exit_code == 0, made.output
    assert made.output.count("Left out") == 1
    assert "its name is not UTF-8" in made.output
    target = tmp_path / "restored"
    assert solward(target, "restore", file, typed=ONCE).exit_code == 0
    assert sorted(os.listdir(target / "storage" / "acme-tools")) == ["n" * 255, "plain"]


def test_a_backup_cannot_name_files_elsewhere(tmp_path: Path, home: Path) -> None:
    """Whoever made it: it needs the passphrase, and still puts nothing where it likes."""
    for name, allowed in {
        "storage/acme/x": True,
        "plugins/acme/1.0-0123/a/b.py": True,
        "plugins/../escaped": False,
        "storage/acme/../../../escaped": False,
        "storage/acme/./x": False,
        "storage/acme//x": False,
        "/escaped": False,
        "plugins/.trash-1/x": False,
        "other/acme/x": False,
        "storage/x": False,
        "storage/acme/a\0b": False,
    }.items():
        assert is_plugin_path(name) is allowed, name
    file, folder = backed_up(home, tmp_path / "a.backup"), tmp_path / "files"
    folder.mkdir()
    manifest = read_archive(file, folder, PASSPHRASE)
    (tmp_path / "escaped").write_text("12345")
    files = {**manifest.files, "../escaped": 5}
    write_archive(tmp_path / "bad", folder, replace(manifest, files=files), PASSPHRASE)
    told = refused(solward(tmp_path / "restored", "restore", tmp_path / "bad", typed=ONCE))
    assert "This version cannot read the backup's manifest" in told
    assert not (tmp_path / "restored").exists()


@pytest.mark.more
@promise("restored-plugins-as-accepted")
def test_a_guardrail_that_is_not_restored_refuses_until_somebody_gives_it_up(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore must not be a way past a rule: without its bytes nothing is paid."""
    monkeypatch.setattr(
        "solward.plugins.folders.install._checked_report", lambda *_: {"careful": {}}
    )
    rule = wheel(tmp_path, name="careful", plugin="picky", group="solward.guardrails", source=PICKY)
    install(home, str(rule), accept=lambda _proposal: True)

    async def pays(of: Path) -> str:
        async with open_stand(of) as stand:
            async with stand.service.database.write() as connection:
                await spending.set_frozen(connection, "service", False, None)
            wallet = await stand.wallet("a", sol=2)
            try:
                return await wallet.run("transfer", to=RECEIVER, amount=Decimal("0.5"))
            except GuardrailBlocked as error:
                return str(error.rule)

    assert "Sent 0.5 SOL" in asyncio.run(pays(home))
    [_, one], _ = layout.installed(home)
    (one.folder / "careful_picky.py").write_text(PICKY + "\n# changed\n")
    target = tmp_path / "restored"
    solward(target, "restore", backed_up(home, tmp_path / "a.backup"), typed=ONCE)
    assert [each.name for each in layout.installed(target)[0]] == ["acme-tools"]
    assert asyncio.run(pays(target)) == "picky"
    assert solward(target, "plugins", "remove", "careful", "--lost").exit_code == 0
    assert "Sent 0.5 SOL" in asyncio.run(pays(target))
