"""What the agents' pages fetch, and texts made of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solward.client import Agent, Decision, NotFoundError
from solward_dashboard.api import api, of_each
from solward_dashboard.parts import Bar
from solward_dashboard.wording import plain

# Statuses in which an agent can be paused, stopped and chatted with (docs/agents.md).
ACTIVE = ("running", "error")
STATUS_CLASSES = {
    "running": "sw-confirmed",
    "paused": "sw-pending",
    "error": "sw-blocked",
    "idle": "sw-idle",
    "stopped": "sw-idle",
}


@dataclass(frozen=True, slots=True)
class Activity:
    """An agent's last decision, and its limits (`GET /agents/:id/limits`)."""

    last: Decision | None
    limits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Agents:
    """All agents; activities of those on the page, by agent id; names of wallets, by wallet id."""

    agents: tuple[Agent, ...]
    activities: Mapping[str, Activity]
    wallets: Mapping[str, str]


async def fetch(shown: Sequence[str], first: int, wallets: Mapping[str, str]) -> Agents:
    """All agents, and the activities of those in `shown`; of the `first` ones where it is empty.

    Args:
        wallets: known names; all are fetched where one is missing.
    """
    agents = await api().agents.list()
    known = {each.id for each in agents}
    wanted = [each for each in shown if each in known] or [each.id for each in agents[:first]]
    found = await of_each(wanted, activity)
    return Agents(
        agents,
        {name: each for name, each in found.items() if each is not None},
        await wallet_names({each.wallet_id for each in agents}, wallets),
    )


async def activity(agent_id: str) -> Activity | None:
    """An agent's activity; None where it was deleted since it was listed."""
    try:
        decisions, limits = await asyncio.gather(
            api().agents.decisions(agent_id, limit=1), api().agents.limits(agent_id)
        )
    except NotFoundError:
        return None
    return Activity(decisions[0] if decisions else None, limits)


async def wallet_names(wanted: set[str], known: Mapping[str, str]) -> Mapping[str, str]:
    """Names of wallets by id; known ones are not fetched again, because they never change."""
    if wanted <= known.keys():
        return known
    return {each.id: each.name for each in await api().wallets.list()}


def matching(agents: Sequence[Agent], wallets: Mapping[str, str], search: str) -> list[Agent]:
    """Agents whose name, wallet, status, provider and model contain every word of the search."""
    words = search.casefold().split()

    def searched_text(agent: Agent) -> str:
        wallet = wallets.get(agent.wallet_id, "")
        parts = (agent.name, wallet, agent.status, agent.llm_provider, agent.llm_model)
        return "\n".join(parts).casefold()

    return [each for each in agents if all(word in searched_text(each) for word in words)]


def bars(limits: Mapping[str, Any]) -> tuple[Bar, ...]:
    """The day's SOL, and tokens and dollars of the model where they are limited."""
    day = limits["dailySpendingLimitSol"]
    spent, reserved = Decimal(day["spent"]), Decimal(day["reserved"])
    more = f", {plain(reserved)} reserved" if reserved else ""
    rows = [_bar("Spent in 24 hours", spent, day["limit"], " SOL", more, spent + reserved)]
    model = limits.get("model", {})
    budget, used = model.get("budget", {}), model.get("lastDay", {})
    if budget.get("maxTokensPerDay") is not None:
        rows.append(_bar("Tokens in a day", used["tokens"], budget["maxTokensPerDay"], ""))
    if budget.get("maxUsdPerDay") is not None:
        rows.append(_bar("Model's price in a day", used["usd"], budget["maxUsdPerDay"], " USD"))
    return tuple(rows)


def _bar(
    title: str,
    used: Decimal | int,
    limit: Decimal | int | None,
    unit: str,
    more: str = "",
    counted: Decimal | None = None,
) -> Bar:
    if limit is None:
        return Bar(title, f"{plain(used)}{unit}{more}, no limit", 0.0)
    filled = Decimal(used) if counted is None else counted
    share = min(1.0, float(filled / Decimal(limit))) if limit else 1.0
    return Bar(title, f"{plain(used)} of {plain(limit)}{unit}{more}", share)


def action_text(decision: Decision) -> str:
    """The skill and its parameters, if any."""
    return "no action" if decision.action is None else decision.action.removesuffix("({})")


def usage_text(usage: Mapping[str, Any] | None) -> str:
    """`912 + 41 tokens, about 0.000161 USD`; empty where the provider does not count."""
    if usage is None:
        return ""
    cost = usage.get("costUsd")
    price = "" if cost is None else f", about {plain(cost)} USD"
    return f"{plain(usage['inputTokens'])} + {plain(usage['outputTokens'])} tokens{price}"


def provider_text(agent: Agent) -> str:
    """Provider and model of an agent, and how often it decides."""
    demo = "" if agent.is_llm else " (not a language model)"
    model = "" if agent.llm_model == agent.llm_provider else f", model {agent.llm_model}"
    return f"{agent.llm_provider}{demo}{model}, {interval_text(agent.loop_interval_ms)}"


def interval_text(milliseconds: int) -> str:
    """`every 5 s`, `every 2 min`."""
    for size, unit in ((3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds % size == 0:
            return f"every {milliseconds // size} {unit}"
    return f"every {milliseconds:,} ms"
