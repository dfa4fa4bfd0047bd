"""Wallets, records, skills, plugins, the freeze switch and health, as the contract shows them."""

from __future__ import annotations

import asyncio
import time
from decimal import Decimal
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.services import NOBODY, STRANGER, Api, serving_api

from solward.types.errors import StoreError


@promise("wallets-oldest-first", "wallet-by-id")
async def test_wallets_are_made_listed_and_tagged(api: Api) -> None:
    made = (await api.post("/wallets", {"name": "till", "tags": ["shop"]})).json
    assert sorted(made) == ["address", "createdAt", "name", "walletId"]
    unnamed = (await api.post("/wallets")).json
    assert unnamed["name"] == "external-wallet"
    first, second = (await api.get("/wallets")).json["wallets"]
    assert first == {
        "id": made["walletId"],
        "name": "till",
        "publicKey": made["address"],
        "createdAt": made["createdAt"],
        "tags": ["shop"],
    }
    assert second["id"] == unnamed["walletId"]
    path = f"/wallets/{made['walletId']}"
    changed = await api.call("PATCH", path, {"tags": ["a", "b"]})
    assert changed.json["tags"] == ["a", "b"]
    assert (await api.call("PATCH", path, {})).json["tags"] == ["a", "b"]
    assert (await api.get(path)).json == changed.json


@promise("amounts-exact-to-lamport")
async def test_a_balance_is_exact(api: Api) -> None:
    wallet = await api.wallet(2)
    body = {"to": STRANGER, "amount": Decimal("0.123456789")}
    assert (await api.post(f"/wallets/{wallet}/transfer", body)).status == 200
    answer = await api.get(f"/wallets/{wallet}/balance")
    assert answer.json == {"sol": Decimal("1.876538211"), "tokens": []}
    assert '"sol":1.876538211' in answer.text


@promise("transfer-fields")
async def test_a_transfer_answers_with_its_record(api: Api) -> None:
    wallet = await api.wallet(1)
    answer = await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.25})
    body = answer.json
    (record, _) = await api.records(wallet)
    (priced, _) = (await api.get(f"/wallets/{wallet}/transactions?fees=true")).json["transactions"]
    fee = {"lamports": 5000, "computeUnits": 150, "priorityFeeMicroLamports": 0}
    assert priced == record | {"fee": fee}
    assert body == priced | {"metadata": {"to": STRANGER, "amount": Decimal("0.25")}}
    assert body["type"] == "transfer"
    assert body["status"] == "confirmed"
    assert body["walletId"] == wallet
    assert body["details"]["to"] == STRANGER
    assert body["guardrailsApplied"][:3] == ["max_per_tx", "rate_limit", "daily_limit"]
    assert body["timestamp"].endswith("Z")


@promise("failure-is-stored-500")
async def test_too_little_balance_is_500_and_a_failed_record(api: Api) -> None:
    wallet = await api.wallet()
    answer = await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.25})
    assert answer.status == 500
    (record,) = await api.records(wallet)
    assert record["status"] == "failed"
    assert record["error"] in answer.error


@promise("records-before-an-id")
async def test_records_are_newest_first_and_paged(api: Api) -> None:
    wallet = await api.wallet()
    other = await api.wallet()
    for amount in (0.1, 0.2, 0.3):
        await api.post(f"/wallets/{wallet}/airdrop", {"amount": amount})
    await api.post(f"/wallets/{other}/airdrop", {"amount": 0.4})
    amounts = [record["details"]["amount"] for record in await api.records(wallet)]
    assert amounts == [Decimal("0.3"), Decimal("0.2"), Decimal("0.1")]
    everything = (await api.get("/transactions?limit=2")).json["transactions"]
    assert [r["details"]["amount"] for r in everything] == [Decimal("0.4"), Decimal("0.3")]
    rest = await api.get(f"/transactions?limit=5&before={everything[-1]['id']}")
    assert [r["details"]["amount"] for r in rest.json["transactions"]] == [
        Decimal("0.2"),
        Decimal("0.1"),
    ]
    unknown = await api.get(f"/transactions?before={NOBODY}")
    assert (unknown.status, unknown.error) == (400, "before must be the id of a transaction")


@promise("unknown-field-rules", "skill-shape", "skill-routes-beyond")
async def test_skills_are_listed_with_their_schemas_and_run(api: Api) -> None:
    skills = {skill["name"]: skill for skill in (await api.get("/skills")).json["skills"]}
    assert {"airdrop", "check_balance", "token_info", "transfer", "wait"} <= set(skills)
    transfer = skills["transfer"]
    assert sorted(transfer) == [
        "description",
        "distribution",
        "effects",
        "manifest",
        "name",
        "parameters",
        "version",
    ]
    assert transfer["effects"] == "spend"
    assert transfer["parameters"]["additionalProperties"] is False
    wallet = await api.wallet(1)
    answer = await api.post(f"/wallets/{wallet}/skills/check_balance", {})
    assert list(answer.json) == ["result"]
    assert "1.0000" in answer.json["result"]
    unknown = await api.post(f"/wallets/{wallet}/skills/check_balance", {"foo": 1})
    assert unknown.status == 400
    assert "foo" in unknown.error
    missing = await api.post(f"/wallets/{wallet}/skills/fly", {})
    assert missing.status == 404
    assert "fly" in missing.error
    blocked = await api.post(f"/wallets/{wallet}/skills/transfer", {"to": STRANGER, "amount": 2.5})
    assert blocked.status == 500
    assert "max_per_tx" in blocked.error


@promise("skill-routes-beyond")
async def test_plugins_are_listed_with_their_distribution(api: Api) -> None:
    report = (await api.get("/plugins")).json
    assert report["problems"] == []
    named = {(plugin["kind"], plugin["name"]) for plugin in report["plugins"]}
    assert ("skill", "transfer") in named
    assert {plugin["distribution"] for plugin in report["plugins"]} == {"solward"}
    needed = {plugin["name"]: plugin["manifest"] for plugin in report["plugins"]}
    assert needed["transfer"] is None
    assert needed["openai"]["sites"] == ["api.openai.com"]
    skills = (await api.get("/skills")).json["skills"]
    assert [skill["manifest"] for skill in skills if skill["manifest"] is not None] == []


async def test_providers_tell_what_an_agent_of_theirs_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("XAI_API_KEY", "xai-of-the-operator")
    async with serving_api(tmp_path / "home", demo=True) as api:
        report = (await api.get("/plugins")).json
    providers = {each["name"]: each for each in report["plugins"] if each["kind"] == "provider"}
    assert "temperature" in providers["openai"]["options"]["properties"]
    assert providers["openai"]["defaultModel"]
    told = {
        name: (
            providers[name]["isLlm"],
            providers[name]["secretEnv"],
            providers[name]["configured"],
        )
        for name in ("openai", "grok", "rules")
    }
    assert told == {
        "openai": (True, "OPENAI_API_KEY", False),
        "grok": (True, "XAI_API_KEY", True),
        "rules": (False, None, True),
    }
    assert "xai-of-the-operator" not in str(report)


@pytest.mark.more
@promise("freeze-stops-at-once")
async def test_frozen_wallets_send_nothing(api: Api) -> None:
    wallet, other = await api.wallet(1), await api.wallet(1)
    body = {"to": STRANGER, "amount": 0.1}
    answer = await api.post("/freeze", {"walletId": wallet, "reason": "looks odd"})
    assert answer.json == {"frozen": True, "walletId": wallet, "reason": "looks odd"}
    refused = await api.post(f"/wallets/{wallet}/transfer", body)
    assert refused.status == 500
    assert "looks odd" in refused.error
    newest = (await api.records(wallet))[0]
    assert (newest["status"], newest["guardrailsApplied"]) == ("blocked", ["freeze"])
    assert (await api.get(f"/wallets/{wallet}/limits")).json["frozen"] is True
    assert (await api.post(f"/wallets/{other}/transfer", body)).status == 200
    assert (await api.post("/freeze")).status == 200
    assert (await api.post(f"/wallets/{other}/transfer", body)).status == 500
    assert (await api.post("/unfreeze")).json == {"frozen": False, "walletId": None}
    assert (await api.post(f"/wallets/{other}/transfer", body)).status == 200
    assert (await api.post(f"/wallets/{wallet}/transfer", body)).status == 500
    assert (await api.post("/unfreeze", {"walletId": wallet})).status == 200
    assert (await api.post(f"/wallets/{wallet}/transfer", body)).status == 200
    assert (await api.post("/freeze", {"walletId": NOBODY})).error == "Wallet not found"


async def test_what_is_frozen_is_listed_with_its_reasons_the_latest_first(api: Api) -> None:
    nothing = {"frozen": False, "reason": None, "since": None, "frozenWallets": 0, "wallets": []}
    assert (await api.get("/freeze")).json == nothing
    first, second = await api.wallet(), await api.wallet()
    await api.post("/freeze", {"walletId": first, "reason": "looks odd"})
    await api.post("/freeze", {"walletId": second})
    found = (await api.get("/freeze")).json
    assert (found["frozen"], found["frozenWallets"]) == (False, 2)
    assert [(each["walletId"], each["reason"]) for each in found["wallets"]] == [
        (second, None),
        (first, "looks odd"),
    ]
    assert len((await api.get("/freeze?limit=1")).json["wallets"]) == 1
    await api.post("/freeze", {"reason": "incident 7"})
    await api.post("/unfreeze", {"walletId": second})
    found = (await api.get("/freeze")).json
    assert (found["frozen"], found["reason"], found["frozenWallets"]) == (True, "incident 7", 1)
    assert found["since"] >= found["wallets"][0]["since"]
    await api.post("/unfreeze")
    await api.post("/unfreeze", {"walletId": first})
    assert (await api.get("/freeze")).json == nothing
    assert (await api.get("/freeze?limit=0")).status == 400


@promise("limits-show-rest")
async def test_limits_say_what_is_spent_and_left(api: Api) -> None:
    wallet = await api.wallet(2)
    await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.5})
    day = (await api.get(f"/wallets/{wallet}/limits")).json["dailySpendingLimitSol"]
    assert day == {"limit": 10, "spent": Decimal("0.5"), "reserved": 0, "left": Decimal("9.5")}


@promise("health-counts-agents")
async def test_health_shows_both_shapes_of_the_agents(api: Api) -> None:
    report = (await api.get("/health", token=None)).json
    assert report["status"] == "ok"
    assert report["version"]
    assert report["solana"]["healthy"] is True
    assert report["solana"]["network"] == "localnet"
    assert isinstance(report["solana"]["slot"], int)
    assert report["agents"] == {
        "total": 0,
        "running": 0,
        "totalAgents": 0,
        "runningAgents": 0,
        "stoppedAgents": 0,
        "idleAgents": 0,
    }


@promise("health-within-a-second")
async def test_health_answers_within_a_second_whatever_hangs(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> int:
        await asyncio.Event().wait()
        return 0

    # What is loaded at a first request is no part of a second's answer.
    assert (await api.get("/health", token=None)).status == 200
    monkeypatch.setattr(type(api.service.display), "slot", hang)
    monkeypatch.setattr(api.service.agents, "statistics", hang)
    began = time.monotonic()
    answer = await api.get("/health", token=None)
    assert time.monotonic() - began < 1
    assert answer.status == 200
    assert answer.json["status"] == "degraded"
    assert answer.json["solana"]["healthy"] is False


@promise("health-within-a-second")
async def test_health_is_degraded_when_the_database_refuses(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> None:
        raise StoreError("The database refused")

    monkeypatch.setattr(api.service.agents, "statistics", refuse)
    answer = await api.get("/health", token=None)
    assert (answer.status, answer.json["status"]) == (200, "degraded")
    assert answer.json["agents"]["total"] == 0
