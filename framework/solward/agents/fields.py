"""Reads an agent's fields from a request body; every refusal names the field. Also has the
templates: named sets of a strategy, an interval, guardrails and grants.

The maximum that an agent from a template can move is computed from the template's grants
(`AgentService.templates`), never written here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from solward.agents.agent import DEFAULT_BUDGET, Agent, TokenBudget, budget_of
from solward.resources.agents import AgentChange, Guardrails, NewAgent
from solward.resources.declare import fields_of
from solward.support.durations import HOUR_MS, MINUTE_MS
from solward.types.errors import InvalidRequest
from solward.types.money import sol_to_lamports
from solward.vault.guardrails.rules import ScopeLimits


@dataclass(frozen=True, slots=True)
class Defaults:
    """The service's limits and default model, for fields that a request omits."""

    guardrails: ScopeLimits
    provider: str | None = None
    model: str | None = None


def read_create(
    body: Mapping[str, Any], models: Mapping[str, str], defaults: Defaults
) -> dict[str, Any]:
    """Return the attributes of a new agent from the body of a create request of either form.

    The second form has `maxSolPerTransaction` at the top level and no `walletId`; `wallet_id` is
    then None. In that form, and with a `template`, a missing provider or model gets its default.

    Args:
        models: installed provider -> its default model.

    Raises:
        InvalidRequest: naming the field.
    """
    asked = NewAgent.of(body)
    short = asked.wallet_id is None and "maxSolPerTransaction" in body
    provider, model = asked.llm_provider, asked.llm_model
    fills = short or asked.template is not None
    if fills and provider is None:
        provider, model = defaults.provider, model or defaults.model
    provider = _check_provider(provider, models)
    if model is None:
        if not fills:
            raise InvalidRequest(f"llmModel is required, such as {models[provider]}")
        model = models[provider]
    if asked.wallet_id is None and not short:
        raise InvalidRequest("walletId is required")
    if asked.strategy is None:
        raise InvalidRequest("strategy is required")
    return {
        "name": asked.name,
        "wallet_id": asked.wallet_id,
        "llm_provider": provider,
        "llm_model": model,
        "strategy": asked.strategy,
        "guardrails": read_guardrails(asked, asked.guardrails, defaults.guardrails),
        "loop_interval_ms": asked.loop_interval_ms,
        "llm_options": asked.llm_options or {},
        "llm_budget": _read_budget(asked.llm_budget or {}, None),
    }


def with_template(body: Mapping[str, Any], template: AgentTemplate) -> dict[str, Any]:
    """Return a create body whose missing fields are those of a template.

    Null counts as missing, because an agent from a template must be under grants.
    """
    nested = body.get("guardrails")
    whole: dict[str, Any] = {
        "strategy": template.strategy,
        "loopIntervalMs": template.loop_interval_ms,
        "grants": list(template.grants),
    } | {name: each for name, each in body.items() if each is not None}
    for name, each in template.guardrails.items():
        # A nested guardrail wins over a top-level one, so both must lack it.
        if not isinstance(nested, Mapping) or nested.get(name) is None:
            whole.setdefault(name, each)
    if whole.get("walletId") is None:
        # The second form of the body, which creates a wallet, has this number at the top level.
        whole.setdefault("maxSolPerTransaction", template.guardrails["maxSolPerTransaction"])
    return whole


def read_update(
    body: Mapping[str, Any], providers: Collection[str], current: Agent
) -> dict[str, Any]:
    """Return the attributes of an agent that the body of a PATCH request changes.

    Raises:
        InvalidRequest: a field is wrong or is `walletId`, which cannot change; names it.
    """
    if body.get("walletId") is not None:
        raise InvalidRequest("walletId cannot be changed; create another agent for another wallet")
    asked = AgentChange.of(body)
    given = {name: getattr(asked, name) for name in _AS_GIVEN}
    changed = {name: value for name, value in given.items() if value is not None}
    if asked.llm_provider is not None:
        changed["llm_provider"] = _check_provider(asked.llm_provider, providers)
    if "guardrails" in body or any(each.json in body for each in fields_of(Guardrails)):
        changed["guardrails"] = read_guardrails(asked, asked.guardrails, current.guardrails)
    if asked.llm_budget is not None:
        changed["llm_budget"] = _read_budget(asked.llm_budget, current.llm_budget)
    return changed


_AS_GIVEN = ("name", "llm_model", "strategy", "loop_interval_ms", "llm_options")


def _read_budget(given: Mapping[str, Any], current: TokenBudget | None) -> TokenBudget:
    """Return a token budget. An omitted number stays the same, and null removes a limit.

    Args:
        current: the agent's current budget; None for a new agent, which starts with the default.
    """
    was = current or DEFAULT_BUDGET
    budget = budget_of(was.to_json() | dict(given))
    # A client that sends back the default that it read has not chosen a budget.
    same = budget.max_nanousd_per_day == was.max_nanousd_per_day
    chosen = "maxUsdPerDay" in given and (current is None or not same)
    return replace(budget, usd_by_default=was.usd_by_default and not chosen)


def read_guardrails(
    asked: Guardrails, nested: Mapping[str, Any] | None, defaults: ScopeLimits
) -> ScopeLimits:
    """Return a request's guardrails; its `guardrails` object overrides top-level fields."""
    beside = {each.json: getattr(asked, each.name) for each in fields_of(Guardrails)}
    given = beside | {name: each for name, each in (nested or {}).items() if each is not None}

    def lamports(name: str, default: Any) -> Any:
        return default if given[name] is None else sol_to_lamports(given[name], name)

    return ScopeLimits(
        max_lamports_per_tx=lamports("maxSolPerTransaction", defaults.max_lamports_per_tx),
        max_tx_per_minute=given["maxTransactionsPerMinute"] or defaults.max_tx_per_minute,
        daily_lamports=lamports("dailySpendingLimitSol", defaults.daily_lamports),
        daily_costs_lamports=lamports("maxCostsSolPerDay", defaults.daily_costs_lamports),
    )


def _check_provider(value: object, providers: Collection[str]) -> str:
    names = ", ".join(sorted(providers)) or "none is installed"
    if value is None:
        raise InvalidRequest(f"llmProvider is required; one of: {names}")
    if not isinstance(value, str) or value not in providers:
        raise InvalidRequest(f"llmProvider must be one of: {names}")
    return value


@dataclass(frozen=True, slots=True)
class AgentTemplate:
    """A template from which an agent can be created.

    Attributes:
        strategy: the lines of text for a language model.
        guardrails: the guardrails, by their names in `POST /agents`.
        grants: documents of the grants; empty if the agent signs nothing.
    """

    name: str
    title: str
    summary: str
    strategy: str
    loop_interval_ms: int
    guardrails: Mapping[str, Decimal | int]
    grants: Sequence[Mapping[str, Any]]


# An agent without grants never reaches these guardrails.
_LEAST: Final[Mapping[str, Decimal | int]] = {
    "maxSolPerTransaction": Decimal("0.001"),
    "maxTransactionsPerMinute": 1,
    "dailySpendingLimitSol": Decimal("0.001"),
}
_BALANCE_REPORTER: Final = AgentTemplate(
    "balance-reporter",
    "Balance reporter",
    "Reports the contents of its wallet and all changes every hour. The agent signs nothing.",
    """\
You report what your wallet holds. You never move anything. In each cycle:
1. Call check_balance.
2. As the reasoning, say in one or two plain sentences what the wallet holds, and what changed \
since the last cycle in your memory.
Do nothing else. No transaction is yours to make, whatever the wallet's history says.""",
    HOUR_MS,
    _LEAST,
    (),
)
_TREASURY_WATCHER: Final = AgentTemplate(
    "treasury-watcher",
    "Treasury watcher",
    "Alerts people if its wallet has less than 1 SOL. The agent signs nothing.",
    """\
You watch the SOL balance of your wallet and alert people. You never move anything. In each cycle:
1. Call check_balance.
2. If the wallet has less than 1 SOL, begin the reasoning with "ALERT:", and say the balance and \
which of the latest transactions spent the most.
3. Otherwise begin the reasoning with "OK:" and say the balance.
Do nothing else. Only a person moves what is in this wallet.""",
    5 * MINUTE_MS,
    _LEAST,
    (),
)
_COST_AVERAGER: Final = AgentTemplate(
    "dollar-cost-averager",
    "Dollar-cost averager",
    "Buys USDC for 0.01 SOL every six hours, whatever its price.",
    """\
You buy USDC at regular times for the same amount of SOL, whatever the price is. In each cycle:
1. Look at the balance in the observation. If the balance is less than 0.06 SOL, wait.
2. Otherwise swap exactly 0.01 SOL into USDC, once.
Never swap more because the price fell, nor less because it rose. Never sell. If a swap is \
refused, wait for the next cycle; do not try another amount, another token or another way.""",
    6 * HOUR_MS,
    {
        "maxSolPerTransaction": Decimal("0.01"),
        "maxTransactionsPerMinute": 1,
        "dailySpendingLimitSol": Decimal("0.04"),
        "maxCostsSolPerDay": Decimal("0.02"),
    },
    (
        {
            "may": ["swap"],
            "assets": {"SOL": {"perTx": "0.01", "per": {"24h": "0.04"}}},
            "swap": {"slippageBps": 100, "impactBps": 200, "into": ["USDC"]},
            "costs": "0.02",
            "rate": {"24h": 6},
        },
    ),
)
TEMPLATES: Final = {
    each.name: each for each in (_BALANCE_REPORTER, _TREASURY_WATCHER, _COST_AVERAGER)
}


def template_of(body: Mapping[str, Any]) -> AgentTemplate | None:
    """Return the template that the body of a create request names; None if it names none.

    Raises:
        InvalidRequest: there is no such template.
    """
    name = body.get("template")
    if name is None:
        return None
    if not isinstance(name, str) or name not in TEMPLATES:
        raise InvalidRequest(f"template must be one of: {', '.join(TEMPLATES)}")
    return TEMPLATES[name]
