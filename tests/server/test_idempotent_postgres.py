"""One Idempotency-Key is one payment and one answer, whichever process its requests reach."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from tests.support.services import STRANGER, Api, several_apis

from solward.database.database import Database
from solward.database.tables import attempts, idempotency, processes
from solward.operations.skill_runs import SkillRuns
from solward.types.errors import IdempotencyInFlight
from solward.vault.store import idempotency as store
from solward.vault.store import processes as store_processes
from solward.vault.store.idempotency import StoredResponse

pytestmark = pytest.mark.more

BODY = {"to": STRANGER, "amount": 0.001}
OTHER = {"to": STRANGER, "amount": 0.002}
PLENTY = {"max_transactions_per_minute": 10_000}


async def signatures(api: Api) -> int:
    """How many transactions were ever signed."""
    async with api.service.database.read() as connection:
        return len((await connection.execute(select(attempts.c.signature))).all())


async def stored(api: Api, **values: Any) -> None:
    async with api.service.database.write() as connection:
        await connection.execute(update(idempotency).values(**values))


async def race(apis: list[Api], url: str, key: str, requests: int) -> Counter[int]:
    """Send one request many times at once, every tenth with another body; returns the statuses."""
    headers = {"Idempotency-Key": key}
    answers = await asyncio.gather(
        *(
            apis[n % len(apis)].post(url, OTHER if n % 10 == 9 else BODY, headers=headers)
            for n in range(requests)
        )
    )
    assert len({answer.text for answer in answers if answer.status == 200}) == 1
    for answer in answers:
        if answer.status == 409:
            assert answer.headers["Retry-After"] == "1"
            assert "in progress" in answer.error
    first = [answer for answer in answers if "Idempotent-Replayed" not in answer.headers]
    assert sum(answer.status == 200 for answer in first) <= 1
    return Counter(answer.status for answer in answers)


@pytest.mark.parametrize(
    "rounds", [2, pytest.param(20, marks=pytest.mark.long)], ids=["short", "long"]
)
@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_a_key_raced_over_processes_pays_once(
    postgres_url: str, tmp_path: Path, path: str, rounds: int
) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 3, **PLENTY) as apis:
        wallet = await apis[0].wallet(2)
        before = await signatures(apis[0])
        url = f"/wallets/{wallet}/{path}"
        for number in range(rounds):
            headers = {"Idempotency-Key": f"key {number}"}
            statuses = await race(apis, url, f"key {number}", 50)
            assert set(statuses) <= {200, 409, 422}
            assert statuses[200] >= 1
            # Either body may have been the first; the other one is never its answer.
            ended = [await api.post(url, BODY, headers=headers) for api in apis]
            assert len({(answer.status, answer.text) for answer in ended}) == 1
            other = [await api.post(url, OTHER, headers=headers) for api in apis]
            assert {ended[0].status, other[0].status} == {200, 422}
            paid = ended if ended[0].status == 200 else other
            assert all(answer.headers["Idempotent-Replayed"] == "true" for answer in paid)
            assert await signatures(apis[0]) == before + number + 1


async def begun_elsewhere(api: Api, owner: str, lease_ms: int) -> None:
    """As if the answer was not given yet by a process whose lease ends at `lease_ms`."""
    async with api.service.database.write() as connection:
        await connection.execute(
            insert(processes).values(
                id=owner, kind="api", host="h", started_ms=0, lease_until_ms=lease_ms
            )
        )
    await stored(api, status_code=None, body=None, owner=owner)


async def test_a_skill_call_of_a_process_that_lives_is_left_to_it(
    postgres_url: str, tmp_path: Path
) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 2, **PLENTY) as (first, second):
        wallet = await first.wallet(2)
        url = f"/wallets/{wallet}/skills/transfer"
        headers = {"Idempotency-Key": "one"}
        answer = await first.post(url, BODY, headers=headers)
        assert answer.status == 200
        signed = await signatures(first)

        await begun_elsewhere(first, "alive", 2**60)
        for api in (first, second):
            assert (await api.post(url, BODY, headers=headers)).status == 409
            assert (await api.post(url, OTHER, headers=headers)).status == 422
        async with first.service.database.read() as connection:
            assert (await connection.execute(select(idempotency.c.owner))).scalar_one() == "alive"

        await begun_elsewhere(first, "dead", 1)
        again = await second.post(url, BODY, headers=headers)
        assert (again.status, again.text) == (200, answer.text)
        async with first.service.database.read() as connection:
            owner = (await connection.execute(select(idempotency.c.owner))).scalar_one()
        assert owner == second.service.engine.process.id
        # Its money call was made already, under the key's own name.
        assert await signatures(first) == signed


async def test_a_skill_call_left_by_a_dead_process_is_taken_by_one(
    postgres_url: str, tmp_path: Path
) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 3, **PLENTY) as apis:
        wallet = await apis[0].wallet(2)
        url = f"/wallets/{wallet}/skills/transfer"
        headers = {"Idempotency-Key": "one"}
        answer = await apis[0].post(url, BODY, headers=headers)
        signed = await signatures(apis[0])
        await begun_elsewhere(apis[0], "dead", 1)
        answers = await asyncio.gather(
            *(apis[n % 3].post(url, BODY, headers=headers) for n in range(30))
        )
        assert {each.status for each in answers} <= {200, 409}
        assert {each.text for each in answers if each.status == 200} == {answer.text}
        assert await signatures(apis[0]) == signed


async def test_two_that_find_a_call_left_do_not_both_run_it(
    postgres_url: str, tmp_path: Path
) -> None:
    database = await Database.open(postgres_url, tmp_path)

    async def take(owner: str) -> StoredResponse:
        async with database.write() as connection:
            return await store.take_over(connection, "scope", owner)

    try:
        async with database.write() as connection:
            await store.claim(connection, "scope", "print", "skill", 1, owner="dead")
            for owner in ("one", "two"):
                await store_processes.register(connection, owner, "api", "h", 60_000)
        async with database.write() as connection:
            assert (await store.take_over(connection, "scope", "one")).owner == "dead"
            late = asyncio.create_task(take("two"))
            assert await asyncio.wait({late}, timeout=0.3) == (set(), {late})
        with pytest.raises(IdempotencyInFlight):
            await late
        assert (await take("one")).owner == "one"
        async with database.write() as connection:
            await store_processes.remove(connection, "one")
        assert (await take("two")).owner == "one"
    finally:
        await database.close()


async def test_the_first_answer_stays_where_two_processes_give_one(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 2, **PLENTY) as (first, second):
        wallet = await first.wallet(2)
        url = f"/wallets/{wallet}/skills/transfer"
        headers = {"Idempotency-Key": "one"}

        async def answered_elsewhere(*_: Any) -> str:
            await stored(first, status_code=200, body='{"result": "by another"}')
            return "by this one"

        monkeypatch.setattr(SkillRuns, "run", answered_elsewhere)
        late = await second.post(url, BODY, headers=headers)
        assert late.json == {"result": "by another"}
        assert late.headers["Idempotent-Replayed"] == "true"
