"""An agent as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Agent


_MODEL_LIMITS = {
    "maxTokensPerCycle": "model tokens a cycle",
    "maxTokensPerDay": "model tokens in 24 hours",
    "maxUsdPerDay": "dollars of model costs in 24 hours",
}


def limit_texts(limits: Mapping[str, Any]) -> dict[str, object]:
    """Limits by what they are of."""
    from solward_cli.render import LIMITS, amount

    labels = LIMITS | _MODEL_LIMITS
    return {
        f"  {labels.get(name, name)}": "no limit" if value is None else amount(value)
        for name, value in limits.items()
    }


def render_agent(found: Agent) -> RenderableType:
    """All fields of an agent."""
    from solward_cli.render import fields, moment, span, status

    model = f"{found.llm_provider}, {found.llm_model}"
    return fields(
        {
            "Agent": found.id,
            "Name": found.name,
            "Status": status(found.status),
            "Why": found.error,
            "Wallet": found.wallet_id,
            "Model": model if found.is_llm else f"{model} (fixed rules, not a language model)",
            "Every": span(found.loop_interval_ms),
            **limit_texts({**found.guardrails, **found.llm_budget}),
            "Created": f"{moment(found.created_at)} UTC",
            "Strategy": found.strategy,
        }
    )
