"""A key's `rateLimit` counts transaction-producing requests of any 60 seconds."""

from __future__ import annotations

import pytest
from tests.support.api import Api

from solward_server.http.limits import RateLimiter, TooManyRequests


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
        assert "2 transaction requests a minute" in answer.error
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
