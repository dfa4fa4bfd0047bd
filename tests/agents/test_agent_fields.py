"""Reading an agent from a request body."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.promises import promise
from tests.support.agents import AGENT

from solward.agents.agent import (
    DEFAULT_BUDGET,
    NANOUSD,
    UNLIMITED,
    TokenBudget,
    budget_of,
    usd_of,
)
from solward.agents.fields import Defaults, read_create, read_update
from solward.support import jsontext
from solward.types.errors import InvalidRequest
from solward.vault.guardrails.rules import ScopeLimits

SOL = 10**9
MODELS = {"rules": "rules", "openai": "gpt"}
LIMITS = ScopeLimits(2 * SOL, 5, 10 * SOL)
DEFAULTS = Defaults(LIMITS)
BODY: dict[str, Any] = {
    "name": "Ada",
    "walletId": "w1",
    "llmProvider": "rules",
    "llmModel": "rules",
    "strategy": "always do wait",
}


@promise("agent-create-fields", "guardrails-object-wins")
def test_what_is_omitted_gets_the_documented_defaults() -> None:
    fields = read_create(BODY | {"unknown": 1}, MODELS, DEFAULTS)
    assert fields["loop_interval_ms"] == 60_000
    assert fields["guardrails"] == LIMITS
    assert fields["wallet_id"] == "w1"


@pytest.mark.parametrize("field", ["name", "walletId", "llmProvider", "llmModel", "strategy"])
def test_a_missing_field_is_named(field: str) -> None:
    body = {name: value for name, value in BODY.items() if name != field}
    with pytest.raises(InvalidRequest, match=f"^{field} is required"):
        read_create(body, MODELS, DEFAULTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 5}, "name must be a string"),
        ({"name": " "}, "name must have 1 to 100 characters"),
        ({"name": "x" * 101}, "name must have 1 to 100 characters"),
        ({"name": "a\nb"}, "name must have printable characters only"),
        ({"strategy": "a\x00b"}, "strategy must be valid text"),
        ({"strategy": "\ud800"}, "strategy must be valid text"),
        ({"llmProvider": "claude"}, "llmProvider must be one of: openai, rules"),
        ({"llmProvider": ["rules"]}, "llmProvider must be one of: openai, rules"),
        ({"loopIntervalMs": 999}, "loopIntervalMs must be a whole number from 1000"),
        ({"loopIntervalMs": True}, "loopIntervalMs must be a number"),
        ({"loopIntervalMs": "1000"}, "loopIntervalMs must be a number"),
        ({"loopIntervalMs": Decimal("1000.5")}, "loopIntervalMs must be a whole number"),
        ({"loopIntervalMs": Decimal("1e999999999")}, "loopIntervalMs must be a whole number"),
        ({"loopIntervalMs": Decimal("NaN")}, "loopIntervalMs must be a whole number"),
        ({"guardrails": []}, "guardrails must be an object"),
        (
            {"guardrails": {"maxSolPerTransaction": -1}},
            "guardrails.maxSolPerTransaction must be greater than 0",
        ),
        ({"dailySpendingLimitSol": "1"}, "dailySpendingLimitSol must be a number"),
        (
            {"maxTransactionsPerMinute": Decimal("1.5")},
            "maxTransactionsPerMinute must be a whole number",
        ),
    ],
)
def test_a_wrong_value_is_refused_naming_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_create(BODY | change, MODELS, DEFAULTS)
    assert str(refused.value).startswith(message)


@promise("guardrails-object-wins")
def test_the_guardrails_object_wins_over_top_level_numbers() -> None:
    change = {
        "maxSolPerTransaction": Decimal("0.5"),
        "maxTransactionsPerMinute": Decimal("3.0"),
        "guardrails": {"maxSolPerTransaction": Decimal("0.25"), "dailySpendingLimitSol": 4},
    }
    fields = read_create(BODY | change, MODELS, DEFAULTS)
    assert fields["guardrails"] == ScopeLimits(SOL // 4, 3, 4 * SOL)


@promise("second-form-makes-wallet")
def test_the_second_form_needs_no_wallet_and_takes_the_configured_model() -> None:
    short = {"name": "Ada", "strategy": "always do wait", "maxSolPerTransaction": 1}
    fields = read_create(short, MODELS, Defaults(LIMITS, "openai", "gpt-5"))
    assert (fields["wallet_id"], fields["llm_provider"], fields["llm_model"]) == (
        None,
        "openai",
        "gpt-5",
    )

    own = read_create(short | {"llmProvider": "rules"}, MODELS, Defaults(LIMITS, "openai", "gpt-5"))
    assert (own["llm_provider"], own["llm_model"]) == ("rules", "rules")


def test_the_second_form_without_a_configured_provider_names_it() -> None:
    short = {"name": "Ada", "strategy": "always do wait", "maxSolPerTransaction": 1}
    with pytest.raises(InvalidRequest, match="llmProvider is required; one of: openai, rules"):
        read_create(short, MODELS, DEFAULTS)


def test_a_change_reads_only_what_it_names_and_keeps_other_guardrails() -> None:
    assert read_update({}, MODELS, AGENT) == {}
    assert read_update(
        {"name": "Bo", "guardrails": {"maxTransactionsPerMinute": 2}}, MODELS, AGENT
    ) == {"name": "Bo", "guardrails": ScopeLimits(2 * SOL, 2, 10 * SOL)}
    with pytest.raises(InvalidRequest, match="walletId cannot be changed"):
        read_update({"walletId": "w2"}, MODELS, AGENT)
    # As everywhere, null is no value.
    assert read_update({"walletId": None, "strategy": "x"}, MODELS, AGENT) == {"strategy": "x"}
    with pytest.raises(InvalidRequest, match="strategy must have 1 to"):
        read_update({"strategy": ""}, MODELS, AGENT)


def test_a_token_budget_is_read_exactly_and_null_takes_a_limit_away() -> None:
    given = {"maxTokensPerCycle": 4_000, "maxUsdPerDay": Decimal("0.5")}
    fields = read_create(BODY | {"llmBudget": given}, MODELS, DEFAULTS)
    assert fields["llm_budget"] == TokenBudget(4_000, None, 500_000_000)
    agent = replace(AGENT, llm_budget=fields["llm_budget"])
    changed = read_update({"llmBudget": {"maxUsdPerDay": None}}, MODELS, agent)
    assert changed == {"llm_budget": TokenBudget(4_000)}


def test_five_dollars_a_day_are_the_default_until_somebody_chooses() -> None:
    def made(**body: Any) -> TokenBudget:
        budget: TokenBudget = read_create(BODY | body, MODELS, DEFAULTS)["llm_budget"]
        return budget

    assert made() == made(llmBudget={}) == DEFAULT_BUDGET
    assert DEFAULT_BUDGET.to_json() == {"maxUsdPerDay": 5}
    both = made(llmBudget={"maxTokensPerDay": 100})
    assert both == TokenBudget(None, 100, 5 * NANOUSD, usd_by_default=True)
    assert made(llmBudget={"maxUsdPerDay": None}) == UNLIMITED
    assert made(llmBudget={"maxUsdPerDay": 5}) == TokenBudget(None, None, 5 * NANOUSD)

    agent = replace(AGENT, llm_budget=DEFAULT_BUDGET)
    for shown in ({"maxUsdPerDay": 5}, {"maxUsdPerDay": 5, "maxTokensPerDay": 7}):
        changed = read_update({"llmBudget": shown}, MODELS, agent)["llm_budget"]
        assert changed.usd_by_default
    chosen = read_update({"llmBudget": {"maxUsdPerDay": 6}}, MODELS, agent)["llm_budget"]
    assert not chosen.usd_by_default
    # As it is stored.
    for budget in (DEFAULT_BUDGET, chosen, both):
        assert budget_of(jsontext.loads(jsontext.dumps(budget.to_stored()))) == budget
    assert budget_of({}) == UNLIMITED


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (5, "llmBudget must be an object"),
        ({"maxTokens": 5}, "llmBudget.maxTokens is none of: maxTokensPerCycle, maxTokensPerDay"),
        ({"maxTokensPerCycle": 0}, "llmBudget.maxTokensPerCycle must be a whole number from 1"),
        ({"maxTokensPerDay": True}, "llmBudget.maxTokensPerDay must be a number"),
        ({"maxTokensPerDay": Decimal("1.5")}, "llmBudget.maxTokensPerDay must be a whole number"),
        ({"maxUsdPerDay": "5"}, "llmBudget.maxUsdPerDay must be a number"),
        ({"maxUsdPerDay": -1}, "llmBudget.maxUsdPerDay must be more than 0"),
        ({"maxUsdPerDay": Decimal("1e999999")}, "llmBudget.maxUsdPerDay must be more than 0"),
        ({"maxUsdPerDay": Decimal("0.0000000001")}, "llmBudget.maxUsdPerDay must have at most 9"),
    ],
)
def test_a_bad_token_budget_names_the_field(budget: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        read_create(BODY | {"llmBudget": budget}, MODELS, DEFAULTS)


def test_options_must_be_an_object() -> None:
    with pytest.raises(InvalidRequest, match="llmOptions must be an object"):
        read_create(BODY | {"llmOptions": []}, MODELS, DEFAULTS)


def test_dollars_are_exact_and_nothing_is_a_plain_nought() -> None:
    assert [str(usd_of(units)) for units in (0, 161_000, 2 * 10**9)] == ["0", "0.000161", "2"]
