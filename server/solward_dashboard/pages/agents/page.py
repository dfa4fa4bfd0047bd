"""The agents page: a card an agent, with its last decision and its buttons."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nicegui import ui

from solward.client import Agent
from solward_dashboard import parts as sw
from solward_dashboard.frame import Poll, frame
from solward_dashboard.lists import PagedCards
from solward_dashboard.pages.agents.actions import Strategy, agent_buttons, limit_bars, status_badge
from solward_dashboard.pages.agents.chat import Chat
from solward_dashboard.pages.agents.data import (
    Activity,
    Agents,
    action_text,
    bars,
    fetch,
    matching,
    provider_text,
)
from solward_dashboard.pages.agents.form import create_agent
from solward_dashboard.wording import ago, local_times

EVERY_S = 5.0
SHOWN = 12
SEARCH_LABEL = "Search by name, status, wallet or model"
_NONE_YET = "No agent yet. Make one: it gets a wallet of its own, and spends within its guardrails."


def page() -> None:
    """Built once a visitor; elements are updated in place."""
    with frame("/agents") as freshness:
        chat = Chat()
        wallets: dict[str, str] = {}
        # Activities of other pages are kept until their page is fetched again.
        activities: dict[str, Activity] = {}
        cards = PagedCards[Agent](
            "agents",
            SEARCH_LABEL,
            SHOWN,
            lambda agents, search: matching(agents, wallets, search),
            lambda agent: _Card(agent, wallets, activities, chat.open),
            _NONE_YET,
        )
        with cards.toolbar:
            sw.button("New agent", create_agent, icon="add", look=sw.PRIMARY, needs=sw.POLICY)

        async def fetch_page() -> Agents:
            return await fetch([each.id for each in cards.on_page()], SHOWN, wallets)

        def show(answer: Agents) -> None:
            wallets.update(answer.wallets)
            activities.update(answer.activities)
            running = sum(each.status == "running" for each in answer.agents)
            cards.show(answer.agents, f", {running} running")
            chat.show(answer.agents)

        Poll(freshness, EVERY_S, fetch_page, show)


class _Card:
    def __init__(
        self,
        agent: Agent,
        wallets: Mapping[str, str],
        activities: Mapping[str, Activity],
        chat: Callable[[Agent], None],
    ) -> None:
        self._wallets = wallets
        self._activities = activities
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
            self._error = sw.text("", "sw-bad sw-text sw-clamp")
            with sw.row("sw-switches"):
                self._buttons = agent_buttons(chat)
                ui.space()
                more = ui.link("Decisions", f"/agents/{agent.id}").classes("sw-more")
                more.props["aria-label"] = f"Decisions of {agent.name}"

    def show(self, agent: Agent) -> None:
        self.element.props["data-testid"] = f"agent-{agent.name}"
        self._name.set_text(agent.name)
        self._status.show(agent.status)
        self._wallet.set_text(self._wallets.get(agent.wallet_id, "its wallet"))
        self._model.set_text(provider_text(agent))
        self._strategy.show(agent.strategy)
        self._buttons.show(agent)
        activity = self._activities.get(agent.id)
        last = None if activity is None else activity.last
        # The last decision's outcome repeats the error.
        repeated = last is not None and last.outcome == agent.error
        self._error.set_text(local_times(agent.error or ""))
        self._error.set_visibility(agent.error is not None and not repeated)
        if activity is not None:
            self._bars.show(bars(activity.limits))
        if last is not None:
            self._action.set_text(action_text(last))
            self._ago.set_text(f"cycle {last.cycle:,}, {ago(last.timestamp)}")
            self._outcome.set_text(local_times(last.outcome))
            self._reasoning.set_text(last.reasoning)
