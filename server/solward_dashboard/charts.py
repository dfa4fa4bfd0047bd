"""Options of the charts, out of data; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from solward.client import Transaction

# Told apart by colour-blind eyes too, on light and dark.
STATUS_COLOURS = {
    "confirmed": "#0d9488",
    "pending": "#3b82f6",
    "failed": "#d97706",
    "blocked": "#be185d",
}
BARS = 24
# A chart does not know whether the page is dark: these are read on both.
_TEXT = "#7d8694"
_LINE = "rgba(125, 134, 148, .25)"


def by_time(transactions: Sequence[Transaction], now: datetime) -> dict[str, Any]:
    """Stacked bars: how many transactions of each status, in equal parts of the time shown."""
    start, step = _steps(transactions, now)
    counted = {status: [0] * BARS for status in STATUS_COLOURS}
    for each in transactions:
        place = min(BARS - 1, int((each.timestamp - start) / step))
        if place >= 0 and each.status in counted:
            counted[each.status][place] += 1
    written = "%H:%M" if step * BARS <= timedelta(days=1) else "%d %b %H:%M"
    labels = [(start + step * at).astimezone().strftime(written) for at in range(BARS)]
    return _chart(_named(labels), _counts(), counted)


def by_type(transactions: Sequence[Transaction]) -> dict[str, Any]:
    """Bars: how many transactions of each type, by status; the most frequent on top."""
    # By name where as many, so that equal ones do not change places.
    often = Counter(each.type for each in transactions)
    kinds = sorted(often, key=lambda kind: (often[kind], kind))
    counted = Counter((each.type, each.status) for each in transactions)
    rows = {status: [counted[kind, status] for kind in kinds] for status in STATUS_COLOURS}
    return _chart(_counts(), _named(kinds), rows)


def told(transactions: Sequence[Transaction]) -> str:
    """What a chart of them shows, in words, for who cannot see it."""
    counted = Counter(each.status for each in transactions)
    parts = [f"{counted[status]} {status}" for status in STATUS_COLOURS if counted[status]]
    return f"{len(transactions)} transactions: {', '.join(parts)}" if parts else "No transactions"


def _steps(transactions: Sequence[Transaction], now: datetime) -> tuple[datetime, timedelta]:
    """Parts of whole minutes, and the last one holds now: bars grow, and do not crawl."""
    oldest = min((each.timestamp for each in transactions), default=now)
    # One part of them is not over yet, so the oldest must fit into the others.
    step = timedelta(minutes=int((now - oldest).total_seconds() / 60 / (BARS - 1)) + 1)
    whole = int(now.timestamp() // step.total_seconds() + 1) * step.total_seconds()
    return datetime.fromtimestamp(whole, now.tzinfo) - step * BARS, step


def _named(names: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "category",
        "data": list(names),
        "axisLabel": {"color": _TEXT},
        "axisLine": {"lineStyle": {"color": _LINE}},
        "axisTick": {"show": False},
    }


def _counts() -> dict[str, Any]:
    return {
        "type": "value",
        "minInterval": 1,
        "axisLabel": {"color": _TEXT},
        "splitLine": {"lineStyle": {"color": _LINE}},
    }


def _chart(
    across: dict[str, Any], up: dict[str, Any], rows: Mapping[str, Sequence[int]]
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
            "textStyle": {"color": _TEXT},
        },
        "grid": {"left": 8, "right": 16, "top": 12, "bottom": 36, "containLabel": True},
        "xAxis": across,
        "yAxis": up,
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
