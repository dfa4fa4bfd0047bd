"""Which origins a browser may call from, and what its script may read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.services import NOBODY, Api, serving_api

DASHBOARD = ("http://localhost:3000", "http://127.0.0.1:3000")
STRANGERS = (
    "http://localhost:3001",
    "https://localhost:3000",
    "http://localhost:3000.evil.example",
    "http://evil.example",
    "null",
)
# What a script of the dashboard may read of an answer.
READ = {
    "Idempotent-Replayed",
    "Retry-After",
    "Solward-Rule",
    "Solward-Transaction",
    "X-Request-Id",
}


def preflight(origin: str, method: str = "POST") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization, content-type, idempotency-key",
    }


def granted(headers: object) -> list[str]:
    return [name for name, _ in headers if name.lower().startswith("access-control")]  # type: ignore[attr-defined] # werkzeug's


@promise("origins-as-configured")
@pytest.mark.parametrize("origin", STRANGERS)
async def test_another_origin_is_granted_nothing(api: Api, origin: str) -> None:
    refused = await api.call("OPTIONS", "/wallets", token=None, headers=preflight(origin))
    read = await api.get("/wallets", headers={"Origin": origin})
    health = await api.get("/health", token=None, headers={"Origin": origin})
    for answer in (refused, read, health):
        assert granted(answer.headers) == []
        assert "Origin" in answer.headers["Vary"]


@promise("origins-as-configured")
@pytest.mark.parametrize("origin", DASHBOARD)
async def test_errors_carry_the_headers_too(api: Api, origin: str) -> None:
    headers = {"Origin": origin}
    wallet = await api.wallet(1)
    too_much = {"to": "11111111111111111111111111111112", "amount": 3}
    answers = [
        await api.get("/wallets", token=None, headers=headers),
        await api.get("/keys", token="wrong", headers=headers),
        await api.get("/nowhere", headers=headers),
        await api.get(f"/wallets/{NOBODY}/balance", headers=headers),
        await api.call("PUT", "/wallets", headers=headers),
        await api.post("/wallets", data=b"x" * 70_000, headers=headers),
        await api.post("/wallets", data=b"{", headers=headers),
        await api.post(f"/wallets/{wallet}/transfer", too_much, headers=headers),
    ]
    assert [answer.status for answer in answers] == [401, 401, 404, 404, 405, 413, 400, 500]
    for answer in answers:
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"
        exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
        assert set(exposed) >= READ


async def test_the_origins_are_the_configured_ones(tmp_path: Path) -> None:
    ours = "https://dashboard.example"
    async with serving_api(tmp_path / "home", cors_origins=ours) as api:
        answer = await api.get("/health", headers={"Origin": ours})
        assert answer.headers["Access-Control-Allow-Origin"] == ours
        other = await api.get("/health", headers={"Origin": DASHBOARD[0]})
        assert granted(other.headers) == []


async def test_options_without_an_origin_is_no_preflight(api: Api) -> None:
    answer = await api.call("OPTIONS", "/wallets", token=None)
    assert answer.status == 200
    assert granted(answer.headers) == []
