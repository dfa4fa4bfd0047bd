"""The page of one agent: its head, strategy, limits and decisions, newest first: a line each, and
all of it when expanded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from solward.client import Agent, Decision, Hold
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.frame import frame_of_one
from solward_dashboard.grants import grants_left, open_holds
from solward_dashboard.lists import NewestFirst
from solward_dashboard.pages.agents import page as agents
from solward_dashboard.pages.agents.chat import Chat
from solward_dashboard.pages.agents.form import change_agent, create_agent
from solward_dashboard.wording import ago, cut, local_times, plain, second, short, value_text

EVERY_S = 5.0

NEWEST = 20
# Entries of a page that stays open; loading older ones raises it.
_MOST = 500
_LONG_DETAIL = 30


@dataclass(frozen=True, slots=True)
class OneAgent:
    """Everything the page shows."""

    agent: Agent
    wallet: str
    limits: Mapping[str, Any]
    newest: tuple[Decision, ...]
    waiting: tuple[Hold, ...]


async def fetch(agent_id: str) -> OneAgent:
    """Everything of an agent."""
    agent, limits, newest = await asyncio.gather(
        api().agents.get(agent_id),
        api().agents.limits(agent_id),
        api().agents.decisions(agent_id, limit=NEWEST),
    )
    wallet, waiting = await asyncio.gather(
        api().wallets.get(agent.wallet_id),
        api().holds.list(wallet_id=agent.wallet_id, is_open=True),
    )
    own = tuple(each for each in waiting if each.agent_id == agent_id)
    return OneAgent(agent, wallet.name, limits, newest, own)


def page(agent_id: str) -> None:
    """Built once a visitor; elements are updated in place."""
    with frame_of_one("/agents", "Agent", agent_id) as one:
        chat = Chat()
        latest: list[Agent] = []
        with sw.card(testid="head"):
            with sw.row():
                status = agents.status_badge()
                head = sw.Redrawn(_head, "sw-row")
            error = sw.told("sw-bad sw-text")
            with sw.row():
                buttons = agents.agent_buttons(chat.open, leaves=True)
                for words, icon, act in (
                    ("Change", "edit", lambda: change_agent(latest[0])),
                    ("Clone", "content_copy", lambda: create_agent(latest[0])),
                ):
                    sw.button(words, act, icon=icon, look=sw.SMALL, needs=sw.POLICY)
        with sw.stack("sw-wide"):
            with sw.card("Strategy"):
                strategy = agents.Strategy()
            with sw.card("Limits"):
                used = agents.limit_bars()
                rails, model = sw.dim(), sw.dim()
        waiting = open_holds()
        grants = grants_left()
        with sw.card("Decisions", "timeline"):
            decisions = NewestFirst[Decision](
                "decision",
                _entry,
                lambda last: api().agents.decisions(agent_id, limit=NEWEST, before=last.cycle),
                NEWEST,
                key=lambda decision: decision.cycle,
                none="It has not decided anything yet. Start it.",
                testid="decisions",
                more="Older decisions",
                most=_MOST,
            )

        def show(found: OneAgent) -> None:
            agent = found.agent
            latest[:] = [agent]
            status.show(agent.status)
            head.show(found)
            error.set_text(local_times(agent.error or ""))
            buttons.show(agent)
            strategy.show(agent.strategy)
            used.show(found.limits)
            waiting.show(found.waiting)
            grants.show(found.limits["grants"])
            rails.set_text(_guardrails_text(agent))
            model.set_text(_usage_text(found))
            decisions.show(found.newest)
            chat.show([agent])

        one.poll(EVERY_S, lambda: fetch(agent_id), show, lambda found: found.agent.name)


def _head(found: OneAgent) -> None:
    agent = found.agent
    ui.link(f"Wallet {found.wallet}", f"/wallets/{agent.wallet_id}")
    ui.link("Payments of its wallet", f"/payments?wallet={agent.wallet_id}")
    options = ", ".join(f"{name} {value_text(each)}" for name, each in agent.llm_options.items())
    asked = f", asked with {options}" if options else ""
    sw.text(f"Provider {agents.provider_text(agent)}{asked}, made {ago(agent.created_at)}")


def _guardrails_text(agent: Agent) -> str:
    limits = agent.guardrails
    return (
        f"At most {plain(limits['maxSolPerTransaction'])} SOL in a transaction and"
        f" {plain(limits['maxTransactionsPerMinute'])} transactions in a minute."
    )


def _usage_text(latest: OneAgent) -> str:
    used = latest.limits.get("model", {}).get("lastDay", {})
    tokens = used.get("tokens", 0)
    if not tokens:
        return "No tokens of a language model in the last day."
    unpriced = used.get("unpricedTokens", 0)
    rest = f", and {plain(unpriced)} tokens whose price is not known" if unpriced else ""
    price = f"about {plain(used.get('usd', 0))} USD{rest}"
    return f"{plain(tokens)} tokens of its model in the last day, {price}."


def _entry(decision: Decision) -> ui.element:
    def build() -> None:
        # Most entries are never expanded.
        if expansion.value and not body.default_slot.children:
            with body:
                _facts(decision)

    cycle = f"Cycle {decision.cycle:,}"
    with ui.element("li") as item:
        expansion = ui.expansion(cycle, on_value_change=build).classes("sw-decision")
        # Named by its header, not by a word that stands beside it.
        expansion.props["toggle-aria-label"] = ""
        sw.marked(expansion, f"decision-{decision.cycle}")
        with expansion.add_slot("header"), sw.stack("sw-grow"):
            with sw.row("sw-nowrap"):
                sw.dim(cycle, "sw-keep")
                sw.text(cut(agents.action_text(decision)), "sw-mono sw-cut sw-grow")
                sw.Age(decision.timestamp).classes("sw-dim sw-keep")
            sw.text(cut(local_times(decision.outcome)), "sw-cut")
        with expansion, sw.facts() as body:
            pass
    return item


def _facts(decision: Decision) -> None:
    sw.fact("Observation", observation_text(decision.observations))
    sw.fact("Reasoning", decision.reasoning)
    sw.fact("Action", decision.action or "none", "sw-mono sw-pre")
    sw.fact("Outcome", local_times(decision.outcome))
    if used := agents.usage_text(decision.usage):
        sw.fact("Model", used)
    sw.fact("Time", second(decision.timestamp))


def observation_text(observation: Mapping[str, Any]) -> str:
    """The observed wallet, line by line; or why it could not be observed."""
    if "error" in observation:
        return f"The wallet could not be observed: {observation['error']}"
    lines = [
        f"{observation['walletName']} ({observation['walletAddress']})",
        f"{plain(observation['solBalance'])} SOL",
    ]
    for each in observation["tokenBalances"]:
        token = "wSOL" if each["mint"] == WRAPPED_SOL_MINT else each.get("symbol") or each["mint"]
        lines.append(f"{plain(each['uiBalance'])} {token}")
    if observation["recentTransactions"]:
        lines.append("Last transactions:")
    for each in observation["recentTransactions"]:
        details = [f"{name} {_detail(value)}" for name, value in each.get("details", {}).items()]
        kind = each["type"].replace("_", " ")
        lines.append(f"- {kind} {each['status']}: {cut(', '.join(details))}")
    return "\n".join(lines)


def _detail(value: Any) -> str:
    said = value_text(value)
    return short(said) if len(said) > _LONG_DETAIL else said
