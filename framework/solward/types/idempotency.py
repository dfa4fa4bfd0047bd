"""The form of an Idempotency-Key, wherever one is taken."""

from __future__ import annotations

from typing import Final

MAX_KEY: Final = 255
KEY_FORM: Final = f"1 to {MAX_KEY} visible ASCII characters, without a space at either end"
"""HTTP takes spaces off the ends: such a key would be another one there."""


def is_idempotency_key(text: str) -> bool:
    """Whether a text is of `KEY_FORM`."""
    is_visible = text.isascii() and text.isprintable() and text == text.strip()
    return 1 <= len(text) <= MAX_KEY and is_visible
