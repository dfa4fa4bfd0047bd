"""The keystore opens for its own secret only, and a rotation survives being killed anywhere."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from sqlalchemy import func, select, text
from tests.promises import promise
from tests.support import database as databases
from tests.support.database import AuditLog

from solward.database.database import Database
from solward.database.tables import keystore as keystore_table
from solward.database.tables import wallets as wallets_table
from solward.settings import Settings
from solward.types.errors import KeystoreError
from solward.vault.custody import KeySource, Wallets, keyring
from solward.vault.custody.keystore import Keystore
from solward.vault.custody.service import key_source
from solward.vault.store import wallets as store

ROTATING = Path(__file__).with_name("rotating.py")
CANARY = "canary passphrase 8c1e"


def by_file(home: Path) -> KeySource:
    return KeySource(file=home / "keystore.key")


async def row(database: Database) -> dict[str, Any]:
    async with database.read() as connection:
        return (await store.keystore_rows(connection))[0]


async def set_kdf(database: Database, kdf: dict[str, Any]) -> None:
    async with database.write() as connection:
        await connection.execute(keystore_table.update().values(kdf=kdf))


async def test_the_first_start_makes_a_key_file_and_the_next_uses_it(
    database: Database, tmp_path: Path
) -> None:
    first = await Keystore.open(database, by_file(tmp_path))
    assert first.keyring.current == (tmp_path / "keystore.key").read_bytes()
    again = await Keystore.open(database, by_file(tmp_path))
    assert again.keyring.current == first.keyring.current
    assert (await row(database))["kdf"] == {"kind": "file", "audit": ANY}


async def test_a_key_file_that_is_there_already_is_used(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "given.key"
    path.touch(0o600)
    path.write_bytes(b"k" * 32)
    assert (await Keystore.open(database, KeySource(file=path))).keyring.current == b"k" * 32


async def test_a_lost_or_exchanged_key_file_is_refused(database: Database, tmp_path: Path) -> None:
    await Keystore.open(database, by_file(tmp_path))
    path = tmp_path / "keystore.key"
    path.write_bytes(os.urandom(32))
    with pytest.raises(KeystoreError, match="is not this keystore's key"):
        await Keystore.open(database, by_file(tmp_path))
    path.unlink()
    with pytest.raises(KeystoreError, match="is missing"):
        await Keystore.open(database, by_file(tmp_path))
    assert not path.exists()


async def test_a_passphrase_opens_what_it_made_and_another_does_not(database: Database) -> None:
    first = await Keystore.open(database, KeySource(passphrase=CANARY))
    again = await Keystore.open(database, KeySource(passphrase=CANARY))
    assert again.keyring.current == first.keyring.current
    with pytest.raises(KeystoreError, match="not this keystore's passphrase") as caught:
        await Keystore.open(database, KeySource(passphrase="wrong " + CANARY))
    assert CANARY not in str(caught.value)


@promise("keys-sealed-per-wallet")
async def test_the_stored_parameters_are_64_mib_3_passes_and_4_lanes(database: Database) -> None:
    await Keystore.open(database, KeySource(passphrase=CANARY))
    kdf = (await row(database))["kdf"]
    assert len(base64.b64decode(kdf.pop("salt"))) == 16
    assert len(base64.b64decode(kdf.pop("audit"))) == 12 + 32 + 16
    assert kdf == {"kind": "argon2id", "memory_kib": 65_536, "time_cost": 3, "parallelism": 4}


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"memory_kib": 1024}, "memory_kib must be between 65536 and 1048576"),
    ({"memory_kib": 2**30}, "memory_kib must be between"),
    ({"time_cost": 2}, "time_cost must be between 3 and 16"),
    ({"time_cost": 10**6}, "time_cost must be between"),
    ({"parallelism": 0}, "parallelism must be between 4 and 16"),
    ({"parallelism": "4"}, "parallelism must be between"),
    ({"salt": "c2hvcnQ="}, "salt must have at least 16 bytes"),
    ({"salt": "***"}, "parameters are damaged"),
    ({"kind": "scrypt"}, "does not know the keystore's kind: scrypt"),
    ({"kind": "file"}, "has a key file: unset KEYSTORE_PASSPHRASE. To use"),
    ({"time_cost": 4}, "not this keystore's passphrase"),
    ({"previous": {"version": 0}}, "parameters are damaged"),
    ({"previous": {"version": 0, "key": "AAAA"}}, "previous keystore key cannot be opened"),
]


async def test_changed_parameters_are_refused(database: Database) -> None:
    await Keystore.open(database, KeySource(passphrase=CANARY))
    made = (await row(database))["kdf"]
    for changes, expected in CHANGED:
        await set_kdf(database, made | changes)
        with pytest.raises(KeystoreError, match=expected):
            await Keystore.open(database, KeySource(passphrase=CANARY))
    await set_kdf(database, made)
    await Keystore.open(database, KeySource(passphrase=CANARY))


async def test_a_file_does_not_open_what_a_passphrase_made(
    database: Database, tmp_path: Path
) -> None:
    await Keystore.open(database, KeySource(passphrase=CANARY))
    with pytest.raises(KeystoreError, match="set KEYSTORE_PASSPHRASE"):
        await Keystore.open(database, by_file(tmp_path))
    assert not (tmp_path / "keystore.key").exists()


@pytest.mark.parametrize("values", [{}, {"passphrase": " "}, {"passphrase": "a", "file": Path()}])
def test_a_keystore_has_exactly_one_secret(values: dict[str, Any]) -> None:
    with pytest.raises(KeystoreError):
        KeySource(**values)


def test_the_settings_name_the_secret(tmp_path: Path) -> None:
    assert key_source(Settings(), tmp_path) == KeySource(file=tmp_path / "keystore.key")
    named = Settings(keystore_key_file=tmp_path / "other")
    assert key_source(named, tmp_path) == KeySource(file=tmp_path / "other")
    secret = key_source(Settings(keystore_passphrase=CANARY), tmp_path)
    assert secret == KeySource(passphrase=CANARY)
    assert CANARY not in repr(secret)


async def test_secrets_are_in_no_repr(database: Database) -> None:
    opened = await Keystore.open(database, KeySource(passphrase=CANARY))
    key = opened.keyring.current
    for shown in (opened, opened.keyring):
        assert repr(key) not in repr(shown)
        assert "_keks" not in repr(shown)


async def versions(database: Database) -> tuple[list[int], list[tuple[int, int]]]:
    """The keystore's versions, and (version, wallets under it)."""
    count = select(wallets_table.c.kek_version, func.count()).group_by(wallets_table.c.kek_version)
    async with database.read() as connection:
        stored = [fields["kek_version"] for fields in await store.keystore_rows(connection)]
        return stored, [(v, n) for v, n in await connection.execute(count)]


async def signatures(wallets: Wallets) -> dict[str, bytes]:
    return {
        wallet.address: await (await wallets.signer(wallet.id)).sign(b"m")
        for wallet in await wallets.list()
    }


async def test_rotation_moves_every_wallet_and_retires_the_old_secret(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solward.vault.custody.keystore._BATCH", 2)
    settings = Settings(keystore_passphrase=None)
    wallets = await Wallets.open(database, settings, tmp_path)
    for _ in range(5):
        await wallets.create()
    before = await signatures(wallets)
    old_key = (tmp_path / "keystore.key").read_bytes()

    assert await wallets.rotate(by_file(tmp_path)) == 5
    assert await versions(database) == ([2], [(2, 5)])
    assert (await row(database))["kdf"] == {"kind": "file", "audit": ANY}
    assert (tmp_path / "keystore.key").read_bytes() != old_key
    assert not (tmp_path / "keystore.key.next").exists()
    assert await signatures(wallets) == before

    assert await wallets.rotate(KeySource(passphrase=CANARY)) == 5
    assert await versions(database) == ([3], [(3, 5)])
    reopened = await Wallets.open(database, Settings(keystore_passphrase=CANARY), tmp_path)
    assert await signatures(reopened) == before
    with pytest.raises(KeystoreError):
        await Wallets.open(database, settings, tmp_path)
    # The audit log is authenticated as before, and tells of both.
    told = [entry.to_json() for entry in await AuditLog(database).latest(2)]
    assert [(each["event"], each["data"]["after"]) for each in told] == [
        ("keystore:rotated", {"version": 3, "kind": "argon2id"}),
        ("keystore:rotated", {"version": 2}),
    ]
    assert database.audit_key is not None
    assert (await AuditLog(database).verify()).entries == 7


async def test_a_wallet_made_during_a_rotation_is_moved_too(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solward.vault.custody.keystore._BATCH", 1)
    wallets = await Wallets.open(database, Settings(), tmp_path)
    ring = wallets._keystore.keyring
    for _ in range(3):
        await wallets.create()
    rewrap = store.rewrap
    late: list[str] = []

    async def rewrap_and_insert(connection: Any, *rest: Any) -> None:
        await rewrap(connection, *rest)
        if not late:
            # As another process would that still seals under the version being left.
            late.append("0" * 36)
            from solders.keypair import Keypair

            from solward.vault.custody.envelope import seal

            keypair = Keypair()
            envelope = seal(ring.current, ring.version, late[0], keypair)
            await store.insert_wallet(
                connection,
                {
                    "id": late[0],
                    "name": "late",
                    "public_key": str(keypair.pubkey()),
                    "tags": [],
                    "created_ms": 1,
                    "kek_version": 1,
                    "wrapped_data_key": envelope.wrapped_data_key,
                    "sealed_key": envelope.sealed_key,
                },
            )

    monkeypatch.setattr(store, "rewrap", rewrap_and_insert)
    assert await wallets.rotate(by_file(tmp_path)) == 4
    assert await versions(database) == ([2], [(2, 4)])


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        (
            (kind, point)
            if (kind, point) == ("passphrase", "batch:1")
            else pytest.param(kind, point, marks=pytest.mark.more)
        )
        for kind in ("file", "passphrase")
        for point in ("begun", "file_replaced", "batch:0", "batch:1", "batch:2", "left", "done")
    ],
)
async def test_a_rotation_killed_anywhere_is_finished_by_the_next_start(
    tmp_path: Path, point: str, kind: str
) -> None:
    database = await Database.open(None, tmp_path)
    wallets = await Wallets.open(database, Settings(), tmp_path)
    for _ in range(5):
        await wallets.create()
    before = await signatures(wallets)
    await database.close()

    killed = subprocess.run(
        [sys.executable, str(ROTATING), str(tmp_path), point, kind],
        capture_output=True,
        env=os.environ | databases.database_of(tmp_path),
    )
    if kind == "passphrase" and point == "file_replaced":
        assert killed.returncode == 0  # there is no file to replace
    else:
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()

    database = await Database.open(None, tmp_path)
    begun = max((await versions(database))[0]) == 2
    after = Settings(keystore_passphrase="new") if kind == "passphrase" and begun else Settings()
    wallets = await Wallets.open(database, after, tmp_path)
    assert await signatures(wallets) == before
    assert len((await versions(database))[0]) == 1
    assert len((await versions(database))[1]) == 1
    if begun:
        assert await versions(database) == ([2], [(2, 5)])
        assert "previous" not in (await row(database))["kdf"]
    await database.close()


async def test_a_new_key_file_put_in_its_place_meanwhile_by_another_process_is_found(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallets = await Wallets.open(database, Settings(), tmp_path)
    wallet = await wallets.create()
    place, following = tmp_path / "keystore.key", tmp_path / "keystore.key.next"
    old = place.read_bytes()
    await wallets.rotate(by_file(tmp_path))
    new = place.read_bytes()
    place.rename(following)
    place.touch(0o600)
    place.write_bytes(old)
    read_key = keyring.read_key

    def read_and_lose(path: Path) -> bytes:
        key = read_key(path)
        if following.exists():
            following.replace(place)
        return key

    monkeypatch.setattr(keyring, "read_key", read_and_lose)
    opened = await Wallets.open(database, Settings(), tmp_path)
    assert len(await (await opened.signer(wallet.id)).sign(b"m")) == 64
    assert place.read_bytes() == new
    place.write_bytes(old)
    with pytest.raises(KeystoreError, match="is not this keystore's key"):
        await Wallets.open(database, Settings(), tmp_path)


async def test_a_tampered_wallet_stops_a_rotation_without_losing_the_others(
    database: Database, tmp_path: Path
) -> None:
    wallets = await Wallets.open(database, Settings(), tmp_path)
    broken, whole = await wallets.create(), await wallets.create()
    async with database.write() as connection:
        await connection.execute(
            text("UPDATE wallets SET sealed_key = :none, wrapped_data_key = :none WHERE id = :id"),
            {"id": broken.id, "none": bytes(60)},
        )
    for _ in range(2):
        with pytest.raises(KeystoreError, match=broken.id):
            await wallets.rotate(by_file(tmp_path))
    assert (await versions(database))[0] == [2, 1]
    reopened = await Wallets.open(database, Settings(), tmp_path)
    for opened in (wallets, reopened):
        assert len(await (await opened.signer(whole.id)).sign(b"m")) == 64
    with pytest.raises(KeystoreError, match=broken.id):
        await (await reopened.signer(broken.id)).sign(b"m")
