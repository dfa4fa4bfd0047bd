"""The key file: its owner's alone, whole, and never overwritten."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.promises import promise

from solward.types.errors import KeystoreError
from solward.vault.custody.keyring import create_key, read_key, replace_key


@promise("keys-sealed-per-wallet")
def test_a_new_key_is_32_random_bytes_for_its_owner_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        first, second = create_key(tmp_path / "a"), create_key(tmp_path / "b")
    finally:
        os.umask(old)
    assert len(first) == 32
    assert first != second
    assert read_key(tmp_path / "a") == first
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_file_open_to_others_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    create_key(path)
    path.chmod(mode)
    with pytest.raises(KeystoreError, match=rf"\(mode {mode:04o}\); run: chmod 600 {path}"):
        read_key(path)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(b"k" * length)
    with pytest.raises(KeystoreError, match="exactly 32 bytes"):
        read_key(path)


def test_a_missing_key_is_never_made_anew_by_reading(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError, match=r"is missing; restore it"):
        read_key(tmp_path / "key")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_key_is_never_overwritten(tmp_path: Path) -> None:
    key = create_key(tmp_path / "key")
    with pytest.raises(KeystoreError, match="exists already"):
        create_key(tmp_path / "key")
    assert read_key(tmp_path / "key") == key
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError, match="cannot be written: No such file"):
        create_key(tmp_path / "missing" / "key")


def test_what_a_killed_process_left_half_made_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / f".key.{os.getpid()}.new").write_bytes(b"half")
    assert len(create_key(tmp_path / "key")) == 32


def test_a_new_file_takes_the_old_ones_place(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    new = create_key(tmp_path / "next")
    replace_key(tmp_path / "next", tmp_path / "key")
    assert read_key(tmp_path / "key") == new


def test_a_descriptor_gives_the_key_too() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"k" * 32)
    os.close(writing)
    assert read_key(Path(f"/dev/fd/{reading}")) == b"k" * 32
    os.close(reading)
