"""Windows end where neither clock alone can move them ahead, and never go back."""

from __future__ import annotations

from tests.promises import promise

from solward.database.window_clock import LEAD_MS, Moment, WindowClock
from solward.support.durations import DAY_MS, MINUTE_MS

pytestmark = promise("clock-back-pays-nothing")


NOON = 1_780_000_000_000


class Machine:
    """A machine's uptime, and the time of day in the world outside."""

    def __init__(self) -> None:
        self.uptime_ms = 5_000_000
        self.now_ms = NOON
        self.windows = WindowClock(lambda: self.uptime_ms)

    def passes(self, ms: int) -> None:
        self.uptime_ms += ms
        self.now_ms += ms

    def restarts(self, down_ms: int) -> None:
        """Another process, on a machine that booted meanwhile."""
        self.now_ms += down_ms
        self.uptime_ms = 1_000
        self.windows = WindowClock(lambda: self.uptime_ms)


def test_clocks_that_agree_are_the_databases() -> None:
    machine = Machine()
    for late_ms in (0, 900, 20_000):
        machine.windows.observe(machine.now_ms - late_ms)
        assert machine.windows.moment(machine.now_ms) == Moment(machine.now_ms, machine.now_ms)
        machine.passes(10_000)


def test_a_database_clock_that_is_ahead_moves_windows_by_the_lead_alone() -> None:
    machine = Machine()
    machine.windows.observe(machine.now_ms)
    machine.windows.moment(machine.now_ms)
    for _ in range(3):
        machine.passes(DAY_MS // 4)
        moment = machine.windows.moment(machine.now_ms + DAY_MS)
        assert moment.window_ms == machine.now_ms + LEAD_MS
        assert moment.behind_ms == DAY_MS - LEAD_MS
        # What is reserved now is in its windows at least until the honest clock says otherwise.
        assert moment.reserved_ms == machine.now_ms + DAY_MS


def test_time_runs_on_without_a_node_and_without_the_time_of_day() -> None:
    machine = Machine()
    machine.windows.observe(machine.now_ms)
    machine.windows.moment(machine.now_ms)
    machine.passes(3 * DAY_MS)
    assert machine.windows.moment(machine.now_ms).behind_ms == 0
    assert machine.windows.moment(machine.now_ms - DAY_MS).window_ms == machine.now_ms


def test_a_clock_set_back_does_not_take_windows_back() -> None:
    machine = Machine()
    machine.windows.observe(machine.now_ms)
    times = [machine.windows.moment(machine.now_ms + ms).window_ms for ms in (30_000, 0, -DAY_MS)]
    assert times == sorted(times)


def test_a_node_that_says_the_future_lifts_nothing_beyond_the_databases_clock() -> None:
    machine = Machine()
    for _ in range(5):
        machine.windows.observe(machine.now_ms + 1000 * DAY_MS)
        assert machine.windows.moment(machine.now_ms).window_ms == machine.now_ms
        machine.passes(1_000)
    # And lends nothing to a clock that is set ahead later.
    assert machine.windows.moment(machine.now_ms + DAY_MS).window_ms == machine.now_ms + LEAD_MS


def test_a_node_that_says_the_past_keeps_what_is_counted_and_lets_nothing_out_afterwards() -> None:
    machine = Machine()
    machine.windows.observe(machine.now_ms - DAY_MS // 2)
    behind = machine.windows.moment(machine.now_ms)
    assert behind.behind_ms == DAY_MS // 2 - LEAD_MS
    assert behind.reserved_ms == machine.now_ms
    machine.windows.observe(machine.now_ms)
    assert machine.windows.moment(machine.now_ms).behind_ms == 0


def test_a_node_that_goes_back_is_not_followed() -> None:
    machine = Machine()
    machine.windows.observe(machine.now_ms)
    machine.windows.moment(machine.now_ms)
    machine.passes(MINUTE_MS)
    machine.windows.observe(0)
    assert machine.windows.moment(machine.now_ms).behind_ms == 0


def test_the_stored_time_holds_over_a_restart_with_a_clock_that_is_ahead() -> None:
    machine = Machine()
    machine.windows.observe(machine.now_ms)
    machine.windows.moment(machine.now_ms)
    stored = machine.windows.time_to_store()
    assert stored == machine.now_ms
    machine.restarts(down_ms=MINUTE_MS)
    ahead = machine.windows.moment(machine.now_ms + DAY_MS, stored)
    assert ahead.window_ms == stored + LEAD_MS
    machine.windows.observe(machine.now_ms)
    assert machine.windows.moment(machine.now_ms + DAY_MS).window_ms == machine.now_ms + LEAD_MS
    # Nor does it go back with a clock that is behind.
    machine.restarts(down_ms=MINUTE_MS)
    assert machine.windows.moment(machine.now_ms - DAY_MS, stored).window_ms == stored


def test_it_is_stored_once_a_minute_at_most() -> None:
    machine = Machine()
    assert machine.windows.time_to_store() is None
    kept = []
    for _ in range(180):
        machine.windows.observe(machine.now_ms)
        machine.windows.moment(machine.now_ms)
        kept.append(machine.windows.time_to_store())
        machine.passes(1_000)
    assert [ms - NOON for ms in kept if ms is not None] == [0, 60_000, 120_000]


def test_another_process_on_the_database_is_believed() -> None:
    machine = Machine()
    machine.windows.observe(machine.now_ms - DAY_MS)
    machine.windows.moment(machine.now_ms)
    assert machine.windows.moment(machine.now_ms, stored_ms=machine.now_ms - 1).behind_ms == 0
