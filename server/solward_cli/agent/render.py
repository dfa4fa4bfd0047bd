"""An agent as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Agent


def render_agent(found: Agent) -> RenderableType:
    """All fields of an agent."""
    from solward_cli.render import amount, fields, moment, status

    limits = {f"  {name}": amount(value) for name, value in (*found.guardrails.items(),)} | {
        f"  {name}": amount(value) for name, value in found.llm_budget.items()
    }
    model = f"{found.llm_provider}, {found.llm_model}"
    return fields(
        {
            "Agent": found.id,
            "Name": found.name,
            "Status": status(found.status),
            "Why": found.error,
            "Wallet": found.wallet_id,
            "Model": model if found.is_llm else f"{model} (fixed rules, not a language model)",
            "Every": f"{amount(found.loop_interval_ms)} ms",
            **limits,
            "Created": f"{moment(found.created_at)} UTC",
            "Strategy": found.strategy,
        }
    )
