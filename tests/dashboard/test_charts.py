"""The charts' options: everything is counted, once, in its place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from solward.client import Transaction
from solward_dashboard.charts import BARS, STATUS_COLOURS, summary_text, time_chart, type_chart

NOW = datetime(2026, 11, 21, 16, 30, 31, tzinfo=UTC)


def made(
    ago: timedelta = timedelta(0), status: str = "confirmed", kind: str = "transfer"
) -> Transaction:
    return Transaction.of(
        {
            "id": "t",
            "walletId": "w",
            "principal": "admin",
            "type": kind,
            "status": status,
            "details": {},
            "guardrailsApplied": [],
            "timestamp": (NOW - ago).isoformat(),
        }
    )


def rows(options: dict[str, Any]) -> dict[str, list[int]]:
    return {each["name"]: each["data"] for each in options["series"]}


@pytest.mark.parametrize("minutes", [0, 1, 23, 24, 25, 47, 48, 500, 10_000])
def test_the_oldest_and_the_newest_are_both_within(minutes: int) -> None:
    counted = rows(time_chart([made(), made(timedelta(minutes=minutes))], NOW))
    assert sum(counted["confirmed"]) == 2
    assert counted["confirmed"][-1] >= 1


def test_each_status_has_bars_of_its_own() -> None:
    counted = rows(time_chart([made(status=status) for status in STATUS_COLOURS], NOW))
    assert {status: sum(bars) for status, bars in counted.items()} == dict.fromkeys(
        STATUS_COLOURS, 1
    )
    assert {len(bars) for bars in counted.values()} == {BARS}


def test_bars_stay_where_they_are_within_a_minute() -> None:
    ones = [made(timedelta(minutes=5))]
    assert time_chart(ones, NOW) == time_chart(ones, NOW + timedelta(seconds=20))
    assert time_chart(ones, NOW) != time_chart(ones, NOW + timedelta(seconds=60))


def test_days_are_told_with_their_date() -> None:
    axis = time_chart([made(timedelta(days=30))], NOW)["xAxis"]
    assert len(set(axis["data"])) == BARS


def test_a_time_after_now_is_counted_as_now() -> None:
    assert rows(time_chart([made(-timedelta(minutes=9))], NOW))["confirmed"][-1] == 1


def test_types_come_by_how_many_there_are() -> None:
    options = type_chart(
        [made(kind="swap"), made(kind="swap", status="blocked"), made(kind="airdrop")]
    )
    # ECharts draws the last one on top.
    assert options["yAxis"]["data"] == ["airdrop", "swap"]
    assert rows(options)["confirmed"] == [1, 1]
    assert rows(options)["blocked"] == [0, 1]


def test_no_transactions_are_a_chart_too() -> None:
    assert sum(map(sum, rows(time_chart([], NOW)).values())) == 0
    assert type_chart([])["yAxis"]["data"] == []
    assert summary_text([]) == "No transactions"


def test_the_words_count_what_the_bars_do() -> None:
    ones = [made(), made(), made(status="blocked")]
    assert summary_text(ones) == "3 transactions: 2 confirmed, 1 blocked"
