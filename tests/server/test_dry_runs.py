"""`?dryRun=true` on the money routes: the verdict and the effects, and nothing else happens."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.services import STRANGER, Api, serving_api

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.vault.guardrails.rules import RULES

UNKNOWN = "dryRun in the query is unknown. Nothing was done"
USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"


async def state(api: Api, wallet: str) -> tuple[Any, Any, Any]:
    """Everything a caller can see of a wallet: its history, its limits, its balance."""
    paths = ("transactions", "limits", "balance")
    history, limits, balance = [(await api.get(f"/wallets/{wallet}/{p}")).json for p in paths]
    return history, limits, balance


async def dry(api: Api, wallet: str, path: str, body: dict[str, Any], **options: Any) -> Any:
    """The answer of a dry run, which changes nothing that can be seen."""
    before = await state(api, wallet)
    answer = await api.post(f"/wallets/{wallet}/{path}?dryRun=true", body, **options)
    assert answer.status == 200, answer.text
    assert await state(api, wallet) == before
    assert answer.json["dryRun"] is True
    return answer.json


async def token(api: Api, wallet: str, supply: int = 1000) -> str:
    body = {"name": "Demo coin", "symbol": "DEMO", "decimals": 6, "initialSupply": supply}
    return str((await api.post(f"/wallets/{wallet}/launch-token", body)).json["mint"])


@pytest.mark.more
@promise("dry-run-sends-nothing")
async def test_every_money_route_has_one(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", max_transactions_per_minute=100) as api:
        wallet = await api.wallet(2)
        mint = await token(api, wallet)
        empty = await token(api, wallet, 1)
        await api.post(f"/wallets/{wallet}/burn", {"mint": empty, "amount": 1})
        bodies: dict[str, dict[str, Any]] = {
            "transfer": {"to": STRANGER, "amount": Decimal("0.5")},
            "swap": {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.5")},
            "airdrop": {"amount": 1},
            "launch-token": {"name": "Other coin", "symbol": "OTHER"},
            "mint-supply": {"mint": mint, "amount": 5},
            "revoke-authority": {"mint": mint},
            "burn": {"mint": mint, "amount": Decimal("0.25")},
            "close-account": {"mint": empty},
            "reclaim-rent": {"take": "empty"},
        }
        seen = {path: await dry(api, wallet, path, body) for path, body in bodies.items()}
        for path, answer in seen.items():
            assert answer["allowed"], (path, answer)
            assert answer["guardrailsApplied"] == list(RULES)
            assert not answer.keys() & {"rule", "reason"}
        effects = {path: answer["effects"] for path, answer in seen.items()}
        assert effects["transfer"]["solOut"] == Decimal("0.5")
        assert effects["swap"]["solOut"] == Decimal("0.5")
        assert int(effects["swap"]["tokensIn"][USDC]) > 0
        assert effects["airdrop"]["fee"] == 0
        assert effects["launch-token"]["rent"] > 0
        assert effects["mint-supply"]["tokensIn"] == {mint: "5000000"}
        assert effects["revoke-authority"]["authorityChanges"] == [
            {"kind": "mint_authority", "account": mint, "to": None}
        ]
        assert effects["burn"]["tokensOut"] == {mint: "250000"}
        assert len(effects["close-account"]["closedAccounts"]) == 1
        assert (
            effects["reclaim-rent"]["closedAccounts"] == effects["close-account"]["closedAccounts"]
        )
        # The body may ask for it too.
        before = await state(api, wallet)
        for path, body in bodies.items():
            answer = await api.post(f"/wallets/{wallet}/{path}", {**body, "dryRun": True})
            assert (answer.status, answer.json["dryRun"]) == (200, True), (path, answer.text)
        assert await state(api, wallet) == before
        # What was tried can be done after it.
        for path, body in bodies.items():
            # Nothing is left to reclaim once the account is closed.
            if path not in ("launch-token", "reclaim-rent"):
                answer = await api.post(f"/wallets/{wallet}/{path}?dryRun=false", body)
                assert answer.status == 200, (path, answer.text)
        (swapped,) = [r for r in await api.records(wallet) if r["type"] == "swap"]
        arrived = Decimal(effects["swap"]["tokensIn"][USDC]).scaleb(-6)
        assert swapped["details"]["outputAmount"] == arrived


@pytest.mark.more
@promise("dry-run-stores-nothing")
async def test_a_refusal_is_told_as_the_real_route_tells_it(api: Api) -> None:
    wallet = await api.wallet(2)
    body = {"to": STRANGER, "amount": 3}
    tried = await dry(api, wallet, "transfer", body)
    real = await api.post(f"/wallets/{wallet}/transfer", body)
    assert (tried["allowed"], tried["rule"]) == (False, "max_per_tx")
    assert real.error == f"Transaction blocked by guardrail max_per_tx: {tried['reason']}"


async def test_it_counts_no_request_of_a_key_and_binds_its_spending_limit(api: Api) -> None:
    wallet = await api.wallet(2)
    token, _ = await api.key(rateLimit=1, spendingLimitSol=1)
    for _ in range(3):
        body = {"to": STRANGER, "amount": Decimal("0.5")}
        assert (await dry(api, wallet, "transfer", body, token=token))["allowed"]
    over = await dry(api, wallet, "transfer", {"to": STRANGER, "amount": 2}, token=token)
    assert over["rule"] == "spending_limit_check"
    assert (await api.post(f"/wallets/{wallet}/transfer", body, token=token)).status == 200
    assert (await api.post(f"/wallets/{wallet}/transfer", body, token=token)).status == 429


async def test_an_idempotency_key_is_not_used_up(api: Api) -> None:
    wallet = await api.wallet(2)
    body, headers = {"to": STRANGER, "amount": 1}, {"Idempotency-Key": "once"}
    for _ in range(2):
        assert (await dry(api, wallet, "transfer", body, headers=headers))["allowed"]
    first = await api.post(f"/wallets/{wallet}/transfer", body, headers=headers)
    assert first.status == 200
    # Asked again it is judged anew: a trial is no replay.
    assert (await dry(api, wallet, "transfer", body, headers=headers))["dryRun"]
    again = await api.post(f"/wallets/{wallet}/transfer", body, headers=headers)
    assert again.text == first.text


async def test_skills_that_spend_have_none(api: Api) -> None:
    wallet = await api.wallet(1)
    params = {"to": STRANGER, "amount": Decimal("0.1")}
    before = await state(api, wallet)
    answer = await api.post(f"/wallets/{wallet}/skills/transfer?dryRun=true", params)
    assert (answer.status, answer.error) == (400, UNKNOWN)
    assert await state(api, wallet) == before


@promise("dry-run-never-acts")
async def test_what_has_no_dry_run_does_nothing_where_one_is_asked_for(api: Api) -> None:
    wallet = await api.wallet(1)
    rent = {"skill": "transfer", "parameters": {"to": STRANGER, "amount": 0.1}, "name": "rent",
            "every": "1d"}  # fmt: skip
    schedule = (await api.post(f"/wallets/{wallet}/schedules", rent)).json["id"]
    _, key = await api.key()
    before = await state(api, wallet)
    for method, path, body in (
        ("POST", f"/wallets/{wallet}/schedules/{schedule}/run", {}),
        ("PUT", "/policy", {"grants": []}),
        ("PUT", "/policy/key:x", {"grants": []}),
        ("POST", "/freeze", {}),
        ("POST", "/keys", {"name": "tried"}),
        ("DELETE", f"/wallets/{wallet}/schedules/{schedule}", None),
    ):
        answer = await api.call(method, f"{path}?dryRun=true", body)
        assert (answer.status, answer.error) == (400, UNKNOWN), path
    for path, body, field in (
        ("/keys", {"name": "tried", "dryRun": True}, "dryRun"),
        ("/keys", {"name": "tried", "isDryRun": True}, "isDryRun"),
        ("/freeze", {"simulate": True}, "simulate"),
        (f"/wallets/{wallet}/schedules/{schedule}/pause", {"dryRun": True}, "dryRun"),
        (f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 1, "dry": True}, "dry"),
    ):
        in_body = await api.post(path, body)
        assert (in_body.status, str(in_body.error).startswith(f"{field} is ")) == (400, True), path
    unread = await api.call("DELETE", f"/keys/{key}", {"dryRun": True})
    assert (unread.status, unread.error) == (400, "dryRun is unknown. Nothing was done")
    assert [each["id"] for each in (await api.get("/keys")).json["keys"]] == [key]
    listed = (await api.get(f"/wallets/{wallet}/schedules")).json["schedules"]
    assert [each["status"] for each in listed] == ["active"]
    assert (await api.get("/freeze")).json["frozen"] is False
    assert await state(api, wallet) == before


async def test_sol_that_is_bought_is_counted_as_wrapped(api: Api) -> None:
    wallet = await api.wallet(2)
    body = {"inputToken": "SOL", "outputToken": "USDC", "amount": 1}
    assert (await api.post(f"/wallets/{wallet}/swap", body)).status == 200
    back = {"inputToken": "USDC", "outputToken": "SOL", "amount": 10}
    effects = (await dry(api, wallet, "swap", back))["effects"]
    assert effects["tokensOut"] == {USDC: "10000000"}
    assert int(effects["tokensIn"][WRAPPED_SOL_MINT]) > 0


async def test_no_route_that_moves_money_overlooks_one(api: Api) -> None:
    """Whatever routes there are: what may mean a trial is refused before anything else."""
    wallet = await api.wallet()
    routes: set[str] = set()
    for rule in api.app.url_map.iter_rules():
        parent, _, name = rule.rule.rpartition("/")
        if parent.endswith("/wallets/<wallet_id>") and "POST" in (rule.methods or set()):
            routes.add(name)
    # It moves nothing; what its runs move they ask for by themselves.
    routes.remove("schedules")
    assert len(routes) >= 8
    for name in routes:
        answer = await api.post(f"/wallets/{wallet}/{name}?dryRun=maybe", {})
        assert (answer.status, answer.error) == (
            400,
            "dryRun must be true or false; nothing was sent",
        ), name
