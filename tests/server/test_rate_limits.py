"""A key's `rateLimit` counts transaction requests and chats; all of its requests have
a limit beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.services import NOBODY, Api, serving_api, settings

from solward.credentials.rates import RateLimiter, TooManyRequests
from solward.types.errors import ConfigError


async def test_the_window_slides_and_says_when_there_is_room() -> None:
    now = [100.0]
    limiter = RateLimiter(lambda: now[0])
    await limiter.take("a", 2)
    now[0] = 130.0
    await limiter.take("a", 2)
    await limiter.take("b", 2)
    now[0] = 130.5
    with pytest.raises(TooManyRequests) as refused:
        await limiter.take("a", 2)
    assert refused.value.retry_after == 30
    now[0] = 159.9
    with pytest.raises(TooManyRequests) as refused:
        await limiter.take("a", 2)
    assert refused.value.retry_after == 1
    now[0] = 160.0
    await limiter.take("a", 2)
    with pytest.raises(TooManyRequests) as refused:
        await limiter.take("a", 2)
    assert refused.value.retry_after == 30


async def test_a_refused_request_takes_no_place() -> None:
    now = [0.0]
    limiter = RateLimiter(lambda: now[0])
    await limiter.take("a", 1)
    for second in range(1, 60):
        now[0] = float(second)
        with pytest.raises(TooManyRequests):
            await limiter.take("a", 1)
    now[0] = 60.0
    await limiter.take("a", 1)


@promise("rate-limit-counts")
async def test_over_the_limit_is_429_with_retry_after_and_cors(api: Api) -> None:
    wallet = await api.wallet()
    key, _ = await api.key(rateLimit=2)
    origin = {"Origin": "http://localhost:3000"}
    paths = (f"/wallets/{wallet}/airdrop", f"/wallets/{wallet}/skills/airdrop")
    for path in paths:
        assert (await api.post(path, {"amount": 1}, token=key)).status == 200
    for path in paths:
        answer = await api.post(path, {"amount": 1}, token=key, headers=origin)
        assert answer.status == 429
        assert "2 transaction requests and chats a minute" in answer.error
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
    assert len(await api.records(wallet)) == 2
    # Reading is not counted, nor is a skill that only reads, nor another key, nor the admin.
    for _ in range(5):
        assert (await api.get(f"/wallets/{wallet}/balance", token=key)).status == 200
        assert (await api.post(f"/wallets/{wallet}/skills/wait", {}, token=key)).status == 200
    other, _ = await api.key(rateLimit=1)
    assert (await api.post(paths[0], {"amount": 1}, token=other)).status == 200
    assert (await api.post(paths[0], {"amount": 1})).status == 200


@promise("rate-limit-counts")
async def test_chats_are_counted_beside_transactions(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", demo=True) as api:
        wallet = await api.wallet()
        body = agent_body(wallet, strategy="always do wait", loopIntervalMs=3_600_000)
        path = f"/agents/{(await api.post('/agents', body)).json['id']}"
        assert (await api.post(f"{path}/start")).status == 200
        key, _ = await api.key(rateLimit=3)
        said = {"message": "hello"}
        # What is wrong, or for an agent that is not there, takes no place.
        assert (await api.post(f"{path}/chat", {}, token=key)).status == 400
        assert (await api.post(f"/agents/{NOBODY}/chat", said, token=key)).status == 404
        stream = {"Accept": "text/event-stream"}
        assert (await api.post(f"{path}/chat", said, token=key)).status == 200
        assert (await api.post(f"{path}/chat", said, token=key, headers=stream)).status == 200
        airdrop = f"/wallets/{wallet}/airdrop"
        assert (await api.post(airdrop, {"amount": 1}, token=key)).status == 200
        for refused in (
            await api.post(f"{path}/chat", said, token=key),
            await api.post(f"{path}/chat", said, token=key, headers=stream),
            await api.post(airdrop, {"amount": 1}, token=key),
        ):
            assert (refused.status, "transaction requests and chats" in refused.error) == (
                429,
                True,
            )
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert (await api.post(f"{path}/chat", said)).status == 200


@promise("key-makes-100-wallets")
async def test_a_key_makes_so_many_requests_a_minute_and_the_admin_any_number(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path / "home", requests_per_minute=20) as api:
        key, key_id = await api.key()
        other, _ = await api.key()
        origin = {"Origin": "http://localhost:3000"}
        paths = ("/wallets", "/agents", "/skills", f"/wallets/{NOBODY}")
        answers = await asyncio.gather(
            *(api.get(paths[n % 4], token=key, headers=origin) for n in range(50))
        )
        refused = [answer for answer in answers if answer.status == 429]
        assert len(refused) == 30
        for answer in refused:
            assert answer.error.startswith(
                "Rate limit exceeded: this API key may make 20 requests a minute; retry in "
            )
            assert 1 <= int(answer.headers["Retry-After"]) <= 60
            assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
        # Another secret of the key is the key.
        new = (await api.post(f"/keys/{key_id}/rotate")).json["apiKey"]
        assert (await api.get("/wallets", token=new)).status == 429
        assert (await api.get("/wallets", token=other)).status == 200
        statuses = {(await api.get("/wallets")).status for _ in range(30)}
        assert statuses == {200}


def test_600_requests_a_minute_unless_set_otherwise(tmp_path: Path) -> None:
    assert settings(tmp_path).requests_per_minute == 600
    with pytest.raises(ConfigError, match="REQUESTS_PER_MINUTE"):
        settings(tmp_path, requests_per_minute=0)
