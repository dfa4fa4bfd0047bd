"""Homes with wallets in them, and the commands on them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.testing import CliRunner, Result

from solward.database.database import Database
from solward.settings import Settings
from solward.vault.custody import Wallet, Wallets
from solward_cli import main

PASSPHRASE = "correct horse battery"
TWICE = f"{PASSPHRASE}\n{PASSPHRASE}\n"
KEYSTORE = {"KEYSTORE_PASSPHRASE": "the keystore's own"}


def furnish(home: Path, wallets: int = 3, **given: str) -> list[Wallet]:
    """A home with wallets; `given` are variables of its environment."""

    async def make() -> list[Wallet]:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        fields = {name.lower(): value for name, value in given.items()}
        settings = Settings(_env_file=None, solward_home=home, **fields)  # type: ignore[arg-type]
        database = await Database.open(settings.database_url, home)
        try:
            opened = await Wallets.open(database, settings, home)
            return [await opened.create(f"wallet {number}") for number in range(wallets)]
        finally:
            await database.close()

    return asyncio.run(make())


def signs(home: Path, **given: str) -> list[str]:
    """The addresses of a home's wallets, each proved by a signature."""

    async def ask() -> list[str]:
        fields = {name.lower(): value for name, value in given.items()}
        settings = Settings(_env_file=None, solward_home=home, **fields)  # type: ignore[arg-type]
        database = await Database.open(settings.database_url, home)
        try:
            opened = await Wallets.open(database, settings, home)
            found = await opened.list()
            for wallet in found:
                assert len(await (await opened.signer(wallet.id)).sign(b"message")) == 64
            return [wallet.address for wallet in found]
        finally:
            await database.close()

    return asyncio.run(ask())


def solward(home: Path, *arguments: str | Path, typed: str = "", **environment: str) -> Result:
    """Run a command on a home, typing `typed` at its prompts."""
    given = {"SOLWARD_HOME": str(home), "KEYSTORE_PASSPHRASE": None} | environment
    runner = CliRunner(env=given)
    return runner.invoke(main, [str(each) for each in arguments], input=typed)


def backed_up(home: Path, file: Path, **environment: str) -> Path:
    """A backup of `home` in `file`."""
    result = solward(home, "backup", file, typed=TWICE, **environment)
    assert result.exit_code == 0, result.output
    return file


def refused(result: Result) -> str:
    """The one line of a refusal."""
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]
