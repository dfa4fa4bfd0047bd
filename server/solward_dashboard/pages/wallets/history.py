"""A wallet's SOL balance over time, from exact sources only; nothing in between is interpolated.

The sources: balances polled while a page was open (kept by this process); balances that agents
observed before their decisions; and a wallet's records, where they are only airdrops and transfers
that add up to its balance to the lamport.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from solward.client import Decision, Transaction
from solward_dashboard.charts import LINE_COLOUR, TEXT_COLOUR

_MAX_POINTS = 2_000
_WALLETS = 50
_SOL_COLOUR = "#0d9488"
# The network's price of one signature (docs.solana.com/transaction_fees); the total must agree.
_FEE = Decimal("0.000005")


@dataclass(frozen=True, slots=True)
class Point:
    """A balance in SOL at a moment."""

    at: datetime
    sol: Decimal


class PolledBalances:
    """The balances that this process polled: the last points of the wallets polled last."""

    def __init__(self) -> None:
        self._points: OrderedDict[str, deque[Point]] = OrderedDict()

    def add(self, wallet_id: str, point: Point) -> None:
        """Add a point; of equal ones in a row the first and the last are kept."""
        points = self._points.setdefault(wallet_id, deque(maxlen=_MAX_POINTS))
        self._points.move_to_end(wallet_id)
        if len(points) > 1 and points[-1].sol == points[-2].sol == point.sol:
            points.pop()
        points.append(point)
        while len(self._points) > _WALLETS:
            self._points.popitem(last=False)

    def of(self, wallet_id: str) -> tuple[Point, ...]:
        """The points of a wallet, oldest first."""
        return tuple(self._points.get(wallet_id, ()))


POLLED = PolledBalances()


class ObservedBalances:
    """The balances that agents observed, kept while a page is open: only new ones are fetched."""

    def __init__(self) -> None:
        self._points: dict[datetime, Point] = {}

    def add(self, points: Iterable[Point]) -> tuple[Point, ...]:
        """Add points; returns the newest ones, in order of time."""
        self._points.update((each.at, each) for each in points)
        for old in sorted(self._points)[:-_MAX_POINTS]:
            del self._points[old]
        return tuple(self._points[at] for at in sorted(self._points))


def observed_points(address: str, decisions: Iterable[Decision]) -> tuple[Point, ...]:
    """The balances of the wallet of this address that agents observed."""
    points = []
    for each in decisions:
        observation = each.observations
        if observation.get("walletAddress") == address and "solBalance" in observation:
            at = datetime.fromisoformat(str(observation["timestamp"]))
            points.append(Point(at, Decimal(observation["solBalance"])))
    return tuple(sorted(points, key=lambda each: each.at))


def points_from_records(
    created_at: datetime, records: Sequence[Transaction], balance: Decimal
) -> tuple[Point, ...]:
    """The whole history, from all of a wallet's records; empty where it is not exact.

    It is exact where the records are airdrops and transfers only, each with one signature's fee,
    and add up to the balance: then nobody else sent the wallet anything.

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


def merged(*sources: Iterable[Point]) -> tuple[Point, ...]:
    """All points in order of time."""
    return tuple(sorted((each for points in sources for each in points), key=lambda p: p.at))


def chart(points: Sequence[Point]) -> dict[str, Any]:
    """A stepped line: a balance holds until the next known one."""
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "aria": {"enabled": True},
        "tooltip": {"trigger": "axis"},
        "grid": {"left": 8, "right": 16, "top": 16, "bottom": 8, "containLabel": True},
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True, "color": TEXT_COLOUR}},
        "yAxis": {
            "type": "value",
            "min": 0,
            "axisLabel": {"color": TEXT_COLOUR},
            "splitLine": {"lineStyle": {"color": LINE_COLOUR}},
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
                "itemStyle": {"color": _SOL_COLOUR},
                "areaStyle": {"opacity": 0.12},
                # Text: a JavaScript number would lose digits.
                "data": [[each.at.isoformat(), f"{each.sol:f}"] for each in points],
            }
        ],
    }
