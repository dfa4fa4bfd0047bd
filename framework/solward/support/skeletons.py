"""Symbols and names that people take for one another."""

from __future__ import annotations

import unicodedata
from typing import Final

# Letter -> what people take for it once case and compatibility forms are folded: Cyrillic, Greek
# and small-capital letters (after Unicode's confusables), digits and signs.
_TAKEN_FOR: Final = {
    "a": "аαɑᴀ@4", "b": "ьʙβ8", "c": "сᴄϲ¢", "d": "ԁᴅ", "e": "еεᴇєҽ€3", "f": "ғƒ", "g": "ɡɢ9",
    "h": "нһʜη", "j": "јᴊ", "k": "кκᴋ", "l": "iıɩιіıʟ1|!ӏ", "m": "мμᴍ", "n": "ɴп", "o": "оοσᴏ0",
    "p": "рρᴘ", "q": "ԛ", "r": "гʀ", "s": "ѕꜱ$5", "t": "тτᴛ†", "u": "υᴜ", "v": "ѵνᴠ", "w": "ԝωᴡш",
    "x": "хχ", "y": "уγʏ¥", "z": "ᴢ2",
}  # fmt: skip
_LOOKS_LIKE: Final = {ord(each): letter for letter, others in _TAKEN_FOR.items() for each in others}
# Letters that are not drawn, and that normalization does not remove.
_UNSEEN: Final = frozenset("\u115f\u1160")
_PAIRS: Final = (("rn", "m"), ("vv", "w"))


def skeleton(text: str) -> str:
    """Return a text's skeleton, which is the same for texts that people can confuse."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    plain = folded.removeprefix("$").translate(_LOOKS_LIKE)
    plain = "".join(each for each in plain if each.isalnum() and each not in _UNSEEN)
    for pair, letter in _PAIRS:
        plain = plain.replace(pair, letter)
    return plain
