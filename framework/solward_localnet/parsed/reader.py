"""A cursor over little-endian bytes, and what the parsers share."""

import math
import struct
from collections.abc import Callable
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
        value: float = struct.unpack("<d", self.take(8))[0]
        return value if math.isfinite(value) else None

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

    def c_option_key(self) -> str | None:
        """An SPL `COption<Pubkey>`: a tag of 4 bytes and always 32 bytes after it."""
        tag = self._c_tag()
        address = self.key()
        return address if tag else None

    def c_option_u64(self) -> int | None:
        """An SPL `COption<u64>`: a tag of 4 bytes and always 8 bytes after it."""
        tag = self._c_tag()
        value = self.u64()
        return value if tag else None

    def text(self, length_width: int) -> str:
        """UTF-8 text after its length in bytes, itself an integer of `length_width` bytes."""
        raw = self.take(self.unsigned(length_width))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unparsable(f"text is not UTF-8: {error}") from None

    def _c_tag(self) -> bool:
        tag = self.u32()
        if tag > 1:
            raise Unparsable(f"an option's tag is 0 or 1, not {tag}")
        return tag == 1
