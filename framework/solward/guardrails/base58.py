"""Base58 text to bytes, for instruction data; addresses go through solders."""

from __future__ import annotations

_VALUES = {
    character: value
    for value, character in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")
}


def decode(text: str) -> bytes:
    """The bytes of base58 `text`; each leading `1` is a zero byte.

    Raises:
        ValueError: a character outside the alphabet.
    """
    number = 0
    for character in text:
        if character not in _VALUES:
            raise ValueError(f"invalid base58 character {character!r}")
        number = number * 58 + _VALUES[character]
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8)
