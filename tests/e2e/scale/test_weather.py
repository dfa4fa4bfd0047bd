"""The bad weather of the chaos tests does what it is said to do, and says what it did."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.support.rpc import RpcNode, listening
from tests.support.scripts.weather import CHANCES, Weather, weather_process

pytestmark = pytest.mark.more

ROUNDS = 400


async def echo(method: str, _params: Sequence[Any]) -> Any:
    return method


@asynccontextmanager
async def blowing(
    seed: int = 7, **chances: float
) -> AsyncIterator[tuple[RpcNode, Weather, httpx.AsyncClient]]:
    async with (
        listening(echo) as (node,),
        Weather(node.url, chances, seed).blowing() as weather,
        httpx.AsyncClient(base_url=weather.url) as client,
    ):
        yield node, weather, client


async def outcome(client: httpx.AsyncClient, method: str = "getSlot") -> str:
    """`ok`, a status, or `closed`."""
    try:
        answer = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method})
    except httpx.TransportError:
        return "closed"
    if answer.status_code == 200:
        assert answer.json()["result"] == method
        return "ok"
    return str(answer.status_code)


async def test_in_fair_weather_everything_passes() -> None:
    async with blowing() as (node, weather, client):
        assert [await outcome(client) for _ in range(5)] == ["ok"] * 5
        assert node.calls == {"getSlot": 5}
        assert weather.counts == {"requests": 5, "answered": 5}


@pytest.mark.parametrize(
    ("name", "outcomes", "forwarded"),
    [
        ("throttle", {"429"}, 0),
        ("fail", {"500", "503"}, 0),
        ("drop", {"closed"}, 0),
        ("deafen", {"closed"}, 1),
        ("duplicate", {"ok"}, 2),
    ],
)
async def test_each_kind_is_what_it_says(name: str, outcomes: set[str], forwarded: int) -> None:
    async with blowing(**{name: 1.0}) as (node, weather, client):
        seen = {await outcome(client, "sendTransaction") for _ in range(20)}
        assert seen == outcomes
        assert node.calls["sendTransaction"] == 20 * forwarded
        assert weather.counts[name] == weather.counts["requests"] == 20


async def test_a_delay_is_between_50_and_800_ms_and_nothing_but_a_send_is_doubled() -> None:
    async with blowing(delay=1.0, duplicate=1.0) as (node, _weather, client):
        loop = asyncio.get_running_loop()

        async def timed() -> float:
            began = loop.time()
            assert await outcome(client, "getBalance") == "ok"
            return loop.time() - began

        took = await asyncio.gather(*(timed() for _ in range(10)))
        assert min(took) >= 0.05
        assert max(took) - min(took) > 0.1
        assert node.calls["getBalance"] == 10


async def test_each_kind_comes_about_as_often_as_asked_for_and_one_seed_is_one_course() -> None:
    chances = {"throttle": 0.1, "fail": 0.1, "drop": 0.1, "deafen": 0.1}
    courses = []
    for seed in (1, 1, 2):
        async with blowing(seed, **chances) as (_node, weather, client):
            course = [await outcome(client) for _ in range(ROUNDS)]
            counts = json.loads((await client.get("/counts")).text)
            # httpx does not ask again by itself, so what the proxy counts is what the client saw.
            seen = Counter(course)
            assert counts["requests"] == ROUNDS
            assert seen["429"] == counts["throttle"]
            assert seen["500"] + seen["503"] == counts["fail"]
            assert seen["closed"] == counts["drop"] + counts["deafen"]
            assert seen["ok"] == counts["answered"]
            assert all(ROUNDS * 0.04 < weather.counts[name] < ROUNDS * 0.16 for name in chances)
            courses.append(course)
    assert courses[0] == courses[1] != courses[2]


async def test_the_weather_changes_and_clears_up() -> None:
    async with blowing(drop=1.0) as (_node, _weather, client):
        assert await outcome(client) == "closed"
        assert (await client.put("/weather", json={"throttle": 1})).status_code == 200
        assert await outcome(client) == "429"
        assert (await client.put("/weather", json={})).status_code == 200
        assert await outcome(client) == "ok"
        for wrong in ({"hail": 0.5}, {"drop": 2}, {"drop": "often"}, 5):
            answer = await client.put("/weather", json=wrong)
            assert answer.status_code == 400, wrong
        assert await outcome(client) == "ok"


async def test_what_is_no_json_rpc_call_passes_untouched() -> None:
    async with blowing(drop=1.0) as (node, weather, client):
        # The node of the test knows no such path, and says so itself.
        assert (await client.get("/swap/v2/build?amount=1")).status_code == 405
        assert weather.counts == {}
        await node.stop()
        assert (await client.get("/health")).status_code == 502


async def test_it_runs_as_a_process_of_its_own() -> None:
    async with listening(echo) as (node,):
        with weather_process(node.url, seed=3, throttle=1.0) as url:
            async with httpx.AsyncClient(base_url=url) as client:
                assert await outcome(client) == "429"
                counts = (await client.get("/counts")).json()
        assert counts["chances"] == dict.fromkeys(CHANCES, 0.0) | {"throttle": 1.0}
        assert (counts["seed"], counts["requests"], counts["throttle"]) == (3, 1, 1)
