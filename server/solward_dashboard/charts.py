"""Charts of transactions and of a wallet's balance: their options, and how they are drawn.

The history of a balance has exact sources only, and nothing in between is interpolated. The sources
are balances polled while a page was open and those that agents observed before their decisions,
both kept by this process; and a wallet's records, if they are only airdrops and transfers that add
up to its balance to the lamport.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from nicegui import ui

from solward.client import Decision, Transaction
from solward.resources.totals import HourCount
from solward_dashboard.wording import counted

# These colours can be told apart with colour blindness, on light and dark.
STATUS_COLOURS = {
    "confirmed": "#0d9488",
    "pending": "#3b82f6",
    "failed": "#d97706",
    "blocked": "#be185d",
}
TYPES = 12
"""Maximum number of types with a bar of their own: a plugin may name as many as it likes."""
Types: TypeAlias = Mapping[str, Mapping[str, int]]
"""Number of transactions by type and status."""

# A chart does not know whether the page is dark: these colours are readable on both.
TEXT_COLOUR = "#7d8694"
LINE_COLOUR = "rgba(125, 134, 148, .25)"
_SOL_COLOUR = "#0d9488"
_MAX_POINTS = 2_000
_WALLETS = 50
# The network's price of one signature (docs.solana.com/transaction_fees); the total must agree.
_FEE = Decimal("0.000005")


def draw(chart: ui.echart, options: dict[str, Any]) -> bool:
    """Draw a chart if its options have changed, and return whether they have."""
    if chart.options == options:
        return False
    chart.options.clear()
    chart.options.update(options)
    chart.update()
    return True


def time_chart(hours: Sequence[HourCount]) -> dict[str, Any]:
    """Return stacked bars: transactions of each status, by the hour."""
    rows = {status: [each.counts.get(status, 0) for each in hours] for status in STATUS_COLOURS}
    labels = [each.start.astimezone().strftime("%H:%M") for each in hours]
    return _bar_chart(_category_axis(labels), _value_axis(minInterval=1), rows)


def type_chart(types: Types) -> dict[str, Any]:
    """Return bars: transactions of each type, by status, with the most frequent type on top."""
    # Equal counts are ordered by name, so that bars do not swap places.
    kinds = sorted(types, key=lambda kind: (sum(types[kind].values()), kind))
    shown, others = kinds[-TYPES:], kinds[:-TYPES]
    rows = {status: [types[kind].get(status, 0) for kind in shown] for status in STATUS_COLOURS}
    if others:
        for status, counts in rows.items():
            counts.insert(0, sum(types[kind].get(status, 0) for kind in others))
        shown.insert(0, f"{len(others)} more")
    return _bar_chart(_value_axis(minInterval=1), _category_axis(shown), rows)


def summary_text(types: Types) -> str:
    """Return the charted numbers as a sentence for screen readers."""
    by_status = Counter[str]()
    for counts in types.values():
        by_status.update(counts)
    parts = [f"{by_status[status]} {status}" for status in STATUS_COLOURS if by_status[status]]
    every = counted(by_status.total(), "transaction")
    return f"{every}: {', '.join(parts)}" if parts else "No transactions"


def _category_axis(names: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "category",
        "data": list(names),
        "axisLabel": {"color": TEXT_COLOUR},
        "axisLine": {"lineStyle": {"color": LINE_COLOUR}},
        "axisTick": {"show": False},
    }


def _value_axis(**more: int) -> dict[str, Any]:
    return {
        "type": "value",
        "axisLabel": {"color": TEXT_COLOUR},
        "splitLine": {"lineStyle": {"color": LINE_COLOUR}},
    } | more


def _bar_chart(
    x_axis: dict[str, Any], y_axis: dict[str, Any], rows: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "confine": True},
        "legend": {
            "bottom": 0,
            "icon": "roundRect",
            "itemWidth": 12,
            "itemHeight": 12,
            "textStyle": {"color": TEXT_COLOUR},
        },
        "grid": {"left": 8, "right": 16, "top": 12, "bottom": 36, "containLabel": True},
        "xAxis": x_axis,
        "yAxis": y_axis,
        "series": [
            {
                "name": status,
                "type": "bar",
                "stack": "all",
                "data": list(counts),
                "barMaxWidth": 28,
                "itemStyle": {"color": STATUS_COLOURS[status]},
            }
            for status, counts in rows.items()
        ],
    }


class Point(NamedTuple):
    """A balance in SOL at one time."""

    at: datetime
    sol: Decimal


class Balances:
    """The balances that this process has seen, for the wallets that it saw last."""

    def __init__(self) -> None:
        self._points: dict[str, list[Point]] = {}

    def add(self, wallet_id: str, points: Iterable[Point]) -> Sequence[Point]:
        """Add points of a wallet, and return all its points in order of time. Of a run of equal
        balances, only the first and the last point are kept."""
        found = sorted({*self._points.pop(wallet_id, ()), *points})
        alike = zip(found, found[1:], found[2:], strict=False)
        between = {each for before, each, after in alike if before.sol == each.sol == after.sol}
        kept = [each for each in found if each not in between][-_MAX_POINTS:]
        self._points[wallet_id] = kept
        if len(self._points) > _WALLETS:
            del self._points[next(iter(self._points))]
        return kept


BALANCES = Balances()


def observed_points(address: str, decisions: Iterable[Decision]) -> tuple[Point, ...]:
    """Return the balances that agents observed for the wallet at this address."""
    seen = (each.observations for each in decisions)
    return tuple(
        Point(datetime.fromisoformat(str(each["timestamp"])), Decimal(each["solBalance"]))
        for each in seen
        if each.get("walletAddress") == address and "solBalance" in each
    )


def points_from_records(
    created_at: datetime, records: Sequence[Transaction], balance: Decimal
) -> tuple[Point, ...]:
    """Return a wallet's whole history from its records; empty if it is not exact.

    It is exact if the records are airdrops and transfers only, each with one signature's fee, and
    add up to the balance: then nobody else sent the wallet anything.

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


def history_chart(points: Sequence[Point]) -> dict[str, Any]:
    """Return a chart in which each balance lasts until the next known balance."""
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "aria": {"enabled": True},
        "tooltip": {"trigger": "axis"},
        "grid": {"left": 8, "right": 16, "top": 16, "bottom": 8, "containLabel": True},
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True, "color": TEXT_COLOUR}},
        "yAxis": _value_axis(min=0),
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
