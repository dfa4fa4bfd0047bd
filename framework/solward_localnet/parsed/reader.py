"""A cursor over little-endian bytes, and the table form of an instruction's layout."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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

    def signed(self, width: int) -> int:
        """A two's complement integer of `width` bytes."""
        return int.from_bytes(self.take(width), "little", signed=True)

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

    def text(self, length_width: int) -> str:
        """UTF-8 text after its length in bytes, itself an integer of `length_width` bytes."""
        raw = self.take(self.unsigned(length_width))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unparsable(f"text is not UTF-8: {error}") from None


def json_float(value: float) -> float | None:
    """A float as JSON can carry it: None where it is not finite."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Layout:
    """One instruction: its type in `jsonParsed`, its accounts in order, its fields in order."""

    type: str
    accounts: tuple[str, ...]
    fields: tuple[tuple[str, Callable[[Reader], Any]], ...] = ()


def name_accounts(names: Sequence[str], accounts: Sequence[str]) -> Parsed:
    """The first accounts under their names.

    Raises:
        Unparsable: there are fewer accounts than names.
    """
    if len(accounts) < len(names):
        raise Unparsable(f"{len(names)} accounts expected, {len(accounts)} given")
    return dict(zip(names, accounts, strict=False))


def apply(
    layouts: Mapping[int, Layout], kind: int, accounts: Sequence[str], read: Reader
) -> Parsed:
    """`{"type", "info"}` of instruction number `kind`, whose fields `read` is about to read.

    Raises:
        Unparsable: no such instruction, missing accounts, or data too short.
    """
    try:
        layout = layouts[kind]
    except KeyError:
        raise Unparsable(f"no parser for instruction {kind}") from None
    info = name_accounts(layout.accounts, accounts)
    info |= {name: field(read) for name, field in layout.fields}
    return {"type": layout.type, "info": info}
