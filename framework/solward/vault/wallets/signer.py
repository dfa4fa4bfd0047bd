"""Signing, as the transaction engine may ask for it; nothing else in the product can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from solders.keypair import Keypair


class Signer(Protocol):
    """Signs transactions of one wallet.

    Only `solward.vault.transactions` holds one, and only after the guardrails have judged the very
    bytes. There is no signing of raw messages anywhere: a signature over bytes that happen to be
    a transaction *is* that transaction's signature.
    """

    @property
    def address(self) -> str:
        """The wallet's base58 public key."""
        ...

    async def sign(self, message: bytes) -> bytes:
        """The 64-byte ed25519 signature over a serialised transaction message.

        Raises:
            KeystoreError: the key cannot be opened.
        """
        ...


class InProcessSigner:
    """Opens the sealed key for each signature and lets it go at once."""

    __slots__ = ("_open", "address")

    def __init__(self, address: str, open_key: Callable[[], Keypair]) -> None:
        self.address = address
        self._open = open_key

    async def sign(self, message: bytes) -> bytes:
        """See `Signer.sign`."""
        return bytes(self._open().sign_message(message))

    def __repr__(self) -> str:
        return f"InProcessSigner({self.address})"
