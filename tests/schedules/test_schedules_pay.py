"""Schedules on the whole service: real skills, real store, the embedded ledger; the clock is the
test's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.services import (
    DAY,
    HOUR,
    MINUTE,
    NOBODY,
    START,
    STRANGER,
    ScheduleClock,
    Timetable,
    due,
    timetable,
)

PAY = {"name": "rent", "skill": "transfer", "parameters": {"to": STRANGER, "amount": 0.01}}
LOOK = {"name": "look", "skill": "check_balance"}


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[Timetable]:
    async with timetable(tmp_path, max_transactions_per_minute=100) as opened:
        yield opened


async def paid(table: Timetable, wallet: str) -> list[Any]:
    """The wallet's transfers, the newest first."""
    return [each for each in await table.api.records(wallet) if each["type"] == "transfer"]


async def told_of(table: Timetable, kind: str) -> list[Any]:
    """The entries of the audit log of these kinds, the newest first."""
    entries = (await table.api.get("/audit?limit=200")).json["entries"]
    return [each for each in entries if each["event"].startswith(kind)]


async def test_each_due_time_pays_once_and_is_told(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    assert (made["nextRunAt"], made["status"]) == (due(START + HOUR), "active")
    await table.passes(HOUR - 1)
    assert await paid(table, wallet) == []
    await table.passes(1)
    (record,) = await paid(table, wallet)
    assert record["status"] == "confirmed"
    assert "agentId" not in record
    await table.run_due()
    assert len(await paid(table, wallet)) == 1
    await table.passes(HOUR)
    assert len(await paid(table, wallet)) == 2
    second, first = await table.runs(wallet, made["id"])
    assert (first["dueAt"], first["status"]) == (due(START + HOUR), "succeeded")
    assert first["transactionIds"] == [record["id"]]
    assert (second["dueAt"], second["endedAt"]) == (due(START + 2 * HOUR), due(START + 2 * HOUR))
    now = await table.get(wallet, made["id"])
    assert (now["runs"], now["failures"], now["isRunning"]) == (2, 0, False)
    told = await told_of(table, "schedule:")
    assert [each["event"] for each in told] == ["schedule:run", "schedule:run", "schedule:created"]
    assert told[0]["data"]["dueAt"] == due(START + 2 * HOUR)


@promise("missed-skipped-or-once")
async def test_due_times_that_passed_while_nothing_ran_are_left_out_or_run_once(
    table: Timetable,
) -> None:
    wallet = await table.api.wallet(1)
    skips = await table.add(wallet, PAY | {"every": "1h"})
    once = await table.add(wallet, PAY | {"name": "salary", "every": "1h", "missed": "once"})
    await table.passes(3 * HOUR + 30 * MINUTE)
    (run,) = await table.runs(wallet, skips["id"])
    assert (run["status"], run["startedAt"]) == ("skipped", None)
    assert run["dueAt"] == due(START + 3 * HOUR)
    assert due(START + HOUR) in run["text"]
    latest, earlier = await table.runs(wallet, once["id"])
    assert (latest["status"], latest["dueAt"]) == ("succeeded", due(START + 3 * HOUR))
    assert (earlier["status"], earlier["dueAt"]) == ("skipped", due(START + HOUR))
    assert len(await paid(table, wallet)) == 1
    await table.passes(30 * MINUTE)
    assert len(await paid(table, wallet)) == 3


@promise("within-minute-not-missed")
async def test_a_due_time_that_is_found_within_a_minute_is_run(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    await table.add(wallet, PAY | {"every": "1h"})
    await table.passes(5 * HOUR + MINUTE)
    assert len(await paid(table, wallet)) == 1
    await table.passes(HOUR + 1)
    assert len(await paid(table, wallet)) == 1


@promise("clock-back-pays-nothing")
async def test_a_clock_that_goes_back_pays_nothing_twice(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    await table.passes(HOUR)
    await table.at(START - DAY)
    await table.at(START + HOUR)
    assert len(await paid(table, wallet)) == 1
    # Resumed, and changed, a due time that was run is not run again either.
    table.clock.ms = START
    for path in ("/pause", "/resume"):
        assert (await table.post(wallet, f"/{made['id']}{path}")).status == 200
    await table.at(START + HOUR)
    assert len(await paid(table, wallet)) == 1
    await table.at(START + 2 * HOUR)
    assert len(await paid(table, wallet)) == 2


async def test_it_ends_after_its_runs_or_its_time(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    twice = await table.add(wallet, PAY | {"every": "1h", "maxRuns": 2})
    until = await table.add(
        wallet, LOOK | {"cron": "0 * * * *", "endAt": due(START + 2 * HOUR + 1)}
    )
    for _ in range(4):
        await table.passes(HOUR)
    assert len(await paid(table, wallet)) == 2
    ended = await table.get(wallet, twice["id"])
    assert (ended["status"], ended["nextRunAt"]) == ("ended", None)
    assert ended["reason"] == "The schedule has run maxRuns times"
    ended = await table.get(wallet, until["id"])
    assert (ended["status"], ended["runs"]) == ("ended", 2)
    refused = await table.post(wallet, f"/{twice['id']}/resume")
    assert (refused.status, "maxRuns" in refused.error) == (400, True)
    refused = await table.post(wallet, f"/{until['id']}/resume")
    assert (refused.status, "endAt" in refused.error) == (400, True)


@promise("five-failures-pause")
async def test_refused_runs_pause_it_with_an_event(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(
        wallet, PAY | {"parameters": {"to": STRANGER, "amount": 50}} | {"every": "1h"}
    )
    for _ in range(6):
        await table.passes(HOUR)
    runs = await table.runs(wallet, made["id"])
    assert [each["status"] for each in runs] == ["refused"] * 5
    assert "max_per_tx" in runs[0]["text"]
    assert len(runs[0]["transactionIds"]) == 1
    paused = await table.get(wallet, made["id"])
    assert (paused["status"], paused["failures"], paused["nextRunAt"]) == ("paused", 5, None)
    (event,) = await told_of(table, "schedule:paused")
    assert event["data"]["reason"] == "5 runs in a row were refused or failed"
    resumed = (await table.post(wallet, f"/{made['id']}/resume")).json
    assert (resumed["status"], resumed["failures"], resumed["reason"]) == ("active", 0, None)
    assert resumed["nextRunAt"] == due(table.clock.ms + HOUR)


@promise("frozen-schedules-skip")
async def test_frozen_between_two_due_times_it_skips_and_a_look_goes_on(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    pays = await table.add(wallet, PAY | {"every": "1h"})
    looks = await table.add(wallet, LOOK | {"every": "1h"})
    await table.api.post("/freeze", {"walletId": wallet, "reason": "a look at the books"})
    for _ in range(7):
        await table.passes(HOUR)
    assert await paid(table, wallet) == []
    runs = await table.runs(wallet, pays["id"])
    assert {(each["status"], each["text"]) for each in runs} == {
        ("skipped", "Transactions are frozen: a look at the books")
    }
    # A freeze is no failure of the schedule, so it goes on by itself.
    assert (await table.get(wallet, pays["id"]))["status"] == "active"
    assert {each["status"] for each in await table.runs(wallet, looks["id"])} == {"succeeded"}
    await table.api.post("/unfreeze", {"walletId": wallet})
    await table.run_due()
    assert await paid(table, wallet) == []
    await table.passes(HOUR)
    assert len(await paid(table, wallet)) == 1


@promise("schedule-payment-is-held")
async def test_a_held_payment_waits_for_a_person_and_pays_once_as_the_schedule(
    table: Timetable,
) -> None:
    wallet = await table.api.wallet(1)
    grant = {
        "may": ["transfer"],
        "assets": {"SOL": {"per": {"24h": "0.5"}, "hold": "0.005"}},
    }
    made = await table.add(wallet, PAY | {"every": "1h", "maxRuns": 1, "grants": [grant]})
    who = made["principal"]
    shown = (await table.api.get(f"/policy/{who}")).json
    assert "Schedule rent may transfer" in shown["sentences"][0]
    await table.passes(HOUR)
    (run,) = await table.runs(wallet, made["id"])
    assert (run["status"], run["transactionIds"]) == ("held", [])
    (hold,) = (await table.api.get("/holds?open=true")).json["holds"]
    assert (hold["principal"], hold["chain"][1]) == (who, who)
    approved = await table.api.post(f"/holds/{hold['id']}/approve", {})
    assert approved.json["state"] == "executed", approved.text
    (record,) = await paid(table, wallet)
    assert record["status"] == "confirmed"
    (run,) = await table.runs(wallet, made["id"])
    assert run["transactionIds"] == [record["id"]]
    assert (
        await table.api.call("DELETE", f"/wallets/{wallet}/schedules/{made['id']}")
    ).status == 200
    assert (await table.api.get(f"/policy/{who}")).status == 404


@promise("schedule-payment-is-held")
async def test_its_grants_may_be_given_as_the_sentences_that_it_is_shown_with(
    table: Timetable,
) -> None:
    wallet = await table.api.wallet(1)
    said = "Schedule rent may transfer up to 0.015 SOL at once and 0.1 a day, to anybody."
    made = await table.add(wallet, PAY | {"every": "1h", "grants": [said]})
    shown = (await table.api.get(f"/policy/{made['principal']}")).json
    assert shown["sentences"] == [said]
    await table.passes(HOUR)
    assert len(await paid(table, wallet)) == 1


async def test_fewer_runs_than_it_had_end_it(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    for _ in range(2):
        await table.passes(HOUR)
    path = f"/wallets/{wallet}/schedules/{made['id']}"
    ended = (await table.api.call("PATCH", path, {"maxRuns": 2})).json
    assert (ended["status"], ended["nextRunAt"]) == ("ended", None)
    await table.passes(HOUR)
    assert len(await paid(table, wallet)) == 2


@promise("deleted-schedule-holds-die")
async def test_what_is_held_for_a_schedule_that_is_gone_is_not_paid(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    grant = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "0.5"}, "hold": "0.005"}}}
    made = await table.add(wallet, PAY | {"every": "1h", "grants": [grant]})
    await table.passes(HOUR)
    (hold,) = (await table.api.get("/holds?open=true")).json["holds"]
    await table.api.call("DELETE", f"/wallets/{wallet}/schedules/{made['id']}")
    approved = await table.api.post(f"/holds/{hold['id']}/approve", {})
    assert approved.json["state"] == "refused", approved.text
    assert [each["status"] for each in await paid(table, wallet)] == ["blocked"]


@promise("schedule-does-as-granted", "schedule-payment-is-held", "creation-grants-count")
async def test_under_grants_it_does_what_they_say_and_nothing_else(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h", "grants": []})
    await table.passes(HOUR)
    (run,) = await table.runs(wallet, made["id"])
    assert (run["status"], "no grant" in run["text"]) == ("refused", True)
    path = f"/wallets/{wallet}/schedules/{made['id']}"
    grant = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "0.015"}}}}
    assert (await table.api.call("PATCH", path, {"grants": [grant]})).status == 200
    await table.passes(HOUR)
    await table.passes(HOUR)
    assert [each["status"] for each in await paid(table, wallet)] == [
        "blocked", "confirmed", "blocked",
    ]  # fmt: skip
    limits = (await table.api.get(f"/wallets/{wallet}/limits")).json
    (granted,) = limits["grants"]
    assert granted["who"] == made["principal"]
    assert limits["canLeave"]["assets"]["SOL"]["most"] == "0.015"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"every": "1h", "skill": "nothing"}, "nothing"),
    ({"every": "1h", "parameters": {"to": STRANGER}}, "amount"),
    ({"every": "1h", "parameters": []}, "parameters must be an object"),
    ({"every": "59s"}, 'every must be "1m" to "30d"'),
    ({"every": 60}, 'every must be "1m" to "30d"'),
    ({"every": "31d"}, 'every must be "1m" to "30d"'),
    ({}, "either every"),
    ({"every": "1h", "cron": "* * * * *"}, "either every"),
    ({"cron": "* * * *"}, "five fields"),
    ({"cron": "*/5 * * * * *"}, "five fields"),
    ({"cron": "61 * * * *"}, "Bad minute"),
    ({"cron": "0 0 30 2 *"}, "Bad day-of-month"),
    ({"cron": 5}, "cron must be a string"),
    ({"cron": "0 9 * * *", "timeZone": "Mars/Olympus"}, "timeZone"),
    ({"cron": "0 9 * * *", "timeZone": "../../etc/passwd"}, "timeZone"),
    ({"cron": "0 9 * * *", "timeZone": "\x00"}, "timeZone"),
    ({"every": "1h", "timeZone": "UTC"}, "timeZone is only for cron"),
    ({"every": "1h", "startAt": "2026-06-01 12:00"}, "startAt"),
    ({"every": "1h", "endAt": "2026-05-01T00:00:00Z"}, "there is no due time from now"),
    ({"every": "1h", "endAt": "9999-12-31T23:59:59Z"}, "endAt must be"),
    ({"every": "1h", "maxRuns": 0}, "maxRuns"),
    ({"every": "1h", "maxRuns": True}, "maxRuns"),
    ({"every": "1h", "maxRuns": 1.5}, "maxRuns"),
    ({"every": "1h", "missed": "all"}, "missed"),
    ({"every": "1h", "name": ""}, "name is required"),
    ({"every": "1h", "name": "a\nb"}, "name must be one line"),
    ({"every": "1h", "amount": 1}, "amount is none of: "),
    ({"every": "1h", "parameters": {"to": "x" * 20_000, "amount": 1}}, ""),
    ({"every": "1h", "grants": [{"may": ["teleport"]}]}, "grants[0]"),
]


@promise("unclear-schedule-refused")
async def test_what_is_wrong_is_named_and_nothing_is_made(table: Timetable) -> None:
    wallet = await table.api.wallet()
    for body, said in WRONG:
        answer = await table.post(wallet, "", PAY | body)
        assert answer.status in (400, 404), (body, answer.text)
        assert said in answer.error, body
    assert (await table.api.get(f"/wallets/{wallet}/schedules")).json == {"schedules": []}
    assert (await table.post(NOBODY, "", PAY | {"every": "1h"})).status == 404


@promise("schedules-per-key-bounded")
async def test_a_wallet_has_each_name_once_and_so_many_schedules(table: Timetable) -> None:
    wallet = await table.api.wallet()
    made = await table.add(wallet, LOOK | {"every": "1h"})
    answer = await table.post(wallet, "", LOOK | {"every": "2h"})
    assert (answer.status, made["id"] in answer.error) == (400, True)
    for number in range(1, 50):
        await table.add(wallet, LOOK | {"name": f"look {number}", "every": "30d"})
    answer = await table.post(wallet, "", LOOK | {"name": "one more", "every": "30d"})
    assert (answer.status, "at most 50 schedules of the operator" in answer.error) == (400, True)
    # Those of the operator and those of keys keep each other out of nothing.
    token, _ = await table.api.key(rateLimit=100)
    body = LOOK | {"name": "a key's", "every": "30d"}
    made_by_key = await table.api.post(f"/wallets/{wallet}/schedules", body, token=token)
    assert made_by_key.status == 200, made_by_key.text
    path = f"/wallets/{wallet}/schedules/{made['id']}"
    assert (await table.api.call("PATCH", path, {"name": "look 1"})).status == 400
    assert (await table.api.call("DELETE", path)).json == {"id": made["id"], "deleted": True}
    assert (await table.api.call("DELETE", path)).status == 404
    await table.add(wallet, LOOK | {"every": "30d"})


async def test_what_is_changed_counts_from_the_next_due_time(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    made = await table.add(wallet, PAY | {"every": "1h"})
    path = f"/wallets/{wallet}/schedules/{made['id']}"
    await table.passes(30 * MINUTE)
    changed = (await table.api.call("PATCH", path, {"every": "2h", "missed": "once"})).json
    assert changed["nextRunAt"] == due(table.clock.ms + 2 * HOUR)
    assert (changed["missed"], changed["parameters"]) == ("once", made["parameters"])
    changed = await table.api.call(
        "PATCH", path, {"cron": "0 9 * * *", "timeZone": "Europe/Berlin", "name": "daily"}
    )
    assert changed.json["nextRunAt"] == "2026-06-02T07:00:00.000Z"
    assert ("every" in changed.json, changed.json["name"]) == (False, "daily")
    changed = await table.api.call("PATCH", path, {"timeZone": "UTC"})
    assert changed.json["nextRunAt"] == "2026-06-02T09:00:00.000Z"
    parameters = {"to": STRANGER, "amount": Decimal("0.02")}
    changed = await table.api.call("PATCH", path, {"parameters": parameters})
    assert changed.json["parameters"] == parameters
    await table.at(START + 21 * HOUR)
    assert [each["details"]["amount"] for each in await paid(table, wallet)] == [
        parameters["amount"]
    ]
    for wrong in ({"skill": "swap"}, {"parameters": {}}, {"every": "1s"}, {"walletId": NOBODY}):
        assert (await table.api.call("PATCH", path, wrong)).status == 400, wrong


async def test_a_service_that_starts_again_goes_on(tmp_path: Path) -> None:
    clock = ScheduleClock()
    async with timetable(tmp_path, clock) as table:
        wallet = await table.api.wallet(1)
        await table.add(wallet, PAY | {"every": "1h"})
    async with timetable(tmp_path, clock) as table:
        await table.passes(HOUR)
        assert len(await paid(table, wallet)) == 1


@promise("creation-grants-count")
async def test_a_schedule_that_only_reads_leaves_what_can_leave_as_it_is(tmp_path: Path) -> None:
    async with timetable(tmp_path) as table:
        wallet = await table.api.wallet(1)

        async def can_leave() -> Any:
            return (await table.api.get(f"/wallets/{wallet}/limits")).json["canLeave"]

        before = await can_leave()
        await table.add(wallet, {"name": "look", "skill": "check_balance", "every": "1h"})
        assert await can_leave() == before
        await table.add(wallet, PAY | {"every": "1h"})
        assert await can_leave() != before
