"""Wallets and pockets without their keys, and the checks of a wallet's fields."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solward.support.base58 import is_address
from solward.support.clock import iso
from solward.types.errors import InvalidRequest

MAX_NAME = 64
MAX_TAGS = 20

_WORDS = re.compile(r"[0-9A-Za-z]+")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wallet:
    """A managed wallet; `address` is its base58 public key, `created_ms` Unix milliseconds.

    Attributes:
        created_by: the principal that created the wallet; None if not known.
    """

    id: str
    name: str
    address: str
    tags: tuple[str, ...]
    created_ms: int
    created_by: str | None = None

    def to_json(self, *, maker: bool = False) -> dict[str, Any]:
        """Return the JSON form; with `createdBy` if `maker` is true."""
        return ({"createdBy": self.created_by} if maker else {}) | {
            "id": self.id,
            "name": self.name,
            "publicKey": self.address,
            "createdAt": iso(self.created_ms),
            "tags": list(self.tags),
        }


@dataclass(frozen=True, slots=True)
class Pocket:
    """A pocket without its key; `address` is its base58 public key, `counter` starts at 1."""

    wallet_id: str
    counter: int
    address: str


def wallet_of(row: Mapping[str, Any]) -> Wallet:
    """Return a wallet from its row."""
    return Wallet(
        row["id"],
        row["name"],
        row["public_key"],
        tuple(row["tags"]),
        int(row["created_ms"]),
        row["created_by"],
    )


def check_text(value: object, field: str) -> str:
    """Return a name or tag if it has 1 to 64 printable characters; else raises `InvalidRequest`."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= MAX_NAME
        or not value.isprintable()
        or not value.strip()
    ):
        raise InvalidRequest(f"{field} must be text of 1 to {MAX_NAME} printable characters")
    return value


def has_address_or_id(name: str) -> bool:
    """Return whether a name contains an address as a word, or is an id as a whole."""
    return any(map(is_address, _WORDS.findall(name))) or _ID.fullmatch(name.strip()) is not None


def begins_with_at(name: str) -> bool:
    """Return whether a name begins with `@`, in any Unicode form, as the policy's groups do."""
    return unicodedata.normalize("NFKC", name).strip().startswith("@")


def check_name(value: object) -> str:
    """Return a wallet's name if it is valid; else raises `InvalidRequest`. A name must not contain
    an address, begin with @ or be an id, because requests accept these in place of names."""
    name = check_text(value, "name")
    if begins_with_at(name):
        raise InvalidRequest("name must not begin with @, which is for names of the address book")
    if has_address_or_id(name):
        raise InvalidRequest("name must not contain an address and must not be an id")
    return name


def check_tags(tags: Sequence[object]) -> tuple[str, ...]:
    """Return the distinct tags in the order given; raises `InvalidRequest`."""
    if isinstance(tags, str) or len(tags) > MAX_TAGS:
        raise InvalidRequest(f"tags must be a list of at most {MAX_TAGS} texts")
    return tuple(dict.fromkeys(check_text(tag, "tags") for tag in tags))
