"""What was spent counts for 24 hours and for 60 seconds, to the millisecond, whatever the date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.engine import LIMITS, Bench, open_bench

from solward.database.database import Database
from solward.database.window_clock import Moment
from solward.support.durations import DAY_MS, MINUTE_MS
from solward.types.errors import GuardrailBlocked
from solward.vault.money.request import ADMIN
from solward.vault.store import spending

# Two seconds before a day of the calendar, a month and a year end.
NEARLY_MIDNIGHT = int(datetime(2026, 12, 31, 23, 59, 58, tzinfo=UTC).timestamp() * 1_000)


class Clock:
    """The time at which transactions are judged."""

    def __init__(self) -> None:
        self.ms = NEARLY_MIDNIGHT

    def moment(self) -> Moment:
        return Moment(self.ms, self.ms)


@contextmanager
def clock() -> Iterator[Clock]:
    made = Clock()
    with pytest.MonkeyPatch.context() as patch:

        async def moment(_database: object, _connection: object) -> Moment:
            return made.moment()

        patch.setattr(Database, "moment", moment)
        yield made


async def refused(bench: Bench, rule: str) -> str:
    trial = await bench.engine.dry_run(bench.wallet.id, ADMIN, bench.draft(1))
    assert trial.verdict.rule == rule
    with pytest.raises(GuardrailBlocked) as caught:
        await bench.transfer(1)
    assert caught.value.rule == rule
    assert caught.value.reason == trial.verdict.reason
    return caught.value.reason


@promise("sol-limits", "day-is-limited")
async def test_26_midnight_gives_nothing_back_and_24_hours_do(tmp_path: Path) -> None:
    limits = replace(LIMITS, max_tx_per_minute=None)
    with clock() as now:
        async with open_bench(tmp_path, limits=limits, sol=20) as bench:
            first = now.ms
            for _ in range(4):
                await bench.transfer(2)
            now.ms += 1_000
            await bench.transfer(2)
            for later in (NEARLY_MIDNIGHT + 2_000, first + DAY_MS // 2, first + DAY_MS - 1):
                now.ms = later
                await refused(bench, "daily_limit")
            now.ms = first + DAY_MS
            # Four of the five are a day old; the fifth is not.
            for _ in range(4):
                await bench.transfer(2)
            await refused(bench, "daily_limit")


@promise("rate-limit-of-wallets", "later-clock-counts")
async def test_26_a_minute_slides_too(tmp_path: Path) -> None:
    with clock() as now:
        async with open_bench(tmp_path, limits=replace(LIMITS, daily_lamports=None)) as bench:
            first = now.ms
            for _ in range(5):
                await bench.transfer(1)
                now.ms += 10_000
            now.ms = first + MINUTE_MS - 1
            await refused(bench, "rate_limit")
            now.ms = first + MINUTE_MS
            await bench.transfer(1)
            await refused(bench, "rate_limit")


async def test_who_waits_as_long_as_they_are_told_is_let_through(tmp_path: Path) -> None:
    with clock() as now:
        async with open_bench(tmp_path, limits=replace(LIMITS, daily_lamports=None)) as bench:
            for _ in range(5):
                await bench.transfer(1)
                now.ms += 7_001
            reason = await refused(bench, "rate_limit")
            # The first was made 35.005 s ago.
            assert reason == (
                "the last minute had 5 of the 5 allowed transactions; "
                "the next is possible in 25 s (limit of the wallet)"
            )
            now.ms += 25_000
            await bench.transfer(1)
            # The sixth is new, and the second of them is the next to be a minute old.
            now.ms += 1
            assert "the next is possible in 7 s" in await refused(bench, "rate_limit")


async def test_a_limit_that_was_lowered_counts_back_from_the_newest(tmp_path: Path) -> None:
    with clock() as now:
        async with open_bench(tmp_path, limits=replace(LIMITS, daily_lamports=None)) as bench:
            for _ in range(4):
                await bench.transfer(1)
                now.ms += 1_000
            scope = f"wallet:{bench.wallet.id}"
            async with bench.database.read() as connection:
                waits = [await spending.next_tx_ms(connection, scope, most, now.ms)
                         for most in (0, 1, 4, 5)]  # fmt: skip
            assert waits == [None, 59_000, 56_000, None]
