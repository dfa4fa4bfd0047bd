"""Commands for a stopped service, where the service is any number of processes on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from solders.keypair import Keypair

from solward.database.database import Database
from solward.vault.store import processes
from solward_cli import main

pytestmark = pytest.mark.more

FITS = f"The queue's tables match procrastinate {version('procrastinate')}.\n"


def cli(url: str, home: Path, *arguments: str, typed: str | None = None) -> Result:
    environment = {
        "SOLWARD_HOME": str(home),
        "DATABASE_URL": url,
        "KEYSTORE_PASSPHRASE": "",
        "KEYSTORE_KEY_FILE": "",
    }
    return CliRunner(env=environment).invoke(main, list(arguments), input=typed)


def with_lease(url: str, home: Path, lease_ms: int) -> None:
    """As if a worker on host `far-away` had a lease for so long."""

    async def register() -> None:
        database = await Database.open(url, home)
        try:
            async with database.write() as connection:
                await processes.register(connection, "p1", "worker", "far-away", lease_ms)
        finally:
            await database.close()

    asyncio.run(register())


def without_lease(url: str, home: Path) -> None:
    async def remove() -> None:
        database = await Database.open(url, home)
        try:
            async with database.write() as connection:
                await processes.remove(connection, "p1")
        finally:
            await database.close()

    asyncio.run(remove())


@pytest.fixture
def keypair_file(tmp_path: Path) -> Path:
    file = tmp_path / "id.json"
    file.write_text(json.dumps(list(bytes(Keypair()))))
    return file


def test_they_wait_until_no_process_of_the_database_lives(
    postgres_url: str, tmp_path: Path, keypair_file: Path
) -> None:
    home = tmp_path / "home"
    made = cli(postgres_url, home, "wallet", "import", str(keypair_file), "--name", "mine")
    assert made.exit_code == 0, made.output
    key = (home / "keystore.key").read_bytes()
    out = tmp_path / "out.json"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(list(bytes(Keypair()))))
    commands = (
        ("wallet", "import", str(other)),
        ("wallet", "export", "mine", "--out", str(out)),
        ("keystore", "rotate"),
        ("database", "upgrade"),
    )
    with_lease(postgres_url, home, 60_000)
    for command in commands:
        refused = cli(postgres_url, home, *command)
        assert refused.exit_code == 2, command
        assert "in use by worker on far-away; stop these processes" in refused.stderr
    assert (home / "keystore.key").read_bytes() == key
    assert not out.exists()

    # A killed process's lease runs out, one that ended took it back.
    without_lease(postgres_url, home)
    with_lease(postgres_url, home, -1)
    assert cli(postgres_url, home, *commands[0]).exit_code == 0
    rotated = cli(postgres_url, home, "keystore", "rotate")
    assert "Encrypted 2 keys with the new file." in rotated.output
    upgraded = cli(postgres_url, home, *commands[3])
    assert (upgraded.exit_code, upgraded.output) == (0, FITS)
    address = json.loads(keypair_file.read_text())
    typed = f"{Keypair.from_bytes(bytes(address)).pubkey()}\n"
    exported = cli(postgres_url, home, *commands[1], typed=typed)
    assert exported.exit_code == 0, exported.output
    assert json.loads(out.read_text()) == address
