"""Base58 with Bitcoin's alphabet, as Solana writes addresses, signatures and short binary data."""

from functools import lru_cache
from typing import TypeGuard

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}


def b58encode(data: bytes) -> str:
    """Return the base58 text of `data`; each leading zero byte is one leading `1`."""
    number = int.from_bytes(data)
    characters = []
    while number:
        number, value = divmod(number, 58)
        characters.append(_ALPHABET[value])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(characters))


def b58decode(text: str) -> bytes:
    """Return the bytes that base58 `text` encodes.

    Raises:
        ValueError: a character is not in the alphabet; the error names it and its position.
    """
    number = 0
    for position, character in enumerate(text):
        value = _VALUES.get(character)
        if value is None:
            raise ValueError(f"invalid character {character!r} at position {position}")
        number = number * 58 + value
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8)


def is_address(value: object) -> TypeGuard[str]:
    """Return whether a value is the base58 text of an address, which has 32 bytes."""
    return _encodes_bytes(value, 32, 44)


def is_signature(value: object) -> TypeGuard[str]:
    """Return whether a value is base58 text of a transaction's signature, which has 64 bytes."""
    return _encodes_bytes(value, 64, 88)


def _encodes_bytes(value: object, size: int, most: int) -> bool:
    is_short = isinstance(value, str) and size <= len(value) <= most
    return is_short and _decoded_bytes(str(value)) == size


@lru_cache(maxsize=1_024)
def _decoded_bytes(text: str) -> int:
    """Return the number of bytes that base58 text encodes, -1 if it is not base58."""
    try:
        return len(b58decode(text))
    except ValueError:
        return -1
