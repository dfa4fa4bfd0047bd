"""A wallet's SOL balance over time, out of what is known exactly.

Three things are: what the service answered while a page was open (kept by this process), what
agents observed before each of their decisions, and, where the whole history of a wallet is
airdrops and transfers of its own that add up to its balance to the lamport, its records. Nothing
in between is guessed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from solward.client import Decision, Transaction

_KEPT = 2_000
_WALLETS = 50
_LINE = "#0d9488"
# Readable on light and on dark.
_INK = "#7d8694"
_GRID = "rgba(125, 134, 148, .25)"
# The network's price of one signature (docs.solana.com/transaction_fees); the total must agree.
_FEE = Decimal("0.000005")


@dataclass(frozen=True, slots=True)
class Point:
    """A balance in SOL as it was at a moment."""

    at: datetime
    sol: Decimal


class Seen:
    """What this process saw of each wallet; the wallets seen last, and of each the last points."""

    def __init__(self) -> None:
        self._points: OrderedDict[str, deque[Point]] = OrderedDict()

    def add(self, wallet_id: str, point: Point) -> None:
        """Keep an answer; of equal ones in a row the first and the last are enough."""
        points = self._points.setdefault(wallet_id, deque(maxlen=_KEPT))
        self._points.move_to_end(wallet_id)
        if len(points) > 1 and points[-1].sol == points[-2].sol == point.sol:
            points.pop()
        points.append(point)
        while len(self._points) > _WALLETS:
            self._points.popitem(last=False)

    def of(self, wallet_id: str) -> tuple[Point, ...]:
        """What was kept of a wallet, oldest first."""
        return tuple(self._points.get(wallet_id, ()))


SEEN = Seen()


class Observed:
    """What agents observed, kept while a page is open, so that only the newest is asked for."""

    def __init__(self) -> None:
        self._points: dict[datetime, Point] = {}

    def add(self, points: Iterable[Point]) -> tuple[Point, ...]:
        """All there are, with these; the last ones of many."""
        self._points.update((each.at, each) for each in points)
        for old in sorted(self._points)[:-_KEPT]:
            del self._points[old]
        return tuple(self._points[at] for at in sorted(self._points))


def observed(address: str, decisions: Iterable[Decision]) -> tuple[Point, ...]:
    """The balances that agents saw in the wallet of this address."""
    points = []
    for each in decisions:
        seen = each.observations
        if seen.get("walletAddress") == address and "solBalance" in seen:
            at = datetime.fromisoformat(str(seen["timestamp"]))
            points.append(Point(at, Decimal(seen["solBalance"])))
    return tuple(sorted(points, key=lambda each: each.at))


def rebuilt(
    created_at: datetime, records: Sequence[Transaction], balance: Decimal
) -> tuple[Point, ...]:
    """The whole history out of all of a wallet's records, or nothing where it is not exact.

    Exact it is where a wallet that began with nothing and made only airdrops and transfers, each
    for one signature's fee, holds now what that comes to: then nobody else sent it anything.

    Args:
        records: every record of the wallet, in any order.
    """
    points = [Point(created_at, Decimal(0))]
    for each in sorted(records, key=lambda record: record.timestamp):
        if each.status == "blocked" or (each.status == "failed" and each.signature is None):
            continue
        if each.status != "confirmed" or each.type not in ("airdrop", "transfer"):
            return ()
        amount = Decimal(each.details["amount"])
        change = amount if each.type == "airdrop" else -(amount + _FEE)
        points.append(Point(each.timestamp, points[-1].sol + change))
    return tuple(points) if points[-1].sol == balance else ()


def merged(*several: Iterable[Point]) -> tuple[Point, ...]:
    """All points in order of time."""
    return tuple(sorted((each for points in several for each in points), key=lambda p: p.at))


def chart(points: Sequence[Point]) -> dict[str, Any]:
    """A stepped line: a balance holds until the next one that is known."""
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "aria": {"enabled": True},
        "tooltip": {"trigger": "axis"},
        "grid": {"left": 8, "right": 16, "top": 16, "bottom": 8, "containLabel": True},
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True, "color": _INK}},
        "yAxis": {
            "type": "value",
            "min": 0,
            "axisLabel": {"color": _INK},
            "splitLine": {"lineStyle": {"color": _GRID}},
        },
        "series": [
            {
                "name": "SOL",
                "type": "line",
                "step": "end",
                "symbol": "circle",
                "symbolSize": 4,
                "showSymbol": len(points) < 40,
                "lineStyle": {"width": 2},
                "itemStyle": {"color": _LINE},
                "areaStyle": {"opacity": 0.12},
                # Text, so that the digits on their way to the browser are those of the ledger.
                "data": [[each.at.isoformat(), f"{each.sol:f}"] for each in points],
            }
        ],
    }
