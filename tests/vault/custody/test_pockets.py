"""A pocket's key comes from its wallet's key and a counter that is never used twice."""

from __future__ import annotations

import hashlib
import hmac

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from tests.promises import promise
from tests.support.engine import Bench

from solward.vault.custody.envelope import pocket_keypair
from solward.vault.store import pockets as store
from solward.vault.store.pockets import PocketRow, PocketState


def row(wallet_id: str, counter: int, address: str) -> PocketRow:
    return PocketRow(wallet_id, counter, address, None, None, None, (), None, PocketState.SINGLE, 1)


def test_the_key_is_the_hmac_of_the_counter_under_the_wallets_secret() -> None:
    wallet = Keypair.from_seed(bytes(range(32)))
    seed = hmac.new(bytes(range(32)), b"pocket" + bytes(7) + b"\x05", hashlib.sha256).digest()
    assert pocket_keypair(wallet, 5) == Keypair.from_seed(seed)
    # Written down once: a changed derivation would lose what older pockets hold.
    assert str(pocket_keypair(wallet, 1).pubkey()) == "Edh4YvUw9YYYbFzqn2bNYLk2GbYM5Y7z8wEqK4WxANP8"


@promise("pocket-keys-used-once")
def test_every_counter_and_every_wallet_has_another_key() -> None:
    wallets = [Keypair() for _ in range(3)]
    made = {pocket_keypair(wallet, n).pubkey() for wallet in wallets for n in (1, 2, 256, 2**63)}
    assert len(made) == 12
    assert not made & {wallet.pubkey() for wallet in wallets}


async def test_the_signer_signs_for_the_pocket_and_shows_no_key(bench: Bench) -> None:
    async with bench.wallets.new_pocket(bench.wallet.id) as pocket:
        signer = await bench.wallets.pocket_signer(bench.wallet.id, pocket.counter)
    assert signer.address == pocket.address != bench.wallet.address
    signature = Signature.from_bytes(await signer.sign(b"message"))
    assert signature.verify(Pubkey.from_string(pocket.address), b"message")
    assert repr(signer) == f"Signer({pocket.address})"


async def test_pockets_taken_at_once_differ_and_unused_ones_leave_no_gap(bench: Bench) -> None:
    wallets, wallet = bench.wallets, bench.wallet.id
    async with wallets.new_pocket(wallet) as first, wallets.new_pocket(wallet) as second:
        assert (first.counter, second.counter) == (1, 2)
    async with wallets.new_pocket(wallet) as third:
        assert third == first


@promise("pocket-keys-used-once")
async def test_a_stored_counter_is_never_given_again(bench: Bench) -> None:
    wallets, wallet = bench.wallets, bench.wallet.id
    async with wallets.new_pocket(wallet) as pocket, bench.database.write() as connection:
        await store.add(connection, row(wallet, 7, pocket.address))
    async with bench.database.read() as connection:
        assert await store.last_counter(connection, wallet) == 7
        assert await store.is_used(connection, wallet, 7)
        assert not await store.is_used(connection, wallet, 8)
    async with wallets.new_pocket(wallet) as later:
        assert later.counter == 8
