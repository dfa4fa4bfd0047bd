"""A field that is nearly a known one is refused: what it bounds would be bounded by nothing."""

from __future__ import annotations

from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.services import Api

from solward_server.http.body import MOST_UNKNOWN, resembled

pytestmark = promise("unknown-fields-refused")


KEY_FIELDS = ("expiresAt", "grants", "name", "rateLimit", "spendingLimitSol", "walletId")
AGENT = {"name": "a", "llmProvider": "openai", "llmModel": "m", "strategy": "s"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("wallet_id", "walletId"),
        ("WalletId", "walletId"),
        ("wallet", "walletId"),
        ("walletAddress", "walletId"),
        ("walletld", "walletId"),
        ("grant", "grants"),
        ("spendingLimit", "spendingLimitSol"),
        ("dailySpendingLimitSol", "spendingLimitSol"),
        ("expiresIn", "expiresAt"),
        ("ratelimt", "rateLimit"),
        ("colour", None),
        ("note", None),
        ("", None),
        ("w" * 65, None),
        ("wallet" * 11, None),
        (f"walletId{' ' * 60}", "walletId"),
        ("w\u00e0lletId", "walletId"),
    ],
)
def test_names_that_are_alike(written: str, meant: str | None) -> None:
    assert resembled(written, KEY_FIELDS) == meant


@promise("unknown-field-rules")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("field", ["wallet", "wallet_id", "spendingLimit", "grant", "expires_at"])
async def test_no_key_is_made_with_a_bound_that_is_misspelled(shared_api: Api, field: str) -> None:
    answer = await shared_api.post("/keys", {"name": "ci", field: 1})
    meant = resembled(field, KEY_FIELDS)
    assert (answer.status, answer.error) == (
        400,
        f"{field} is not a field, but {meant} is. Nothing was done",
    )
    assert (await shared_api.get("/keys")).json == {"keys": []}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"maxSolPerTx": 1}, "maxSolPerTx is not a field, but maxSolPerTransaction is"),
        ({"guardrail": {}}, "guardrail is not a field, but guardrails is"),
        ({"budget": {}}, "budget is not a field, but llmBudget is"),
        ({"guardrails": {"maxSolPerTx": 1}}, "guardrails.maxSolPerTx is none of: maxSol"),
    ],
)
async def test_no_agent_is_made_with_a_bound_that_is_misspelled(
    shared_api: Api, more: dict[str, Any], error: str
) -> None:
    answer = await shared_api.post(
        "/agents", AGENT | {"walletId": await shared_api.wallet()} | more
    )
    assert answer.status == 400
    assert str(answer.error).startswith(error)
    assert (await shared_api.get("/agents")).json == {"agents": []}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("switch", ["freeze", "unfreeze"])
@pytest.mark.parametrize(
    "field", ["wallet", "id", "address", "publicKey", "name", f"walletId{' ' * 60}"]
)
async def test_a_switch_for_one_wallet_moves_no_other(
    shared_api: Api, switch: str, field: str
) -> None:
    wallet = await shared_api.wallet()
    await shared_api.post("/freeze", {"walletId": wallet})
    before = (await shared_api.get("/freeze")).json
    assert (await shared_api.post(f"/{switch}", {field: wallet})).status == 400
    assert (await shared_api.post(f"/{switch}?walletId={wallet}")).status == 400
    assert (await shared_api.get("/freeze")).json == before


async def test_what_a_route_without_unknown_fields_does_not_know_is_refused(api: Api) -> None:
    wallet = await api.wallet(1)
    _, key = await api.key(grants=[])
    for method, path, body, field in (
        ("POST", "/admins", {"name": "ana", "role": "policy"}, "until"),
        ("POST", f"/keys/{key}/rotate", {}, "grace"),
        ("PUT", f"/policy/key:{key}", {"grants": None}, "ifMatch"),
        ("POST", f"/wallets/{wallet}/pay", {"url": "https://api.example.com"}, "limit"),
    ):
        answer = await api.call(method, path, body | {field: 1})
        assert answer.status == 400, (path, answer.text)
        assert str(answer.error).startswith(f"{field} is none of the fields "), answer.text
    assert (await api.get("/admins")).json == {"admins": []}
    assert (await api.get(f"/policy/key:{key}")).json["grants"] == []


@promise("unknown-field-rules", "no-bounds-in-query")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/keys?walletId={wallet}", {"name": "q"}),
        ("POST", "/keys?expiresAt=2027-01-01T00:00:00Z", {"name": "q"}),
        ("PUT", "/policy?version=0", {"grants": []}),
        ("POST", "/wallets/{wallet}/transfer?max=1", {"to": "{to}", "amount": 0.1}),
        ("POST", "/wallets/{wallet}/skills/transfer?max=1", {"to": "{to}", "amount": 0.1}),
    ],
)
async def test_a_bound_in_the_query_is_refused(
    shared_api: Api, method: str, path: str, body: dict[str, Any]
) -> None:
    wallet, to = await shared_api.wallet(1), str(Keypair().pubkey())
    filled = {name: to if value == "{to}" else value for name, value in body.items()}
    answer = await shared_api.call(method, path.format(wallet=wallet), filled)
    name = path.partition("?")[2].partition("=")[0]
    assert answer.status == 400
    assert str(answer.error).startswith(f"{name} is no parameter of this route's query; it ")
    assert [each["type"] for each in await shared_api.records(wallet)] == ["airdrop"]
    assert (await shared_api.get("/keys")).json == {"keys": []}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("field", ["idempotencyKey", "Idempotency-Key", "idempotency_key"])
async def test_an_idempotency_key_in_the_body_is_refused_rather_than_paid_twice(
    shared_api: Api, field: str
) -> None:
    wallet = await shared_api.wallet(1)
    body = {"to": str(Keypair().pubkey()), "amount": 0.1, field: "k"}
    answer = await shared_api.post(f"/wallets/{wallet}/transfer", body)
    assert (answer.status, answer.error) == (
        400,
        f"{field} is a header, Idempotency-Key. Nothing was done",
    )
    assert [each["type"] for each in await shared_api.records(wallet)] == ["airdrop"]


@pytest.mark.asyncio(loop_scope="module")
async def test_so_many_unknown_fields_are_ignored_and_more_are_refused(shared_api: Api) -> None:
    unknown = {f"x{number}": 1 for number in range(MOST_UNKNOWN)}
    assert (await shared_api.post("/wallets", unknown)).status == 200
    answer = await shared_api.post("/wallets", unknown | {"colour": "blue"})
    assert (answer.status, answer.error) == (
        400,
        f"More than {MOST_UNKNOWN} fields are unknown. Nothing was done",
    )
