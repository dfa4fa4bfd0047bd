"""Agent templates: filled in strictly, made as they are shown, refused beyond their grants."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.test_agents_on_localnet import decided
from tests.promises import promise
from tests.support.agents import scripted_model
from tests.support.services import STRANGER, Api, serving_api

from solward.agents.agent import Agent
from solward.agents.templates import TEMPLATES, AgentTemplate
from solward.solana.token_list import TokenList
from solward.support import jsontext
from solward.testing import ScriptedProvider
from solward.types.errors import InvalidRequest, NotFound
from solward.types.provider import Completion, ToolCall

PAYEE = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
NAMES = tuple(TEMPLATES)
GIVEN: Mapping[str, dict[str, Any]] = {
    "approved-payee": {"recipient": PAYEE},
    "api-buyer": {"site": "127.0.0.1:9", "scheme": "http"},
}
# What an agent of it does by its strategy, and how such a cycle ends where it is allowed.
DOES: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "balance-reporter": ("check_balance", {}, "SOL balance: 2.0000 SOL"),
    "treasury-watcher": ("check_balance", {}, "SOL balance: 2.0000 SOL"),
    "dollar-cost-averager": (
        "swap",
        {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.01")},
        "Swapped 0.01 SOL",
    ),
    "approved-payee": (
        "transfer",
        {"to": PAYEE, "amount": Decimal("0.1")},
        "asks to transfer 0.1 SOL to 9B5XszUG",
    ),
    "api-buyer": (
        "pay_request",
        {"url": "http://127.0.0.1:9/", "max": "0.05 USDC"},
        "127.0.0.1:9",
    ),
    "stake-keeper": ("stake_sol", {"amount": Decimal("1.1")}, "Staked 1.1 SOL"),
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
    "approved-payee": (
        _SEND,
        ("transfer", {"to": PAYEE, "amount": Decimal("0.100000001")}),
    ),
    "api-buyer": (_SEND, ("wrap_sol", {"amount": Decimal("0.01")})),
    "stake-keeper": (_SEND, ("stake_sol", {"amount": Decimal("1.100000001")})),
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


async def made(api: Api, name: str, **fields: Any) -> Agent:
    """A new agent of a template, with a wallet of its own that holds 2 SOL."""
    body = {"name": name, "template": name, "templateParameters": GIVEN.get(name, {})} | fields
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
    shown = await api.post(f"/agent-templates/{name}/preview", {"parameters": GIVEN.get(name, {})})
    assert shown.status == 200, shown.text
    skill, params, outcome = DOES[name]
    agent = await made(api, name)
    assert agent.strategy == shown.json["strategy"]
    assert agent.loop_interval_ms == shown.json["loopIntervalMs"]
    assert agent.guardrails.to_json() == shown.json["guardrails"]
    # What can leave is what the report of its wallet says once it is there.
    limits = (await api.get(f"/wallets/{agent.wallet_id}/limits")).json
    assert limits["canLeave"]["assets"] == shown.json["canLeave"]["assets"]
    said = [grant["sentence"] for who in limits["grants"] for grant in who["grants"]]
    assert said == [each for each in shown.json["sentences"] if "may only read" not in each]
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
    wide = {"maxSolPerTransaction": 2, "dailySpendingLimitSol": 10, "maxTransactionsPerMinute": 60}
    for step, (skill, params) in enumerate(BEYOND[name]):
        agent = await made(api, name, guardrails=wide, loopIntervalMs=3_600_000)
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
    assert agent.guardrails.to_json() == {
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


@promise("template-parameters-checked")
async def test_what_does_not_fit_is_named_and_nothing_is_made(
    scripted: tuple[Api, ScriptedProvider],
) -> None:
    api, _ = scripted
    base = {"name": "Ada", "template": "approved-payee", "templateParameters": {"recipient": PAYEE}}
    for changed, said in (
        ({"template": "thief"}, "template must be one of: balance-reporter, "),
        ({"template": 7}, "template must be one of: "),
        ({"template": None}, "templateParameters needs a template"),
        (
            {"templateParameters": {}},
            "templateParameters of approved-payee: recipient: is required",
        ),
        ({"templateParameters": []}, "recipient: is required"),
        ({"templateParameters": "x"}, "parameters must be a JSON object"),
        ({"templateParameters": {"recipient": "any"}}, "recipient: must match"),
        ({"templateParameters": {"recipient": "1" * 32 + "0"}}, "recipient: must match"),
        ({"templateParameters": {"recipient": PAYEE, "amount": 0}}, "must be greater than 0"),
        ({"templateParameters": {"recipient": PAYEE, "amount": "1"}}, "amount: must be a number"),
        ({"templateParameters": {"recipient": PAYEE, "amount": 1001}}, "must be at most 1000"),
        (
            {"templateParameters": {"recipient": PAYEE, "amount": Decimal("0.0000000001")}},
            "amount: must have at most 9 decimals",
        ),
        ({"templateParameters": {"recipient": PAYEE, "to": "any"}}, "unknown field 'to'"),
        ({"llmProvider": "rules-of-nobody"}, "llmProvider must be one of"),
    ):
        answer = await api.post("/agents", base | changed)
        assert (answer.status, said in answer.error) == (400, True), (changed, answer.text)
    assert (await api.get("/agents")).json == {"agents": []}
    assert (await api.get("/wallets")).json["wallets"] == []


async def test_a_template_whose_skill_is_not_loaded_says_so(
    scripted: tuple[Api, ScriptedProvider],
) -> None:
    api, _ = scripted
    skills = dict(api.service.registry.skills)
    del skills["swap"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(api.service.registry), "__slots__", (), raising=False)
        object.__setattr__(api.service.registry, "skills", skills)
    shown = {each["name"]: each for each in (await api.get("/agent-templates")).json["templates"]}
    assert shown["dollar-cost-averager"]["missingSkills"] == ["swap"]
    answer = await api.post("/agents", {"name": "Ada", "template": "dollar-cost-averager"})
    assert answer.error == (
        "The template dollar-cost-averager needs skills that are not loaded: swap"
    )


@promise("template-wants-a-model")
async def test_a_provider_that_is_no_language_model_needs_a_strategy_of_its_own(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path / "home", demo=True) as api:
        body = {"name": "Ada", "template": "balance-reporter", "llmProvider": "rules"}
        answer = await api.post("/agents", body)
        assert (answer.status, "is for a language model" in answer.error) == (400, True)
        assert (await api.post("/agents", body | {"strategy": "always do wait"})).status == 200
        # Without a default provider the message says what there is.
        answer = await api.post("/agents", {"name": "Ada", "template": "balance-reporter"})
        assert "llmProvider is required" in answer.error


async def test_a_preview_is_refused_by_name_and_takes_guardrails(
    scripted: tuple[Api, ScriptedProvider],
) -> None:
    api, _ = scripted
    token, _ = await api.key()
    path = "/agent-templates/dollar-cost-averager/preview"
    narrow = {"guardrails": {"dailySpendingLimitSol": Decimal("0.015")}}
    shown = (await api.post(path, narrow, token=token)).json
    assert shown["canLeave"]["assets"]["SOL"] == {"most": "0.015"}
    missing = await api.post("/agent-templates/thief/preview", {}, token=token)
    assert (missing.status, "Agent template not found" in missing.error) == (404, True)
    answer = await api.post(path, {"guardrails": {"dailySpendingLimitSol": -1}}, token=token)
    assert (answer.status, "dailySpendingLimitSol" in answer.error) == (400, True)
    with pytest.raises(NotFound):
        await api.service.agents.preview("thief", {})
    assert (await api.get("/agents")).json == {"agents": []}


async def test_a_network_without_the_token_has_no_example(
    scripted: tuple[Api, ScriptedProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, _ = scripted
    answer = await api.post(
        "/agent-templates/dollar-cost-averager/preview", {"parameters": {"token": "NOSUCH"}}
    )
    assert (answer.status, "a known symbol (SOL, USDC, BONK)" in answer.error) == (400, True)
    others = [each for each in api.service.tokens if each.symbol != "USDC"]
    monkeypatch.setattr(api.service.policies, "_tokens", TokenList(others))
    shown = {each["name"]: each for each in (await api.get("/agent-templates")).json["templates"]}
    assert [name for name, each in shown.items() if each["example"] is None] == [
        "dollar-cost-averager",
        "api-buyer",
    ]


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=NAMES)
def test_a_templates_words_name_its_parameters_and_have_no_value(template: AgentTemplate) -> None:
    assert template.strategy.count("\n") >= 4
    filled = template.fill(GIVEN.get(template.name, {}))
    assert filled.strategy.startswith(template.strategy)
    for name in template.fields:
        assert f"`{name}`" in template.strategy or name.endswith("PerDay")
    assert set(template.example) == set(template.schema["required"])
    # Everything that may leave has a bound a day, costs and a number of transactions.
    for grant in filled.grants:
        assert {"costs", "rate"} <= grant.keys()
        assert all("24h" in each["per"] for each in grant["assets"].values())


@promise("template-values-escaped")
@given(text=st.text(max_size=600))
def test_a_text_is_quoted_and_never_ends_its_block(text: str) -> None:
    fields = {"note": {"type": "string", "description": "Anything.", "maxLength": 512}}
    template = AgentTemplate(
        "a", "A", "A.", "Say `note`.", 60_000, {}, (), (), fields, {"note": ""}
    )
    try:
        filled = template.fill({"note": text})
    except InvalidRequest:
        assert len(text) > 512 or not text.isprintable()
        return
    head, _, block = filled.strategy.partition("<values>\n")
    assert head.startswith("Say `note`.\n\nThe values that the lines above name")
    inside, _, rest = block.partition("\n</values>")
    assert rest == ""
    assert "<" not in inside
    assert "\n" not in inside
    read = json.loads(inside)["note"]
    assert read == text or "\ufffd" in read


def test_a_line_end_that_a_pattern_lets_pass_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="site: must be one line of at most 512 characters"):
        TEMPLATES["api-buyer"].fill({"site": "api.example.com\n"})


def test_numbers_are_exact_in_grants() -> None:
    for given_text, granted in (("0.10", "0.1"), ("1e-2", "0.01"), ("100", "100"), ("1E+2", "100")):
        amount = jsontext.loads(given_text)
        filled = TEMPLATES["dollar-cost-averager"].fill({"amount": amount})
        assert filled.grants[0]["assets"]["SOL"]["perTx"] == granted
        assert filled.guardrails["maxSolPerTransaction"] == Decimal(granted)
