"""A clock that is set, or a node that lies about the time, empties no window of a limit."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.database import set_database_clock
from tests.support.engine import LIMITS, Bench, open_bench

from solward.agents import store as agent_store
from solward.agents.budget import usage_row
from solward.agents.remember import tokens_of
from solward.database import database as database_module
from solward.database.database import Database
from solward.operations.policies.grant_report import limits_report
from solward.solana.programs import CLOCK_SYSVAR
from solward.solana.stakes import CLOCK
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS
from solward.types.errors import GuardrailBlocked, LedgerUnavailable, TransactionFailed
from solward.types.provider import Usage

HOUR_MS = DAY_MS // 24
DAILY = replace(LIMITS, max_tx_per_minute=None)


class TimeOfDay:
    """The clock of the database's machine, set by hand; the ledger's stays honest."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def set_by(self, ms: int) -> None:
        sql = f"{database_module._CLOCK} + {ms}"
        set_database_clock(self._patch, lambda: now_ms() + ms, sql)


@pytest.fixture
def time_of_day() -> Iterator[TimeOfDay]:
    with pytest.MonkeyPatch.context() as patch:
        yield TimeOfDay(patch)


def ledger_says(bench: Bench, ms: int) -> None:
    """Let the node's clock be wrong by `ms`; 0 is honest."""

    async def fault(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        at = list(params[0]).index(CLOCK_SYSVAR)
        data, encoding = answer["value"][at]["data"]
        *others, seconds = CLOCK.unpack(base64.b64decode(data))
        changed = base64.b64encode(CLOCK.pack(*others, seconds + ms // 1000)).decode()
        answer["value"][at] = answer["value"][at] | {"data": [changed, encoding]}
        return answer

    bench.wire.faults["getMultipleAccounts"] = fault


async def spend_the_day(bench: Bench) -> None:
    for _ in range(5):
        await bench.transfer(2)


async def refused(bench: Bench, rule: str = "daily_limit") -> str:
    with pytest.raises(GuardrailBlocked) as caught:
        await bench.transfer(1)
    assert caught.value.rule == rule
    return caught.value.reason


async def pay_when_the_minute_opens(bench: Bench) -> None:
    """The ledger's clock counts whole seconds: up to one of them passes before the minute opens."""
    while True:
        with contextlib.suppress(GuardrailBlocked):
            await bench.transfer(Decimal("0.1"))
            return
        await asyncio.sleep(0.1)


async def left(bench: Bench) -> Any:
    report = await limits_report(bench.database, f"wallet:{bench.wallet.id}", DAILY)
    return report["dailySpendingLimitSol"]["left"]


@promise("one-clock-empties-nothing", "later-clock-counts")
async def test_a_clock_a_day_ahead_gives_nothing_back(
    tmp_path: Path, time_of_day: TimeOfDay
) -> None:
    async with open_bench(tmp_path, limits=DAILY, sol=30) as bench:
        await spend_the_day(bench)
        time_of_day.set_by(DAY_MS)
        reason = await refused(bench)
        assert "0 SOL left of the 10 SOL" in reason
        words, _, seconds = reason.partition("; windows end at the ledger's time, ")
        assert words
        assert 86_300 <= int(seconds.removesuffix(" s behind the database's clock")) <= 86_400
        assert await left(bench) == 0
        time_of_day.set_by(0)
        assert "windows end" not in await refused(bench)


async def test_the_rate_of_a_minute_does_not_follow_a_clock_that_is_ahead(
    tmp_path: Path, time_of_day: TimeOfDay
) -> None:
    async with open_bench(tmp_path, limits=LIMITS, sol=30) as bench:
        for _ in range(5):
            await bench.transfer(Decimal("0.1"))
        # An hour ahead opens one more minute, which the tolerance is long, and no second one.
        time_of_day.set_by(HOUR_MS)
        async with asyncio.timeout(30):
            for _ in range(5):
                await pay_when_the_minute_opens(bench)
        await refused(bench, "rate_limit")
        time_of_day.set_by(2 * HOUR_MS)
        await refused(bench, "rate_limit")


@promise("one-clock-empties-nothing")
async def test_a_start_with_the_clock_ahead_and_the_ledger_away_gives_nothing_back(
    tmp_path: Path, time_of_day: TimeOfDay
) -> None:
    async with open_bench(tmp_path, limits=DAILY, sol=30) as bench:
        await spend_the_day(bench)
        await bench.database.close()
        time_of_day.set_by(2 * DAY_MS)
        bench.database = await Database.open(None, tmp_path)
        try:
            assert await left(bench) == 0
        finally:
            await bench.database.close()


async def test_what_is_spent_on_a_clock_that_is_set_back_stays_when_it_is_right_again(
    tmp_path: Path, time_of_day: TimeOfDay
) -> None:
    async with open_bench(tmp_path, limits=DAILY, sol=30) as bench:
        await bench.transfer(2)
        time_of_day.set_by(-DAY_MS)
        for _ in range(4):
            await bench.transfer(2)
        await refused(bench)
        time_of_day.set_by(0)
        await refused(bench)
        # The clock is as far ahead as it was behind: what a plain clock would have to drop.
        time_of_day.set_by(HOUR_MS)
        await refused(bench)


@promise("one-clock-empties-nothing")
async def test_a_node_that_says_the_future_gives_nothing_back(
    tmp_path: Path, time_of_day: TimeOfDay
) -> None:
    async with open_bench(tmp_path, limits=DAILY, sol=30) as bench:
        await spend_the_day(bench)
        ledger_says(bench, 1000 * DAY_MS)
        await refused(bench)
        ledger_says(bench, 0)
        time_of_day.set_by(DAY_MS)
        await refused(bench)


@promise("one-clock-empties-nothing")
async def test_a_node_that_says_the_past_delays_windows_and_gives_nothing_back_afterwards(
    tmp_path: Path, time_of_day: TimeOfDay
) -> None:
    async with open_bench(tmp_path, limits=DAILY, sol=30) as bench:
        ledger_says(bench, -20 * HOUR_MS)
        await spend_the_day(bench)
        assert "s behind the database's clock" in await refused(bench)
        ledger_says(bench, 0)
        assert "s behind the database's clock" not in await refused(bench)
        # Five hours pass for both: what was spent is five hours old, not twenty-five.
        ledger_says(bench, 5 * HOUR_MS)
        time_of_day.set_by(5 * HOUR_MS)
        await refused(bench)
        ledger_says(bench, DAY_MS + HOUR_MS)
        time_of_day.set_by(DAY_MS + HOUR_MS)
        await bench.transfer(1)


@promise("clocks-apart-reserve-nothing", "later-clock-counts")
async def test_clocks_more_than_a_day_apart_reserve_nothing(
    tmp_path: Path, time_of_day: TimeOfDay
) -> None:
    async with open_bench(tmp_path, limits=DAILY, sol=30) as bench:
        await bench.transfer(1)
        time_of_day.set_by(2 * DAY_MS)
        reason = await refused(bench, "clock")
        assert "a day is the maximum" in reason
        assert (await bench.history())[0].guardrails_applied == ("clock",)
        time_of_day.set_by(0)
        await bench.transfer(1)


async def test_a_node_without_a_clock_judges_nothing(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=DAILY) as bench:

        async def fault(method: str, params: Sequence[Any]) -> Any:
            answer = await bench.wire.direct(method, params)
            answer["value"][list(params[0]).index(CLOCK_SYSVAR)] = None
            return answer

        bench.wire.faults["getMultipleAccounts"] = fault
        with pytest.raises((LedgerUnavailable, TransactionFailed), match="did not show its clock"):
            await bench.transfer(1)


async def test_a_models_day_does_not_follow_a_clock_that_is_ahead(
    tmp_path: Path, time_of_day: TimeOfDay
) -> None:
    async with open_bench(tmp_path) as bench:
        await bench.transfer(1)
        async with bench.database.write() as connection:
            row = usage_row("agent", now_ms(), Usage(input_tokens=700, output_tokens=0))
            await agent_store.add_usage(connection, [row])
        time_of_day.set_by(2 * DAY_MS)
        async with bench.database.read() as connection:
            used = await tokens_of(bench.database, connection, "agent")
        assert used.tokens == 700


@pytest.mark.sqlite("the database's clock is the machine's")
async def test_the_embedded_ledger_does_not_follow_a_clock_that_is_set_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(tmp_path, limits=DAILY, sol=30) as bench:
        await spend_the_day(bench)
        honest = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: honest() + DAY_MS * 1_000_000)
        assert "windows end at the ledger's time" in await refused(bench)
