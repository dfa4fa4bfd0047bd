"""Secrets that must turn up nowhere, in every form somebody could write them in."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from solders.keypair import Keypair

from solward.support.base58 import b58encode

ENCODINGS: tuple[Callable[[bytes], str], ...] = (
    b58encode,
    bytes.hex,
    lambda data: data.hex().upper(),
    lambda data: base64.b64encode(data).decode().rstrip("="),
    lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    lambda data: json.dumps(list(data))[1:-1],
    lambda data: json.dumps(list(data), separators=(",", ":"))[1:-1],
    lambda data: repr(data)[2:-1],
    lambda data: data.decode("latin-1"),
)


@dataclass
class Canaries:
    """Name -> text to look for. A private key is there in every encoding, whole and its seed."""

    texts: dict[str, str] = field(default_factory=dict)

    def word(self, name: str, prefix: str = "") -> str:
        """A new secret."""
        self.texts[name] = secret = prefix + secrets.token_hex(24)
        return secret

    def keypair(self, name: str) -> Keypair:
        """A new private key."""
        keypair = Keypair()
        for part, data in (("key", bytes(keypair)), ("seed", bytes(keypair)[:32])):
            for number, encode in enumerate(ENCODINGS):
                self.texts[f"{name}, {part}, form {number}"] = encode(data)
        return keypair

    def found_in(self, text: str) -> list[str]:
        """Names of the secrets that stand in a text."""
        return [name for name, secret in self.texts.items() if secret in text]

    def found_in_files(self, folder: Path) -> Iterator[str]:
        """Secrets in any file below a folder, as text or, of keys, as bytes."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                for name in self.found_in(path.read_bytes().decode("latin-1")):
                    yield f"{path.name}: {name}"
