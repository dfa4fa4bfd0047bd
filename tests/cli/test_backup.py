"""`solward backup`, `backup verify` and `restore` on real homes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from solders.pubkey import Pubkey
from tests.promises import promise
from tests.support.cli import (
    KEYSTORE,
    PASSPHRASE,
    TWICE,
    addresses_that_sign,
    backed_up,
    home_with_wallets,
    refused,
    solward,
)
from tests.support.database import hold_row
from tests.support.repository import TESTS

from solward.backup.archive import Manifest, write_archive
from solward.credentials.credentials import Credentials, hash_of
from solward.database.database import Database
from solward.database.schema import schema_of
from solward.operations.contacts import Contacts
from solward.operations.policies.changes import replace_policy
from solward.resources.credentials import NewAdmin
from solward.settings import Settings
from solward.settings.home import Home
from solward.types.record import HoldState
from solward.vault.custody import Wallets
from solward.vault.store import holds, spending
from solward.vault.store import pockets as pocket_store
from solward.vault.store.pockets import PocketRow, PocketState
from solward.vault.store.wallets import list_wallets, set_ceilings
from solward_server.http.auth import Caller
from solward_server.resources.credentials import new_admin

ONCE = f"{PASSPHRASE}\n"
ROTATING = TESTS / "vault" / "custody" / "rotating.py"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "solward.backup"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("secret", [{}, KEYSTORE], ids=["key file", "passphrase"])
def test_a_backup_is_restored_with_every_key_proved(
    tmp_path: Path, home: Path, file: Path, secret: dict[str, str]
) -> None:
    wallets = home_with_wallets(home, **secret)
    made = solward(home, "backup", file, typed=TWICE)
    assert made.exit_code == 0, made.output
    assert ("keystore.key" in made.output) is (not secret)
    assert mode(file) == 0o600
    assert sorted(each.name for each in home.iterdir() if each.name[0] == ".") == []
    target = tmp_path / "restored"
    typed = ONCE + "".join(f"{value}\n" for value in secret.values())
    restored = solward(target, "restore", file, typed=typed)
    assert restored.exit_code == 0, restored.output
    assert "3 of 3 keys open and match" in restored.output
    assert mode(target) == 0o700
    assert {mode(each) for each in target.iterdir()} == {0o600}
    expected = {"solward.db", "solward.lock"} | ({"keystore.key"} if not secret else set())
    assert {each.name for each in target.iterdir()} == expected
    # Wallets that were made in one millisecond have no order.
    assert sorted(addresses_that_sign(target, **secret)) == sorted(
        wallet.address for wallet in wallets
    )


@pytest.mark.more
@promise("credentials-stored-hashed")
def test_admin_credentials_are_restored_as_they_were(
    tmp_path: Path, home: Path, file: Path
) -> None:
    async def make() -> tuple[str, str]:
        database = await Database.open(None, home)
        credentials = Credentials(database)
        try:
            # Whoever writes to the audit log has its key.
            await Wallets.open(database, Settings(_env_file=None, solward_home=home), home)
            kept, one = new_admin(NewAdmin(name="ana", role="operate"), Caller())
            gone, other = new_admin(NewAdmin(name="ben", role="read"), Caller())
            await credentials.add(one)
            await credentials.add(other)
            await credentials.revoke(other.id, is_admins=True)
            return kept, gone
        finally:
            await database.close()

    async def found(secret: str) -> str | None:
        database = await Database.open(None, tmp_path / "restored")
        try:
            credential = await Credentials(database).find(hash_of(secret))
            return None if credential is None else f"{credential.name}: {credential.role}"
        finally:
            await database.close()

    home_with_wallets(home)
    kept, gone = asyncio.run(make())
    backed_up(home, file)
    restored = solward(tmp_path / "restored", "restore", file, typed=ONCE)
    assert restored.exit_code == 0, restored.output
    assert asyncio.run(found(kept)) == "ana: operate"
    assert asyncio.run(found(gone)) is None


@pytest.mark.more
@promise("restored-home-is-frozen")
def test_a_restored_home_is_frozen_and_keeps_the_reason_of_an_older_freeze(
    tmp_path: Path, home: Path
) -> None:
    async def frozen(of: Path, reason: str | None = None) -> str | None:
        database = await Database.open(None, of)
        try:
            await Wallets.open(database, Settings(_env_file=None, solward_home=of), of)
            if reason is not None:
                async with database.write() as connection:
                    await spending.set_frozen(connection, "service", True, reason)
            async with database.read() as connection:
                return await spending.freeze_reason(connection, "any")
        finally:
            await database.close()

    home_with_wallets(home)
    for number, reason in enumerate((None, "an incident")):
        assert asyncio.run(frozen(home, reason)) == reason
        file = backed_up(home, tmp_path / f"{number}.backup")
        target = tmp_path / f"restored-{number}"
        restored = solward(target, "restore", file, typed=ONCE)
        assert "The service starts frozen" in restored.output
        made = next(line for line in restored.output.splitlines() if line.startswith("Created:"))
        found = asyncio.run(frozen(target))
        assert found == (reason or f"restored from the backup of {made.split()[1]}")


@pytest.mark.more
def test_a_restored_wallet_uses_none_of_the_pockets_it_may_have_used_since(
    tmp_path: Path, home: Path, file: Path
) -> None:
    async def next_counters(of: Path, use: int = 0) -> list[int]:
        settings = Settings(_env_file=None, solward_home=of)
        database = await Database.open(settings.database_url, of)
        try:
            wallets = await Wallets.open(database, settings, of)
            found = []
            for wallet in await wallets.list():
                async with wallets.new_pocket(wallet.id) as pocket:
                    found.append(pocket.counter)
                    if use:
                        row = PocketRow(
                            wallet.id, use, pocket.address, None, None, None, (), None,
                            PocketState.SINGLE, 1,
                        )  # fmt: skip
                        async with database.write() as connection:
                            await pocket_store.add(connection, row)
            return found
        finally:
            await database.close()

    home_with_wallets(home)
    assert set(asyncio.run(next_counters(home, use=7))) == {1}
    backed_up(home, file)
    elsewhere = tmp_path / "elsewhere"
    assert solward(elsewhere, "restore", file, typed=f"{PASSPHRASE}\n").exit_code == 0
    assert set(asyncio.run(next_counters(home))) == {8}
    assert set(asyncio.run(next_counters(elsewhere))) == {1008}


@promise("naming-widens-nothing")
def test_a_restored_home_has_the_names_groups_and_ceilings_of_the_backup(
    tmp_path: Path, home: Path, file: Path
) -> None:
    async def changed(
        of: Path, names: list[tuple[str, str]], group: list[str], most: int | None
    ) -> None:
        database = await Database.open(None, of)
        try:
            # Whoever writes to the audit log has its key.
            await Wallets.open(database, Settings(_env_file=None, solward_home=of), of)
            for address, name in names:
                await Contacts(database).put(address, name)
            await replace_policy(database, {}, {"vendors": group})
            async with database.write() as connection:
                (wallet,) = await list_wallets(connection)
                await set_ceilings(connection, wallet["id"], {"maxSolPerTransaction": most})
        finally:
            await database.close()

    async def book(of: Path) -> list[Any]:
        database = await Database.open(None, of)
        try:
            async with database.read() as connection:
                (wallet,) = await list_wallets(connection)
            named = [(each.name, each.address) for each in await Contacts(database).rows()]
            return [*named, wallet["ceilings"]]
        finally:
            await database.close()

    one, other = (str(Pubkey(bytes([each] * 32))) for each in (7, 8))
    home_with_wallets(home, 1)
    asyncio.run(changed(home, [(one, "Landlord"), (other, "Baker")], [one], 5))
    ceilings = {"maxSolPerTransaction": 5}
    before = [("Baker", other), ("Landlord", one), ("@vendors", one), ceilings]
    assert asyncio.run(book(home)) == before
    backed_up(home, file)
    # The names change hands, and the group is another: nothing of it is in the backup.
    asyncio.run(changed(home, [(one, "Host"), (other, "Landlord")], [other], None))
    elsewhere = tmp_path / "elsewhere"
    assert solward(elsewhere, "restore", file, typed=ONCE).exit_code == 0
    assert asyncio.run(book(elsewhere)) == before


@pytest.mark.more
@promise("backup-cannot-be-approved")
def test_what_waited_for_a_person_cannot_be_approved_in_a_restored_home(
    tmp_path: Path, home: Path, file: Path
) -> None:
    async def hold(of: Path, wallet_id: str) -> None:
        database = await Database.open(None, of)
        try:
            await Wallets.open(database, Settings(_env_file=None, solward_home=of), of)
            async with database.write() as connection:
                moment = await database.moment(connection)
                for state in (HoldState.HELD, HoldState.APPROVED):
                    row = hold_row(wallet_id, moment.window_ms, state=state)
                    await holds.add(connection, row)
        finally:
            await database.close()

    async def expired(of: Path) -> list[bool]:
        database = await Database.open(None, of)
        try:
            await Wallets.open(database, Settings(_env_file=None, solward_home=of), of)
            async with database.write() as connection:
                moment = await database.moment(connection)
                due = await holds.overdue_holds(connection, moment.window_ms)
                return [await holds.expire(connection, row, moment) for row in due]
        finally:
            await database.close()

    (wallet,) = home_with_wallets(home, 1)
    asyncio.run(hold(home, wallet.id))
    backed_up(home, file)
    elsewhere = tmp_path / "elsewhere"
    assert solward(elsewhere, "restore", file, typed=ONCE).exit_code == 0
    assert asyncio.run(expired(home)) == []
    assert asyncio.run(expired(elsewhere)) == [True, True]


@promise("key-never-in-clear")
def test_nothing_of_the_home_can_be_read_in_the_file(home: Path, file: Path) -> None:
    (wallet,) = home_with_wallets(home, 1)
    backed_up(home, file)
    data, key = file.read_bytes(), (home / "keystore.key").read_bytes()
    for secret in (wallet.address.encode(), wallet.id.encode(), b"SQLite format", key, b"wallets"):
        assert secret not in data


@pytest.mark.more
def test_a_drill_proves_the_file_and_leaves_nothing(
    home: Path, file: Path, temporary: Path
) -> None:
    home_with_wallets(home)
    backed_up(home, file)
    result = solward(home, "backup", "verify", file, typed=ONCE)
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().endswith("3 of 3 keys open and match")
    assert list(temporary.iterdir()) == []


@pytest.mark.more
def test_the_keystores_passphrase_is_taken_as_the_service_gets_it_and_must_be_right(
    home: Path, file: Path, temporary: Path
) -> None:
    home_with_wallets(home, **KEYSTORE)
    backed_up(home, file)
    assert solward(home, "backup", "verify", file, typed=ONCE, **KEYSTORE).exit_code == 0
    wrong = solward(home, "backup", "verify", file, typed=ONCE, KEYSTORE_PASSPHRASE="another")
    assert "is not this keystore's passphrase" in refused(wrong)
    assert list(temporary.iterdir()) == []


@pytest.mark.more
def test_an_unattended_backup_reads_its_passphrase_from_a_file_of_its_owner(
    tmp_path: Path, home: Path, file: Path
) -> None:
    home_with_wallets(home)
    words = tmp_path / "words"
    words.write_text(f"{PASSPHRASE}\nignored\n")
    words.chmod(0o644)
    open_to_all = solward(home, "backup", "--passphrase-file", words, file)
    assert f"chmod 600 {words}" in refused(open_to_all)
    words.chmod(0o600)
    assert solward(home, "backup", "--passphrase-file", words, file).exit_code == 0
    assert solward(home, "backup", "verify", file, "--passphrase-file", words).exit_code == 0
    # Typed, it is the same passphrase.
    assert solward(home, "backup", "verify", file, typed=ONCE).exit_code == 0
    missing = solward(home, "backup", tmp_path / "b", "--passphrase-file", tmp_path / "no")
    assert "cannot be read" in refused(missing)
    words.write_text("short\n")
    short = solward(home, "backup", tmp_path / "b", "--passphrase-file", words)
    assert "at least 8 characters" in refused(short)
    words.write_bytes(b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\n")
    assert "UTF-8" in refused(solward(home, "backup", tmp_path / "b", "--passphrase-file", words))
    assert not (tmp_path / "b").exists()


def test_a_backup_overwrites_nothing_and_leaves_nothing_where_it_fails(
    tmp_path: Path, home: Path, file: Path
) -> None:
    home_with_wallets(home, 1)
    file.write_text("an older backup")
    assert "exists already" in refused(solward(home, "backup", file, typed=TWICE))
    assert file.read_text() == "an older backup"
    nowhere = tmp_path / "no" / "where"
    assert "cannot be written" in refused(solward(home, "backup", nowhere, typed=TWICE))
    assert [each.name for each in home.iterdir() if each.name.startswith(".")] == []


def test_without_a_database_there_is_nothing_to_back_up(home: Path, file: Path) -> None:
    assert "nothing to back up" in refused(solward(home, "backup", file, typed=TWICE))
    assert not file.exists()
    assert not home.exists()


def test_postgresql_is_left_to_its_own_tools(tmp_path: Path, home: Path, file: Path) -> None:
    url = {"DATABASE_URL": "postgresql://somebody:canary@nowhere/solward"}
    for command in (("backup", file), ("restore", backed_up_elsewhere(tmp_path))):
        told = refused(solward(home, *command, typed=TWICE, **url))
        assert "pg_dump" in told
        assert "canary" not in told
    assert not home.exists()


def backed_up_elsewhere(tmp_path: Path) -> Path:
    home_with_wallets(tmp_path / "elsewhere", 1)
    return backed_up(tmp_path / "elsewhere", tmp_path / "elsewhere.backup")


def test_a_lost_or_foreign_key_file_is_found_when_the_backup_is_made(
    home: Path, file: Path
) -> None:
    home_with_wallets(home, 1)
    key = home / "keystore.key"
    key.rename(home / "moved")
    assert "is missing" in refused(solward(home, "backup", file, typed=TWICE))
    key.write_bytes(b"x" * 32)
    key.chmod(0o600)
    told = refused(solward(home, "backup", file, typed=TWICE))
    assert f"{key} is not this keystore's key" in told
    assert not file.exists()


@pytest.mark.more
def test_a_key_file_kept_elsewhere_is_restored_to_where_the_settings_name(
    tmp_path: Path, home: Path, file: Path
) -> None:
    old, new = tmp_path / "old.key", tmp_path / "new.key"
    home_with_wallets(home, KEYSTORE_KEY_FILE=str(old))
    backed_up(home, file, KEYSTORE_KEY_FILE=str(old))
    target = tmp_path / "restored"
    result = solward(target, "restore", file, typed=ONCE, KEYSTORE_KEY_FILE=str(new))
    assert result.exit_code == 0, result.output
    assert new.read_bytes() == old.read_bytes()
    assert len(addresses_that_sign(target, KEYSTORE_KEY_FILE=str(new))) == 3
    again = solward(tmp_path / "third", "restore", file, typed=ONCE, KEYSTORE_KEY_FILE=str(new))
    assert f"{new} exists already" in refused(again)
    assert not (tmp_path / "third").exists()


@pytest.mark.more
def test_a_home_that_is_used_or_not_empty_is_not_restored_into(
    tmp_path: Path, home: Path, file: Path
) -> None:
    home_with_wallets(home)
    backed_up(home, file)
    assert "is not empty: it holds keystore.key" in refused(
        solward(home, "restore", file, typed=ONCE)
    )
    target = tmp_path / "target"
    with Home.opened(target):
        assert "is in use by process" in refused(solward(target, "restore", file, typed=ONCE))
    # What a process left that only locked it does not count.
    assert solward(target, "restore", file, typed=ONCE).exit_code == 0
    assert len(addresses_that_sign(target)) == 3


@pytest.mark.more
def test_a_wrong_passphrase_and_a_file_cut_short_are_refused(
    tmp_path: Path, home: Path, file: Path
) -> None:
    home_with_wallets(home)
    backed_up(home, file)
    target = tmp_path / "restored"
    wrong = solward(target, "restore", file, typed="another passphrase\n")
    assert "The passphrase is not that of this backup" in refused(wrong)
    file.write_bytes(file.read_bytes()[:-1])
    assert "damaged or cut short" in refused(solward(target, "restore", file, typed=ONCE))
    assert not target.exists()
    target.mkdir()
    refused(solward(target, "restore", file, typed=ONCE))
    assert list(target.iterdir()) == []


def edit(home: Path, *statements: str) -> None:
    connection = sqlite3.connect(home / "solward.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


SWAPPED = """
UPDATE wallets SET sealed_key = (
    SELECT other.sealed_key FROM wallets AS other WHERE other.name = 'wallet 1'
) WHERE name = 'wallet 0'
"""


@pytest.mark.more
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (SWAPPED, "2 of 3 keys open and match"),
        ("UPDATE wallets SET kek_version = 7 WHERE name = 'wallet 2'", "2 of 3 keys open"),
        ("DELETE FROM keystore", "wallets and no keystore"),
    ],
)
def test_a_key_that_does_not_match_refuses_all_of_it(
    tmp_path: Path, home: Path, file: Path, temporary: Path, statement: str, told: str
) -> None:
    home_with_wallets(home)
    edit(home, statement)
    backed_up(home, file)
    target = tmp_path / "restored"
    for command in (("restore", file), ("backup", "verify", file)):
        assert told in refused(solward(target, *command, typed=ONCE))
    assert not target.exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.more
@promise("other-schema-refused")
def test_a_home_or_a_backup_of_another_version_is_refused(
    tmp_path: Path, home: Path, file: Path
) -> None:
    wallets = home_with_wallets(home)
    edit(home, "PRAGMA wal_checkpoint")
    manifest = Manifest(
        version="0", created="", network="localnet", schema="another", keystore="file",
        wallets={each.id: each.address for each in wallets},
        files={name: (home / name).stat().st_size for name in ("solward.db", "keystore.key")},
    )  # fmt: skip
    write_archive(file, home, manifest, PASSPHRASE)
    target = tmp_path / "restored"
    assert "Another version of Solward made the backup (0)" in refused(
        solward(target, "restore", file, typed=ONCE)
    )
    assert not target.exists()
    edit(home, "UPDATE schema_hash SET hash = 'another'")
    file.unlink()
    told = refused(solward(home, "backup", file, typed=TWICE))
    assert "Another version of Solward, or another program, made the database" in told
    assert not file.exists()


@pytest.mark.more
def test_wallets_that_are_not_the_manifests_are_refused(
    tmp_path: Path, home: Path, file: Path
) -> None:
    first, *_ = home_with_wallets(home)
    edit(home, "PRAGMA wal_checkpoint")
    for wallets in ({}, {first.id: first.address}):
        file.unlink(missing_ok=True)
        manifest = Manifest(
            version="0", created="", network="localnet", schema=schema_of("sqlite"),
            keystore="file", wallets=wallets,
            files={name: (home / name).stat().st_size for name in ("solward.db", "keystore.key")},
        )  # fmt: skip
        write_archive(file, home, manifest, PASSPHRASE)
        told = refused(solward(tmp_path / "restored", "restore", file, typed=ONCE))
        assert "are not those of its manifest" in told


@pytest.mark.more
def test_a_home_without_wallets_is_backed_up_too(tmp_path: Path, home: Path, file: Path) -> None:
    home_with_wallets(home, 0)
    backed_up(home, file)
    result = solward(tmp_path / "restored", "restore", file, typed=ONCE)
    assert "0 of 0 keys open and match" in result.output


@pytest.mark.more
@pytest.mark.parametrize(
    ("point", "kind"),
    [
        ("file_replaced", "file"),
        pytest.param("next_to_it", "file", marks=pytest.mark.more),
        pytest.param("batch:1", "file", marks=pytest.mark.more),
        pytest.param("batch:1", "passphrase", marks=pytest.mark.more),
        pytest.param("left", "passphrase", marks=pytest.mark.more),
    ],
)
def test_a_rotation_that_was_killed_is_backed_up_as_it_stands_and_finished_after_the_restore(
    tmp_path: Path, home: Path, file: Path, point: str, kind: str
) -> None:
    wallets = home_with_wallets(home, 5)
    key, following = home / "keystore.key", home / "keystore.key.next"
    old = key.read_bytes()
    at = "file_replaced" if point == "next_to_it" else point
    command = [sys.executable, str(ROTATING), str(home), at, kind]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if point == "next_to_it":
        # As a moment earlier: the store knows of the new key, which is not in place yet.
        key.rename(following)
        key.touch(mode=0o600)
        key.write_bytes(old)
    backed_up(home, file)
    assert following.exists() is (point == "next_to_it")
    target = tmp_path / "restored"
    secret = {"KEYSTORE_PASSPHRASE": "new"} if kind == "passphrase" else {}
    result = solward(target, "restore", file, typed=ONCE, **secret)
    assert result.exit_code == 0, result.output
    assert "5 of 5 keys open and match" in result.output
    assert sorted(addresses_that_sign(target, **secret)) == sorted(
        wallet.address for wallet in wallets
    )


STOPPED = """
import os, signal, sys, time
from solward.backup import create, restore
from solward_cli import main

watched = sys.argv.pop(1)

def stopped(*_):
    print(*os.listdir(watched), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

create.write_archive = restore.run_drill = stopped
main()
"""


@pytest.mark.more
def test_stopped_in_the_middle_neither_leaves_its_copies(
    tmp_path: Path, home: Path, file: Path
) -> None:
    home_with_wallets(home)
    words, seen = tmp_path / "words", tmp_path / "tmp"
    words.write_text(PASSPHRASE)
    words.chmod(0o600)
    seen.mkdir()
    backed_up(home, tmp_path / "made")
    for watched, command in (
        (home, ("backup", file)),
        (seen, ("backup", "verify", tmp_path / "made")),
        (tmp_path / "target", ("restore", tmp_path / "made")),
    ):
        target = tmp_path / "target" if command[0] == "restore" else home
        process = subprocess.run(
            [sys.executable, "-c", STOPPED, str(watched), *map(str, command),
             "--passphrase-file", str(words)],
            env={"PATH": os.environ["PATH"], "SOLWARD_HOME": str(target), "TMPDIR": str(seen)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert process.returncode == 128 + signal.SIGTERM, process.stderr
        # There were copies then, and there are none now.
        assert any(each in process.stdout for each in (".backup-", "solward-drill-", ".restore-"))
        assert [each.name for each in home.iterdir() if each.name[0] == "."] == []
        assert list(seen.iterdir()) == []
    assert not (tmp_path / "target").exists()
    assert not file.exists()


@pytest.mark.more
def test_another_network_is_noticed(tmp_path: Path, home: Path, file: Path) -> None:
    home_with_wallets(home, 1)
    environment = {"SOLANA_RPC_URL": "http://127.0.0.1:1", "SOLANA_NETWORK": "devnet"}
    backed_up(home, file, **environment)
    result = solward(tmp_path / "restored", "restore", file, typed=ONCE)
    assert "Notice: the backup is of devnet" in result.output
