"""Wallets and their keystore where several processes work on one PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from solders.keypair import Keypair
from sqlalchemy import func, select

from solward.database.database import Database
from solward.database.tables import keystore
from solward.operations.contacts import Contacts
from solward.settings import Settings
from solward.types.errors import InvalidRequest, KeystoreError
from solward.vault.custody import KeySource, Wallets

pytestmark = pytest.mark.more


@asynccontextmanager
async def databases(url: str, home: Path, count: int) -> AsyncIterator[list[Database]]:
    opened = [await Database.open(url, home) for _ in range(count)]
    try:
        yield opened
    finally:
        for database in opened:
            await database.close()


async def proof(wallets: Wallets) -> dict[str, bytes]:
    """What each wallet's key signs."""
    return {
        wallet.address: await (await wallets.signer(wallet.id)).sign(b"proof")
        for wallet in await wallets.list()
    }


@pytest.mark.parametrize("secret", [None, "correct horse battery staple"], ids=["file", "phrase"])
async def test_processes_that_start_together_make_one_keystore(
    postgres_url: str, tmp_path: Path, secret: str | None
) -> None:
    settings = Settings(keystore_passphrase=secret)
    async with databases(postgres_url, tmp_path, 3) as opened:
        started = await asyncio.gather(
            *(Wallets.open(database, settings, tmp_path) for database in opened)
        )
        made = [await wallets.create() for wallets in started]
        for wallets in started:
            assert set(await proof(wallets)) == {wallet.address for wallet in made}
        async with opened[0].read() as connection:
            count = select(func.count()).select_from(keystore)
            assert (await connection.execute(count)).scalar_one() == 1
    kept = [path.name for path in tmp_path.iterdir()]
    assert kept == (["keystore.key"] if secret is None else [])


async def test_tags_set_by_one_process_are_shown_by_another(
    postgres_url: str, tmp_path: Path
) -> None:
    async with databases(postgres_url, tmp_path, 2) as (one, two):
        first = await Wallets.open(one, Settings(), tmp_path)
        second = await Wallets.open(two, Settings(), tmp_path)
        wallet = await first.create("mine", ["a"])
        assert (await second.get_fresh(wallet.id)).tags == ("a",)
        await first.set_tags(wallet.id, ["b"])
        assert (await second.get_fresh(wallet.id)).tags == ("b",)
        await second.set_tags(wallet.id, ["c"])
        assert (await first.get_fresh(wallet.id)).tags == ("c",)


async def test_what_a_payment_needs_of_a_wallet_is_read_once(
    postgres_url: str, tmp_path: Path
) -> None:
    async with databases(postgres_url, tmp_path, 2) as (one, two):
        wallet = await (await Wallets.open(one, Settings(), tmp_path)).create()
        wallets = await Wallets.open(two, Settings(), tmp_path)
        kinds: list[str] = []
        two.on_transaction = kinds.append
        for _ in range(3):
            assert (await wallets.get(wallet.id)).address == wallet.address
            await wallets.signer(wallet.id)
        assert kinds == ["read"]


async def test_a_process_with_the_old_secret_seals_no_key_after_a_rotation(
    postgres_url: str, tmp_path: Path
) -> None:
    async with databases(postgres_url, tmp_path, 2) as (one, two):
        stale = await Wallets.open(one, Settings(), tmp_path)
        known = await stale.create()
        unknown = await (await Wallets.open(two, Settings(), tmp_path)).create()
        before = await (await stale.signer(known.id)).sign(b"proof")
        rotating = await Wallets.open(two, Settings(), tmp_path)
        assert await rotating.rotate(KeySource(file=tmp_path / "keystore.key")) == 2
        with pytest.raises(KeystoreError, match="was rotated since this process started"):
            await stale.create()
        with pytest.raises(KeystoreError, match="restart the process with the new secret"):
            await (await stale.signer(unknown.id)).sign(b"proof")
        assert len(await rotating.list()) == 2
        again = await Wallets.open(one, Settings(), tmp_path)
        assert (await proof(again))[known.address] == before
        await again.create()


async def test_two_rotations_at_once_lose_no_key(postgres_url: str, tmp_path: Path) -> None:
    async with databases(postgres_url, tmp_path, 2) as opened:
        both = [await Wallets.open(database, Settings(), tmp_path) for database in opened]
        for _ in range(3):
            await both[0].create()
        before = await proof(both[0])
        file = KeySource(file=tmp_path / "keystore.key")
        ended = await asyncio.gather(
            *(wallets.rotate(file) for wallets in both), return_exceptions=True
        )
        assert [each for each in ended if isinstance(each, int)] == [3]
        (refused,) = [each for each in ended if isinstance(each, Exception)]
        assert "Another process rotated the keystore meanwhile" in str(refused)
        assert await proof(await Wallets.open(opened[0], Settings(), tmp_path)) == before


async def test_an_interrupted_rotation_is_finished_by_processes_that_start_together(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with databases(postgres_url, tmp_path, 4) as opened:
        wallets = await Wallets.open(opened[0], Settings(), tmp_path)
        for _ in range(5):
            await wallets.create()
        before = await proof(wallets)

        def lost(*_: object) -> None:
            raise ConnectionError("killed here")

        with monkeypatch.context() as patched:
            patched.setattr("solward.vault.custody.keyring.replace_key", lost)
            with pytest.raises(ConnectionError):
                await wallets.rotate(KeySource(file=tmp_path / "keystore.key"))
        assert (tmp_path / "keystore.key.next").exists()
        monkeypatch.setattr("solward.vault.custody.keystore._BATCH", 2)
        started = await asyncio.gather(
            *(Wallets.open(database, Settings(), tmp_path) for database in opened)
        )
        for each in started:
            assert await proof(each) == before
        assert [path.name for path in tmp_path.iterdir()] == ["keystore.key"]


async def test_a_wallet_and_a_contact_made_at_once_do_not_share_a_name(
    postgres_url: str, tmp_path: Path
) -> None:
    async with databases(postgres_url, tmp_path, 2) as (one, other):
        wallets = await Wallets.open(one, Settings(), tmp_path)
        await Wallets.open(other, Settings(), tmp_path)
        contacts = Contacts(other)
        for at in range(30):
            address = str(Keypair().pubkey())
            made = await asyncio.gather(
                wallets.create(f"alice{at}"),
                contacts.put(address, f"alice{at}"),
                return_exceptions=True,
            )
            refused = [each for each in made if isinstance(each, InvalidRequest)]
            assert len(refused) == 1, made
