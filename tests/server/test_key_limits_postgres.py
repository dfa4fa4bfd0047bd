"""API keys and their rate limits where several processes serve."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import func, select, update
from tests.promises import promise
from tests.support.services import several_apis

from solward.credentials.credentials import Credentials
from solward.credentials.rates import (
    SharedRateLimiter,
    SharedTraffic,
    TooManyRequests,
    count_request,
)
from solward.database.database import Database
from solward.database.tables import key_requests, key_traffic
from solward.resources.credentials import NewKey
from solward.settings import Settings
from solward_server.http.auth import Caller
from solward_server.resources.credentials import new_key

pytestmark = pytest.mark.more


async def test_processes_count_a_keys_requests_together(postgres_url: str, tmp_path: Path) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 3) as apis:
        limit = 20
        key, key_id = await apis[0].key(rateLimit=limit)
        wallet = await apis[1].wallet()
        path = f"/wallets/{wallet}/transfer"
        body = {"to": wallet, "amount": 1}
        answers = await asyncio.gather(
            *(apis[n % 3].post(path, body, token=key) for n in range(100))
        )
        refused = [answer for answer in answers if answer.status == 429]
        assert len(refused) == 100 - limit
        assert all(1 <= int(answer.headers["Retry-After"]) <= 60 for answer in refused)
        assert "20 transaction requests and chats a minute" in refused[0].error
        other, _ = await apis[2].key(rateLimit=1)
        assert (await apis[2].post(path, body, token=other)).status != 429
        assert (await apis[0].post(path, body, token=other)).status == 429

        assert (await apis[1].call("DELETE", f"/keys/{key_id}")).status == 200
        async with apis[0].service.database.read() as connection:
            left = select(func.count()).where(key_requests.c.key_id == key_id)
            assert (await connection.execute(left)).scalar_one() == 0


async def test_the_last_place_of_a_window_is_taken_by_one(
    postgres_url: str, tmp_path: Path
) -> None:
    database = await Database.open(postgres_url, tmp_path)
    try:
        async with database.write() as connection:
            assert await count_request(connection, "a", 1) is None
            # Counted by nobody else before this one has decided.
            late = asyncio.create_task(SharedRateLimiter(database).take("a", 1))
            await SharedRateLimiter(database).take("b", 1)
            assert await asyncio.wait({late}, timeout=0.3) == (set(), {late})
        with pytest.raises(TooManyRequests):
            await late
    finally:
        await database.close()


async def test_the_shared_window_slides_by_the_databases_clock(
    postgres_url: str, tmp_path: Path
) -> None:
    database = await Database.open(postgres_url, tmp_path)
    limiter = SharedRateLimiter(database)

    async def pass_by(seconds: float) -> None:
        earlier = key_requests.c.created_ms - int(seconds * 1000)
        async with database.write() as connection:
            await connection.execute(update(key_requests).values(created_ms=earlier))

    async def refused() -> int:
        with pytest.raises(TooManyRequests) as caught:
            await limiter.take("a", 2)
        return caught.value.retry_after

    try:
        await limiter.take("a", 2)
        await pass_by(30)
        await limiter.take("a", 2)
        await limiter.take("b", 2)
        # The statements in between take some of the second that the wait is rounded up to.
        assert await refused() in (29, 30)
        # A refused request takes no place.
        assert await refused() in (29, 30)
        await pass_by(29)
        assert await refused() == 1
        await pass_by(1.5)
        await limiter.take("a", 2)
        assert await refused() in (29, 30)
        async with database.read() as connection:
            kept = select(func.count()).where(key_requests.c.key_id == "a")
            assert (await connection.execute(kept)).scalar_one() == 2
    finally:
        await database.close()


@promise("key-makes-100-wallets")
async def test_processes_count_all_requests_of_a_key_together(
    postgres_url: str, tmp_path: Path
) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 2, requests_per_minute=20) as apis:
        key, key_id = await apis[0].key()
        other, _ = await apis[0].key()
        answers = await asyncio.gather(*(apis[n % 2].get("/skills", token=key) for n in range(60)))
        refused = [answer for answer in answers if answer.status == 429]
        assert len(refused) == 40
        assert all(1 <= int(answer.headers["Retry-After"]) <= 61 for answer in refused)
        assert "20 requests a minute" in refused[0].error
        assert (await apis[1].get("/skills", token=other)).status == 200
        statuses = {(await apis[n % 2].get("/skills")).status for n in range(30)}
        assert statuses == {200}
        async with apis[0].service.database.read() as connection:
            rows = select(func.sum(key_traffic.c.requests)).where(key_traffic.c.key_id == key_id)
            assert (await connection.execute(rows)).scalar_one() == 20
        assert (await apis[1].call("DELETE", f"/keys/{key_id}")).status == 200
        async with apis[0].service.database.read() as connection:
            assert (await connection.execute(rows)).scalar_one() is None


async def test_the_window_of_all_requests_slides_by_whole_seconds(
    postgres_url: str, tmp_path: Path
) -> None:
    database = await Database.open(postgres_url, tmp_path)
    traffic = SharedTraffic(database)

    async def pass_by(seconds: int) -> None:
        async with database.write() as connection:
            earlier = key_traffic.c.second - seconds
            await connection.execute(update(key_traffic).values(second=earlier))

    async def refused() -> int:
        with pytest.raises(TooManyRequests) as caught:
            await traffic.take("a", 2)
        return caught.value.retry_after

    try:
        await traffic.take("a", 2)
        await pass_by(30)
        await traffic.take("a", 2)
        await traffic.take("b", 2)
        # A second may have begun in between.
        assert await refused() in (30, 31)
        assert await refused() in (30, 31)
        await pass_by(29)
        assert await refused() in (1, 2)
        await pass_by(2)
        await traffic.take("a", 2)
        assert await refused() in (28, 29, 30)
        async with database.read() as connection:
            kept = select(func.sum(key_traffic.c.requests)).where(key_traffic.c.key_id == "a")
            assert (await connection.execute(kept)).scalar_one() == 2
    finally:
        await database.close()


async def test_a_key_made_at_one_process_works_at_the_others_until_one_revokes_it(
    postgres_url: str, tmp_path: Path
) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 2) as (first, second):
        key, key_id = await first.key(rateLimit=7, permissions=["read"])
        assert (await second.get("/wallets", token=key)).status == 200
        assert (await first.get("/wallets", token=key)).status == 200
        (listed,) = (await second.get("/keys")).json["keys"]
        assert (listed["id"], listed["permissions"]) == (key_id, ["read"])
        assert (await second.call("DELETE", f"/keys/{key_id}")).status == 200
        assert (await first.get("/wallets", token=key)).error == "Invalid API key"
        assert (await second.get("/wallets", token=key)).error == "Invalid API key"
        assert (await first.get("/keys")).json == {"keys": []}
        assert (await first.call("DELETE", f"/keys/{key_id}")).status == 404


async def test_of_the_uses_several_processes_note_the_latest_is_kept(
    postgres_url: str, tmp_path: Path
) -> None:
    database = await Database.open(postgres_url, tmp_path)
    try:
        first, second = Credentials(database), Credentials(database)
        asked = [NewKey.of({"name": f"key {number}"}, Settings()) for number in range(20)]
        keys = [new_key(each, Caller())[1] for each in asked]
        for key in keys:
            await first.add(key)
        for key in keys:
            first.note_use(key, 2_000)
        for key in reversed(keys):
            second.note_use(key, 1_000)
        assert [key.last_used_ms for key in await second.keys()] == [1_000] * 20
        await asyncio.gather(first.flush(), second.flush())
        for each in (first, second, Credentials(database)):
            assert [key.last_used_ms for key in await each.keys()] == [2_000] * 20
        second.note_use(keys[0], 3_000)
        await second.flush()
        found = await first.find(keys[0].hash)
        assert found is not None
        assert found.last_used_ms == 3_000
    finally:
        await database.close()
