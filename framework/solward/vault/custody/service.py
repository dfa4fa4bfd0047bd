"""Wallets: creation, import, listing, and the signer for the transaction engine."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from solders.keypair import Keypair
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import principal
from solward.database import names
from solward.database.database import Database, lock_shared
from solward.database.prepared import Row
from solward.settings import Settings
from solward.support import jsontext
from solward.support.clock import now_ms
from solward.support.skeletons import skeleton
from solward.types.address_book import DEFAULT_NAME
from solward.types.errors import InvalidRequest, TooManyWallets, WalletNotFound
from solward.types.roles import is_key
from solward.vault.custody.envelope import (
    Envelope,
    address_of,
    open_envelope,
    parse_keypair_file,
    pocket_keypair,
    seal,
)
from solward.vault.custody.keyring import KeySource
from solward.vault.custody.keystore import Keystore, envelope_of
from solward.vault.custody.model import Pocket, Wallet, check_name, check_tags, wallet_of
from solward.vault.store import pockets as pocket_store
from solward.vault.store import wallets as store
from solward.vault.store.pockets import PocketRow

KEY_FILE = "keystore.key"
# The number of wallets that one API key may create; the admin may create any number.
MOST_OF_A_KEY = 100
# The number of wallets in memory, 2 KiB each. The least recently used wallet is dropped first.
MOST_CACHED = 10_000
# The number of rows read at once for a list of all wallets.
_PAGE = 500


class Signer:
    """Signs the transactions of one wallet, or of one of its pockets. It opens the sealed key for
    each signature and drops the key at once.

    Only `solward.vault.money` gets a signer, and signs only bytes that guardrails have judged. Raw
    messages are never signed: a signature over bytes that happen to be a transaction *is* that
    transaction's signature.

    Attributes:
        address: the base58 public key for which it signs.
    """

    __slots__ = ("_counter", "_envelope", "_keystore", "address")

    def __init__(self, keystore: Keystore, envelope: Envelope, counter: int | None = None) -> None:
        """Sign for the pocket with this counter; None for the wallet itself."""
        self._keystore = keystore
        self._envelope = envelope
        self._counter = counter
        self.address = envelope.public_key if counter is None else str(self._keypair().pubkey())

    async def sign(self, message: bytes) -> bytes:
        """Return the 64-byte ed25519 signature over a serialised transaction message.

        Raises:
            KeystoreError: the key cannot be opened.
        """
        return bytes(self._keypair().sign_message(message))

    def _keypair(self) -> Keypair:
        kek = self._keystore.keyring.kek(self._envelope.kek_version)
        keypair = open_envelope(kek, self._envelope)
        return keypair if self._counter is None else pocket_keypair(keypair, self._counter)

    def __repr__(self) -> str:
        return f"Signer({self.address})"


@dataclass(frozen=True, slots=True)
class _CachedWallet:
    """A wallet in memory, whose private key stays sealed."""

    wallet: Wallet
    envelope: Envelope


class Wallets:
    """The wallets of a store. Open with `Wallets.open`."""

    def __init__(self, database: Database, keystore: Keystore) -> None:
        self._database = database
        self._keystore = keystore
        self._cache: OrderedDict[str, _CachedWallet] = OrderedDict()
        self._newest_ms = 0
        self._planned: dict[str, set[int]] = {}

    @classmethod
    async def open(cls, database: Database, settings: Settings, home: Path) -> Wallets:
        """Unlock the keystore that the settings name, or create it at the first start.

        Raises:
            KeystoreError: the passphrase or key file is not this store's, is missing, or is open
                to other users.
        """
        return cls(database, await Keystore.open(database, key_source(settings, home)))

    async def create(self, name: str = DEFAULT_NAME, tags: Sequence[str] = ()) -> Wallet:
        """Return a new wallet with its own key; the wallet is stored when this returns.

        Raises:
            InvalidRequest: the name or a tag is not 1 to 64 printable characters; the name is an
                address or an id, or can be taken for a contact's.
            TooManyWallets: the requesting API key has created `MOST_OF_A_KEY` wallets.
        """
        return await self._store_wallet(Keypair(), name, tags)

    async def import_keypair(self, keypair_file_text: str, name: str = DEFAULT_NAME) -> Wallet:
        """Return a wallet for an existing key, given as the text of a Solana CLI keypair file.

        Call `foreign_rights` first for a key that was used elsewhere.

        Raises:
            InvalidRequest: the text (never shown) is no such file, or the key is managed already.
        """
        keypair = parse_keypair_file(keypair_file_text)
        try:
            return await self._store_wallet(keypair, name, (), imported=True)
        except IntegrityError:
            raise InvalidRequest(f"keypair {keypair.pubkey()} is imported already") from None

    async def get(self, wallet_id: str) -> Wallet:
        """Return one wallet; raises `WalletNotFound`.

        Its tags may be old if another process changed them; see `get_fresh`.
        """
        return (await self._load_wallet(wallet_id)).wallet

    async def get_fresh(self, wallet_id: str) -> Wallet:
        """Return one wallet with its current tags; raises `WalletNotFound`."""
        if self._database.shared:
            self._cache.pop(wallet_id, None)
        return await self.get(wallet_id)

    async def list(self) -> list[Wallet]:
        """Return every wallet, oldest first."""
        async with self._database.read() as connection:
            return [wallet_of(row) for row in await store.list_wallets(connection)]

    async def pages_json(self, *, maker: bool = False) -> AsyncGenerator[Sequence[bytes], None]:
        """Yield every wallet as JSON, oldest first, in pages; each page is a separate read."""
        last: str | None = None
        while True:
            async with self._database.read() as connection:
                rows = await store.oldest_wallets(connection, _PAGE, last)
            if rows:
                yield [_wallet_json(row, maker) for row in rows]
            if len(rows) < _PAGE:
                return
            last = rows[-1].id

    async def newest_json(
        self, limit: int, before: str | None = None, *, maker: bool = False
    ) -> Sequence[bytes]:
        """Return wallets as JSON, newest first, that were created before the wallet `before`.

        Raises:
            InvalidRequest: `before` is no wallet's id.
        """
        async with self._database.read() as connection:
            rows = await store.newest_wallets(connection, limit, before)
            unknown = (
                not rows
                and before is not None
                and await store.get_wallet(connection, before) is None
            )
        if unknown:
            raise InvalidRequest("before must be the id of a wallet")
        return [_wallet_json(row, maker) for row in rows]

    async def set_tags(self, wallet_id: str, tags: Sequence[str]) -> Wallet:
        """Replace a wallet's tags.

        Raises:
            WalletNotFound: no such wallet.
            InvalidRequest: more than 20 tags, or one that is not 1 to 64 printable characters.
        """
        checked = check_tags(tags)
        cached = await self._load_wallet(wallet_id)
        async with self._database.write() as connection:
            await store.set_tags(connection, wallet_id, checked)
        cached = replace(cached, wallet=replace(cached.wallet, tags=checked))
        self._cache_wallet(cached)
        return cached.wallet

    async def signer(self, wallet_id: str) -> Signer:
        """Return the signer of a wallet's transactions; only `solward.vault.money` may call this.

        Raises:
            WalletNotFound: no such wallet.
        """
        cached = await self._load_wallet(wallet_id)
        return Signer(self._keystore, cached.envelope)

    async def pocket_signer(self, wallet_id: str, counter: int) -> Signer:
        """Return the signer of a pocket's transactions; only `solward.vault.money` may call this.

        Raises:
            WalletNotFound: no such wallet.
        """
        cached = await self._load_wallet(wallet_id)
        return Signer(self._keystore, cached.envelope, counter)

    @asynccontextmanager
    async def new_pocket(self, wallet_id: str) -> AsyncIterator[Pocket]:
        """Yield a pocket with a counter that nobody else in this process gets until the block ends.

        Storing the pocket's row takes the counter; another process may be first: `PocketTaken`.

        Raises:
            WalletNotFound: no such wallet.
        """
        async with self._database.read() as connection:
            last = await pocket_store.last_counter(connection, wallet_id)
        planned = self._planned.setdefault(wallet_id, set())
        counter = max(last, *planned, 0) + 1
        planned.add(counter)
        try:
            signer = await self.pocket_signer(wallet_id, counter)
            yield Pocket(wallet_id, counter, signer.address)
        finally:
            planned.discard(counter)
            if not planned:
                self._planned.pop(wallet_id, None)

    async def position(self, wallet_id: str, program: str, position: str) -> Pocket | None:
        """Return the pocket of a position; None if the position has no pocket yet."""
        async with self._database.read() as connection:
            row = await pocket_store.by_position(connection, wallet_id, program, position)
        return None if row is None else Pocket(row.wallet_id, row.counter, row.address)

    async def pockets(self, wallet_id: str) -> Sequence[PocketRow]:
        """Return a wallet's pockets that may hold something, oldest first.

        Raises:
            WalletNotFound: no such wallet.
        """
        await self._load_wallet(wallet_id)
        async with self._database.read() as connection:
            return await pocket_store.of_wallet(connection, wallet_id, open_only=True)

    async def rotate(self, new: KeySource) -> int:
        """Seal every wallet's key under a new key-encryption key; return the number of wallets.

        If killed halfway, the next `open` with the new secret finishes it.

        Raises:
            KeystoreError: the new key file cannot be made, or a stored key was tampered with.
        """
        changed = await self._keystore.rotate(new)
        self._cache.clear()
        return changed

    async def _load_wallet(self, wallet_id: str) -> _CachedWallet:
        cached = self._cache.get(wallet_id)
        if cached is not None:
            self._cache.move_to_end(wallet_id)
            return cached
        async with self._database.read() as connection:
            row = await store.get_wallet(connection, wallet_id)
        if row is None:
            raise WalletNotFound
        cached = _CachedWallet(wallet_of(row), envelope_of(row))
        self._cache_wallet(cached)
        return cached

    def _cache_wallet(self, cached: _CachedWallet) -> None:
        self._cache[cached.wallet.id] = cached
        self._cache.move_to_end(cached.wallet.id)
        if len(self._cache) > MOST_CACHED:
            self._cache.popitem(last=False)

    async def _store_wallet(
        self, keypair: Keypair, name: str, tags: Sequence[str], *, imported: bool = False
    ) -> Wallet:
        # Later than the time of this process's last wallet, because lists of wallets sort by it.
        self._newest_ms = max(now_ms(), self._newest_ms + 1)
        wallet = Wallet(
            id=str(uuid.uuid4()),
            name=check_name(name),
            address=address_of(keypair),
            tags=check_tags(tags),
            created_ms=self._newest_ms,
            created_by=principal(),
        )
        async with self._database.write() as connection:
            await _check_allowed(connection, wallet)
            # The key is sealed inside the transaction, so that a rotation ends only after every key
            # that is sealed under the old version.
            ring = await self._keystore.newest_keyring(connection)
            envelope = seal(ring.current, ring.version, wallet.id, keypair)
            row = {
                "id": wallet.id,
                "name": wallet.name,
                "public_key": wallet.address,
                "tags": list(wallet.tags),
                "created_ms": wallet.created_ms,
                "kek_version": envelope.kek_version,
                "wrapped_data_key": envelope.wrapped_data_key,
                "sealed_key": envelope.sealed_key,
            }
            await store.insert_wallet(connection, row, imported=imported)
        self._cache_wallet(_CachedWallet(wallet, envelope))
        return wallet


async def _check_allowed(connection: AsyncConnection, wallet: Wallet) -> None:
    """Raise if the wallet must not be created: its API key has created its maximum, or people could
    mistake the name for a contact's name, which they use in place of an address."""
    look = skeleton(wallet.name)
    # The lock keeps others from creating a contact with this name meanwhile.
    await lock_shared(connection, names.CONTACTS_LOCK)
    taken = await names.known_skeletons(connection, [look])
    maker = wallet.created_by
    if maker is not None and is_key(maker):
        made = await store.made_by(connection, maker)
        if made >= MOST_OF_A_KEY:
            raise TooManyWallets(MOST_OF_A_KEY)
    if taken:
        raise InvalidRequest("name is, or looks like, the name of a contact")


def _wallet_json(row: Row, maker: bool) -> bytes:
    tags = tuple(row.tags)
    wallet = Wallet(row.id, row.name, row.public_key, tags, row.created_ms, row.created_by)
    return jsontext.dumps_own(wallet.to_json(maker=maker)).encode()


def key_source(settings: Settings, home: Path) -> KeySource:
    """Return the passphrase or key file of the settings, or a file in `home`."""
    if settings.keystore_passphrase is not None:
        return KeySource(passphrase=settings.keystore_passphrase.get_secret_value())
    return KeySource(file=settings.keystore_key_file or home / KEY_FILE)
