"""The charts' options: everything is counted, once, in its place."""

from __future__ import annotations

from typing import Any

from solward.resources.totals import HourCount
from solward_dashboard.charts import (
    STATUS_COLOURS,
    TYPES,
    Types,
    summary_text,
    time_chart,
    type_chart,
)


def hour(number: int, **counts: int) -> HourCount:
    return HourCount.of({"start": f"2026-11-21T{number:02}:00:00.000Z", "counts": counts})


def rows(options: dict[str, Any]) -> dict[str, list[int]]:
    return {each["name"]: each["data"] for each in options["series"]}


def test_each_status_has_bars_of_its_own() -> None:
    options = time_chart([hour(1), hour(2, confirmed=3, blocked=1)])
    assert rows(options) == {
        status: [0, {"confirmed": 3, "blocked": 1}.get(status, 0)] for status in STATUS_COLOURS
    }
    assert len(options["xAxis"]["data"]) == 2


def test_types_come_by_how_many_there_are() -> None:
    options = type_chart({"swap": {"confirmed": 1, "blocked": 1}, "airdrop": {"confirmed": 1}})
    # ECharts draws the last one on top.
    assert options["yAxis"]["data"] == ["airdrop", "swap"]
    assert rows(options)["confirmed"] == [1, 1]
    assert rows(options)["blocked"] == [0, 1]


def test_types_that_a_plugin_makes_up_share_a_bar() -> None:
    types: Types = {f"type-{number:03}": {"confirmed": 1} for number in range(100)}
    options = type_chart({**types, "transfer": {"confirmed": 9}})
    assert options["yAxis"]["data"][0] == f"{101 - TYPES} more"
    assert options["yAxis"]["data"][-1] == "transfer"
    assert sum(rows(options)["confirmed"]) == 109


def test_no_transactions_are_a_chart_too() -> None:
    assert type_chart({})["yAxis"]["data"] == []
    assert summary_text({}) == "No transactions"


def test_the_words_count_what_the_bars_do() -> None:
    types = {"swap": {"confirmed": 1, "blocked": 1}, "airdrop": {"confirmed": 1}}
    assert summary_text(types) == "3 transactions: 2 confirmed, 1 blocked"
