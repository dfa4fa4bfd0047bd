"""A congested cluster: a proxy before a real localnet that lets through what pays enough."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from solders.transaction import VersionedTransaction
from tests.support.engine_harness import Wire

from solward.solana.fees import fee_terms

SLOTS = 150


@dataclass(slots=True)
class Congestion:
    """Drops every send whose price of a compute unit is below `floor`, as a leader does: without a
    word to the sender.

    Attributes:
        floor: micro-lamports.
        reported: what the node says landed in each of its last slots; the floor where it is None.
        dropped: signatures that were not passed on, once for each time they were sent.
        asked: addresses of each request for prices.
    """

    floor: int
    reported: Sequence[int] | None = None
    dropped: list[str] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)

    def before(self, wire: Wire) -> Congestion:
        """Stand before the localnet from now on."""
        wire.faults["sendTransaction"] = self._send
        wire.faults["getRecentPrioritizationFees"] = self._prices
        return self

    async def _send(self, _method: str, params: Sequence[Any]) -> Any:
        transaction = VersionedTransaction.from_bytes(base64.b64decode(params[0]))
        if fee_terms(transaction.message).unit_price >= self.floor:
            return None
        signature = str(transaction.signatures[0])
        self.dropped.append(signature)
        return signature

    async def _prices(self, _method: str, params: Sequence[Any]) -> Any:
        self.asked.append(list(params[0]))
        prices = [self.floor] * SLOTS if self.reported is None else self.reported
        return [{"slot": slot, "prioritizationFee": price} for slot, price in enumerate(prices)]
