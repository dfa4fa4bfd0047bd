"""The agents page: a card an agent, with its last decision and its buttons. The parts that the page
of one agent has, too, and texts made of the service's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from solward.client import Agent, Decision, NotFoundError
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed
from solward_dashboard.frame import Poll, frame
from solward_dashboard.lists import PagedCards, with_words
from solward_dashboard.pages.agents.chat import ACTIVE, Chat
from solward_dashboard.pages.agents.form import create_agent
from solward_dashboard.wording import ago, interval_text, local_times, plain

EVERY_S = 5.0
SHOWN = 12
SEARCH_LABEL = "Search by name, status, wallet or model"
_NONE_YET = "No agent yet. Make one: it gets a wallet of its own, and spends within its guardrails."
_MODEL_BARS = (
    ("Tokens in a day", "maxTokensPerDay", "tokens", ""),
    ("Model's price in a day", "maxUsdPerDay", "usd", " USD"),
)
_STATUS_CLASSES = {"running": "sw-confirmed", "paused": "sw-pending", "error": "sw-blocked"}


@dataclass(frozen=True, slots=True)
class Activity:
    """An agent's last decision, and its limits (`GET /agents/:id/limits`)."""

    last: Decision | None
    limits: Mapping[str, Any]


def page() -> None:
    """Built once a visitor; elements are updated in place."""
    with frame("/agents") as freshness:
        chat = Chat()
        # Names of wallets never change.
        wallets: dict[str, str] = {}
        cards = PagedCards[Agent, Activity](
            "agents",
            SEARCH_LABEL,
            SHOWN,
            lambda agents, search: matching(agents, wallets, search),
            lambda agent: _Card(agent, wallets, chat.open),
            _NONE_YET,
            activity,
        )
        with cards.toolbar:
            sw.button("New agent", create_agent, icon="add", look=sw.PRIMARY, needs=sw.POLICY)

        async def fetch() -> tuple[Sequence[Agent], Mapping[str, Activity | None]]:
            agents = await api().agents.list()
            if not {each.wallet_id for each in agents} <= wallets.keys():
                wallets.update({each.id: each.name for each in await api().wallets.list()})
            return agents, await cards.fetch(agents)

        def show(found: tuple[Sequence[Agent], Mapping[str, Activity | None]]) -> None:
            agents, activities = found
            running = sum(each.status == "running" for each in agents)
            cards.show(agents, activities, f", {running} running")
            chat.show(agents)

        Poll(freshness, EVERY_S, fetch, show)


async def activity(agent_id: str) -> Activity | None:
    """An agent's activity; None where it was deleted since it was listed."""
    try:
        decisions, limits = await asyncio.gather(
            api().agents.decisions(agent_id, limit=1), api().agents.limits(agent_id)
        )
    except NotFoundError:
        return None
    return Activity(decisions[0] if decisions else None, limits)


class _Card:
    def __init__(
        self, agent: Agent, wallets: Mapping[str, str], chat: Callable[[Agent], None]
    ) -> None:
        self._wallets = wallets
        with ui.element("li").classes("sw-card") as self.element:
            with sw.row("sw-nowrap"):
                self._name = ui.link(agent.name, f"/agents/{agent.id}")
                self._name.classes("sw-card-title sw-text")
                ui.space()
                self._status = status_badge()
            with sw.row("sw-dim"):
                self._wallet = ui.link("…", f"/wallets/{agent.wallet_id}")
                self._model = sw.text()
            self._strategy = Strategy()
            self._bars = limit_bars()
            with sw.stack("sw-last"):
                with sw.row("sw-nowrap"):
                    self._action = sw.text("No decision yet", "sw-mono sw-cut sw-grow")
                    self._ago = sw.dim("", "sw-keep")
                self._outcome = sw.text("", "sw-text sw-two")
                self._reasoning = sw.dim("", "sw-text sw-two")
            self._error = sw.told("sw-bad sw-text sw-clamp")
            with sw.row("sw-switches"):
                self._buttons = agent_buttons(chat)
                ui.space()
                more = ui.link("Decisions", f"/agents/{agent.id}").classes("sw-more")
                more.props["aria-label"] = f"Decisions of {agent.name}"

    def show(self, agent: Agent, found: Activity | None) -> None:
        sw.marked(self.element, f"agent-{agent.name}")
        self._name.set_text(agent.name)
        self._status.show(agent.status)
        self._wallet.set_text(self._wallets.get(agent.wallet_id, "its wallet"))
        self._model.set_text(provider_text(agent))
        self._strategy.show(agent.strategy)
        self._buttons.show(agent)
        last = None if found is None else found.last
        # The last decision's outcome repeats the error.
        repeated = last is not None and last.outcome == agent.error
        self._error.set_text("" if repeated else local_times(agent.error or ""))
        if found is not None:
            self._bars.show(found.limits)
        if last is not None:
            self._action.set_text(action_text(last))
            self._ago.set_text(f"cycle {last.cycle:,}, {ago(last.timestamp)}")
            self._outcome.set_text(local_times(last.outcome))
            self._reasoning.set_text(last.reasoning)


def status_badge() -> sw.Redrawn[str]:
    """An agent's status, in colour and in words."""

    def build(status: str) -> None:
        sw.marked(ui.badge(status), "status").classes(_STATUS_CLASSES.get(status, "sw-idle"))

    return sw.Redrawn(build, "sw-keep")


def limit_bars() -> sw.Redrawn[Mapping[str, Any]]:
    """The day's SOL, and tokens and dollars of the model where they are limited: a bar each."""

    def build(limits: Mapping[str, Any]) -> None:
        sw.show_limit("Spent in 24 hours", limits["dailySpendingLimitSol"], " SOL")
        model = limits.get("model", {})
        budget, used = model.get("budget", {}), model.get("lastDay", {})
        for title, name, of, unit in _MODEL_BARS:
            if budget.get(name) is not None:
                sw.show_limit(title, {"limit": budget[name], "spent": used[of]}, unit)

    return sw.Redrawn(build, "sw-bars")


def agent_buttons(chat: Callable[[Agent], None], *, leaves: bool = False) -> sw.Redrawn[Agent]:
    """The buttons that an agent's status allows: start, pause, stop, chat, delete.

    Args:
        leaves: whether the page of all agents is shown when this one is deleted.
    """

    def build(agent: Agent) -> None:
        calls, active = api().agents, agent.status in ACTIVE

        def switch(
            verb: str, icon: str, call: Callable[[str], Awaitable[Any]], needs: str = sw.OPERATE
        ) -> None:
            made = sw.action(
                verb, lambda: call(agent.id), icon=icon, look=sw.SMALL, needs=needs, of=agent.name
            )
            made.classes("sw-switch")

        async def delete() -> None:
            await calls.delete(agent.id)
            if leaves:
                ui.navigate.to("/agents")

        if agent.status != "running":
            # The first start decides that it acts at all.
            needs = sw.POLICY if agent.status == "idle" else sw.OPERATE
            switch("Start", "play_arrow", calls.start, needs)
        if active:
            switch("Pause", "pause", calls.pause)
        if active or agent.status == "paused":
            switch("Stop", "stop", calls.stop)
        of = f"with {agent.name}"
        talk = sw.button(
            "Chat", lambda: chat(agent), icon="chat", look=sw.SMALL, needs=sw.POLICY, of=of
        )
        talk.classes("sw-switch").set_enabled(active)
        details = ["Its decisions and its memory go; its transactions stay in the history."]
        if active:
            details.insert(0, "It is running. It is stopped first.")
        sw.action(
            "",
            delete,
            ask=lambda: confirmed(f"Delete {agent.name}?", details, "Delete"),
            icon="delete_outline",
            look=sw.ICON,
            needs=sw.POLICY,
            of=f"Delete {agent.name}",
        )

    return sw.Redrawn(build, "sw-row", of=lambda agent: (agent.id, agent.name, agent.status))


class Strategy:
    """An agent's strategy: its beginning, and all of it on demand where that is more."""

    def __init__(self) -> None:
        self._text = sw.text("", "sw-text sw-clamp")
        self._more = ui.button("Whole strategy", color=None, on_click=self._toggle)
        self._more.props(f"{sw.FLAT} aria-expanded=false").classes("sw-more sw-start")
        self._expanded = False

    def show(self, strategy: str) -> None:
        """Update the text."""
        self._text.set_text(strategy.strip())

    def _toggle(self) -> None:
        self._expanded = not self._expanded
        sw.set_class(self._text, "sw-clamp", not self._expanded)
        self._more.set_text("Less" if self._expanded else "Whole strategy")
        self._more.props["aria-expanded"] = "true" if self._expanded else "false"


def matching(agents: Sequence[Agent], wallets: Mapping[str, str], search: str) -> list[Agent]:
    """Agents whose name, wallet, status, provider and model contain every word of the search."""
    return with_words(
        search,
        agents,
        lambda each: (
            each.name,
            wallets.get(each.wallet_id, ""),
            each.status,
            each.llm_provider,
            each.llm_model,
        ),
    )


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
