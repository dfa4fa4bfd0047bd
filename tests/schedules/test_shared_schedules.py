"""Several services on one PostgreSQL: a due time is run by one of them, and by another when that
one dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.promises import promise
from tests.schedules.test_schedules_pay import LOOK, PAY, paid
from tests.support.services import (
    HOUR,
    Api,
    ScheduleClock,
    Timetable,
    settings,
    shared_ledger,
    timed,
)

from solward.runner import no_hook
from solward.schedules.runs import ScheduleHook, SchedulePhase
from solward.service.service import Solward
from solward_server.serve import create_app

pytestmark = pytest.mark.more


class Killed(BaseException):
    """A process, where it stands."""


@asynccontextmanager
async def tables(
    url: str, home: Path, hooks: tuple[ScheduleHook, ...]
) -> AsyncIterator[list[Timetable]]:
    """Services that share a database, a ledger and a clock."""
    clock = ScheduleClock()
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(shared_ledger(home))
        given = {
            "database_url": url,
            "solana_rpc_url": ledger,
            "solana_network": "localnet",
            "max_transactions_per_minute": 1000,
        }
        found = []
        for hook in hooks:
            opened = await stack.enter_async_context(Solward.open(settings(home, **given)))
            service = await timed(opened, clock, hook)
            app = create_app(service)
            await stack.enter_async_context(app.test_app())
            found.append(Timetable(Api(app, service), clock))
        yield found


async def dies(table: Timetable) -> None:
    """Let a service's lease be over, for what it had begun."""
    async with table.service.database.write() as connection:
        await connection.exec_driver_sql(
            "UPDATE schedules SET owner = 'gone' WHERE owner = %s",
            (table.service.engine.process.id,),
        )


@promise("other-service-takes-over")
async def test_two_services_run_each_due_time_once(postgres_url: str, tmp_path: Path) -> None:
    async with tables(postgres_url, tmp_path / "home", (no_hook, no_hook)) as (first, second):
        wallet = await first.api.wallet(2)
        names = [f"rent {number}" for number in range(8)]
        for name in names:
            await first.add(wallet, PAY | {"name": name, "every": "1h"})
        for turn in range(1, 4):
            first.clock.ms += HOUR
            await asyncio.gather(first.run_due(), second.run_due(), first.run_due())
            # What one had locked the other looks at again.
            await asyncio.gather(first.run_due(), second.run_due())
            records = await paid(first, wallet)
            assert [each["status"] for each in records] == ["confirmed"] * 8 * turn


@promise("other-service-takes-over")
async def test_what_a_dead_service_had_begun_another_ends(
    postgres_url: str, tmp_path: Path
) -> None:
    dying: list[SchedulePhase] = []

    def die(_schedule: str, reached: SchedulePhase) -> None:
        if reached in dying:
            dying.clear()
            raise Killed

    async with tables(postgres_url, tmp_path / "home", (die, no_hook)) as (first, second):
        wallet = await first.api.wallet(1)
        for number, phase in enumerate(SchedulePhase, 1):
            body = PAY | {"name": phase.value, "every": "1h", "maxRuns": 1}
            made = await first.add(wallet, body)
            first.clock.ms += HOUR
            dying.append(phase)
            await first.schedules.runner.start_due_runs()
            with pytest.raises(Killed):
                await next(iter(first.schedules.runner._running.values()))
            await second.run_due()
            if phase is not SchedulePhase.LEFT:
                # Who lives is not taken from.
                (run,) = await second.runs(wallet, made["id"])
                assert run["status"] == "running"
            await dies(first)
            await second.run_due()
            (run,) = await second.runs(wallet, made["id"])
            assert (run["status"], len(run["transactionIds"])) == ("succeeded", 1)
            assert len(await paid(second, wallet)) == number


async def test_a_frozen_service_that_comes_back_neither_pays_nor_tells(
    postgres_url: str, tmp_path: Path
) -> None:
    """It took a due time, and was frozen; another ended it meanwhile."""
    async with tables(postgres_url, tmp_path / "home", (no_hook, no_hook)) as (first, second):
        wallet = await first.api.wallet(1)
        made = await first.add(wallet, PAY | {"every": "1h"})
        first.clock.ms += HOUR
        ((schedule, due_ms),), _ = await first.schedules.runner.take_due(10)
        await dies(first)
        await second.run_due()
        before = await second.runs(wallet, made["id"])
        await first.schedules.runner._run_schedule(schedule, due_ms)
        assert await second.runs(wallet, made["id"]) == before
        assert len(await paid(second, wallet)) == 1


async def test_fifty_keep_their_bounds_over_services(postgres_url: str, tmp_path: Path) -> None:
    async with tables(postgres_url, tmp_path / "home", (no_hook, no_hook)) as (first, second):
        wallet = await first.api.wallet()
        bodies = [LOOK | {"name": f"look {number}", "every": "30d"} for number in range(60)]
        answers = await asyncio.gather(
            *((first, second)[at % 2].post(wallet, "", body) for at, body in enumerate(bodies))
        )
        assert sorted(each.status for each in answers) == [200] * 50 + [400] * 10
