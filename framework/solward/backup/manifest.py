"""The manifest of a backup, and the names of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import msgspec

from solward.backup.plugins import is_path
from solward.support import jsontext
from solward.types.bounds import Natural
from solward.types.errors import BackupError

MANIFEST = "manifest.json"
DATABASE = "solward.db"
LEDGER = "localnet.db"
KEY_FILE = "keystore.key"
# The new key of a rotation that was killed (`wallets.keyring.next_file`).
NEXT_KEY_FILE = "keystore.key.next"
FILES = (DATABASE, KEY_FILE, NEXT_KEY_FILE, LEDGER)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a backup.

    Attributes:
        version: Solward's version that made it.
        created: ISO 8601, UTC.
        network: the network of its transactions.
        schema: the hash of the database's schema.
        keystore: `passphrase`, `file`, or `none` where there were no wallets yet.
        wallets: id -> base58 public key.
        files: name -> bytes; those of plugins by their path in the home.
    """

    version: str
    created: str
    network: str
    schema: str
    keystore: str
    wallets: Mapping[str, str]
    files: Mapping[str, Natural]

    @property
    def holds(self) -> list[str]:
        """What it holds, for people: of plugins the folders alone."""
        folders = [name.rsplit("/")[:2] for name in self.files if name not in FILES]
        return [
            *(name for name in self.files if name in FILES),
            *dict.fromkeys("/".join(each) for each in folders),
        ]

    def to_json(self) -> bytes:
        """The manifest's file."""
        return jsontext.dumps(asdict(self)).encode()


def parse_manifest(data: bytes) -> Manifest:
    """The manifest in `data`; raises `BackupError`."""
    try:
        manifest = msgspec.convert(jsontext.read(data), Manifest)
    except ValueError:
        manifest = None
    if manifest is None or DATABASE not in manifest.files or not all(map(_is_file, manifest.files)):
        raise BackupError("The backup's manifest is not one this version reads")
    return manifest


def _is_file(name: str) -> bool:
    return name in FILES or is_path(name)
