"""What a key's schedules may do, and that they end with it, whoever has its secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.schedules.test_schedules_pay import LOOK, PAY, paid, told_of
from tests.support.services import HOUR, Timetable, due, timetable

from solward.resources.schedules import RunStatus
from solward.schedules import service
from solward.schedules.runs import Outcome, run_once
from solward.schedules.schedule import Schedule
from solward.support.clock import iso, now_ms

MANY: dict[str, Any] = {"max_transactions_per_minute": 100}


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[Timetable]:
    async with timetable(tmp_path, **MANY) as opened:
        yield opened


async def refused_for_good(table: Timetable, wallet: str, schedule: str) -> None:
    """Nothing is paid at the next due times, and the schedule has paused itself."""
    before = len(await paid(table, wallet))
    for _ in range(2):
        await table.passes(HOUR)
    assert len(await paid(table, wallet)) == before
    now = await table.get(wallet, schedule)
    assert (now["status"], now["reason"]) == (
        "paused", "The secret of the API key that made the schedule has ended",
    )  # fmt: skip


@promise("ended-secret-runs-nothing")
async def test_a_schedule_ends_with_the_key_that_made_it(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    token, key = await table.api.key()
    made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
    assert made["madeBy"] == f"key:{key}"
    await table.passes(HOUR)
    (record,) = await paid(table, wallet)
    assert record["status"] == "confirmed"
    assert (await table.api.call("DELETE", f"/keys/{key}")).status == 200
    await refused_for_good(table, wallet, made["id"])
    (run, *_) = await table.runs(wallet, made["id"])
    assert (run["status"], run["transactionIds"]) == ("refused", [])
    resumed = await table.post(wallet, f"/{made['id']}/resume")
    assert (resumed.status, "no longer exists" in resumed.error) == (400, True)


@promise("schedule-grants-beside-key")
async def test_what_the_operator_grants_a_keys_schedule_is_shown_beside_what_the_key_may(
    table: Timetable,
) -> None:
    wallet = await table.api.wallet(1)
    token, _ = await table.api.key()
    other, _ = await table.api.key()
    made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
    path = f"/wallets/{wallet}/limits"
    before = (await table.api.get(path)).json
    assert before["grants"] == []
    grant = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "0.015"}}}}
    changed = f"/wallets/{wallet}/schedules/{made['id']}"
    assert (await table.api.call("PATCH", changed, {"grants": [grant]})).status == 200
    await table.passes(HOUR)
    await table.passes(HOUR)
    assert [each["status"] for each in await paid(table, wallet)] == ["blocked", "confirmed"]
    for by in ({}, {"token": token}):
        told = (await table.api.get(path, **by)).json
        (granted,) = told["grants"]
        assert granted["who"] == made["principal"]
        (shown,) = granted["grants"]
        sol = next(each for each in shown["limits"] if each["asset"] == "SOL")
        assert (sol["used"], sol["left"]) == ("0.01", "0.005")
        # The key may without it what it may: nothing less can leave.
        assert told["canLeave"]["assets"] == before["canLeave"]["assets"]
    assert (await table.api.get(path, token=other)).json["grants"] == []


async def test_the_hash_of_the_secret_is_in_no_repr(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    token, _ = await table.api.key()
    made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
    found = await table.schedules.get(made["id"])
    assert found.key_hash is not None
    assert found.key_hash not in repr(found)


@promise("ended-secret-runs-nothing")
async def test_a_stolen_secret_pays_nothing_once_another_took_its_place(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    stolen, key = await table.api.key()
    made = await table.add(wallet, PAY | {"every": "1h"}, token=stolen)
    rotated = await table.api.post(f"/keys/{key}/rotate", {"overlapSeconds": 0})
    assert rotated.status == 200, rotated.text
    await refused_for_good(table, wallet, made["id"])
    # Its owner decides, with the new secret, whether it goes on.
    assert (await table.post(wallet, f"/{made['id']}/resume", token=stolen)).status == 401
    fresh = rotated.json["apiKey"]
    assert (await table.post(wallet, f"/{made['id']}/resume", token=fresh)).status == 200
    await table.passes(HOUR)
    assert len(await paid(table, wallet)) == 1


@promise("rotation-pauses-schedules")
async def test_it_goes_on_while_the_secret_before_overlaps_and_the_operator_binds_it_anew(
    table: Timetable,
) -> None:
    wallet = await table.api.wallet(1)
    token, key = await table.api.key()
    made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
    await table.api.post(f"/keys/{key}/rotate", {"overlapSeconds": 3600})
    await table.passes(HOUR)
    assert len(await paid(table, wallet)) == 1
    await table.api.post(f"/keys/{key}/rotate", {"overlapSeconds": 0})
    await refused_for_good(table, wallet, made["id"])
    assert (await table.post(wallet, f"/{made['id']}/resume")).status == 200
    await table.passes(HOUR)
    assert len(await paid(table, wallet)) == 2


@promise("stolen-changes-end-too")
async def test_what_a_stolen_secret_changes_ends_with_it(tmp_path: Path) -> None:
    """Also what another secret had made or resumed, while that of before overlaps."""
    async with timetable(tmp_path, **MANY) as table:
        wallet = await table.api.wallet(1)
        stolen, key = await table.api.key()
        rotated = await table.api.post(f"/keys/{key}/rotate", {"overlapSeconds": 3600})
        fresh = rotated.json["apiKey"]
        made = await table.add(wallet, PAY | {"every": "1h"}, token=fresh)
        path = f"/wallets/{wallet}/schedules/{made['id']}"
        to_thief = {"parameters": {**PAY["parameters"], "amount": 0.02}}
        assert (await table.api.call("PATCH", path, to_thief, token=stolen)).status == 200
        # The operator's change gives it no other secret.
        assert (await table.api.call("PATCH", path, {"every": "2h"})).status == 200
        async with table.service.database.write() as connection:
            await connection.exec_driver_sql("UPDATE credentials SET previous_until_ms = 1")
        assert (await table.api.get(path, token=stolen)).status == 401
        await table.passes(2 * HOUR)
        await refused_for_good(table, wallet, made["id"])
        assert await paid(table, wallet) == []


@promise("stolen-changes-end-too")
@pytest.mark.parametrize("how", ["deleted", "rotated"])
async def test_what_is_held_ends_with_the_schedule_and_its_secret(tmp_path: Path, how: str) -> None:
    async with timetable(tmp_path, **MANY) as table:
        wallet = await table.api.wallet(1)
        grant = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "0.5"}, "hold": "0.005"}}}
        token, key = await table.api.key(grants=[grant])
        made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
        for state in ("executed", "refused"):
            await table.passes(HOUR)
            (hold,) = (await table.api.get("/holds?open=true")).json["holds"]
            if state == "refused" and how == "deleted":
                await table.api.call("DELETE", f"/wallets/{wallet}/schedules/{made['id']}")
            elif state == "refused":
                await table.api.post(f"/keys/{key}/rotate", {"overlapSeconds": 0})
            approved = await table.api.post(f"/holds/{hold['id']}/approve", {})
            assert approved.json["state"] == state, approved.text
        assert [each["status"] for each in await paid(table, wallet)] == ["blocked", "confirmed"]


@promise("schedule-within-key-limits")
async def test_it_spends_within_the_keys_limits_and_grants(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    token, key = await table.api.key(spendingLimitSol=0.015)
    made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
    for _ in range(2):
        await table.passes(HOUR)
    assert [each["status"] for each in await paid(table, wallet)] == ["blocked", "confirmed"]
    (run, _) = await table.runs(wallet, made["id"])
    assert (run["status"], "spending_limit_check" in run["text"]) == ("refused", True)
    granted, grantee = await table.api.key()
    not_granted = await table.add(wallet, PAY | {"name": "none", "every": "1h"}, token=granted)
    path = f"/policy/key:{grantee}"
    assert (await table.api.call("PUT", path, {"grants": []})).status == 200
    await table.passes(HOUR)
    (run, *_) = await table.runs(wallet, not_granted["id"])
    assert run["status"] == "refused"
    assert [each["status"] for each in await paid(table, wallet)].count("confirmed") == 1
    refused = await table.post(
        wallet, "", PAY | {"name": "more", "every": "1h", "grants": []}, token=token
    )
    assert (refused.status, "operator" in refused.error) == (400, True)
    assert grantee != key


@promise("confined-key-own-schedules")
async def test_a_confined_key_has_schedules_of_its_wallet_alone(table: Timetable) -> None:
    mine, others = await table.api.wallet(), await table.api.wallet()
    token, _ = await table.api.key(walletId=mine)
    admins = await table.add(others, LOOK | {"every": "1h"})
    assert (await table.post(others, "", LOOK | {"every": "1h"}, token=token)).status == 404
    paths = [f"/wallets/{wallet}/schedules/{admins['id']}" for wallet in (mine, others)]
    for path in paths:
        for method, under in (
            ("GET", ""), ("GET", "/runs"), ("PATCH", ""), ("DELETE", ""), ("POST", "/pause"),
            ("POST", "/resume"), ("POST", "/run"),
        ):  # fmt: skip
            answer = await table.api.call(method, path + under, token=token)
            assert answer.status == 404, (method, under, answer.text)
    assert (await table.get(others, admins["id"]))["status"] == "active"


@promise("key-changes-own-only")
async def test_a_key_changes_what_it_made_and_nothing_else(table: Timetable) -> None:
    wallet = await table.api.wallet()
    token, _ = await table.api.key()
    other, _ = await table.api.key()
    admins = await table.add(wallet, LOOK | {"every": "1h"})
    its = await table.add(wallet, LOOK | {"name": "its", "every": "1h"}, token=token)
    for schedule, thief in ((admins, token), (its, other)):
        path = f"/wallets/{wallet}/schedules/{schedule['id']}"
        assert (await table.api.get(path, token=thief)).json == schedule
        for method, under, body in (
            ("PATCH", "", {"parameters": {}}), ("DELETE", "", None), ("POST", "/pause", None),
            ("POST", "/resume", None), ("POST", "/run", None),
        ):  # fmt: skip
            answer = await table.api.call(method, path + under, body, token=thief)
            assert answer.status == 403, (method, under, answer.text)
    path = f"/wallets/{wallet}/schedules/{its['id']}"
    assert (await table.api.call("PATCH", path, {"every": "2h"}, token=token)).status == 200
    # The operator changes all, and gives none more rights than its maker has.
    assert (await table.api.call("PATCH", path, {"every": "3h"})).json["madeBy"] == its["madeBy"]
    assert (await table.api.call("DELETE", path, token=token)).status == 200


@promise("schedules-per-key-bounded")
async def test_a_key_has_so_many_schedules_over_all_wallets(table: Timetable) -> None:
    wallets = [await table.api.wallet() for _ in range(2)]
    token, _ = await table.api.key(rateLimit=1000)
    for number in range(20):
        body = LOOK | {"name": f"look {number}", "every": "30d"}
        await table.add(wallets[number % 2], body, token=token)
    answer = await table.post(wallets[0], "", LOOK | {"every": "30d"}, token=token)
    assert (answer.status, "at most 20" in answer.error) == (400, True)
    await table.add(wallets[0], LOOK | {"every": "30d"})


@promise("schedules-per-key-bounded")
async def test_making_and_changing_schedules_counts_as_the_keys_requests(table: Timetable) -> None:
    wallet = await table.api.wallet()
    token, _ = await table.api.key(rateLimit=2)
    made = await table.add(wallet, LOOK | {"every": "1h"}, token=token)
    path = f"/wallets/{wallet}/schedules/{made['id']}"
    answers = [await table.api.call("PATCH", path, {"every": "2h"}, token=token) for _ in range(2)]
    answers.append(await table.post(wallet, "", LOOK | {"name": "2", "every": "1h"}, token=token))
    assert [each.status for each in answers] == [200, 429, 429]


@promise("run-uses-key-rate")
async def test_a_run_counts_as_the_keys_request(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    token, _ = await table.api.key(rateLimit=4)
    for name in ("one", "two"):
        await table.add(wallet, PAY | {"name": name, "every": "1h"}, token=token)
    look = await table.add(wallet, LOOK | {"every": "1h"}, token=token)
    await table.passes(HOUR)
    # Three were made, so one is left in this minute.
    assert len(await paid(table, wallet)) == 1
    made = (await table.api.get(f"/wallets/{wallet}/schedules")).json["schedules"]
    runs = {each["name"]: (await table.runs(wallet, each["id"]))[0] for each in made}
    assert sorted(each["status"] for each in runs.values()) == ["skipped", "succeeded", "succeeded"]
    (skipped,) = (each for each in runs.values() if each["status"] == "skipped")
    assert "Rate limit exceeded" in skipped["text"]
    assert (await table.get(wallet, look["id"]))["failures"] == 0


async def test_what_a_run_says_is_short_in_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def says_much(_schedule: Schedule, _due_ms: int, **_given: Any) -> Outcome:
        return Outcome(RunStatus.SUCCEEDED, "x" * 4_000)

    monkeypatch.setattr(service, "run_once", says_much)
    async with timetable(tmp_path, **MANY) as table:
        wallet = await table.api.wallet()
        token, _ = await table.api.key()
        made = await table.add(wallet, LOOK | {"every": "1h"}, token=token)
        await table.passes(HOUR)
        (told,) = await told_of(table, "schedule:run")
        assert told["data"]["text"] == "x" * 500
        (run,) = await table.runs(wallet, made["id"])
        assert run["text"] == "x" * 4_000


async def test_a_run_that_goes_on_is_no_other_request(table: Timetable) -> None:
    wallet = await table.api.wallet(1)
    token, _ = await table.api.key(rateLimit=1)
    await table.add(wallet, PAY | {"every": "1h"}, token=token)
    table.clock.ms += HOUR
    # Taken by a process that died.
    taken, _ = await table.schedules.runner.take_due(10)
    assert len(taken) == 1
    await table.run_due()
    assert len(await paid(table, wallet)) == 1


@pytest.mark.more
@promise("slow-runs-leave-room")
async def test_a_keys_slow_runs_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key may have as many schedules as a process has runs at one time."""
    going: list[str] = []
    ends = asyncio.Event()

    async def slow(schedule: Schedule, due_ms: int, **given: Any) -> Outcome:
        if schedule.key_id is None:
            return await run_once(schedule, due_ms, **given)
        going.append(schedule.id)
        await ends.wait()
        return Outcome(RunStatus.SUCCEEDED, "")

    monkeypatch.setattr(service, "run_once", slow)
    async with timetable(tmp_path, **MANY) as table:
        wallet = await table.api.wallet(1)
        token, _ = await table.api.key(rateLimit=1000)
        for number in range(20):
            start = {"every": "1h", "startAt": due(table.clock.ms + HOUR - 1000)}
            await table.add(wallet, LOOK | {"name": f"slow {number}"} | start, token=token)
        wages = await table.add(wallet, PAY | {"every": "1h"})
        table.clock.ms += HOUR
        while await table.schedules.runner.start_due_runs() == 0:
            await asyncio.sleep(0)
        own = table.schedules.runner._running[wages["id"]]
        await own
        assert (len(going), len(await paid(table, wallet))) == (5, 1)
        # Their own turn comes as those before them end.
        ends.set()
        await table.run_due()
        assert len(going) == 20


@promise("ended-secret-runs-nothing")
async def test_a_key_that_is_revoked_while_its_skill_runs_reserves_nothing(tmp_path: Path) -> None:
    """Between the check at the beginning of a run and the money call in it."""
    async with timetable(tmp_path, **MANY) as table:
        wallet = await table.api.wallet(1)
        token, key = await table.api.key()
        made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
        keys = table.service.keys

        class Late:
            """Says that the key works, and revokes it then."""

            async def bound_actor(self, key_id: str, hash_: str) -> Any:
                actor = await keys.bound_actor(key_id, hash_)
                assert (await table.api.call("DELETE", f"/keys/{key}")).status == 200
                return actor

            async def secret_hash(self, key_id: str) -> str:
                return await keys.secret_hash(key_id)

            async def count_request(self, key_id: str) -> str | None:
                return await keys.count_request(key_id)

        table.service.schedules.keys = Late()  # type: ignore[assignment]
        await table.passes(HOUR)
        assert await paid(table, wallet) == []
        (run,) = await table.runs(wallet, made["id"])
        assert run["status"] == "refused"
        assert (await table.get(wallet, made["id"]))["status"] == "paused"


@promise("memory-keys-leave-none")
async def test_keys_that_end_with_the_process_leave_no_schedule_that_pays(tmp_path: Path) -> None:
    async with timetable(tmp_path, api_key_store="memory") as table:
        wallet = await table.api.wallet(1)
        token, _ = await table.api.key()
        made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
    async with timetable(tmp_path, api_key_store="memory") as table:
        await refused_for_good(table, wallet, made["id"])


@promise("ended-secret-runs-nothing")
async def test_a_key_that_has_expired_runs_nothing(tmp_path: Path) -> None:
    async with timetable(tmp_path, **MANY) as table:
        wallet = await table.api.wallet(1)
        token, key = await table.api.key(expiresAt=iso(now_ms() + 3_600_000))
        made = await table.add(wallet, PAY | {"every": "1h"}, token=token)
        async with table.service.database.write() as connection:
            await connection.exec_driver_sql("UPDATE credentials SET expires_ms = 1")
        await refused_for_good(table, wallet, made["id"])
        assert key
