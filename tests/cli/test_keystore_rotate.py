"""A new secret for the wallets' keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.promises import promise

from solward.database.database import Database
from solward.settings import Settings
from solward.settings.home import Home
from solward.types.errors import KeystoreError
from solward.vault.custody import Wallets
from solward_cli import main

OLD, NEW = "correct horse battery staple", "another horse, another battery"


def rotate(home: Path, *options: str, typed: str = "", **environment: str) -> Result:
    given = {"SOLWARD_HOME": str(home), **environment}
    return CliRunner(env=given).invoke(main, ["keystore", "rotate", *options], input=typed)


async def _addresses(home: Path, passphrase: str | None, create: int) -> list[str]:
    settings = Settings(_env_file=None, solward_home=home, keystore_passphrase=passphrase)
    home.mkdir(exist_ok=True, mode=0o700)
    database = await Database.open(None, home)
    try:
        wallets = await Wallets.open(database, settings, home)
        for _ in range(create):
            await wallets.create()
        opened = [await wallets.signer(wallet.id) for wallet in await wallets.list()]
        for signer in opened:
            await signer.sign(b"proof")
        return sorted(wallet.address for wallet in await wallets.list())
    finally:
        await database.close()


def addresses(home: Path, passphrase: str | None = None, create: int = 0) -> list[str]:
    """Every wallet's address, once its key has signed."""
    return asyncio.run(_addresses(home, passphrase, create))


def refused(home: Path, passphrase: str | None) -> bool:
    try:
        addresses(home, passphrase)
    except KeystoreError:
        return True
    return False


def test_a_new_key_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = addresses(home, create=3)
    before = (home / "keystore.key").read_bytes()
    result = rotate(home)
    assert result.exit_code == 0, result.output
    assert "Encrypted 3 keys with the new file." in result.output
    after = (home / "keystore.key").read_bytes()
    assert after != before
    assert addresses(home) == made
    (home / "keystore.key").write_bytes(before)
    assert refused(home, None)


def test_a_new_passphrase_is_asked_twice_and_never_shown(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = addresses(home, OLD, create=1)
    differs = rotate(home, typed=f"{NEW}\nx\n{NEW}\n{NEW}\n", KEYSTORE_PASSPHRASE=OLD)
    assert differs.exit_code == 0, differs.output
    assert "do not match" in differs.output
    assert "Encrypted 1 key with the new passphrase." in differs.output
    assert NEW not in differs.output
    assert OLD not in differs.output
    assert addresses(home, NEW) == made
    assert refused(home, OLD)


@pytest.mark.more
def test_a_key_file_gives_way_to_a_passphrase(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = addresses(home, create=1)
    result = rotate(home, "--to", "passphrase", typed=f"{NEW}\n{NEW}\n")
    assert result.exit_code == 0, result.output
    assert addresses(home, NEW) == made
    assert refused(home, None)


@pytest.mark.more
@promise("weak-secrets-refused")
def test_a_wrong_passphrase_a_blank_one_and_a_running_service_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = addresses(home, OLD, create=1)
    wrong = rotate(home, typed=f"{NEW}\n{NEW}\n", KEYSTORE_PASSPHRASE="not it")
    assert wrong.exit_code == 2
    assert "KEYSTORE_PASSPHRASE is not" in wrong.stderr
    assert "New passphrase" not in wrong.output, "what cannot be done is not asked for"
    blank = rotate(home, typed="  \n  \n", KEYSTORE_PASSPHRASE=OLD)
    assert (blank.exit_code, "must not be blank" in blank.stderr) == (2, True)
    short = rotate(home, typed="too short\ntoo short\n", KEYSTORE_PASSPHRASE=OLD)
    assert (short.exit_code, "must have at least 16 bytes" in short.stderr) == (2, True)
    with Home.opened(home):
        busy = rotate(home, typed=f"{NEW}\n{NEW}\n", KEYSTORE_PASSPHRASE=OLD)
    assert (busy.exit_code, "is in use by process" in busy.stderr) == (2, True)
    assert "New passphrase" not in busy.output
    assert addresses(home, OLD) == made
