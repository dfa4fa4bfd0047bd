"""An envelope opens for the right key, the right wallet and untouched bytes only."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from solders.keypair import Keypair
from tests.promises import promise

from solward.types.errors import KeystoreError
from solward.vault.custody.envelope import Envelope, encrypt, open_envelope, rewrap, seal

KEK = os.urandom(32)
KEYPAIR = Keypair()
SEALED = seal(KEK, 1, "wallet-a", KEYPAIR)


def test_what_was_sealed_opens_again() -> None:
    assert open_envelope(KEK, SEALED) == KEYPAIR


def test_the_seed_is_nowhere_in_the_envelope() -> None:
    assert KEYPAIR.secret() not in SEALED.sealed_key + SEALED.wrapped_data_key
    assert "sealed_key" not in repr(SEALED)


def test_no_two_envelopes_share_a_nonce_or_a_key() -> None:
    again = seal(KEK, 1, "wallet-a", KEYPAIR)
    assert again.sealed_key[:12] != SEALED.sealed_key[:12]
    assert again.sealed_key[12:] != SEALED.sealed_key[12:]
    assert again.wrapped_data_key[:12] != SEALED.wrapped_data_key[:12]


@promise("database-writer-reads-no-key")
@pytest.mark.parametrize("part", ["sealed_key", "wrapped_data_key"])
def test_any_flipped_byte_is_noticed(part: str) -> None:
    whole = getattr(SEALED, part)
    for index in range(len(whole)):
        flipped = bytearray(whole)
        flipped[index] ^= 1
        with pytest.raises(KeystoreError, match="wallet-a cannot be opened: it was changed"):
            open_envelope(KEK, replace(SEALED, **{part: bytes(flipped)}))


@pytest.mark.parametrize("part", ["sealed_key", "wrapped_data_key"])
@pytest.mark.parametrize("length", [0, 12, 27, 40])
def test_a_cut_envelope_is_noticed(part: str, length: int) -> None:
    with pytest.raises(KeystoreError, match="cannot be opened"):
        open_envelope(KEK, replace(SEALED, **{part: getattr(SEALED, part)[:length]}))


OTHER = seal(KEK, 1, "wallet-b", Keypair())


@pytest.mark.parametrize(
    "swapped",
    [
        replace(SEALED, sealed_key=OTHER.sealed_key),
        replace(SEALED, wrapped_data_key=OTHER.wrapped_data_key),
        replace(SEALED, sealed_key=OTHER.sealed_key, wrapped_data_key=OTHER.wrapped_data_key),
        replace(SEALED, wallet_id="wallet-b"),
        replace(SEALED, public_key=OTHER.public_key),
        replace(SEALED, kek_version=2),
    ],
)
def test_a_row_put_in_anothers_place_is_noticed(swapped: Envelope) -> None:
    with pytest.raises(KeystoreError, match="cannot be opened"):
        open_envelope(KEK, swapped)


@promise("keys-sealed-per-wallet")
def test_another_kek_opens_nothing() -> None:
    with pytest.raises(KeystoreError, match="another key sealed it"):
        open_envelope(os.urandom(32), SEALED)


def test_a_key_that_is_not_the_stored_public_keys_is_refused() -> None:
    """Whoever holds the KEK can seal anything; the derived key still has to fit."""
    stranger, data_key = str(Keypair().pubkey()), os.urandom(32)
    forged = Envelope(
        "w",
        stranger,
        1,
        encrypt(KEK, data_key, f"solward-wallet/1|data-key|w|{stranger}|1".encode()),
        encrypt(data_key, KEYPAIR.secret(), f"solward-wallet/1|seed|w|{stranger}|1".encode()),
    )
    with pytest.raises(KeystoreError, match=f"does not match address {stranger}"):
        open_envelope(KEK, forged)


def test_rewrapping_changes_the_kek_and_keeps_the_key() -> None:
    new = os.urandom(32)
    moved = rewrap(KEK, new, 2, SEALED)
    assert (moved.kek_version, moved.sealed_key) == (2, SEALED.sealed_key)
    assert open_envelope(new, moved) == KEYPAIR
    with pytest.raises(KeystoreError):
        open_envelope(KEK, moved)
    with pytest.raises(KeystoreError):
        rewrap(new, KEK, 2, SEALED)
