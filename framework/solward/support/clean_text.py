"""Cleaning of text from others: it loses characters that a database, a terminal or UTF-8 refuses,
and invisible ones, so that people see all of a text, in its real order.

Right-to-left scripts stay, and so do joiners and emoji styles between characters beyond ASCII, as
in Persian words and in emoji of several parts.
"""

from __future__ import annotations

import re
from typing import Final

# Halves of surrogate pairs, and control characters but tab, line feed and carriage return; formats
# (zero width, right to left), fillers, private use, tags and variation selectors.
_UNSEEN: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufe00-\ufe0d\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\U000f0000-\U0010ffff"
)
JOINERS: Final = "\u200c\u200d\ufe0e\ufe0f"
UNSEEN: Final = re.compile(
    f"[{_UNSEEN}]|(?<=[\t\n\r -~{_UNSEEN}\u200c\u200d])[{JOINERS}](?!\u20e3)"
    f"|(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]|[\u200c\u200d](?=[\t\n\r -~{_UNSEEN}])"
)
"""Characters to replace, or to escape, wherever a person reads text from others."""


def cleaned(text: str) -> str:
    """Replace each invisible character of `text`, and each that a store refuses, with U+FFFD."""
    return UNSEEN.sub("\ufffd", text)


def one_line(text: str, most: int = 160) -> str:
    """Clean `text`, put it on one line, and cut it to `most` characters."""
    line = " ".join(cleaned(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
