"""An agent's fields, read from a request body; every refusal names the field."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from solward.agents.agent import Agent, AgentGuardrails
from solward.agents.budget import DEFAULT_BUDGET, TokenBudget, budget_of
from solward.agents.templates import AgentTemplate
from solward.resources.agents import Guardrails, LlmBudget, NewAgent
from solward.resources.declare import declared_fields, fields_of
from solward.resources.fields import Field, Sol, Text
from solward.types.errors import InvalidRequest, refuse_unknown
from solward.types.money import sol_to_lamports

_FIELDS = declared_fields(NewAgent)
INTERVAL = _FIELDS["loop_interval_ms"]
BUDGET_FIELDS = {each.json: each for each in fields_of(LlmBudget)}
GUARDRAIL_FIELDS = {each.json: each for each in fields_of(Guardrails)}


@dataclass(frozen=True, slots=True)
class Defaults:
    """The service's limits and default model, for fields that a request leaves out."""

    guardrails: AgentGuardrails
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class AgentFields:
    """A valid create request; `wallet_id` is None when the agent gets a new wallet."""

    name: str
    wallet_id: str | None
    llm_provider: str
    llm_model: str
    strategy: str
    guardrails: AgentGuardrails
    loop_interval_ms: int
    llm_options: Mapping[str, Any]
    llm_budget: TokenBudget


def read_create(
    body: Mapping[str, Any], models: Mapping[str, str], defaults: Defaults
) -> AgentFields:
    """Check a create body in either of its forms.

    The second form has `maxSolPerTransaction` at the top level and no `walletId`; only there, and
    with a `template`, the configured default provider and model fill what is missing.

    Args:
        models: installed provider -> its default model.

    Raises:
        InvalidRequest: naming the field.
    """
    short = body.get("walletId") is None and "maxSolPerTransaction" in body
    name = _text(body, _FIELDS["name"], printable=True)
    wallet_id = None if short else _text(body, _FIELDS["wallet_id"])
    chosen: dict[str, Any] = dict(body)
    if short or body.get("template") is not None:
        if chosen.get("llmProvider") is None:
            chosen["llmProvider"] = defaults.provider
            if chosen.get("llmModel") is None:
                chosen["llmModel"] = defaults.model
        if chosen.get("llmModel") is None:
            chosen["llmModel"] = models.get(str(chosen["llmProvider"]))
    provider = _provider(chosen, models)
    if chosen.get("llmModel") is None:
        raise InvalidRequest(f"llmModel is required, such as {models[provider]}")
    return AgentFields(
        name=name,
        wallet_id=wallet_id,
        llm_provider=provider,
        llm_model=_text(chosen, _FIELDS["llm_model"], printable=True),
        strategy=_text(body, _FIELDS["strategy"]),
        guardrails=read_guardrails(body, defaults.guardrails),
        loop_interval_ms=_interval(body),
        llm_options=_object(body, "llmOptions"),
        llm_budget=read_budget(_object(body, "llmBudget")),
    )


def with_template(body: Mapping[str, Any], template: AgentTemplate) -> dict[str, Any]:
    """A create body with the fields of a template, where it does not say them itself.

    A null says nothing: an agent of a template is under grants.
    """
    nested = body.get("guardrails")
    whole: dict[str, Any] = {
        "strategy": template.strategy,
        "loopIntervalMs": template.loop_interval_ms,
        "grants": list(template.grants),
    } | {name: each for name, each in body.items() if each is not None}
    for name, each in template.guardrails.items():
        # What is nested wins over what is not, so the template's is put where neither says it.
        if not isinstance(nested, Mapping) or nested.get(name) is None:
            whole.setdefault(name, each)
    if whole.get("walletId") is None:
        # A wallet is made for it: the second form, which has this number at the top level.
        whole.setdefault("maxSolPerTransaction", template.guardrails["maxSolPerTransaction"])
    return whole


def read_update(
    body: Mapping[str, Any], providers: Collection[str], current: Agent
) -> dict[str, Any]:
    """Check a change (PATCH); returns the fields of `AgentFields` that change.

    Raises:
        InvalidRequest: naming the field; also for `walletId`, which cannot change.
    """
    if body.get("walletId") is not None:
        raise InvalidRequest("walletId cannot be changed; create another agent for another wallet")
    changed: dict[str, Any] = {}
    if "name" in body:
        changed["name"] = _text(body, _FIELDS["name"], printable=True)
    if "llmProvider" in body:
        changed["llm_provider"] = _provider(body, providers)
    if "llmModel" in body:
        changed["llm_model"] = _text(body, _FIELDS["llm_model"], printable=True)
    if "strategy" in body:
        changed["strategy"] = _text(body, _FIELDS["strategy"])
    if body.get("loopIntervalMs") is not None:
        changed["loop_interval_ms"] = _interval(body)
    if "guardrails" in body or any(field in body for field in GUARDRAIL_FIELDS):
        changed["guardrails"] = read_guardrails(body, current.guardrails)
    if body.get("llmOptions") is not None:
        changed["llm_options"] = _object(body, "llmOptions")
    if "llmBudget" in body:
        changed["llm_budget"] = read_budget(_object(body, "llmBudget"), current.llm_budget)
    return changed


def read_budget(fields: Mapping[str, Any], current: TokenBudget | None = None) -> TokenBudget:
    """A token budget; a number left out stays as it is, null removes its limit.

    Args:
        current: as it is; None for a new one, which begins with the default.
    """
    was = current or DEFAULT_BUDGET
    refuse_unknown(fields, BUDGET_FIELDS, "llmBudget.")
    values = was.to_json() | dict(fields)
    for name, field in BUDGET_FIELDS.items():
        if values.get(name) is not None:
            values[name] = replace(field, name=f"llmBudget.{name}").read(values[name])
    budget = budget_of(values)
    # Whoever changes an agent and sends back what was shown chose nothing.
    same = budget.max_nanousd_per_day == was.max_nanousd_per_day
    chosen = "maxUsdPerDay" in fields and (current is None or not same)
    return replace(budget, usd_by_default=was.usd_by_default and not chosen)


def read_guardrails(body: Mapping[str, Any], defaults: AgentGuardrails) -> AgentGuardrails:
    """Guardrail numbers from the top level and the `guardrails` object, which wins and has no
    others: a misspelled one would bind nothing."""
    nested = body.get("guardrails")
    if nested is None:
        nested = {}
    if not isinstance(nested, Mapping):
        raise InvalidRequest("guardrails must be an object")
    refuse_unknown(nested, GUARDRAIL_FIELDS, "guardrails.")
    values: dict[str, Any] = {}
    for field in GUARDRAIL_FIELDS:
        for source, prefix in ((nested, "guardrails."), (body, "")):
            if source.get(field) is not None:
                values[field] = _guardrail(field, source[field], prefix + field)
                break
    return AgentGuardrails(
        values.get("maxSolPerTransaction", defaults.max_lamports_per_transaction),
        values.get("maxTransactionsPerMinute", defaults.max_transactions_per_minute),
        values.get("dailySpendingLimitSol", defaults.daily_lamports),
        values.get("maxCostsSolPerDay", defaults.daily_costs_lamports),
    )


def _guardrail(field: str, value: object, label: str) -> int:
    declared = GUARDRAIL_FIELDS[field]
    if isinstance(declared, Sol):
        return sol_to_lamports(value, label)
    return int(replace(declared, name=label).read(value))


def _interval(body: Mapping[str, Any]) -> int:
    value = body.get(INTERVAL.json)
    return int(INTERVAL.default if value is None else INTERVAL.read(value))  # type: ignore[arg-type]


def _object(body: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = body.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{field} must be an object")
    return value


def _provider(body: Mapping[str, Any], providers: Collection[str]) -> str:
    value = body.get("llmProvider")
    names = ", ".join(sorted(providers)) or "none is installed"
    if value is None:
        raise InvalidRequest(f"llmProvider is required; one of: {names}")
    if not isinstance(value, str) or value not in providers:
        raise InvalidRequest(f"llmProvider must be one of: {names}")
    return value


def _text(body: Mapping[str, Any], declared: Field, *, printable: bool = False) -> str:
    assert isinstance(declared, Text)
    field, most = declared.json, declared.most
    value = body.get(field)
    if value is None:
        raise InvalidRequest(f"{field} is required")
    if not isinstance(value, str):
        raise InvalidRequest(f"{field} must be a string")
    if not value.strip() or len(value) > most:
        raise InvalidRequest(f"{field} must have 1 to {most} characters")
    if printable and not value.isprintable():
        raise InvalidRequest(f"{field} must have printable characters only")
    # Neither SQLite text nor UTF-8 holds a lone surrogate, and PostgreSQL refuses NUL.
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidRequest(f"{field} must be valid text")
    return value
