"""Options of the charts, out of data; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
_BARS = 24


def by_time(transactions: Sequence[Transaction], now: datetime) -> dict[str, Any]:
    """Stacked bars: how many transactions of each status, in equal parts of the time shown."""
    start, step = _steps(transactions, now)
    counted = {status: [0] * _BARS for status in STATUS_COLOURS}
    for each in transactions:
        place = min(_BARS - 1, int((each.timestamp - start) / step))
        if place >= 0 and each.status in counted:
            counted[each.status][place] += 1
    labels = [(start + step * at).astimezone().strftime("%H:%M") for at in range(_BARS)]
    return _chart(
        {"type": "category", "data": labels},
        [
            {
                "name": status,
                "type": "bar",
                "stack": "all",
                "data": counts,
                "itemStyle": {"color": STATUS_COLOURS[status]},
            }
            for status, counts in counted.items()
        ],
    )


def by_type(transactions: Sequence[Transaction]) -> dict[str, Any]:
    """Bars: how many transactions of each type, by status."""
    kinds = [kind for kind, _ in Counter(each.type for each in transactions).most_common()]
    counted = Counter((each.type, each.status) for each in transactions)
    chart = _chart(
        {"type": "value", "minInterval": 1},
        [
            {
                "name": status,
                "type": "bar",
                "stack": "all",
                "data": [counted[kind, status] for kind in reversed(kinds)],
                "itemStyle": {"color": colour},
            }
            for status, colour in STATUS_COLOURS.items()
        ],
    )
    return {**chart, "yAxis": {"type": "category", "data": list(reversed(kinds))}}


def _steps(transactions: Sequence[Transaction], now: datetime) -> tuple[datetime, timedelta]:
    oldest = min((each.timestamp for each in transactions), default=now)
    # Parts of a whole minute at least, so that the labels differ.
    step = max(timedelta(minutes=1), (now - oldest) / _BARS)
    return now - step * _BARS, step


def _chart(axis: dict[str, Any], series: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "aria": {"enabled": True},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "legend": {"bottom": 0, "icon": "roundRect"},
        "grid": {"left": 8, "right": 16, "top": 12, "bottom": 36, "containLabel": True},
        "xAxis": axis,
        "yAxis": {"type": "value", "minInterval": 1},
        "series": series,
    }
