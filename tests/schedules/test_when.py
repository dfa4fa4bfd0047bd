"""Due times: in order, each once, at the time of day that was meant."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.promises import promise

from solward.schedules.schedule import ScheduleTimes, check_cron
from solward.support.clock import iso, ms_of
from solward.types.errors import InvalidRequest

MINUTE = 60_000
START = ms_of("2026-01-01T00:00:00Z")
TIMES = st.integers(START, ms_of("2028-01-01T00:00:00Z"))
EXPRESSIONS = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "30 2 * * *", "0 9 * * 1-5", "0 0 1 * *", "15,45 1-3 * * 0",
     "0 0 29 2 *", "0 12 L * *"]
)  # fmt: skip
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])


def after(when: ScheduleTimes, text: str, count: int) -> list[str]:
    """The next due times, in UTC."""
    found, ms = [], ms_of(text)
    for _ in range(count):
        following = when.after(ms)
        assert following is not None
        found.append(iso(following)[:16])
        ms = following
    return found


@given(first=TIMES, every=st.integers(MINUTE, 30 * 24 * 60 * MINUTE), ms=TIMES)
def test_equal_distances_are_counted_from_the_first(first: int, every: int, ms: int) -> None:
    when = ScheduleTimes(first, every_ms=every)
    found = when.after(ms)
    assert found is not None
    assert found > ms
    assert found >= first
    assert (found - first) % every == 0
    assert found == first or found - every <= ms


@promise("due-times-never-repeat")
@given(cron=EXPRESSIONS, zone=ZONES, ms=TIMES)
@example(cron="30 2 * * *", zone="Europe/Berlin", ms=ms_of("2026-10-25T01:15:00Z"))
def test_a_cron_expressions_due_times_only_go_on(cron: str, zone: str, ms: int) -> None:
    when = ScheduleTimes(START, cron=cron, time_zone=zone)
    times = [ms]
    for _ in range(5):
        following = when.after(times[-1])
        assert following is not None
        times.append(following)
    assert all(earlier < later for earlier, later in pairwise(times))
    assert all(each % MINUTE == 0 for each in times[1:])


@given(cron=EXPRESSIONS, zone=ZONES, ms=TIMES, later=st.integers(0, 40 * 24 * 60 * MINUTE))
def test_the_latest_due_time_is_one_and_none_lies_between(
    cron: str, zone: str, ms: int, later: int
) -> None:
    when = ScheduleTimes(START, cron=cron, time_zone=zone)
    due_ms = when.after(ms)
    assert due_ms is not None
    now_ms = due_ms + later
    latest = when.latest(due_ms, now_ms)
    assert due_ms <= latest <= now_ms
    following = when.after(latest)
    assert following is not None
    assert following > now_ms
    assert latest == due_ms or when.after(latest - 1) == latest


def test_a_day_has_one_nine_o_clock_whatever_daylight_saving_does() -> None:
    berlin = ScheduleTimes(START, cron="0 9 * * *", time_zone="Europe/Berlin")
    assert after(berlin, "2026-03-28T00:00:00Z", 3) == [
        "2026-03-28T08:00", "2026-03-29T07:00", "2026-03-30T07:00",
    ]  # fmt: skip


@promise("daylight-saving-runs-once")
def test_a_time_that_daylight_saving_leaves_out_is_run_after_it_and_one_it_repeats_once() -> None:
    berlin = ScheduleTimes(START, cron="30 2 * * *", time_zone="Europe/Berlin")
    # 02:30 is not there on 29 March: as Debian's cron, right after the gap.
    assert after(berlin, "2026-03-28T12:00:00Z", 2) == ["2026-03-29T01:00", "2026-03-30T00:30"]
    # 02:30 is there twice on 25 October: the first counts.
    assert after(berlin, "2026-10-24T12:00:00Z", 2) == ["2026-10-25T00:30", "2026-10-26T01:30"]


@promise("daylight-saving-runs-once")
def test_each_hour_of_the_night_is_its_own_where_every_hour_is_meant() -> None:
    berlin = ScheduleTimes(START, cron="0 * * * *", time_zone="Europe/Berlin")
    assert after(berlin, "2026-10-24T23:30:00Z", 3) == [
        "2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00",
    ]  # fmt: skip


def test_the_latest_of_what_ended_long_ago_is_found_in_few_steps() -> None:
    class Counting(ScheduleTimes):
        __slots__ = ()

        def after(self, ms: int) -> int | None:
            steps.append(ms)
            return super().after(ms)

    steps: list[int] = []
    end = START + 360 * 24 * 60 * MINUTE
    when = Counting(START, end_ms=end, cron="* * * * *")
    assert when.latest(START, end + 300 * 24 * 60 * MINUTE) == end
    assert len(steps) < 10


def test_nothing_is_due_before_the_start_or_after_the_end() -> None:
    first, end = ms_of("2026-06-01T00:00:00Z"), ms_of("2026-06-03T00:00:00Z")
    daily = ScheduleTimes(first, end, cron="0 0 * * *")
    assert after(daily, "2026-01-01T00:00:00Z", 3) == [
        "2026-06-01T00:00", "2026-06-02T00:00", "2026-06-03T00:00",
    ]  # fmt: skip
    assert daily.after(end) is None
    every = ScheduleTimes(first, end, every_ms=24 * 60 * MINUTE)
    assert every.after(0) == first
    assert every.after(end - 1) == end
    assert every.after(end) is None


@pytest.mark.parametrize(
    "wrong", ["", "@daily", "* * * * * *", "0 0 31 2 *", "0 0 * * 9", "0 0 * * ?" * 60, "٠ 0 * * *"]
)
def test_what_is_no_expression_or_never_due_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidRequest, match="cron"):
        check_cron(wrong)
