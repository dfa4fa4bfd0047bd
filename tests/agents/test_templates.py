"""Agent templates: made as they are shown, refused beyond their grants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.agents.test_agents_on_localnet import decided
from tests.promises import promise
from tests.support.agents import scripted_model
from tests.support.services import STRANGER, Api, serving_api

from solward.agents.agent import Agent, guardrails_json
from solward.agents.fields import TEMPLATES
from solward.solana.token_list import TokenList
from solward.testing import ScriptedProvider
from solward.types.provider import Completion, ToolCall

NAMES = tuple(TEMPLATES)
# What an agent of it does by its strategy, and how such a cycle ends where it is allowed.
DOES: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "balance-reporter": ("check_balance", {}, "SOL balance: 2.0000 SOL"),
    "treasury-watcher": ("check_balance", {}, "SOL balance: 2.0000 SOL"),
    "dollar-cost-averager": (
        "swap",
        {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.01")},
        "Swapped 0.01 SOL",
    ),
}
_SEND = ("transfer", {"to": STRANGER, "amount": Decimal("0.01")})
# One step beyond what each may do: who is paid, what, how much of it.
BEYOND: Mapping[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "balance-reporter": (_SEND, ("wrap_sol", {"amount": Decimal("0.01")})),
    "treasury-watcher": (_SEND, ("stake_sol", {"amount": Decimal("1.1")})),
    "dollar-cost-averager": (
        _SEND,
        ("swap", {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.010000001")}),
        ("swap", {"inputToken": "SOL", "outputToken": "BONK", "amount": Decimal("0.01")}),
    ),
}


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[tuple[Api, ScriptedProvider]]:
    """An API whose service has a language model that a test scripts, by default too."""
    with scripted_model(tmp_path / "site") as (_shelf, model):
        async with serving_api(
            tmp_path / "home",
            xai_api_key="k" * 20,
            default_llm_provider="scripted",
            default_llm_model="model-1",
        ) as api:
            yield api, model


async def listed(api: Api) -> dict[str, Any]:
    """name -> the template as the route shows it."""
    answer = await api.get("/agent-templates")
    assert answer.status == 200, answer.text
    return {each["name"]: each for each in answer.json["templates"]}


async def made(api: Api, name: str, **fields: Any) -> Agent:
    """A new agent of a template, with a wallet of its own that holds 2 SOL."""
    body = {"name": name, "template": name} | fields
    answer = await api.post("/agents", body)
    assert answer.status == 200, answer.text
    agent = await api.service.agents.get(answer.json["id"])
    airdrop = await api.post(f"/wallets/{agent.wallet_id}/airdrop", {"amount": 2})
    assert airdrop.status == 200, airdrop.text
    return agent


@promise("template-report-is-true")
@pytest.mark.parametrize("name", NAMES)
async def test_it_is_created_as_it_is_shown_and_runs_a_cycle(
    scripted: tuple[Api, ScriptedProvider], name: str
) -> None:
    api, model = scripted
    shown = (await listed(api))[name]
    skill, params, outcome = DOES[name]
    agent = await made(api, name)
    assert agent.strategy == shown["strategy"]
    assert agent.loop_interval_ms == shown["loopIntervalMs"]
    assert guardrails_json(agent.guardrails) == shown["guardrails"]
    # What can leave is what the report of its wallet says once it is there.
    limits = (await api.get(f"/wallets/{agent.wallet_id}/limits")).json
    assert limits["canLeave"]["assets"] == shown["canLeave"]["assets"]
    said = [grant["sentence"] for who in limits["grants"] for grant in who["grants"]]
    assert said == [each for each in shown["sentences"] if "may only read" not in each]
    model.say(Completion("By my strategy.", (ToolCall(skill, params),)))
    decision = await decided(api.service, agent)
    assert outcome in decision.outcome, decision.outcome
    assert agent.strategy in model.requests[0].system
    assert {skill} <= {tool.name for tool in model.requests[0].tools}


@promise("template-grants-bind")
@pytest.mark.parametrize("name", NAMES)
async def test_beyond_its_grants_it_is_refused(
    scripted: tuple[Api, ScriptedProvider], name: str
) -> None:
    """The guardrails of the agent are out of the way, so that its grants alone refuse."""
    api, model = scripted
    shown = (await listed(api))[name]
    wide = {"maxSolPerTransaction": 2, "dailySpendingLimitSol": 10, "maxTransactionsPerMinute": 60}
    for step, (skill, params) in enumerate(BEYOND[name]):
        agent = await made(api, name, guardrails=wide, loopIntervalMs=3_600_000)
        # What the list says can leave is by its grants, so wider guardrails change nothing of it.
        limits = (await api.get(f"/wallets/{agent.wallet_id}/limits")).json
        assert limits["canLeave"]["assets"] == shown["canLeave"]["assets"]
        before = await api.service.ledger.balance(STRANGER)
        model.say(Completion("Beyond.", (ToolCall(skill, params),)))
        decision = await decided(api.service, agent)
        assert "grants" in decision.outcome, (step, decision.outcome)
        assert await api.service.ledger.balance(STRANGER) == before
        await api.service.agents.stop(agent.id)


@promise("template-request-replaces")
async def test_what_the_request_says_stands_in_place_of_the_templates(
    scripted: tuple[Api, ScriptedProvider],
) -> None:
    api, _ = scripted
    wallet = await api.wallet(1)
    body = {
        "name": "Ada",
        "walletId": wallet,
        "template": "dollar-cost-averager",
        "strategy": "Wait.",
        "loopIntervalMs": 5_000,
        "maxSolPerTransaction": Decimal("0.005"),
        "guardrails": {"maxTransactionsPerMinute": 3},
        "grants": [],
    }
    answer = await api.post("/agents", body)
    assert answer.status == 200, answer.text
    agent = await api.service.agents.get(answer.json["id"])
    assert (agent.wallet_id, agent.strategy, agent.loop_interval_ms) == (wallet, "Wait.", 5_000)
    assert guardrails_json(agent.guardrails) == {
        "maxSolPerTransaction": Decimal("0.005"),
        "maxTransactionsPerMinute": 3,
        "dailySpendingLimitSol": Decimal("0.04"),
        "maxCostsSolPerDay": Decimal("0.02"),
    }
    leaving = (await api.get(f"/wallets/{wallet}/limits")).json["canLeave"]["assets"]
    assert leaving["SOL"] == {"most": "0"}
    # A null is none that was said: no agent of a template is without grants.
    answer = await api.post("/agents", body | {"grants": None, "name": "Bea"})
    limits = (await api.get(f"/agents/{answer.json['id']}/limits")).json
    assert len(limits["grants"][0]["grants"]) == 1


async def test_what_is_no_template_is_named_and_nothing_is_made(
    scripted: tuple[Api, ScriptedProvider],
) -> None:
    api, _ = scripted
    base = {"name": "Ada", "template": "balance-reporter"}
    for changed, said in (
        ({"template": "thief"}, "template must be one of: balance-reporter, "),
        ({"template": 7}, "template must be "),
        ({"llmProvider": "rules-of-nobody"}, "llmProvider must be one of"),
    ):
        answer = await api.post("/agents", base | changed)
        assert (answer.status, said in answer.error) == (400, True), (changed, answer.text)
    assert (await api.get("/agents")).json == {"agents": []}
    assert (await api.get("/wallets")).json["wallets"] == []


@promise("template-wants-a-model")
async def test_a_provider_that_is_no_language_model_needs_a_strategy_of_its_own(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path / "home", demo=True) as api:
        body = {"name": "Ada", "template": "balance-reporter", "llmProvider": "rules"}
        answer = await api.post("/agents", body)
        assert (answer.status, "needs a language model" in answer.error) == (400, True)
        assert (await api.post("/agents", body | {"strategy": "always do wait"})).status == 200
        # Without a default provider the message says what there is.
        answer = await api.post("/agents", {"name": "Ada", "template": "balance-reporter"})
        assert "llmProvider is required" in answer.error


async def test_a_network_without_the_token_does_not_list_its_template(
    scripted: tuple[Api, ScriptedProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, _ = scripted
    others = [each for each in api.service.tokens if each.symbol != "USDC"]
    monkeypatch.setattr(api.service.policies, "_tokens", TokenList(others))
    assert set(NAMES) - set(await listed(api)) == {"dollar-cost-averager"}
    answer = await api.post("/agents", {"name": "Ada", "template": "dollar-cost-averager"})
    assert (answer.status, "a known symbol" in answer.error) == (400, True)


@pytest.mark.parametrize("name", NAMES)
def test_every_grant_of_a_template_has_bounds_of_a_day(name: str) -> None:
    for grant in TEMPLATES[name].grants:
        assert {"costs", "rate"} <= grant.keys()
        assert all("24h" in each["per"] for each in grant["assets"].values())
