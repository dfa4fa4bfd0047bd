"""Requests that change something are closed: what they do not know would bind nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.database import AuditLog
from tests.support.services import STRANGER, Api

pytestmark = promise("unknown-fields-refused")

AGENT = {"name": "a", "llmProvider": "openai", "llmModel": "m", "strategy": "s"}
# Its own schema says what it knows, and refuses the rest.
SKILL = "/api/v1/wallets/<wallet_id>/skills/<name>"
READING = {"GET", "HEAD", "OPTIONS"}


def changing(api: Api) -> list[tuple[str, str]]:
    """Method and path, filled with what is there, of each route that changes something."""
    return [
        (method, rule.rule)
        for rule in api.app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - READING)
        if rule.rule.startswith("/api/v1/") and rule.rule != SKILL
    ]


async def changes(api: Api) -> Any:
    """What any change adds to: the audit log, which is written with it."""
    return [entry.seq for entry in await AuditLog(api.service.database).latest(1)]


@promise("unknown-field-rules", "no-bounds-in-query")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("value", [1, None, {"dryRun": True}], ids=str)
async def test_no_route_that_changes_something_takes_an_unknown_field(
    shared_api: Api, value: Any
) -> None:
    wallet, before = await shared_api.wallet(1), await changes(shared_api)
    routes = changing(shared_api)
    assert len(routes) > 40
    # Whoever signs none of it learns nothing of its fields.
    routes.remove(("POST", "/api/v1/holds/<hold_id>/webhook"))
    for method, rule in routes:
        path = rule.removeprefix("/api/v1").replace("<wallet_id>", wallet)
        path = re.sub("<[^>]+>", "x", path)
        for field in ("colour", "wallet_id", "DryRun", "idempotencyKey", "c" * 70):
            answer = await shared_api.call(method, path, {field: value})
            assert answer.status == 400, (method, path, answer.text)
            shown = field if len(field) <= 64 else f"{'c' * 64}..."
            assert str(answer.error).startswith(f"{shown} is ")
            assert str(answer.error).endswith(". Nothing was done")
            asked = await shared_api.call(method, f"{path}?{field}=1", {})
            assert asked.status == 400, (method, path, asked.text)
            assert str(asked.error).startswith(f"{shown} in the query is ")
    assert await changes(shared_api) == before
    assert (await shared_api.get("/keys")).json == {"keys": []}


@promise("unknown-field-rules")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("path", "body", "header"),
    [
        ("/agents", {}, "Idempotency-Key"),
        ("/keys", {"name": "k"}, "Idempotency-Key"),
        ("/wallets", {}, "X-Idempotency-Key"),
        ("/wallets/{wallet}/transfer", {"to": "{to}", "amount": 0.1}, "X-Idempotency-Key"),
        ("/wallets/{wallet}/transfer", {"to": "{to}", "amount": 0.1}, "Idempotency_Key"),
        ("/wallets/{wallet}/skills/transfer", {"to": "{to}", "amount": 0.1}, "Idempotencykey"),
    ],
)
async def test_an_idempotency_key_that_binds_nothing_is_refused(
    shared_api: Api, path: str, body: dict[str, Any], header: str
) -> None:
    wallet, before = await shared_api.wallet(1), await changes(shared_api)
    sent = {name: STRANGER if value == "{to}" else value for name, value in body.items()}
    answer = await shared_api.call("POST", path.format(wallet=wallet), sent, headers={header: "k"})
    assert answer.status == 400, answer.text
    assert str(answer.error).startswith(header)
    assert str(answer.error).endswith(". Nothing was done")
    assert await changes(shared_api) == before


@promise("token-field-refused")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/keys", {"name": "k"}, "role"),
        ("/keys", {"name": "k"}, "dailyLimitSol"),
        ("/keys", {"name": "k"}, "allowedWallets"),
        ("/freeze", {}, "wallet"),
        ("/unfreeze", {}, "publicKey"),
        ("/wallets/{wallet}/transfer", {"to": "{to}", "amount": 0.1}, "memo"),
        ("/wallets/{wallet}/transfer", {"to": "{to}", "amount": 0.1}, "symbol"),
        ("/wallets/{wallet}/transfer", {"to": "{to}", "amount": 0.1}, "mint"),
        ("/wallets/{wallet}/revoke-authority", {"mint": "{to}"}, "newAuthority"),
        ("/wallets/{wallet}/unwrap-sol", {}, "amount"),
        ("/wallets/{wallet}/mint-supply", {"mint": "{to}", "amount": 1}, "to"),
        ("/wallets/{wallet}/skills/transfer", {"to": "{to}", "amount": 0.1}, "memo"),
        ("/quote", {"inputToken": "SOL", "outputToken": "USDC", "amount": 1}, "amountLamports"),
        ("/policy/check", {"grants": []}, "grant"),
        ("/agents", AGENT | {"walletId": "{wallet}"}, "maxSolPerTx"),
    ],
)
async def test_a_whole_request_with_one_more_field_does_nothing(
    shared_api: Api, path: str, body: dict[str, Any], field: str
) -> None:
    wallet = await shared_api.wallet(1)
    filled = {"{to}": str(Keypair().pubkey()), "{wallet}": wallet}
    given = {
        name: filled.get(value, value) if isinstance(value, str) else value
        for name, value in body.items()
    }
    before = await changes(shared_api)
    answer = await shared_api.post(path.format(wallet=wallet), given | {field: 1})
    assert answer.status == 400, answer.text
    assert field in str(answer.error)
    known = {"skills": "to"}.get(path.split("/")[-2], next(iter(body), None))
    if known is not None:
        assert known in str(answer.error), "the fields there are"
    assert await changes(shared_api) == before


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"guardrails": {"maxSolPerTx": 1}}, "guardrails.maxSolPerTx is none of: "),
        ({"llmBudget": {"maxTokens": 1}}, "llmBudget.maxTokens"),
        ({"llmOptions": {"temprature": 1}}, "llmOptions: unknown field 'temprature'"),
        ({"grants": [{"may": ["transfer"], "max": "1"}]}, "grants[0].max"),
    ],
)
async def test_no_part_of_an_agent_has_unknown_fields(
    shared_api: Api, more: dict[str, Any], error: str
) -> None:
    answer = await shared_api.post(
        "/agents", AGENT | {"walletId": await shared_api.wallet()} | more
    )
    assert answer.status == 400
    assert str(answer.error).startswith(error)
    assert (await shared_api.get("/agents")).json == {"agents": []}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("body", ["no JSON", "[]", "1", '{"a": 1, "a": 1}', "\x0b", "\x0c \n"])
async def test_a_body_that_nothing_reads_is_no_other_text(shared_api: Api, body: str) -> None:
    token, key = await shared_api.key()
    answer = await shared_api.call("DELETE", f"/keys/{key}", data=body.encode())
    assert answer.status == 400, answer.text
    for nothing in (b"", b"{}", b" "):
        assert (await shared_api.call("DELETE", f"/keys/{key}x", data=nothing)).status == 404
    assert (await shared_api.get("/wallets", token=token)).status == 200


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("body", [b"\x0b", b"\x0c \n", "\u00a0".encode()])
async def test_bytes_that_are_no_json_are_no_absent_body(shared_api: Api, body: bytes) -> None:
    answer = await shared_api.call("POST", "/freeze", data=body)
    assert (answer.status, answer.error) == (400, "The request body must be valid JSON")
    assert (await shared_api.get("/freeze")).json["frozen"] is False


@pytest.mark.asyncio(loop_scope="module")
async def test_reads_ignore_unknown_parameters(shared_api: Api) -> None:
    for path in ("/wallets", "/transactions", "/keys", "/agents", "/holds", "/health"):
        assert (await shared_api.get(f"{path}?colour=blue")).status == 200
