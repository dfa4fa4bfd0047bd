"""Text from outside, without the characters that a database, a terminal or UTF-8 refuses."""

from __future__ import annotations

import re
from typing import Final

# Halves of surrogate pairs, and control characters but tab, line feed and carriage return.
_REFUSED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def cleaned(text: str) -> str:
    """`text` with U+FFFD in place of each character that is refused somewhere."""
    return _REFUSED.sub("\ufffd", text)
