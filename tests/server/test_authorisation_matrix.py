"""Every route against every kind of credential."""

from __future__ import annotations

import re

import pytest
from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.services import NOBODY, SECRET, Answer, Api
from werkzeug.datastructures import Headers

from solward_server.resources import PREFIX

KEY_REQUIRED = "Unauthorized — API key required"
KEY_INVALID = "Invalid API key"
ADMIN_REQUIRED = "Unauthorized — admin API secret required"

PUBLIC = {"GET /health", "GET /openapi.json", "GET /docs", "GET /docs/<file>"}
# The signature of the request itself is the credential: tests/server/test_webhook_decisions.py.
SIGNED = {"POST /holds/<id>/webhook"}
ADMIN = {
    "GET /plugins/skills/<skill>/settings",
    "PUT /plugins/skills/<skill>/settings/<name>",
    "DELETE /plugins/skills/<skill>/settings/<name>",
    "GET /wallets/<id>/plugins/<plugin>/store",
    "DELETE /wallets/<id>/plugins/<plugin>/store",
    "DELETE /plugins/state",
    "POST /admins",
    "GET /admins",
    "GET /admins/self",
    "DELETE /admins/<id>",
    "POST /keys",
    "GET /keys",
    "DELETE /keys/<id>",
    "POST /keys/<id>/rotate",
    "POST /agents",
    "PATCH /agents/<id>",
    "DELETE /agents/<id>",
    "POST /agents/<id>/start",
    "POST /agents/<id>/stop",
    "POST /agents/<id>/pause",
    "POST /freeze",
    "POST /wallets/<id>/pockets/<id>/sweep",
    "POST /unfreeze",
    "GET /freeze",
    "GET /contacts",
    "POST /contacts",
    "DELETE /contacts/<id>",
    "GET /settings",
    "GET /totals",
    "GET /totals/balances",
    "GET /events",
    "GET /policy",
    "PUT /policy",
    "GET /policy/<id>",
    "PUT /policy/<id>",
    "PATCH /wallets/<id>/limits",
    "POST /policy/check",
    "POST /policy/read",
    "POST /policy/replay",
    "GET /audit",
    "GET /metrics",
}
KEY = {
    "POST /wallets",
    "GET /keys/self",
    "GET /wallets",
    "GET /wallets/<id>",
    "PATCH /wallets/<id>",
    "GET /wallets/<id>/balance",
    "GET /wallets/<id>/limits",
    "GET /wallets/<id>/pockets",
    "GET /wallets/<id>/reclaimable",
    "GET /wallets/<id>/transactions",
    "GET /transactions",
    "GET /transactions.csv",
    "POST /wallets/<id>/transfer",
    "POST /wallets/<id>/swap",
    "POST /wallets/<id>/airdrop",
    "POST /wallets/<id>/launch-token",
    "POST /wallets/<id>/mint-supply",
    "POST /wallets/<id>/token-transfer",
    "POST /wallets/<id>/revoke-authority",
    "POST /wallets/<id>/burn",
    "POST /wallets/<id>/close-account",
    "POST /wallets/<id>/reclaim-rent",
    "POST /wallets/<id>/stake",
    "GET /wallets/<id>/stakes",
    "POST /wallets/<id>/unstake",
    "POST /wallets/<id>/withdraw-stake",
    "POST /wallets/<id>/wrap-sol",
    "POST /wallets/<id>/unwrap-sol",
    "POST /wallets/<id>/skills/<name>",
    "GET /wallets/<id>/schedules",
    "POST /wallets/<id>/schedules",
    "GET /wallets/<id>/schedules/<id>",
    "PATCH /wallets/<id>/schedules/<id>",
    "DELETE /wallets/<id>/schedules/<id>",
    "POST /wallets/<id>/schedules/<id>/pause",
    "POST /wallets/<id>/schedules/<id>/resume",
    "POST /wallets/<id>/schedules/<id>/run",
    "GET /wallets/<id>/schedules/<id>/runs",
    "GET /transactions/<id>",
    "GET /refusals",
    "GET /holds",
    "GET /holds/<id>",
    "POST /holds/<id>/approve",
    "POST /holds/<id>/deny",
    "POST /quote",
    "POST /wallets/<id>/pay",
    "GET /payments",
    "GET /payments/<id>",
    "GET /skills",
    "GET /plugins",
    "GET /agents",
    "GET /agent-templates",
    "GET /agents/<id>",
    "GET /agents/<id>/decisions",
    "GET /agents/<id>/memory",
    "GET /agents/<id>/limits",
    "POST /agents/<id>/chat",
    "POST /mcp",
}
BESIDE = ("/docs", "/mcp", "/metrics")


def routes(api: Api) -> set[str]:
    """Every route of the application, its ids written alike."""
    found = set()
    for rule in api.app.url_map.iter_rules():
        path = rule.rule.removeprefix("/api/v1")
        path = re.sub(r"<(\w+_id|principal)>", "<id>", path)
        found |= {f"{method} {path}" for method in rule.methods - {"HEAD", "OPTIONS"}}
    return found


async def ask(api: Api, route: str, token: str | None, *, of: str = NOBODY) -> Answer:
    """Call a route with a credential; `of` is the wallet, agent or key it is about."""
    method, path = route.split(" ")
    path = path.replace("<id>", of).replace("<name>", "wait")
    path = (
        path.replace("<skill>", "wait")
        .replace("<plugin>", "acme")
        .replace("<file>", "swagger-ui.css")
    )
    # The stream has no end.
    method = "HEAD" if path == "/events" and token == SECRET else method
    prefix = "" if path.startswith(BESIDE) else PREFIX
    return await api.call(method, path, token=token, prefix=prefix)


@promise("every-route-authenticates")
async def test_no_route_is_missing_from_the_matrix(api: Api) -> None:
    assert routes(api) == PUBLIC | SIGNED | ADMIN | KEY


async def credentials(api: Api) -> dict[str, str | None]:
    """Every kind there is; `confined` is a key to one wallet, which it has to itself."""
    key, _ = await api.key()
    revoked, revoked_id = await api.key()
    assert (await api.call("DELETE", f"/keys/{revoked_id}")).status == 200
    confined, _ = await api.key(walletId=await api.wallet())
    return {
        "none": None,
        "empty": "",
        "wrong": "sk-" + "0" * 32,
        "short": SECRET[:-1],
        "long": SECRET + "x",
        "revoked": revoked,
        "key": key,
        "confined": confined,
        "admin": SECRET,
    }


def refusal(route: str, kind: str) -> str | None:
    """The text of the 401 that a credential gets; None where it is let in."""
    if route in PUBLIC or kind == "admin":
        return None
    if route in ADMIN:
        return ADMIN_REQUIRED
    if kind in ("key", "confined"):
        return None
    return KEY_REQUIRED if kind in ("none", "empty") else KEY_INVALID


@pytest.mark.more
@promise("every-route-authenticates", "key-within-its-limits")
async def test_every_route_answers_each_credential_as_the_contract_says(api: Api) -> None:
    tokens = await credentials(api)
    for route in sorted(PUBLIC | ADMIN | KEY):
        for kind, token in tokens.items():
            answer = await ask(api, route, token)
            text = refusal(route, kind)
            if text is None:
                assert answer.status != 401, (route, kind)
            else:
                assert (answer.status, answer.error) == (401, text), (route, kind)
                assert answer.headers["WWW-Authenticate"] == "Bearer"
            if route in PUBLIC:
                assert answer.status == 200, (route, kind)
        await api.post("/unfreeze")


@promise("key-within-its-limits")
async def test_a_key_confined_to_one_wallet_finds_no_other_and_nothing_of_it(api: Api) -> None:
    token = (await credentials(api))["confined"]
    other = await api.wallet(1)
    fields = agent_body(other, "openai", name="theirs", llmModel="m", strategy="wait")
    agent = (await api.post("/agents", fields)).json["id"]
    for route in sorted(KEY):
        path = route.partition(" ")[2]
        if path.startswith("/wallets/<id>"):
            answer = await ask(api, route, token, of=other)
            assert (answer.status, answer.error) == (404, "Wallet not found"), route
        elif path.startswith("/agents/<id>"):
            answer = await ask(api, route, token, of=agent)
            # What is asked is judged before who it is asked of; neither tells of the agent.
            told = {(404, "Agent not found"), (400, "message is required and must be a string")}
            assert (answer.status, answer.error) in told, route
        elif path.startswith("/holds/<id>"):
            answer = await ask(api, route, token)
            assert (answer.status, answer.error) == (404, "Hold not found"), route
        elif path.startswith("/transactions/<id>"):
            (theirs,) = await api.records(other)
            answer = await ask(api, route, token, of=theirs["id"])
            assert (answer.status, answer.error) == (404, "Transaction not found"), route
        elif path.startswith("/payments/<id>"):
            answer = await ask(api, route, token)
            assert (answer.status, answer.error) == (404, "Payment not found"), route
        elif path != "/mcp":  # tests/mcp/test_mcp_http.py
            answer = await ask(api, route, token)
            # A quote's fields are missing here, which tells of no wallet.
            refused = {"POST /wallets": 403, "POST /quote": 400}
            status = refused.get(route, 200)
            assert answer.status == status, route
            assert other not in answer.text, route
    assert len(await api.records(other)) == 1
    chat = await api.post(f"/agents/{agent}/chat", {"message": "hello"}, token=token)
    assert (chat.status, chat.error) == (404, "Agent not found")


@pytest.mark.parametrize(
    "header", ["Basic abc", "Bearer", "Bearer ", SECRET, f"Token {SECRET}", "bearer"]
)
async def test_another_scheme_is_no_credential(api: Api, header: str) -> None:
    answer = await api.get("/wallets", token=None, headers={"Authorization": header})
    assert (answer.status, answer.error) == (401, KEY_REQUIRED)


async def test_two_credentials_are_none(api: Api) -> None:
    headers = Headers([("Authorization", f"Bearer {each}") for each in (SECRET, SECRET[::-1])])
    client = api.app.test_client()
    for sent in (headers, Headers(reversed(list(headers)))):
        assert (await client.get("/api/v1/wallets", headers=sent)).status_code == 401


async def test_the_scheme_is_read_in_any_case(api: Api) -> None:
    headers = {"Authorization": f"bearer {SECRET}"}
    assert (await api.get("/wallets", token=None, headers=headers)).status == 200


async def test_a_credential_that_is_no_ascii_is_refused_not_a_crash(api: Api) -> None:
    answer = await api.get("/wallets", token="Ünï")
    assert (answer.status, answer.error) == (401, KEY_INVALID)
