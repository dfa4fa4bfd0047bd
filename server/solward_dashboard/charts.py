"""Options of the transaction charts, and the drawing of a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from nicegui import ui

from solward.client import Transaction
from solward_dashboard.wording import counted

# Distinguishable with colour blindness, on light and dark.
STATUS_COLOURS = {
    "confirmed": "#0d9488",
    "pending": "#3b82f6",
    "failed": "#d97706",
    "blocked": "#be185d",
}
BARS = 24
# A chart does not know whether the page is dark: these colours are readable on both.
TEXT_COLOUR = "#7d8694"
LINE_COLOUR = "rgba(125, 134, 148, .25)"


def draw(chart: ui.echart, options: dict[str, Any]) -> bool:
    """Draw a chart where it has other options; whether it had."""
    if chart.options == options:
        return False
    chart.options.clear()
    chart.options.update(options)
    chart.update()
    return True


def by_time(transactions: Sequence[Transaction], now: datetime) -> dict[str, Any]:
    """Stacked bars: transactions of each status, in equal steps of time."""
    start, step = _steps(transactions, now)
    rows = {status: [0] * BARS for status in STATUS_COLOURS}
    for each in transactions:
        place = min(BARS - 1, int((each.timestamp - start) / step))
        if place >= 0 and each.status in rows:
            rows[each.status][place] += 1
    time_format = "%H:%M" if step * BARS <= timedelta(days=1) else "%d %b %H:%M"
    labels = [(start + step * at).astimezone().strftime(time_format) for at in range(BARS)]
    return _chart(_category_axis(labels), _count_axis(), rows)


def by_type(transactions: Sequence[Transaction]) -> dict[str, Any]:
    """Bars: transactions of each type, by status; the most frequent type on top."""
    # Equal counts are ordered by name, so that bars do not swap places.
    frequency = Counter(each.type for each in transactions)
    kinds = sorted(frequency, key=lambda kind: (frequency[kind], kind))
    found = Counter((each.type, each.status) for each in transactions)
    rows = {status: [found[kind, status] for kind in kinds] for status in STATUS_COLOURS}
    return _chart(_count_axis(), _category_axis(kinds), rows)


def summary_text(transactions: Sequence[Transaction]) -> str:
    """The chart in words, for screen readers."""
    by_status = Counter(each.status for each in transactions)
    parts = [f"{by_status[status]} {status}" for status in STATUS_COLOURS if by_status[status]]
    every = counted(len(transactions), "transaction")
    return f"{every}: {', '.join(parts)}" if parts else "No transactions"


def _steps(transactions: Sequence[Transaction], now: datetime) -> tuple[datetime, timedelta]:
    """Start and step, in whole minutes; the last step contains now, so that bars do not move."""
    oldest = min((each.timestamp for each in transactions), default=now)
    # The last step is not over yet, so the oldest must fit into the others.
    step = timedelta(minutes=int((now - oldest).total_seconds() / 60 / (BARS - 1)) + 1)
    whole = int(now.timestamp() // step.total_seconds() + 1) * step.total_seconds()
    return datetime.fromtimestamp(whole, now.tzinfo) - step * BARS, step


def _category_axis(names: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "category",
        "data": list(names),
        "axisLabel": {"color": TEXT_COLOUR},
        "axisLine": {"lineStyle": {"color": LINE_COLOUR}},
        "axisTick": {"show": False},
    }


def _count_axis() -> dict[str, Any]:
    return {
        "type": "value",
        "minInterval": 1,
        "axisLabel": {"color": TEXT_COLOUR},
        "splitLine": {"lineStyle": {"color": LINE_COLOUR}},
    }


def _chart(
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
