"""JSON texts that are made once: what they say never changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# What one entry takes beside its text: objects, the key and its place in the table.
_ENTRY_BYTES = 300


class KeptTexts(Generic[K]):
    """The most recently used texts, in so many bytes of memory at most."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._texts: OrderedDict[K, bytes] = OrderedDict()
        self.bytes = 0

    def get(self, key: K) -> bytes | None:
        """The text of a key, None where it is not kept."""
        text = self._texts.get(key)
        if text is not None:
            self._texts.move_to_end(key)
        return text

    def keep(self, key: K, text: bytes) -> None:
        """Keep a text, and drop those that were not used for the longest time."""
        if key in self._texts:
            return
        self._texts[key] = text
        self.bytes += len(text) + _ENTRY_BYTES
        while self.bytes > self._most_bytes:
            _key, dropped = self._texts.popitem(last=False)
            self.bytes -= len(dropped) + _ENTRY_BYTES
