"""A cursor over little-endian bytes, and tables of what they hold."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

ParseContext = Callable[[Pubkey], Account | None]
"""Looks an account up; None where there is none. Token accounts need their mint's decimals."""

Parsed = dict[str, Any]

_ZERO_KEY = bytes(32)


class Unparsable(Exception):
    """The bytes are not of the layout, or no parser knows their program."""


class Reader:
    """Reads fixed-width little-endian values one after the other.

    Every method raises `Unparsable` where the data ends too early.
    """

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self._position + count
        if end > len(self._data):
            raise Unparsable(f"{end} bytes expected, {len(self._data)} given")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._position

    def unsigned(self, width: int) -> int:
        """An unsigned integer of `width` bytes."""
        return int.from_bytes(self.take(width), "little")

    def u8(self) -> int:
        """An unsigned byte."""
        return self.unsigned(1)

    def u16(self) -> int:
        """An unsigned integer of 2 bytes."""
        return self.unsigned(2)

    def u32(self) -> int:
        """An unsigned integer of 4 bytes."""
        return self.unsigned(4)

    def u64(self) -> int:
        """An unsigned integer of 8 bytes."""
        return self.unsigned(8)

    def amount(self) -> str:
        """An unsigned integer of 8 bytes as text, which no reader of JSON rounds."""
        return str(self.u64())

    def i16(self) -> int:
        """A two's complement integer of 2 bytes."""
        return int.from_bytes(self.take(2), "little", signed=True)

    def i64(self) -> int:
        """A two's complement integer of 8 bytes."""
        return int.from_bytes(self.take(8), "little", signed=True)

    def double(self) -> float | None:
        """A 64-bit float; None where it is not finite, which JSON cannot say."""
        return json_float(struct.unpack("<d", self.take(8))[0])

    def boolean(self) -> bool:
        """A byte that is 0 or 1."""
        value = self.u8()
        if value > 1:
            raise Unparsable(f"0 or 1 expected, {value} given")
        return value == 1

    def key(self) -> str:
        """An address, as base58."""
        return str(Pubkey(self.take(32)))

    def key_or_none(self) -> str | None:
        """An address, as base58; None where all its bytes are zero (`OptionalNonZeroPubkey`)."""
        raw = self.take(32)
        return None if raw == _ZERO_KEY else str(Pubkey(raw))

    def optional_key(self) -> str | None:
        """An address after a byte that says whether it is there, as base58."""
        return self.key() if self.boolean() else None

    def short_text(self) -> str:
        """UTF-8 text after its length in bytes, itself an integer of 4 bytes."""
        return self.text(self.u32())

    def long_text(self) -> str:
        """UTF-8 text after its length in bytes, itself an integer of 8 bytes."""
        return self.text(self.u64())

    def text(self, size: int | None = None) -> str:
        """UTF-8 text of `size` bytes; all that is left for None."""
        try:
            return self.take(self.left() if size is None else size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unparsable(f"text is not UTF-8: {error}") from None


def json_float(value: float) -> float | None:
    """A float as JSON can carry it: None where it is not finite."""
    return value if math.isfinite(value) else None


Fields = Mapping[str, Callable[[Reader], Any]]
"""Names and readers of values that follow each other. A name that ends with `?` is left out where
its value is None."""


def read_fields(fields: Fields, read: Reader) -> Parsed:
    """The values of `fields` by their names, in their order."""
    values = [(name, field(read)) for name, field in fields.items()]
    return {
        name.removesuffix("?"): value
        for name, value in values
        if value is not None or not name.endswith("?")
    }


@dataclass(frozen=True, slots=True)
class Layout:
    """One instruction, as `jsonParsed` shows it.

    Attributes:
        accounts: their names in order. One that begins with `*` stands for all that are left.
        fields: what its data holds after its number.
        authority: the name of the account after these, which signs; or of a multisig, whose signers
            follow. Empty: there is none.
    """

    type: str
    accounts: tuple[str, ...]
    fields: Fields = field(default_factory=dict)
    authority: str = ""


def apply(
    layouts: Mapping[int, Layout], kind: int, accounts: Sequence[str], read: Reader
) -> Parsed:
    """`{"type", "info"}` of instruction number `kind`, whose fields `read` is about to read.

    Raises:
        Unparsable: no such instruction, missing accounts, or data too short.
    """
    if kind not in layouts:
        raise Unparsable(f"no parser for instruction {kind}")
    return shown(layouts[kind], accounts, read)


def shown(layout: Layout, accounts: Sequence[str], read: Reader) -> Parsed:
    """As `apply`, of an instruction of this layout."""
    info, left = _named(layout.accounts, accounts)
    info |= read_fields(layout.fields, read)
    if layout.authority:
        info |= _authority(layout.authority, left)
    return {"type": layout.type, "info": info}


def _named(names: Sequence[str], accounts: Sequence[str]) -> tuple[Parsed, list[str]]:
    """The accounts under their names, and those that are left."""
    if len(accounts) < len(names):
        raise Unparsable(f"{len(names)} accounts expected, {len(accounts)} given")
    info: Parsed = {}
    left = list(accounts)
    for name in names:
        if name.startswith("*"):
            info[name.removeprefix("*")], left = left, []
        else:
            info[name] = left.pop(0)
    return info, left


def _authority(name: str, accounts: Sequence[str]) -> Parsed:
    if not accounts:
        raise Unparsable("the authority's account is missing")
    address, *signers = accounts
    if not signers:
        return {name: address}
    return {f"multisig{name[0].upper()}{name[1:]}": address, "signers": signers}
