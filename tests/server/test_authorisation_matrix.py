"""Every route against every kind of credential."""

from __future__ import annotations

import pytest
from tests.server.api import NOBODY, SECRET, Api

KEY_REQUIRED = "Unauthorized — API key required"
KEY_INVALID = "Invalid API key"
ADMIN_REQUIRED = "Unauthorized — admin API secret required"

PUBLIC = {"GET /health"}
ADMIN = {
    "POST /keys",
    "GET /keys",
    "DELETE /keys/<id>",
    "POST /agents",
    "PATCH /agents/<id>",
    "DELETE /agents/<id>",
    "POST /agents/<id>/start",
    "POST /agents/<id>/stop",
    "POST /agents/<id>/pause",
    "POST /freeze",
    "POST /unfreeze",
    "GET /events",
    "GET /audit",
}
KEY = {
    "POST /wallets",
    "GET /wallets",
    "GET /wallets/<id>",
    "PATCH /wallets/<id>",
    "GET /wallets/<id>/balance",
    "GET /wallets/<id>/limits",
    "GET /wallets/<id>/transactions",
    "GET /transactions",
    "POST /wallets/<id>/transfer",
    "POST /wallets/<id>/swap",
    "POST /wallets/<id>/airdrop",
    "POST /wallets/<id>/launch-token",
    "POST /wallets/<id>/mint-supply",
    "POST /wallets/<id>/token-transfer",
    "POST /wallets/<id>/revoke-authority",
    "POST /wallets/<id>/burn",
    "POST /wallets/<id>/close-account",
    "POST /wallets/<id>/stake",
    "GET /wallets/<id>/stakes",
    "POST /wallets/<id>/unstake",
    "POST /wallets/<id>/withdraw-stake",
    "POST /wallets/<id>/wrap-sol",
    "POST /wallets/<id>/unwrap-sol",
    "POST /wallets/<id>/skills/<name>",
    "GET /skills",
    "GET /plugins",
    "GET /agents",
    "GET /agents/<id>",
    "GET /agents/<id>/decisions",
    "GET /agents/<id>/memory",
    "GET /agents/<id>/limits",
    "POST /agents/<id>/chat",
}


def routes(api: Api) -> set[str]:
    """Every route of the REST interface, its ids written alike."""
    found = set()
    for rule in api.app.url_map.iter_rules():
        if rule.rule == "/mcp":
            continue  # tests/server/test_mcp_http.py
        path = rule.rule.removeprefix("/api/v1")
        for name in ("wallet_id", "agent_id", "key_id"):
            path = path.replace(f"<{name}>", "<id>")
        found |= {f"{method} {path}" for method in rule.methods - {"HEAD", "OPTIONS"}}
    return found


def target(route: str) -> tuple[str, str]:
    method, path = route.split(" ")
    return method, path.replace("<id>", NOBODY).replace("<name>", "wait")


async def test_no_route_is_missing_from_the_matrix(api: Api) -> None:
    assert routes(api) == PUBLIC | ADMIN | KEY


async def test_every_route_answers_each_credential_as_the_contract_says(api: Api) -> None:
    key, _ = await api.key()
    revoked, revoked_id = await api.key()
    assert (await api.call("DELETE", f"/keys/{revoked_id}")).status == 200
    bad = {"none": None, "garbage": "sk-" + "0" * 32, "revoked": revoked, "empty": ""}
    for route in sorted(PUBLIC):
        for token in (*bad.values(), key, SECRET):
            assert (await api.call(*target(route), token=token)).status == 200, route
    for route in sorted(ADMIN):
        for token in (*bad.values(), key, SECRET[:-1], SECRET + "x"):
            answer = await api.call(*target(route), token=token)
            assert (answer.status, answer.error) == (401, ADMIN_REQUIRED), (route, token)
        method, path = target(route)
        # The stream has no end.
        method = "HEAD" if path == "/events" else method
        assert (await api.call(method, path)).status != 401, route
        await api.post("/unfreeze")
    for route in sorted(KEY):
        for kind, token in bad.items():
            answer = await api.call(*target(route), token=token)
            expected = KEY_REQUIRED if kind in ("none", "empty") else KEY_INVALID
            assert (answer.status, answer.error) == (401, expected), (route, kind)
        for token in (key, SECRET):
            assert (await api.call(*target(route), token=token)).status != 401, route


@pytest.mark.parametrize(
    "header", ["Basic abc", "Bearer", "Bearer ", SECRET, f"Token {SECRET}", "bearer"]
)
async def test_another_scheme_is_no_credential(api: Api, header: str) -> None:
    answer = await api.get("/wallets", token=None, headers={"Authorization": header})
    assert (answer.status, answer.error) == (401, KEY_REQUIRED)


async def test_the_scheme_is_read_in_any_case(api: Api) -> None:
    headers = {"Authorization": f"bearer {SECRET}"}
    assert (await api.get("/wallets", token=None, headers=headers)).status == 200


async def test_a_credential_that_is_no_ascii_is_refused_not_a_crash(api: Api) -> None:
    answer = await api.get("/wallets", token="Ünï")
    assert (answer.status, answer.error) == (401, KEY_INVALID)
