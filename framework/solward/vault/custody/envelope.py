"""Seals private keys in envelopes, parses them from key files, and derives keys for pockets; pure:
no files, no clock, no store.

Each wallet's seed is sealed under its own random data key, and the data key under the
key-encryption key (KEK). Both use AES-256-GCM with a random 96-bit nonce, bound to format, wallet,
public key and key version, so that no row can replace another row.

A pocket's key is derived from the wallet's key and a counter. A program that Solward does not
understand gets a pocket's signature, never the wallet's, so it can take no more than was put into
the pocket. A pocket's key is never stored, but derived again from the wallet's key and the counter.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from argon2.low_level import Type, hash_secret_raw
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from solward.support import jsontext
from solward.types.errors import InvalidRequest, KeystoreError

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16

# argon2id 64 MiB, t=3, p=4: 0.35 s on two cores. Stored values are checked against bounds: whoever
# can write them could weaken the key with lower values, or stall the machine with higher values.
ARGON2: Final = {"memory_kib": 65_536, "time_cost": 3, "parallelism": 4}
_CEILING: Final = {"memory_kib": 1_048_576, "time_cost": 16, "parallelism": 16}
_SALT_BYTES: Final = 16

_KEYPAIR_BYTES = 64
_PURPOSE = b"pocket"
_COUNTER_BYTES = 8

# A data key seals one seed and is never replaced; a rotation of the KEK only rewraps it.
_DATA_KEY_VERSION = 1


@dataclass(frozen=True, slots=True)
class Keyring:
    """The KEKs in memory, by version: one KEK, or two while a rotation is unfinished.

    Attributes:
        audit_key: the key that authenticates the audit log.
    """

    version: int
    _keks: Mapping[int, bytes] = field(repr=False)
    audit_key: bytes = field(repr=False)

    def kek(self, version: int) -> bytes:
        """Return the KEK of a version; raises `KeystoreError` if the KEK is not in memory."""
        try:
            return self._keks[version]
        except KeyError:
            raise KeystoreError(
                f"Version {version} of the key-encryption key is not in memory; if the keystore was"
                " rotated since this process started, restart the process with the new secret"
            ) from None

    @property
    def current(self) -> bytes:
        """The KEK that seals new wallets."""
        return self._keks[self.version]

    @property
    def previous(self) -> int | None:
        """The version that a rotation replaces; None if no rotation is unfinished."""
        return min(self._keks) if len(self._keks) > 1 else None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A sealed private key as it is stored.

    Attributes:
        kek_version: version of the key-encryption key that wraps the data key.
        wrapped_data_key: nonce and sealed data key.
        sealed_key: nonce and sealed 32-byte ed25519 seed.
    """

    wallet_id: str
    public_key: str
    kek_version: int
    wrapped_data_key: bytes = field(repr=False)
    sealed_key: bytes = field(repr=False)


def address_of(keypair: Keypair) -> str:
    """Return the base58 public key from the keypair's bytes; `pubkey` would derive it again."""
    return str(Pubkey(bytes(keypair)[KEY_BYTES:]))


def seal(kek: bytes, kek_version: int, wallet_id: str, keypair: Keypair) -> Envelope:
    """Seal a keypair under a new random data key."""
    public_key = address_of(keypair)
    data_key = os.urandom(KEY_BYTES)
    return Envelope(
        wallet_id=wallet_id,
        public_key=public_key,
        kek_version=kek_version,
        wrapped_data_key=encrypt(
            kek, data_key, _aad("data-key", wallet_id, public_key, kek_version)
        ),
        sealed_key=encrypt(
            data_key, keypair.secret(), _aad("seed", wallet_id, public_key, _DATA_KEY_VERSION)
        ),
    )


def open_envelope(kek: bytes, envelope: Envelope) -> Keypair:
    """Return the keypair in the envelope; drop it after one signature.

    Raises:
        KeystoreError: the KEK is another, a byte was changed, the row is another wallet's, or the
            key does not belong to the stored public key.
    """
    seed = decrypt(
        _open_data_key(kek, envelope),
        envelope.sealed_key,
        _aad("seed", envelope.wallet_id, envelope.public_key, _DATA_KEY_VERSION),
        f"The key of wallet {envelope.wallet_id}",
    )
    keypair = Keypair.from_seed(seed)
    if not hmac.compare_digest(address_of(keypair), envelope.public_key):
        raise KeystoreError(
            f"The key of wallet {envelope.wallet_id} does not match address {envelope.public_key}"
        )
    return keypair


def rewrap(old_kek: bytes, new_kek: bytes, new_version: int, envelope: Envelope) -> Envelope:
    """Return the envelope with its data key under another KEK; raises `open_envelope`'s errors."""
    data_key = _open_data_key(old_kek, envelope)
    bound = _aad("data-key", envelope.wallet_id, envelope.public_key, new_version)
    return Envelope(
        wallet_id=envelope.wallet_id,
        public_key=envelope.public_key,
        kek_version=new_version,
        wrapped_data_key=encrypt(new_kek, data_key, bound),
        sealed_key=envelope.sealed_key,
    )


def new_kdf() -> dict[str, Any]:
    """Return new parameters for `derived`, with a random salt, in their stored form."""
    salt = base64.b64encode(os.urandom(_SALT_BYTES)).decode()
    return {"kind": "argon2id", "salt": salt, **ARGON2}


def derive_key(passphrase: str, kdf: Mapping[str, Any]) -> bytes:
    """Return the key for a passphrase and stored parameters. This takes a third of a second.

    Raises:
        ValueError: a parameter is out of bounds; the error names it.
    """
    for name, floor in ARGON2.items():
        value = kdf.get(name)
        if type(value) is not int or not floor <= value <= _CEILING[name]:
            raise ValueError(f"{name} must be between {floor} and {_CEILING[name]}")
    salt = base64.b64decode(str(kdf.get("salt")), validate=True)
    if len(salt) < _SALT_BYTES:
        raise ValueError(f"salt must have at least {_SALT_BYTES} bytes")
    return hash_secret_raw(
        passphrase.encode(),
        salt,
        time_cost=kdf["time_cost"],
        memory_cost=kdf["memory_kib"],
        parallelism=kdf["parallelism"],
        hash_len=KEY_BYTES,
        type=Type.ID,
    )


def encrypt(key: bytes, plain: bytes, bound: bytes) -> bytes:
    """Return AES-256-GCM's 12-byte nonce, ciphertext and 16-byte tag, which also covers `bound`."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound)


def decrypt(key: bytes, sealed: bytes, bound: bytes, what: str) -> bytes:
    """Return the plain bytes; raises `KeystoreError` that names `what` if they are not genuine."""
    if len(sealed) < _NONCE_BYTES + _TAG_BYTES:
        raise KeystoreError(f"{what} cannot be opened: it is cut short")
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound)
    except InvalidTag:
        raise KeystoreError(
            f"{what} cannot be opened: it was changed, or another key sealed it"
        ) from None


def _open_data_key(kek: bytes, envelope: Envelope) -> bytes:
    return decrypt(
        kek,
        envelope.wrapped_data_key,
        _aad("data-key", envelope.wallet_id, envelope.public_key, envelope.kek_version),
        f"The key of wallet {envelope.wallet_id}",
    )


def _aad(part: str, wallet_id: str, public_key: str, version: int) -> bytes:
    return f"solward-wallet/1|{part}|{wallet_id}|{public_key}|{version}".encode()


def parse_keypair_file(text: str) -> Keypair:
    """Return the keypair in a Solana CLI keypair file: a JSON array of 64 byte values.

    Raises:
        InvalidRequest: the text is no keypair file, or its public and private halves do not match.
            The error never shows the file's contents.
    """
    expected = "keypair must be a Solana CLI keypair file: a JSON array of 64 numbers"
    try:
        numbers = jsontext.read(text)
    except ValueError:
        raise InvalidRequest(expected) from None
    if not isinstance(numbers, list) or len(numbers) != _KEYPAIR_BYTES:
        raise InvalidRequest(expected)
    if not all(type(number) is int and 0 <= number < 256 for number in numbers):
        raise InvalidRequest(f"{expected} from 0 to 255")
    raw = bytes(numbers)
    keypair = Keypair.from_seed(raw[:32])
    if bytes(keypair.pubkey()) != raw[32:]:
        raise InvalidRequest("keypair is damaged: its public key does not match its private key")
    return keypair


def pocket_keypair(wallet: Keypair, counter: int) -> Keypair:
    """Return the key of a wallet's pocket: HMAC-SHA-256 of `pocket` and the counter (8 bytes, big
    endian) under the wallet's 32-byte secret, as the ed25519 seed."""
    message = _PURPOSE + counter.to_bytes(_COUNTER_BYTES, "big")
    return Keypair.from_seed(hmac.digest(wallet.secret(), message, "sha256"))
