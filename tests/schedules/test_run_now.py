"""A run beside the due times: asked for once, run and counted like any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.schedules.test_schedules_pay import LOOK, PAY, paid, told_of
from tests.support.services import HOUR, MINUTE, START, Answer, Timetable, due, timetable

BUSY = "ask again when that run has ended"


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[Timetable]:
    async with timetable(tmp_path, max_transactions_per_minute=100) as opened:
        yield opened


async def ask(
    table: Timetable, wallet: str, schedule: dict[str, Any], key: str | None = None, **options: Any
) -> Answer:
    headers = {} if key is None else {"Idempotency-Key": key}
    path = f"/wallets/{wallet}/schedules/{schedule['id']}/run"
    return await table.api.post(path, headers=headers, **options)


@promise("run-now-shifts-nothing")
async def test_a_run_now_pays_beside_the_due_times_and_counts_like_one(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h", "maxRuns": 3})
    table.clock.ms += 10 * MINUTE
    asked = await ask(table, wallet, made)
    assert (asked.status, asked.json["nextRunAt"]) == (200, due(START + 10 * MINUTE)), asked.text
    await table.run_due()
    (run,) = await table.runs(wallet, made["id"])
    assert (run["status"], run["dueAt"]) == ("succeeded", asked.json["nextRunAt"])
    now = await table.get(wallet, made["id"])
    assert (now["runs"], now["nextRunAt"], now["isRunning"]) == (1, due(START + HOUR), False)
    await table.at(START + HOUR)
    assert len(await paid(table, wallet)) == 2
    # The third is its last, whoever asked for it.
    table.clock.ms += 1
    assert (await ask(table, wallet, made)).status == 200
    await table.run_due()
    assert len(await paid(table, wallet)) == 3
    now = await table.get(wallet, made["id"])
    assert (now["status"], now["reason"]) == ("ended", "The schedule has run maxRuns times")
    refused = await ask(table, wallet, made)
    ended = "The schedule is ended (The schedule has run maxRuns times)"
    said = f"{ended}; change endAt or maxRuns, then resume it"
    assert (refused.status, refused.error) == (400, said)
    told = [each["data"] for each in await told_of(table, "schedule:run_asked")]
    assert [each["dueAt"] for each in told] == [due(START + HOUR + 1), due(START + 10 * MINUTE)]
    assert {each["principal"] for each in told} == {"admin"}


@promise("one-key-one-run")
async def test_one_idempotency_key_asks_for_one_run(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    answers = await asyncio.gather(*(ask(table, wallet, made, "one") for _ in range(5)))
    assert {each.status for each in answers} <= {200, 409}
    first = next(each for each in answers if each.status == 200)
    await table.run_due()
    table.clock.ms += MINUTE
    again = await ask(table, wallet, made, "one")
    assert (again.status, again.text) == (200, first.text)
    assert again.headers["Idempotent-Replayed"] == "true"
    await table.run_due()
    assert len(await paid(table, wallet)) == 1
    assert (await ask(table, wallet, made, "two")).status == 200
    await table.run_due()
    assert len(await paid(table, wallet)) == 2


@promise("no-run-beside-another")
async def test_none_is_asked_for_while_one_goes_on_or_is_due(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    run_skill = table.service.skill_runs.run
    during: list[Answer] = []

    async def asked_meanwhile(*given: Any) -> str:
        during.append(await ask(table, wallet, made, "while it runs"))
        return await run_skill(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table.schedules, "run_skill", asked_meanwhile)
        assert (await ask(table, wallet, made)).status == 200
        early = await ask(table, wallet, made)
        assert (early.status, BUSY in early.error) == (409, True)
        await table.run_due()
    (refused,) = during
    assert (refused.status, "goes on" in refused.error) == (409, True)
    assert "Retry-After" not in refused.headers
    assert len(await paid(table, wallet)) == 1
    # A key whose request was refused is not used up.
    table.clock.ms += 1
    assert (await ask(table, wallet, made, "while it runs")).status == 200
    await table.run_due()
    assert len(await paid(table, wallet)) == 2
    table.clock.ms = START + HOUR
    assert (await ask(table, wallet, made)).status == 409
    await table.run_due()
    assert len(await paid(table, wallet)) == 3


async def test_two_runs_of_one_millisecond_have_two_names(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    for _ in range(2):
        assert (await ask(table, wallet, made)).status == 200
        await table.run_due()
    table.clock.ms += 1
    await table.run_due()
    assert len(await paid(table, wallet)) == 2


@promise("no-run-beside-another")
async def test_what_was_asked_for_and_not_begun_ends_with_a_pause(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    assert (await ask(table, wallet, made)).status == 200
    assert (await table.post(wallet, f"/{made['id']}/pause")).status == 200
    refused = await ask(table, wallet, made)
    assert (refused.status, refused.error) == (
        400,
        "The schedule is paused (It was paused); resume it first",
    )
    assert (await table.post(wallet, f"/{made['id']}/resume")).status == 200
    await table.passes(MINUTE)
    assert await paid(table, wallet) == []


@promise("new-times-drop-request")
async def test_what_was_asked_for_and_not_begun_ends_with_a_change_of_due_times(
    table: Timetable,
) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    path = f"/wallets/{wallet}/schedules/{made['id']}"
    assert (await ask(table, wallet, made)).status == 200
    # Another field leaves it.
    assert (await table.api.call("PATCH", path, {"name": "other"})).status == 200
    await table.run_due()
    assert len(await paid(table, wallet)) == 1
    table.clock.ms += MINUTE
    assert (await ask(table, wallet, made)).status == 200
    changed = await table.api.call("PATCH", path, {"every": "2h"})
    assert changed.json["nextRunAt"] == due(START + MINUTE + 2 * HOUR)
    await table.passes(MINUTE)
    assert len(await paid(table, wallet)) == 1


async def test_what_nothing_began_within_a_minute_is_missed(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    skips = await table.add(wallet, PAY | {"every": "1h"})
    once = await table.add(wallet, PAY | {"name": "salary", "every": "1h", "missed": "once"})
    for each in (skips, once):
        assert (await ask(table, wallet, each)).status == 200
    await table.passes(2 * MINUTE)
    assert [each["status"] for each in await table.runs(wallet, skips["id"])] == ["skipped"]
    assert [each["status"] for each in await table.runs(wallet, once["id"])] == ["succeeded"]
    assert len(await paid(table, wallet)) == 1


async def test_it_has_the_rights_of_the_schedule_and_no_other(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    grants = [{"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "0.015"}}}}]
    made = await table.add(wallet, PAY | {"every": "1h", "grants": grants})
    for _ in range(2):
        table.clock.ms += 1
        assert (await ask(table, wallet, made)).status == 200
        await table.run_due()
    latest, _ = await table.runs(wallet, made["id"])
    assert (latest["status"], "grants" in latest["text"]) == ("refused", True)
    assert (await table.get(wallet, made["id"]))["failures"] == 1
    assert (await table.api.post("/freeze", {"reason": "drill"})).status == 200
    table.clock.ms += 1
    assert (await ask(table, wallet, made)).status == 200
    await table.run_due()
    latest, *_ = await table.runs(wallet, made["id"])
    assert (latest["status"], latest["text"]) == ("skipped", "Transactions are frozen: drill")


@promise("asking-counts-for-key")
async def test_a_key_asks_for_runs_of_what_it_made_and_asking_counts(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    token, _ = await table.api.key(rateLimit=3)
    other, _ = await table.api.key()
    admins = await table.add(wallet, LOOK | {"every": "1h"})
    its = await table.add(wallet, PAY | {"every": "1h"}, token=token)
    assert (await ask(table, wallet, admins, token=token)).status == 403
    assert (await ask(table, wallet, its, token=other)).status == 403
    assert (await ask(table, wallet, its, token=token)).status == 200
    await table.run_due()
    # Making it, asking and the run were three.
    assert len(await paid(table, wallet)) == 1
    table.clock.ms += 1
    assert (await ask(table, wallet, its, token=token)).status == 429
    # Asked for by the operator it is the key's run all the same.
    assert (await ask(table, wallet, its)).status == 200
    await table.run_due()
    latest, *_ = await table.runs(wallet, its["id"])
    assert (latest["status"], "limit" in latest["text"]) == ("skipped", True)


async def test_what_is_wrong_asks_for_nothing(table: Timetable) -> None:
    wallet, another = await table.api.wallet(1), await table.api.wallet()
    made = await table.add(wallet, PAY | {"every": "1h"})
    path = f"/wallets/{wallet}/schedules/{made['id']}/run"
    extra = await table.api.post(path, {"parameters": {"amount": 9}})
    assert (extra.status, extra.error) == (400, "parameters is unknown. Nothing was done")
    assert (await ask(table, another, made)).status == 404
    assert (await ask(table, wallet, {"id": "none"})).status == 404
    assert (await ask(table, wallet, made, "x" * 256)).status == 400
    await table.run_due()
    assert await paid(table, wallet) == []
