"""Wallets: creation, import, listing, signing, and that no key shows anywhere."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from tests.promises import promise

from solward.database.database import Database
from solward.settings import Settings
from solward.types.errors import InvalidRequest, KeystoreError, StoreError, WalletNotFound
from solward.vault.custody import Wallets, service


@pytest.fixture
async def wallets(database: Database, tmp_path: Path) -> Wallets:
    return await Wallets.open(database, Settings(), tmp_path)


async def test_a_new_wallet_has_the_contracts_form(wallets: Wallets) -> None:
    assert (await wallets.create()).name == "external-wallet"
    wallet = await wallets.create("treasury", ["a", "b", "a"])
    assert Pubkey.from_string(wallet.address).is_on_curve()
    timestamp = wallet.to_json()["createdAt"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", timestamp)
    assert wallet.to_json() == {
        "id": wallet.id,
        "name": "treasury",
        "publicKey": wallet.address,
        "createdAt": timestamp,
        "tags": ["a", "b"],
    }


NO_NAMES: list[Any] = ["", " ", "x" * 65, "line\nbreak", "\x00", 7, None]
NO_TAGS: list[Any] = ["text", ["x"] * 21, [""], [1]]


async def test_a_name_is_1_to_64_printable_characters_and_tags_a_short_list_of_such(
    wallets: Wallets,
) -> None:
    for name in NO_NAMES:
        with pytest.raises(InvalidRequest, match="name must be text of 1 to 64 printable"):
            await wallets.create(name)
    for tags in NO_TAGS:
        with pytest.raises(InvalidRequest, match="tags must be"):
            await wallets.create("a", tags)
    assert await wallets.list() == []


async def test_wallets_are_listed_oldest_first_and_found_after_a_restart(
    wallets: Wallets, database: Database, tmp_path: Path
) -> None:
    made = [await wallets.create(f"w{number}") for number in range(3)]
    again = await Wallets.open(database, Settings(), tmp_path)
    listed = await again.list()
    assert sorted(listed, key=lambda wallet: wallet.name) == made
    assert [wallet.created_ms for wallet in listed] == sorted(w.created_ms for w in made)
    for wallet in made:
        assert await again.get(wallet.id) == wallet


async def test_an_unknown_wallet_is_not_found(wallets: Wallets) -> None:
    for ask in (wallets.get, wallets.signer):
        with pytest.raises(WalletNotFound, match="Wallet not found"):
            await ask("nobody")
    with pytest.raises(WalletNotFound):
        await wallets.set_tags("nobody", [])


async def test_tags_are_replaced_for_good(
    wallets: Wallets, database: Database, tmp_path: Path
) -> None:
    wallet = await wallets.create("a", ["old"])
    assert (await wallets.set_tags(wallet.id, ["new", "er"])).tags == ("new", "er")
    assert (await wallets.get(wallet.id)).tags == ("new", "er")
    assert (await (await Wallets.open(database, Settings(), tmp_path)).get(wallet.id)).tags == (
        "new",
        "er",
    )


async def test_tags_that_are_replaced_at_once_are_shown_as_they_are_stored(
    wallets: Wallets, database: Database
) -> None:
    """A replacement shows what was stored last, whichever writers shared a commit."""
    wallet = await wallets.create("a")
    await asyncio.gather(*(wallets.set_tags(wallet.id, [str(number)]) for number in range(6)))
    stored = next(each for each in await wallets.list() if each.id == wallet.id)
    assert (await wallets.get_fresh(wallet.id)).tags == stored.tags


async def test_wallets_made_at_once_share_commits(wallets: Wallets, database: Database) -> None:
    before = database.commits
    made = await asyncio.gather(*(wallets.create(f"w{number}") for number in range(50)))
    # On PostgreSQL each has its own, on a connection of its own.
    assert database.shared or database.commits - before <= 3
    assert len({wallet.address for wallet in made}) == 50
    assert {wallet.id for wallet in await wallets.list()} == {wallet.id for wallet in made}


async def test_a_known_wallet_costs_no_transaction(wallets: Wallets, database: Database) -> None:
    wallet = await wallets.create()
    counted: Counter[str] = Counter()
    database.on_transaction = lambda kind: counted.update([kind])
    await wallets.get(wallet.id)
    await (await wallets.signer(wallet.id)).sign(b"m")
    assert counted == {}


async def test_a_creation_that_cannot_be_stored_fails_and_the_next_works(
    wallets: Wallets, database: Database
) -> None:
    async with database.write() as connection:
        await connection.execute(text("ALTER TABLE wallets RENAME TO away"))
    # SQLite calls a missing table an operational error.
    with pytest.raises((StoreError, ProgrammingError)):
        await wallets.create()
    async with database.write() as connection:
        await connection.execute(text("ALTER TABLE away RENAME TO wallets"))
    assert await wallets.list() == []
    await wallets.create()


async def test_a_cancelled_caller_does_not_hold_up_the_others(wallets: Wallets) -> None:
    first = asyncio.create_task(wallets.create("first"))
    second = asyncio.create_task(wallets.create("second"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).name == "second"
    await asyncio.wait([first])
    assert first.cancelled()


KEYPAIR = Keypair()
FILE = KEYPAIR.to_json()


async def test_a_solana_cli_keypair_file_is_imported_once(wallets: Wallets) -> None:
    wallet = await wallets.import_keypair(FILE, "mine")
    assert (wallet.address, wallet.name) == (str(KEYPAIR.pubkey()), "mine")
    signature = await (await wallets.signer(wallet.id)).sign(b"m")
    assert signature == bytes(KEYPAIR.sign_message(b"m"))
    with pytest.raises(InvalidRequest, match=f"{wallet.address} is imported already"):
        await wallets.import_keypair(FILE, "again")
    assert len(await wallets.list()) == 1


BYTES = list(bytes(KEYPAIR))
OTHERS = list(bytes(Keypair()))


NO_FILES = [
    "",
    "not json",
    "{}",
    json.dumps(BYTES[:63]),
    json.dumps([*BYTES, 1]),
    *(json.dumps([*BYTES[:63], last]) for last in (256, -1, 1.5, True, "1")),
    json.dumps(BYTES[:32] + OTHERS[32:]),
    "[" * 100_000,
]


async def test_what_is_no_keypair_file_is_refused_without_showing_it(wallets: Wallets) -> None:
    for content in NO_FILES:
        with pytest.raises(InvalidRequest, match=r"^keypair ") as caught:
            await wallets.import_keypair(content, "mine")
        error = caught.value
        assert error.__cause__ is None
        assert error.__suppress_context__ or error.__context__ is None
        assert ", ".join(map(str, BYTES[:5])) not in str(error)
    assert await wallets.list() == []


@promise("database-writer-reads-no-key")
async def test_rows_exchanged_in_the_database_sign_nothing(
    wallets: Wallets, database: Database, tmp_path: Path
) -> None:
    first, second = await wallets.create(), await wallets.create()
    async with database.write() as connection:
        for column in ("sealed_key", "wrapped_data_key"):
            await connection.execute(
                text(
                    f"UPDATE wallets SET {column} = (SELECT w.{column} FROM wallets w"
                    " WHERE w.id = :second) WHERE id = :first"
                ),
                {"first": first.id, "second": second.id},
            )
    reopened = await Wallets.open(database, Settings(), tmp_path)
    with pytest.raises(KeystoreError, match=f"wallet {first.id} cannot be opened"):
        await (await reopened.signer(first.id)).sign(b"m")
    assert await (await reopened.signer(second.id)).sign(b"m")


@promise("key-never-in-clear")
async def test_a_key_is_in_no_repr_and_in_no_file(wallets: Wallets, tmp_path: Path) -> None:
    wallet = await wallets.import_keypair(FILE, "mine")
    signer = await wallets.signer(wallet.id)
    await signer.sign(b"m")
    held = wallets._cache[wallet.id]
    for shown in (wallet, signer, held, wallets, held.envelope):
        for secret in (str(KEYPAIR), FILE, repr(KEYPAIR.secret()), KEYPAIR.secret().hex()):
            assert secret not in repr(shown)
    for path in tmp_path.iterdir():
        assert KEYPAIR.secret() not in path.read_bytes()


async def test_of_more_than_fit_in_memory_the_least_used_is_read_again(
    wallets: Wallets, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    monkeypatch.setattr(service, "MOST_CACHED", 3)
    made = [await wallets.create(f"w{number}") for number in range(3)]
    assert await wallets.get(made[0].id) == made[0]
    made.append(await wallets.create("w3"))
    assert list(wallets._cache) == [made[2].id, made[0].id, made[3].id]
    reads: list[str] = []
    database.on_transaction = reads.append
    for each in (made[0], made[2], made[3]):
        assert await wallets.get(each.id) == each
    assert reads == []
    signer = await wallets.signer(made[1].id)
    assert (signer.address, reads) == (made[1].address, ["read"])
    assert list(wallets._cache) == [made[2].id, made[3].id, made[1].id]
    await wallets.set_tags(made[0].id, ["old"])
    assert len(wallets._cache) == 3
    assert (await wallets.get(made[0].id)).tags == ("old",)
