"""Where each chain ends, authenticated with a key that the database does not hold.

Hashes show a changed entry only to somebody who knows the end of its chain, and whoever can write
the database can write ends too. So each end carries an HMAC-SHA-256 under the audit key, which is
stored sealed under the keystore's secret (`solward.vault.custody.keyring`). Whoever appends checks
the end it goes on from: an end that is not authentic never becomes so by what follows it.
"""

from __future__ import annotations

import hmac
from typing import NamedTuple

import msgspec

KEY_BYTES = 32

# Of a chain that went on after an end that was not authentic; no MAC is equal to it.
BROKEN = "broken"

_DOMAIN = "solward-audit-head/1"


class Head(NamedTuple):
    """Where a chain ends, and the entry after which it begins where retention cut older ones.

    Attributes:
        number: of its last entry; 0 when it has none.
        pruned_hash: the hash of entry `pruned_number`, None while nothing was cut.
        service_number: the last entry of the chain without a name when this one was last written,
            so that the former cannot be taken back further than all others; `service_hash` its
            hash, None while it had none.
        mac: of all of this and the chain's name, hex; None where it was written without a key.
    """

    number: int
    hash: str
    pruned_number: int = 0
    pruned_hash: str | None = None
    service_number: int = 0
    service_hash: str | None = None
    mac: str | None = None

    def signed(self, key: bytes | None, chain: str) -> Head:
        """The same end with its MAC; without a key, with none."""
        return self._replace(mac=None if key is None else self._mac(key, chain))

    def is_authentic(self, key: bytes, chain: str) -> bool:
        """Whether the holder of the key wrote it, for this chain."""
        return self.mac is not None and hmac.compare_digest(self.mac, self._mac(key, chain))

    def followed_by(self, following: Head, key: bytes | None, chain: str) -> Head:
        """The end that takes this one's place, authentic only if this one is."""
        if key is None or self.is_authentic(key, chain):
            return following.signed(key, chain)
        return following._replace(mac=BROKEN)

    def _mac(self, key: bytes, chain: str) -> str:
        fields = (_DOMAIN, chain, *self[:-1])
        return hmac.digest(key, msgspec.json.encode(fields), "sha256").hex()
