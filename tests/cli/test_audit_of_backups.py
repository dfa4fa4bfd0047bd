"""What a hostile plugin keeps, so that no backup is made, or none can be restored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.cli import PASSPHRASE, TWICE, home_with_wallets, solward

from solward.plugins.folders.storage import empty_folder

ONCE = f"{PASSPHRASE}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home_with_wallets(tmp_path / "home")
    (tmp_path / "home" / "storage" / "acme").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def _shallow(tmp_path: Path) -> Iterator[None]:
    """What is too deep for pytest to delete is deleted here."""
    yield
    empty_folder(tmp_path / "home" / "storage")


def fill(folder: Path, depth: int, name: str, files: int) -> None:
    """Files below so many folders, made as a plugin host can: one after the other."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    for number in range(files):
        os.close(os.open(f"{number}", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=at))
    os.close(at)


@pytest.mark.more
@promise("restored-plugins-as-accepted")
@pytest.mark.parametrize(
    ("depth", "name", "files"),
    [
        pytest.param(1200, "d", 1, id="deep"),
        pytest.param(15, "d" * 250, 1, id="long", marks=pytest.mark.more),
        pytest.param(15, "d" * 240, 19_000, id="many", marks=pytest.mark.more),
    ],
)
def test_what_a_plugin_keeps_prevents_no_backup_and_no_restore(
    tmp_path: Path, home: Path, depth: int, name: str, files: int
) -> None:
    fill(home / "storage" / "acme", depth, name, files)
    (home / "storage" / "acme" / "plain").write_text("kept")
    file = tmp_path / "a.backup"
    made = solward(home, "backup", file, typed=TWICE)
    assert made.exit_code == 0, made.output
    assert "Left out" in made.output
    assert len(made.output) < 50_000
    target = tmp_path / ("r" * 200) / "restored"
    restored = solward(target, "restore", file, typed=ONCE)
    assert "3 of 3 keys open and match" in restored.output, restored.output
    assert (target / "storage" / "acme" / "plain").read_text() == "kept"
