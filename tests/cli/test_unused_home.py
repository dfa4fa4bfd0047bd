"""A home that was mistyped, or is empty: commands on what is there make nothing in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.cli import PASSPHRASE, refused, solward

from solward.database.database import Database

NEW = f"{PASSPHRASE}, another\n" * 2
COMMANDS = [
    ("wallet", "export", "mine", "--out", "key.json"),
    ("keystore", "rotate"),
    ("database", "upgrade"),
    ("keystore", "rotate", "--to", "passphrase"),
    ("tokens", "clear"),
    ("audit", "verify"),
    ("backup", "--passphrase-file", "words", "file.backup"),
    ("wallet", "import", "no_key.json"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no_key.json").write_text("[1, 2]")
    (tmp_path / "words").touch(0o600)
    (tmp_path / "words").write_text(PASSPHRASE)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_is_refused_in_an_unused_home_makes_nothing_in_it(
    folder: Path, command: tuple[str, ...]
) -> None:
    before = sorted(folder.iterdir())
    mistyped, empty = folder / "mistyped", folder / "empty"
    told = refused(solward(mistyped, *command, typed=NEW))
    assert str(mistyped) in told or command[1] == "import"
    assert sorted(folder.iterdir()) == before
    empty.mkdir()
    refused(solward(empty, *command, typed=NEW))
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS[:5], ids=" ".join)
def test_a_database_without_a_keystore_is_left_as_it_is(
    folder: Path, command: tuple[str, ...]
) -> None:
    """What such a command made itself, in releases before."""
    home = folder / "home"
    home.mkdir(0o700)

    async def make() -> None:
        await (await Database.open(None, home)).close()

    asyncio.run(make())
    told = refused(solward(home, *command, typed=NEW))
    assert f"No service ever used SOLWARD_HOME {home}" in told
    assert not (home / "keystore.key").exists()
    assert not (home / "solward.lock").exists()
