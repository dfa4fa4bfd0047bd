"""The agents page: a card an agent, with its last decision and its buttons."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from nicegui import ui

from solward.client import Agent, Decision
from solward_dashboard.frame import Poll, frame
from solward_dashboard.paged_list import PagedList
from solward_dashboard.pages.agents.actions import AgentButtons, Bars, StatusBadge, Strategy
from solward_dashboard.pages.agents.chat import Chat
from solward_dashboard.pages.agents.data import (
    Activity,
    Agents,
    action_text,
    bars,
    fetch,
    interval_text,
    matching,
)
from solward_dashboard.pages.agents.form import create_agent
from solward_dashboard.wording import ago, local_times

EVERY_S = 5.0
SHOWN = 12
SEARCH_LABEL = "Search by name, status, wallet or model"


def page() -> None:
    """Built once a visitor; elements are updated in place."""
    with frame("/agents") as freshness:
        # Dialogs are children of this element, so that they outlive the card that opened them.
        with ui.element("div").classes("hidden") as dialogs:
            chat = Chat()
        latest = Agents((), {}, {})

        async def refresh() -> None:
            await poll.refresh()

        def match(text: str) -> list[Agent]:
            return matching(latest.agents, latest.wallets, text)

        def render() -> None:
            cards.show(listing.on_page(), latest)
            chat.show({each.id: each for each in latest.agents})

        listing = PagedList("agents", SEARCH_LABEL, SHOWN, match, render)
        with listing.toolbar:
            new = ui.button("New agent", icon="add").props("no-caps unelevated")
            new.classes("sw-needs-policy")
        new.on_click(lambda: create_agent(dialogs, refresh))
        cards = _Cards(dialogs, refresh, chat.open)

        async def fetch_page() -> Agents:
            shown = [each.id for each in listing.on_page()]
            return await fetch(shown, SHOWN, latest.wallets)

        def show(answer: Agents) -> None:
            nonlocal latest
            # Activities of other pages are kept until their page is fetched again.
            latest = replace(answer, activities={**latest.activities, **answer.activities})
            running = sum(each.status == "running" for each in latest.agents)
            listing.show(len(latest.agents), f", {running} running")

        poll = Poll(freshness, EVERY_S, fetch_page, show)
        listing.add_pagination(refresh)


class _Cards:
    """A card an agent. Existing cards are kept: one may have the focus."""

    def __init__(
        self,
        dialogs: ui.element,
        refresh: Callable[[], Awaitable[None]],
        chat: Callable[[Agent], None],
    ) -> None:
        self._dialogs = dialogs
        self._refresh = refresh
        self._chat = chat
        self._cards: dict[str, _Card] = {}
        self._place = ui.element("ul").classes("sw-agents")
        self._empty = ui.label().classes("sw-empty")
        self._empty.set_visibility(False)

    def show(self, agents: Sequence[Agent], latest: Agents) -> None:
        order = [each.id for each in agents]
        for removed in self._cards.keys() - set(order):
            self._cards.pop(removed).card.delete()
        with self._place:
            for each in agents:
                if each.id not in self._cards:
                    self._cards[each.id] = _Card(each, self._dialogs, self._refresh, self._chat)
        # The dict has the order of the cards on the page.
        if list(self._cards) != order:
            self._cards = {each: self._cards[each] for each in order}
            for at, card in enumerate(self._cards.values()):
                card.card.move(target_index=at)
        for each in agents:
            card = self._cards[each.id]
            card.show(each, latest.activities.get(each.id), latest.wallets)
        self._empty.set_text("No agent fits the search." if latest.agents else _NONE_YET)
        self._empty.set_visibility(not agents)


_NONE_YET = "No agent yet. Make one: it gets a wallet of its own, and spends within its guardrails."


class _Card:
    def __init__(
        self,
        agent: Agent,
        dialogs: ui.element,
        refresh: Callable[[], Awaitable[None]],
        chat: Callable[[Agent], None],
    ) -> None:
        with ui.element("li").classes("sw-card") as self.card:
            with ui.element("div").classes("sw-row sw-nowrap"):
                self._name = ui.link(agent.name, f"/agents/{agent.id}")
                self._name.classes("sw-card-title sw-text")
                ui.space()
                self._status = StatusBadge()
            with ui.element("div").classes("sw-row sw-dim"):
                self._wallet = ui.link("…", f"/wallets/{agent.wallet_id}")
                self._model = ui.label().classes("sw-text")
            self._strategy = Strategy()
            self._bars = Bars()
            with ui.element("div").classes("sw-last"):
                with ui.element("div").classes("sw-row sw-nowrap"):
                    self._action = ui.label().classes("sw-mono sw-cut sw-grow")
                    self._ago = ui.label().classes("sw-dim sw-keep")
                self._outcome = ui.label().classes("sw-text sw-two")
                self._reasoning = ui.label().classes("sw-dim sw-text sw-two")
            self._error = ui.label().classes("sw-bad sw-text sw-clamp")
            self._error.set_visibility(False)
            with ui.element("div").classes("sw-row sw-switches"):
                self._buttons = AgentButtons(agent, dialogs, refresh, chat)
                ui.space()
                more = ui.link("Decisions", f"/agents/{agent.id}").classes("sw-more")
                more.props["aria-label"] = f"Decisions of {agent.name}"

    def show(self, agent: Agent, activity: Activity | None, wallets: Mapping[str, str]) -> None:
        self.card.props["data-testid"] = f"agent-{agent.name}"
        self._name.set_text(agent.name)
        self._status.show(agent)
        self._wallet.set_text(wallets.get(agent.wallet_id, "its wallet"))
        demo = "" if agent.is_llm else ", not a language model"
        same = agent.llm_provider == agent.llm_model
        model = agent.llm_provider if same else f"{agent.llm_provider}, {agent.llm_model}"
        self._model.set_text(f"{model}{demo}, {interval_text(agent.loop_interval_ms)}")
        self._strategy.show(agent.strategy)
        self._buttons.show(agent)
        self._error.set_text(local_times(agent.error or ""))
        last = None if activity is None else activity.last
        # The last decision's outcome repeats the error.
        repeated = last is not None and last.outcome == agent.error
        self._error.set_visibility(agent.error is not None and not repeated)
        if activity is not None:
            self._bars.show(bars(activity.limits))
            self._show_decision(last)

    def _show_decision(self, last: Decision | None) -> None:
        if last is None:
            self._action.set_text("No decision yet")
            return
        self._action.set_text(action_text(last))
        self._ago.set_text(f"cycle {last.cycle:,}, {ago(last.timestamp)}")
        self._outcome.set_text(local_times(last.outcome))
        self._reasoning.set_text(last.reasoning)
