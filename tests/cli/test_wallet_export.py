"""Taking a key along: who may, what is written, and what is told of it."""

from __future__ import annotations

import json
import os
import pty
import select
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.cli import KEYSTORE, home_with_wallets, refused, solward
from tests.support.processes import running

from solward.database.database import Database
from solward.types.errors import InvalidRequest
from solward.vault.custody.export import write_keypair

SECRET = f"{KEYSTORE['KEYSTORE_PASSPHRASE']}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "id.json"


def exported(home: Path) -> list[dict[str, str]]:
    """What the audit log tells of exports."""
    connection = sqlite3.connect(home / "solward.db")
    rows = connection.execute(
        "SELECT data FROM audit WHERE event = 'wallet:exported' ORDER BY seq"
    ).fetchall()
    connection.close()
    return [json.loads(data) for (data,) in rows]


@pytest.mark.parametrize("named", ["id", "name", "address"])
@pytest.mark.parametrize("protected", [True, False], ids=["passphrase", "key file"])
def test_the_exported_key_is_the_wallets_and_imports_elsewhere(
    tmp_path: Path, home: Path, file: Path, protected: bool, named: str
) -> None:
    first, second, _ = home_with_wallets(home, **(KEYSTORE if protected else {}))
    typed = SECRET if protected else f"{second.address}\n"
    result = solward(home, "wallet", "export", getattr(second, named), "--out", file, typed=typed)
    assert result.exit_code == 0, result.output
    assert f"Address: {second.address}" in result.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    numbers = json.loads(file.read_text())
    pair = Keypair.from_bytes(bytes(numbers))
    assert str(pair.pubkey()) == second.address
    assert str(Keypair.from_json(file.read_text()).pubkey()) == second.address
    # Neither the key nor what was typed is shown.
    assert str(pair) not in result.output
    assert str(numbers[:8])[1:-1] not in result.output
    assert KEYSTORE["KEYSTORE_PASSPHRASE"] not in result.output
    assert "Only Solward derives the keys of the wallet's pockets" in result.output
    assert exported(home) == [
        {"walletId": second.id, "name": second.name, "address": second.address, "principal": "cli"}
    ]
    elsewhere = solward(tmp_path / "elsewhere", "wallet", "import", file)
    assert f"Address: {second.address}" in elsewhere.output
    assert first.address != second.address


@pytest.mark.more
def test_the_environments_passphrase_does_not_count(home: Path, file: Path) -> None:
    (wallet,) = home_with_wallets(home, 1, **KEYSTORE)
    # Nobody types: what is in the environment is not taken instead.
    silent = solward(home, "wallet", "export", wallet.id, "--out", file, **KEYSTORE)
    assert silent.exit_code == 1
    wrong = solward(
        home, "wallet", "export", wallet.id, "--out", file, typed="another\n", **KEYSTORE
    )
    assert "What was typed is not this keystore's passphrase" in refused(wrong)
    right = solward(
        home, "wallet", "export", wallet.id, "--out", file, typed=SECRET, KEYSTORE_PASSPHRASE="no"
    )
    assert right.exit_code == 0, right.output
    assert len(exported(home)) == 1


@pytest.mark.parametrize("typed", ["yes\n", "wallet 0\n", "\n" * 3])
def test_with_a_key_file_the_address_itself_must_be_typed(
    home: Path, file: Path, typed: str
) -> None:
    (wallet,) = home_with_wallets(home, 1)
    result = solward(home, "wallet", "export", wallet.id, "--out", file, typed=typed)
    assert result.exit_code in (1, 2)
    assert not file.exists()
    assert exported(home) == []


def test_no_file_is_overwritten_and_nothing_is_written_to_a_device(
    tmp_path: Path, home: Path, file: Path
) -> None:
    (wallet,) = home_with_wallets(home, 1)
    file.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    for out in (file, link, Path("/dev/stdout"), Path("/dev/null"), home):
        # Before anything is asked.
        told = solward(home, "wallet", "export", wallet.id, "--out", out, typed="")
        assert "exists already" in refused(told)
        with pytest.raises(InvalidRequest, match="exists already"):
            write_keypair(out, Keypair())
    nowhere = tmp_path / "no" / "where"
    told = solward(
        home, "wallet", "export", wallet.id, "--out", nowhere, typed=f"{wallet.address}\n"
    )
    assert "cannot be written" in refused(told)
    assert (file.read_text(), exported(home)) == ("mine", [])
    assert not (tmp_path / "target").exists()


def test_a_key_that_is_not_on_record_is_not_given_away(
    home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wallet,) = home_with_wallets(home, 1)

    async def refuses(self: Database, connection: object, recorded: object) -> None:
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr(Database, "_end_events", refuses)
    result = solward(
        home, "wallet", "export", wallet.id, "--out", file, typed=f"{wallet.address}\n"
    )
    assert result.exit_code != 0
    assert not file.exists()


def test_an_unknown_or_ambiguous_wallet_is_refused(home: Path, file: Path) -> None:
    home_with_wallets(home)
    connection = sqlite3.connect(home / "solward.db")
    connection.execute("UPDATE wallets SET name = 'twin' WHERE name != 'wallet 0'")
    connection.commit()
    connection.close()
    assert "No wallet here" in refused(solward(home, "wallet", "export", "x", "--out", file))
    assert "2 wallets have the name" in refused(
        solward(home, "wallet", "export", "twin", "--out", file)
    )


def test_a_key_that_was_tampered_with_is_not_exported(home: Path, file: Path) -> None:
    (wallet,) = home_with_wallets(home, 1)
    connection = sqlite3.connect(home / "solward.db")
    connection.execute("UPDATE wallets SET sealed_key = CAST(x'00' || sealed_key AS BLOB)")
    connection.commit()
    connection.close()
    result = solward(
        home, "wallet", "export", wallet.id, "--out", file, typed=f"{wallet.address}\n"
    )
    assert "cannot be opened" in refused(result)
    assert not file.exists()


@pytest.mark.more
@promise("key-never-in-clear")
def test_while_the_service_runs_no_key_leaves(home: Path, file: Path) -> None:
    (wallet,) = home_with_wallets(home, 1)
    with running(home, "server", "start", "--port", "0", last="Health:"):
        result = solward(
            home, "wallet", "export", wallet.id, "--out", file, typed=f"{wallet.address}\n"
        )
        assert "is in use by process" in refused(result)
    assert not file.exists()


@pytest.mark.more
def test_at_a_real_terminal_the_passphrase_is_not_echoed(home: Path, file: Path) -> None:
    (wallet,) = home_with_wallets(home, 1, **KEYSTORE)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "solward_cli", "wallet", "export", wallet.id, "--out", str(file)],
        env={"PATH": os.environ["PATH"], "SOLWARD_HOME": str(home)},
        cwd=home.parent,
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            shown += part
            if b"passphrase:" in shown:
                os.write(master, SECRET.encode())
                break
    while process.poll() is None and time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                shown += os.read(master, 4096)
            except OSError:
                break
    assert process.wait(30) == 0, shown
    os.close(master)
    assert KEYSTORE["KEYSTORE_PASSPHRASE"].encode() not in shown
    assert file.exists()
