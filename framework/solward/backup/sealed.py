"""A stream encrypted with a passphrase: Argon2id for the key, AES-256-GCM in chunks of 1 MiB.

Layout: the magic, the length of the header (4 bytes, big-endian), the header (JSON: format, key
derivation, verifier), then the chunks. A chunk's nonce is 7 random bytes of the file, its number
and whether it is the last (STREAM: Hoang, Reyhanitabar, Rogaway, Vizar, "Online
Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance", 2015), and the header is
authenticated with it: a chunk cannot be changed, moved, repeated or cut off.
"""

from __future__ import annotations

import base64
import binascii
import os
from typing import IO, Any, Final

from argon2.low_level import Type, hash_secret_raw
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from solward.support import jsontext
from solward.types.errors import BackupError, KeystoreError
from solward.vault.custody.envelope import KEY_BYTES, decrypt, encrypt

FORMAT: Final = 1
MAGIC: Final = b"solward-backup\n"
CHUNK: Final = 1 << 20

# argon2id 64 MiB, t=3, p=4: 0.35 s on two cores. A file may ask for more, within bounds: less
# would be a downgrade by whoever can write it, much more would stop the machine.
_ARGON2: Final = {"memory_kib": 65_536, "time_cost": 3, "parallelism": 4}
_CEILING: Final = {"memory_kib": 1_048_576, "time_cost": 16, "parallelism": 16}
_SALT_BYTES: Final = 16
_PREFIX_BYTES: Final = 7
_TAG_BYTES: Final = 16
_MAX_HEADER: Final = 4096
_KNOWN: Final = b"solward backup"


class SealedWriter:
    """Encrypts into `sink`; complete only after `finish`."""

    def __init__(self, sink: IO[bytes], passphrase: str) -> None:
        kdf: dict[str, Any] = {
            "kind": "argon2id",
            "salt": _text(os.urandom(_SALT_BYTES)),
            **_ARGON2,
        }
        key = _derive(passphrase, kdf)
        prefix = os.urandom(_PREFIX_BYTES)
        header = {
            "format": FORMAT,
            "kdf": kdf,
            "nonce": _text(prefix),
            "verifier": _text(encrypt(key, _KNOWN, _bound(kdf))),
        }
        self._header = jsontext.dumps(header).encode()
        self._sink, self._chunks = sink, _Chunks(key, prefix, self._header)
        self._waiting = bytearray()
        sink.write(MAGIC + len(self._header).to_bytes(4, "big") + self._header)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write all of `data`."""
        view = memoryview(data)
        self._waiting += view
        # One chunk is always buffered, because the last one is marked as such.
        while len(self._waiting) > CHUNK:
            self._sink.write(self._chunks.seal(bytes(self._waiting[:CHUNK]), last=False))
            del self._waiting[:CHUNK]
        return view.nbytes

    def finish(self) -> None:
        """Encrypt the last chunk."""
        self._sink.write(self._chunks.seal(bytes(self._waiting), last=True))


class SealedReader:
    """Decrypts `source`, which a `SealedWriter` wrote.

    Raises:
        BackupError: it is no backup, of a newer version, damaged, or of another passphrase.
            Reading raises it too; only the end proves that nothing is missing.
    """

    def __init__(self, source: IO[bytes], passphrase: str) -> None:
        header, fields = _header(source)
        kdf = fields["kdf"]
        key = _derive(passphrase, kdf)
        try:
            decrypt(key, _bytes(fields["verifier"]), _bound(kdf), "The backup")
        except KeystoreError:
            raise BackupError(
                "The passphrase is not this backup's, or the beginning of the file is damaged"
            ) from None
        self._source = source
        self._chunks = _Chunks(key, _bytes(fields["nonce"]), header)
        self._ahead = source.read(CHUNK + _TAG_BYTES)
        self._plain = memoryview(b"")
        self._ended = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, none at the genuine end."""
        while not self._plain:
            if self._ended:
                return b""
            sealed, self._ahead = self._ahead, self._source.read(CHUNK + _TAG_BYTES)
            self._ended = not self._ahead
            self._plain = memoryview(self._chunks.open(sealed, last=self._ended))
        data, self._plain = self._plain[:size], self._plain[size:]
        return bytes(data)


class _Chunks:
    """Encrypts or decrypts chunks in their order."""

    def __init__(self, key: bytes, prefix: bytes, header: bytes) -> None:
        self._cipher, self._prefix, self._header = AESGCM(key), prefix, header
        self._number = 0

    def seal(self, plain: bytes, *, last: bool) -> bytes:
        return self._cipher.encrypt(self._nonce(last), plain, self._header)

    def open(self, sealed: bytes, *, last: bool) -> bytes:
        try:
            return self._cipher.decrypt(self._nonce(last), sealed, self._header)
        except (InvalidTag, ValueError):
            raise BackupError("The backup is damaged or cut short") from None

    def _nonce(self, last: bool) -> bytes:
        number, self._number = self._number, self._number + 1
        return self._prefix + number.to_bytes(4, "big") + bytes([last])


def _header(source: IO[bytes]) -> tuple[bytes, dict[str, Any]]:
    if source.read(len(MAGIC)) != MAGIC:
        raise BackupError("The file is not a backup made by `solward backup`")
    size = int.from_bytes(source.read(4), "big")
    header = source.read(size) if size <= _MAX_HEADER else b""
    try:
        fields = jsontext.loads(header.decode())
        version = fields["format"]
        if type(version) is not int:
            raise TypeError
        if version > FORMAT:
            raise BackupError(
                f"The backup was made by a newer version of Solward (format {version}; this one"
                f" reads up to {FORMAT})"
            )
        salt, prefix = _bytes(fields["kdf"]["salt"]), _bytes(fields["nonce"])
        if len(salt) < _SALT_BYTES or len(prefix) != _PREFIX_BYTES or "verifier" not in fields:
            raise ValueError
    except (ValueError, TypeError, KeyError):
        raise BackupError("The beginning of the backup is damaged") from None
    return header, fields


def _derive(passphrase: str, kdf: Any) -> bytes:
    for name, floor in _ARGON2.items():
        value = kdf.get(name)
        if type(value) is not int or not floor <= value <= _CEILING[name]:
            raise BackupError("The beginning of the backup is damaged")
    return hash_secret_raw(
        passphrase.encode(),
        _bytes(kdf["salt"]),
        time_cost=kdf["time_cost"],
        memory_cost=kdf["memory_kib"],
        parallelism=kdf["parallelism"],
        hash_len=KEY_BYTES,
        type=Type.ID,
    )


def _bound(kdf: Any) -> bytes:
    return f"solward-backup/{FORMAT}|{jsontext.dumps(kdf, canonical=True)}".encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error:
        raise BackupError("The beginning of the backup is damaged") from None
