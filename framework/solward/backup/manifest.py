"""What a backup says of itself, and the files it may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solward import jsontext
from solward.errors import BackupError

MANIFEST = "manifest.json"
DATABASE = "solward.db"
LEDGER = "localnet.db"
KEY_FILE = "keystore.key"
# Where a rotation that was killed left the new key (`wallets.keyring.next_file`).
NEXT_KEY_FILE = "keystore.key.next"
FILES = (DATABASE, KEY_FILE, NEXT_KEY_FILE, LEDGER)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was backed up.

    Attributes:
        version: of the Solward that made it.
        created: ISO 8601, UTC.
        network: the network its transactions are on.
        revision: of the database's schema.
        keystore: `passphrase`, `file`, or `none` where there were no wallets yet.
        wallets: id -> base58 public key.
        files: name -> bytes.
    """

    version: str
    created: str
    network: str
    revision: str
    keystore: str
    wallets: Mapping[str, str]
    files: Mapping[str, int]

    def to_json(self) -> bytes:
        """As it is stored."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return jsontext.dumps(fields).encode()


def parse_manifest(data: bytes) -> Manifest:
    """The manifest in `data`; raises `BackupError`."""
    unknown = "The backup's manifest is not one this version reads"
    try:
        fields: dict[str, Any] = jsontext.loads(data)
        manifest = Manifest(**{name: fields[name] for name in Manifest.__slots__})
        known = set(manifest.files) <= set(FILES) and DATABASE in manifest.files
        sizes = all(type(size) is int and size >= 0 for size in manifest.files.values())
        wallets = all(type(key) is str for key in manifest.wallets.values())
        texts = all(type(fields[name]) is str for name in ("version", "network", "revision"))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BackupError(unknown) from None
    if not (known and sizes and wallets and texts):
        raise BackupError(unknown)
    return manifest
