"""Pocket keys: keys for single uses, made of a wallet's own key and a counter, pure.

A program that is not understood gets the signature of a pocket, never that of the wallet, so it
can take no more than was put into the pocket. Nothing of a pocket's key is stored: the wallet's
key and the counter give it again.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from solders.keypair import Keypair

_PURPOSE = b"pocket"
_COUNTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Pocket:
    """A pocket without its key; `address` is its base58 public key, `counter` starts at 1."""

    wallet_id: str
    counter: int
    address: str


def pocket_keypair(wallet: Keypair, counter: int) -> Keypair:
    """The key of a wallet's pocket: HMAC-SHA-256 of `pocket` and the counter (8 bytes, big endian)
    under the wallet's 32-byte secret, as the ed25519 seed."""
    message = _PURPOSE + counter.to_bytes(_COUNTER_BYTES, "big")
    return Keypair.from_seed(hmac.digest(wallet.secret(), message, "sha256"))
