"""What a run of a schedule meets on its way: a pause, an upgrade of its plugin, a death."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs
from tests.promises import promise
from tests.schedules.test_schedules_pay import LOOK, PAY, paid
from tests.support.services import HOUR, Timetable, due, timetable

from solward.plugins.parameters import Parameters
from solward.schedules import store
from solward.schedules.runs import SchedulePhase


@promise("deleted-run-stops-reserving")
async def test_what_was_paused_while_its_skill_ran_reserves_nothing(tmp_path: Path) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)
        made = await table.add(wallet, PAY | {"every": "1h"})
        run_skill = table.service.skill_runs.run

        async def late(*given: Any) -> str:
            assert (await table.post(wallet, f"/{made['id']}/pause")).status == 200
            return await run_skill(*given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table.schedules, "run_skill", late)
            await table.passes(HOUR)
        assert await paid(table, wallet) == []
        (run,) = await table.runs(wallet, made["id"])
        assert run["text"] == "The schedule was paused; nothing was sent"
        await table.passes(5 * HOUR)
        assert (await table.get(wallet, made["id"]))["reason"] == "It was paused"


@promise("deleted-run-stops-reserving")
async def test_what_was_deleted_while_its_skill_ran_reserves_nothing(tmp_path: Path) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)
        made = await table.add(wallet, PAY | {"every": "1h"})
        path = f"/wallets/{wallet}/schedules/{made['id']}"
        run_skill = table.service.skill_runs.run

        async def late(*given: Any) -> str:
            assert (await table.api.call("DELETE", path)).status == 200
            return await run_skill(*given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table.schedules, "run_skill", late)
            await table.passes(HOUR)
        assert await paid(table, wallet) == []
        assert (await table.api.get(path)).status == 404


@promise("changed-skill-not-run")
async def test_a_skill_that_changed_since_is_not_run_with_what_does_not_fit(
    tmp_path: Path,
) -> None:
    """A plugin's upgrade: another schema, another distribution of the same name, and none."""
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)
        made = await table.add(wallet, PAY | {"every": "1h"})
        registry = table.service.live.registry
        skill = registry.skills["transfer"]
        schema = dict(skill.spec.parameters)
        stricter = schema | {"required": [*schema["required"], "reference"]}
        upgraded = replace(skill, parameters=Parameters(stricter))
        stranger = replace(skill, distribution="another")
        for skills, said in (
            ({"transfer": upgraded}, "reference"),
            ({"transfer": stranger}, "now from another"),
            ({}, "not loaded"),
        ):
            table.service.live.registry = replace(registry, skills=skills)
            await table.passes(HOUR)
            (run, *_) = await table.runs(wallet, made["id"])
            assert (run["status"], said in run["text"]) == ("refused", True), run
        assert await paid(table, wallet) == []
        # What a person resumes runs the distribution that has the name then.
        table.service.live.registry = replace(registry, skills={"transfer": stranger})
        for path in ("/pause", "/resume"):
            assert (await table.post(wallet, f"/{made['id']}{path}")).status == 200
        await table.passes(HOUR)
        assert len(await paid(table, wallet)) == 1


@pytest.mark.more
@promise("answered-run-pays-once", "killed-run-pays-once")
@pytest.mark.parametrize("asked", [False, True], ids=["due", "asked for"])
async def test_a_run_that_was_begun_and_not_ended_goes_on_and_pays_once(
    tmp_path: Path, asked: bool
) -> None:
    class Killed(BaseException):
        """The process, where it stands."""

    for phase in SchedulePhase:
        home = tmp_path / phase.value
        dying = [phase]

        def die(_schedule: str, reached: SchedulePhase, dying: list[SchedulePhase] = dying) -> None:
            if reached in dying:
                dying.clear()
                raise Killed

        async with timetable(home, hook=die) as table:
            wallet = await table.api.wallet(1)
            made = await table.add(wallet, PAY | {"every": "1h"})
            path = f"/wallets/{wallet}/schedules/{made['id']}/run"

            async def begins(path: str = path, table: Timetable = table) -> None:
                if asked:
                    answer = await table.api.post(path, headers={"Idempotency-Key": "once"})
                    assert answer.status == 200

            table.clock.ms += 0 if asked else HOUR
            await begins()
            await table.schedules.runner.start_due_runs()
            with pytest.raises(Killed):
                await next(iter(table.schedules.runner._running.values()))
            await begins()
            await table.run_due()
            assert len(await paid(table, wallet)) == 1, phase
            (run,) = await table.runs(wallet, made["id"])
            assert (run["status"], len(run["transactionIds"])) == ("succeeded", 1), phase
            now = await table.get(wallet, made["id"])
            assert (now["runs"], now["isRunning"]) == (1, False), phase
            assert now["nextRunAt"] == due(table.clock.ms + HOUR), phase


@promise("interrupted-thrice-fails")
async def test_a_run_that_is_always_interrupted_ends_as_failed(tmp_path: Path) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet()
        made = await table.add(wallet, LOOK | {"every": "1h"})
        table.clock.ms += HOUR
        for _ in range(4):
            taken, _ = await table.schedules.runner.take_due(10)
        assert taken == []
        (run,) = await table.runs(wallet, made["id"])
        assert (run["status"], "3 times" in run["text"]) == ("failed", True)


@promise("interrupted-thrice-fails")
async def test_an_interrupted_run_is_not_gone_on_with_for_ever(tmp_path: Path) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)
        skips = await table.add(wallet, PAY | {"every": "7d"})
        once = await table.add(wallet, PAY | {"name": "once", "every": "7d", "missed": "once"})
        table.clock.ms += 7 * 24 * HOUR
        taken, _ = await table.schedules.runner.take_due(10)
        assert len(taken) == 2
        await table.passes(HOUR + 1)
        (run,) = await table.runs(wallet, skips["id"])
        assert (run["status"], "too late" in run["text"]) == ("failed", True)
        (run,) = await table.runs(wallet, once["id"])
        assert run["status"] == "succeeded"
        assert len(await paid(table, wallet)) == 1


@promise("fence-keeps-run-single")
async def test_two_runs_of_one_due_time_are_one_by_their_fence(tmp_path: Path) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)
        await table.add(wallet, PAY | {"every": "1h"})
        table.clock.ms += HOUR
        runner = table.schedules.runner
        ((first, due_ms),), _ = await runner.take_due(10)
        ((second, _),), _ = await runner.take_due(10)
        assert second.fence == first.fence + 1
        await runner._run_schedule(first, due_ms)
        assert await paid(table, wallet) == []
        await runner._run_schedule(second, due_ms)
        assert len(await paid(table, wallet)) == 1


@promise("run-history-bounded")
async def test_the_longest_history_is_bounded(tmp_path: Path) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet()
        made = await table.add(wallet, LOOK | {"every": "1m"})
        async with table.service.database.write() as connection:
            for number in range(205):
                await store.put_run(
                    connection,
                    made["id"],
                    number,
                    {"status": "succeeded", "text": "", "started_ms": 1, "ended_ms": 1},
                )
        found = await table.service.schedules.runs(made["id"], limit=500)
        assert [each["dueAt"] for each in found] == [*map(due, range(204, 4, -1))]


async def test_a_start_looks_for_what_its_last_life_had_begun(tmp_path: Path) -> None:
    """Nothing else is due then, and no other process lives on SQLite."""
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)
        made = await table.add(wallet, PAY | {"every": "1h"})
        table.clock.ms += HOUR
        await table.schedules.runner.take_due(10)
        async with table.service.database.write() as connection:
            await connection.exec_driver_sql("UPDATE schedules SET owner = 'an earlier life'")
        assert await table.schedules.runner.start_due_runs() == 0
        await table.run_due()
        (run,) = await table.runs(wallet, made["id"])
        assert (run["status"], len(await paid(table, wallet))) == ("succeeded", 1)


@promise("unreadable-schedule-stops-nobody")
async def test_a_schedule_that_becomes_unreadable_while_it_runs_is_due_again(
    tmp_path: Path,
) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)
        made = await table.add(wallet, PAY | {"cron": "0 * * * *"})
        table.clock.ms += HOUR
        runner = table.schedules.runner
        ((schedule, due_ms),), _ = await runner.take_due(10)
        set_zone = text("UPDATE schedules SET time_zone = :zone")
        async with table.service.database.write() as connection:
            await connection.execute(set_zone, {"zone": "Mars/Olympus"})
        await runner._run_schedule(schedule, due_ms)
        (run,) = await table.runs(wallet, made["id"])
        assert (run["status"], len(await paid(table, wallet))) == ("succeeded", 1)
        async with table.service.database.write() as connection:
            await connection.execute(set_zone, {"zone": "UTC"})
        await table.passes(HOUR)
        assert len(await paid(table, wallet)) == 2


@promise("unreadable-schedule-stops-nobody")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("time_zone", "Mars/Olympus"),
        ("cron", "61 * * * *"),
        ("params", "{"),
        ("params", "[1]"),
        ("missed", "twice"),
    ],
)
async def test_a_schedule_that_cannot_be_read_stops_no_other(
    tmp_path: Path, column: str, value: str
) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)
        odd = await table.add(wallet, PAY | {"name": "odd", "cron": "0 * * * *"})
        await table.add(wallet, PAY | {"every": "1h"})
        statement = f"UPDATE schedules SET {column} = :value WHERE id = :id"
        async with table.service.database.write() as connection:
            was = (
                await connection.execute(
                    text(f"SELECT {column} FROM schedules WHERE id = :id"), {"id": odd["id"]}
                )
            ).scalar_one()
            await connection.execute(text(statement), {"value": value, "id": odd["id"]})
        with capture_logs() as lines:
            for _ in range(2):
                await table.passes(HOUR)
        assert len(await paid(table, wallet)) == 2
        told = [each["schedule_id"] for each in lines if each["event"] == "schedule_unreadable"]
        assert told == [odd["id"]]
        listed = (await table.api.get(f"/wallets/{wallet}/schedules")).json["schedules"]
        (shown,) = [each for each in listed if each["id"] == odd["id"]]
        assert (len(listed), shown["status"]) == (2, "paused")
        assert "cannot read the schedule" in shown["reason"]
        assert (await table.post(wallet, f"/{odd['id']}/resume")).status == 400
        # It runs again where it can be read, and can always be deleted.
        async with table.service.database.write() as connection:
            await connection.execute(text(statement), {"value": was, "id": odd["id"]})
        table.schedules.runner._unreadable[odd["id"]] = 0.0
        await table.passes(HOUR)
        newest, *_ = await table.runs(wallet, odd["id"])
        assert newest["status"] == "succeeded"
        async with table.service.database.write() as connection:
            await connection.execute(text(statement), {"value": value, "id": odd["id"]})
        path = f"/wallets/{wallet}/schedules/{odd['id']}"
        assert (await table.api.call("DELETE", path)).status == 200
