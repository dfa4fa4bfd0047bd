"""Schemas of the agent form, and its values as the API's parameters; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from solward.client import Plugin
from solward.resources.agents import Guardrails, LlmBudget, NewAgent
from solward.resources.declare import declared_fields, fields_of
from solward_dashboard.forms.request_form import form_schema

_MAX_SECONDS = 2_147_483
NAME: Mapping[str, Any] = form_schema([declared_fields(NewAgent)["name"]])
GRANTS: Mapping[str, Any] = form_schema([declared_fields(NewAgent)["grants"]])
_RAILS = fields_of(Guardrails)
# Nothing that is left empty may seem to be no limit; without costs of its own the wallet's hold.
_REQUIRED = [each.json for each in _RAILS if each.name != "max_costs_sol_per_day"]
BOUNDS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "seconds": {
            "type": "number",
            "title": "Seconds between cycles",
            "minimum": 1,
            "maximum": _MAX_SECONDS,
            "default": 60,
        },
        "guardrails": {
            "title": "Guardrails",
            "description": "Held by the service for every transaction of the agent, beside its own"
            " limits.",
        }
        | form_schema(_RAILS)
        | {"required": _REQUIRED},
    },
    "required": ["seconds", "guardrails"],
}
BUDGET: Mapping[str, Any] = form_schema(fields_of(LlmBudget))
_RULES = (
    "This provider is no language model: its strategy is rules, one a line, and the first that"
    " matches is taken. For example: when balance.SOL < 0.5 do airdrop amount=1"
)
_MODEL = "The strategy tells the model what to do, in your own words."


def provider_choices(providers: Mapping[str, Plugin]) -> dict[str, str]:
    """Providers as choices: name -> label."""
    labels = {}
    for name, each in providers.items():
        notes = [] if each.is_llm else ["not a language model"]
        notes += [] if each.configured else ["no key set"]
        labels[name] = f"{name} ({', '.join(notes)})" if notes else name
    return labels


def first_choice(providers: Mapping[str, Plugin]) -> str | None:
    """The default choice: a configured language model, else a configured provider."""
    ranked = sorted(providers.values(), key=lambda each: (not each.configured, not each.is_llm))
    return ranked[0].name if ranked else None


def about(provider: Plugin) -> str:
    """What to know before an agent of this provider is created."""
    if not provider.configured:
        return (
            f"Set {provider.secret_env} and restart the service before an agent of this provider"
            " can be started."
        )
    return _RULES if provider.name == "rules" else _MODEL if provider.is_llm else ""


def milliseconds(seconds: Any) -> int | None:
    """`loopIntervalMs`; None where it is no whole number of milliseconds."""
    exact = seconds * 1_000
    return int(exact) if exact == int(exact) else None


def limits_now(limits: Mapping[str, Any]) -> dict[str, Any]:
    """The limits of a wallet that hold for its agents too, where there are some; its ceiling of
    costs holds without being said again."""
    found = {name: limits.get(name, {}).get("limit") for name in _REQUIRED}
    return {name: each for name, each in found.items() if each is not None}


def limits_set(settings: Mapping[str, str | None]) -> dict[str, Any]:
    """The same of settings by their names, which are those of the fields."""
    found = {each.json: settings.get(each.name.upper()) for each in _RAILS}
    return {name: Decimal(found[name] or 0) for name in _REQUIRED if found[name]}


def create_parameters(values: Mapping[str, Any], wallet_id: str | None) -> dict[str, Any]:
    """Parameters of `agents.create`; without a wallet the agent gets a new one.

    Args:
        values: `template` too where it starts from one, and then no strategy where the template's
            is to be; `grants` where it is a copy of an agent that has some.
    """
    found = {"wallet_id": wallet_id, **_parameters(values), "llm_budget": values["budget"]}
    if "template" in values:
        found["template"] = values["template"]
    if values.get("grants") is not None:
        found["grants"] = values["grants"]
    return found


def change_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of `agents.change`; an absent number of the budget is removed."""
    budget = dict.fromkeys(BUDGET["properties"]) | values["budget"]
    return _parameters(values) | {"llm_budget": budget}


def _parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": values["name"],
        "strategy": values["strategy"],
        "llm_provider": values["provider"],
        "llm_model": values["model"],
        "llm_options": values["options"],
        "loop_interval_ms": values["milliseconds"],
        # At the top level they are accepted with and without a wallet.
        **{each.name: values["guardrails"].get(each.json) for each in _RAILS},
    }


def seconds_text(milliseconds: int) -> str:
    """An interval as its field has it."""
    whole, rest = divmod(milliseconds, 1_000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def grants_to_copy(grants: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Grants of one agent as another's: without whose they were."""
    return [{name: each for name, each in grant.items() if name != "who"} for grant in grants]
