"""The page of one agent: its head, strategy, limits and decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from solward.client import Agent, Decision, Hold, NotFoundError
from solward_dashboard.api import api
from solward_dashboard.dialogs import heading
from solward_dashboard.frame import frame_of_one
from solward_dashboard.grants import GrantsLeft, OpenHolds
from solward_dashboard.pages.agents.actions import AgentButtons, Bars, StatusBadge, Strategy
from solward_dashboard.pages.agents.chat import Chat
from solward_dashboard.pages.agents.data import bars, interval_text
from solward_dashboard.pages.agents.form import change_agent, create_agent
from solward_dashboard.pages.agents.timeline import NEWEST, Timeline
from solward_dashboard.polling import Poll
from solward_dashboard.wording import ago, local_times, plain, value_text

EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class OneAgent:
    """Everything the page shows."""

    agent: Agent
    wallet: str
    limits: Mapping[str, Any]
    newest: tuple[Decision, ...]
    waiting: tuple[Hold, ...]


async def fetch(agent_id: str) -> OneAgent | None:
    """None where there is no such agent."""
    try:
        agent, limits, newest = await asyncio.gather(
            api().agents.get(agent_id),
            api().agents.limits(agent_id),
            api().agents.decisions(agent_id, limit=NEWEST),
        )
        wallet, waiting = await asyncio.gather(
            api().wallets.get(agent.wallet_id),
            api().holds.list(wallet_id=agent.wallet_id, is_open=True),
        )
    except NotFoundError:
        return None
    own = tuple(each for each in waiting if each.agent_id == agent_id)
    return OneAgent(agent, wallet.name, limits, newest, own)


def page(agent_id: str) -> None:
    """Built once a visitor; elements are updated in place."""
    with frame_of_one("/agents", "Agent") as (freshness, title):
        ui.link("All agents", "/agents").classes("sw-back")
        missing = ui.label("There is no such agent.").classes("sw-empty")
        missing.set_visibility(False)
        with ui.element("div").classes("hidden") as dialogs:
            chat = Chat()

        async def refresh() -> None:
            await poll.refresh()

        content = ui.element("div").classes("sw-stack")
        with content:
            head = _Head(dialogs, refresh, chat.open)
            with ui.element("div").classes("sw-wide"):
                with ui.element("section").classes("sw-card"):
                    heading("Strategy")
                    strategy = Strategy()
                with ui.element("section").classes("sw-card"):
                    heading("Limits")
                    used = Bars()
                    rails = ui.label().classes("sw-dim sw-text")
                    model = ui.label().classes("sw-dim sw-text")
            waiting = OpenHolds()
            grants = GrantsLeft()
            timeline = Timeline(agent_id)
        content.set_visibility(False)

        def show(latest: OneAgent | None) -> None:
            content.set_visibility(latest is not None)
            missing.set_visibility(latest is None)
            title.show(agent_id if latest is None else latest.agent.name)
            if latest is None:
                return
            head.show(latest)
            strategy.show(latest.agent.strategy)
            used.show(bars(latest.limits))
            waiting.show(latest.waiting)
            grants.show(latest.limits["grants"])
            rails.set_text(_guardrails_text(latest))
            model.set_text(_usage_text(latest))
            timeline.show(latest.newest)
            chat.show({agent_id: latest.agent})

        poll = Poll(freshness, EVERY_S, lambda: fetch(agent_id), show)


class _Head:
    """Status, wallet, provider and buttons."""

    def __init__(
        self,
        dialogs: ui.element,
        refresh: Callable[[], Awaitable[None]],
        chat: Callable[[Agent], None],
    ) -> None:
        self._dialogs = dialogs
        self._refresh = refresh
        self._chat = chat
        self._agent: Agent | None = None
        self._buttons: AgentButtons | None = None
        with ui.element("section").classes("sw-card").props('data-testid="head"'):
            with ui.element("div").classes("sw-row"):
                self._status = StatusBadge()
                self._wallet = ui.link("…", "/wallets")
                self._payments = ui.link("Payments of its wallet", "/payments")
                self._provider_text = ui.label().classes("sw-text")
            self._error = ui.label().classes("sw-bad sw-text")
            self._error.set_visibility(False)
            self._place = ui.element("div").classes("sw-row")

    def show(self, latest: OneAgent) -> None:
        agent = self._agent = latest.agent
        self._status.show(agent)
        self._wallet.set_text(f"Wallet {latest.wallet}")
        self._wallet.props["href"] = f"/wallets/{agent.wallet_id}"
        self._payments.props["href"] = f"/payments?wallet={agent.wallet_id}"
        self._provider_text.set_text(_provider_text(agent))
        self._error.set_text(local_times(agent.error or ""))
        self._error.set_visibility(agent.error is not None)
        if self._buttons is None:
            with self._place:
                self._buttons = AgentButtons(
                    agent, self._dialogs, self._refresh, self._chat, _leave
                )
                change = ui.button("Change", icon="edit", color=None, on_click=self._change)
                change.props("outline dense no-caps").classes("sw-needs-policy")
                clone = ui.button("Clone", icon="content_copy", color=None, on_click=self._clone)
                clone.props("outline dense no-caps").classes("sw-needs-policy")
        self._buttons.show(agent)

    async def _clone(self) -> None:
        if self._agent is not None:
            await create_agent(self._dialogs, _leave, self._agent)

    async def _change(self) -> None:
        if self._agent is not None:
            await change_agent(self._agent, self._dialogs, self._refresh)


async def _leave() -> None:
    ui.navigate.to("/agents")


def _provider_text(agent: Agent) -> str:
    demo = "" if agent.is_llm else " (not a language model)"
    model = "" if agent.llm_model == agent.llm_provider else f", model {agent.llm_model}"
    options = ", ".join(f"{name} {value_text(each)}" for name, each in agent.llm_options.items())
    with_options = f", asked with {options}" if options else ""
    every = interval_text(agent.loop_interval_ms)
    return (
        f"Provider {agent.llm_provider}{demo}{model}{with_options}, {every},"
        f" made {ago(agent.created_at)}"
    )


def _guardrails_text(latest: OneAgent) -> str:
    limits = latest.agent.guardrails
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
