"""Keys of calls that a person was asked about: the same call goes on with the same payment."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from solward.support import jsontext

_MOST = 10_000
# What became of it is told for so long after nobody can approve it any more.
_TOLD_S = 3_600.0


class HeldCalls:
    """Remembers, in this process, the Idempotency-Key of each held call until its end was told."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, tuple[str, float]] = OrderedDict()

    @staticmethod
    def name(caller: str, wallet_id: str, tool: str, params: Mapping[str, Any]) -> str:
        """What the same call has in common; nothing can be read from it."""
        whole = jsontext.dumps([caller, wallet_id, tool, dict(params)], canonical=True)
        return hashlib.sha256(whole.encode()).hexdigest()

    def key(self, name: str) -> str | None:
        """The key of the call, where it is held or its end was not told yet."""
        key, until = self._keys.get(name, (None, 0.0))
        if key is not None and until < time.monotonic():
            self.forget(name)
            return None
        return key

    def remember(self, name: str, key: str, expires_at: datetime) -> None:
        """The call is held under this key."""
        left = (expires_at - datetime.now(UTC)).total_seconds()
        self._keys[name] = (key, time.monotonic() + max(0.0, left) + _TOLD_S)
        self._keys.move_to_end(name)
        while len(self._keys) > _MOST:
            self._keys.popitem(last=False)

    def forget(self, name: str) -> None:
        """Its end was told: the same call again is another payment."""
        self._keys.pop(name, None)
