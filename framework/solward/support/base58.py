"""Base58 with Bitcoin's alphabet, as Solana writes addresses, signatures and short binary data."""

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}


def b58encode(data: bytes) -> str:
    """The base58 text of `data`; each leading zero byte is one leading `1`."""
    number = int.from_bytes(data)
    characters = []
    while number:
        number, value = divmod(number, 58)
        characters.append(_ALPHABET[value])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(characters))


def b58decode(text: str) -> bytes:
    """The bytes that base58 `text` stands for.

    Raises:
        ValueError: a character is not of the alphabet; the text names it and its position.
    """
    number = 0
    for position, character in enumerate(text):
        value = _VALUES.get(character)
        if value is None:
            raise ValueError(f"invalid character {character!r} at position {position}")
        number = number * 58 + value
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8)


def is_address(text: str) -> bool:
    """Whether a text is an address: base58 of 32 bytes."""
    if not 32 <= len(text) <= 44:
        return False
    try:
        return len(b58decode(text)) == 32
    except ValueError:
        return False
