"""Keys of calls whose end was not told: the same call again goes on with the same payment."""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from solward.support import jsontext

_MOST = 10_000
# What became of it is told for so long after it was asked, or nobody can approve it any more.
_TOLD_S = 3_600.0
# A host that cancels a request may do so while the answer is on its way.
_CROSSED_S = 30.0


@dataclass(slots=True)
class _Request:
    """A request of a caller, and the key of its call.

    Attributes:
        until: when it can be cancelled no more; monotonic seconds.
    """

    key: str
    until: float = math.inf
    is_cancelled: bool = False


class HeldCalls:
    """Remembers, in this process, the Idempotency-Key of each call until its end was told: of one
    that is held, and of one that was cancelled or has no answer yet."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, tuple[str, float]] = OrderedDict()
        # By caller, id and call: over HTTP, clients of one caller may use the same ids.
        self._requests: OrderedDict[tuple[str, str, str], _Request] = OrderedDict()

    @staticmethod
    def name(caller: str, wallet_id: str, tool: str, params: Mapping[str, Any]) -> str:
        """What the same call has in common; nothing can be read from it."""
        whole = jsontext.dumps([caller, wallet_id, tool, dict(params)], canonical=True)
        return hashlib.sha256(whole.encode()).hexdigest()

    def key(self, name: str) -> str | None:
        """The key of the call, where its end was not told yet."""
        key, until = self._keys.get(name, (None, 0.0))
        if key is not None and until < time.monotonic():
            del self._keys[name]
            return None
        return key

    def remember(self, name: str, key: str, expires_at: datetime) -> None:
        """The call is held under this key."""
        self._keep(name, key, max(0.0, (expires_at - datetime.now(UTC)).total_seconds()))

    def begin(self, caller: str, request_id: str, name: str, key: str) -> None:
        """A request makes the call under this key."""
        self._requests[caller, request_id, name] = _Request(key)
        self._requests.move_to_end((caller, request_id, name))
        if len(self._requests) > _MOST:
            self._requests.popitem(last=False)
        self._keep(name, key)

    def cancel(self, caller: str, request_id: str) -> None:
        """The host wants no answer of a request, and dropped one that was on its way.

        Of answered requests only the newest: over HTTP each session may count from 1.
        """
        named = [
            (name, request)
            for (owner, id_, name), request in list(self._requests.items())
            if (owner, id_) == (caller, request_id) and time.monotonic() < request.until
        ]
        for name, request in [each for each in named if each[1].until == math.inf] or named[-1:]:
            request.is_cancelled = True
            self._keep(name, request.key)

    def told(self, caller: str, request_id: str, name: str, key: str) -> None:
        """The call's end is told: the same call again is another payment, unless the request was
        cancelled or is within seconds."""
        request = self._requests.get((caller, request_id, name))
        if request is not None:
            request.until = time.monotonic() + _CROSSED_S
        is_cancelled = request is not None and request.is_cancelled
        if not is_cancelled and self._keys.get(name, ("", 0.0))[0] == key:
            del self._keys[name]

    def _keep(self, name: str, key: str, left_s: float = 0.0) -> None:
        until = time.monotonic() + left_s + _TOLD_S
        self._keys[name] = (key, max(until, self._keys.get(name, ("", 0.0))[1]))
        self._keys.move_to_end(name)
        while len(self._keys) > _MOST:
            self._keys.popitem(last=False)
