"""Agents: what each is doing, and what it can be told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from nicegui import ui

from solward.client import Agent
from solward_dashboard.frame import frame
from solward_dashboard.pages.agents.actions import Bars, Chip, Strategy, Switches
from solward_dashboard.pages.agents.chat import Chat
from solward_dashboard.pages.agents.data import (
    Agents,
    Doing,
    action_text,
    ask,
    bars,
    interval_text,
    matching,
)
from solward_dashboard.pages.agents.form import create_agent
from solward_dashboard.polling import Feed
from solward_dashboard.wording import ago

EVERY_S = 5.0
SHOWN = 12


def page() -> None:
    """Built once a visitor; what changes is changed in place."""
    with frame("/agents") as freshness:
        # Dialogs stand here, so that they outlive the card that opened them.
        with ui.element("div").classes("hidden") as place:
            chat = Chat()
        seen: list[Agents] = []

        async def again() -> None:
            await feed.refresh()

        with ui.element("div").classes("sw-row"):
            search = ui.input("Search by name, status, wallet or model").classes("sw-search")
            search.props('outlined dense clearable debounce=200 type=search data-testid="search"')
            count = ui.label().classes("sw-dim").props("aria-live=polite")
            ui.space()
            make = ui.button("New agent", icon="add").props("no-caps unelevated")
            make.on_click(lambda: create_agent(place, again))
        asking = ui.label("Asking the service …").classes("sw-empty")
        cards = _Cards(place, again, chat.open)
        pages = ui.pagination(1, 1, direction_links=True).props("max-pages=5 boundary-numbers")
        pages.props["aria-label"] = "Pages of agents"
        pages.set_visibility(False)

        def found() -> list[Agent]:
            if not seen:
                return []
            return matching(seen[-1].agents, seen[-1].wallets, search.value or "")

        def on_page() -> list[Agent]:
            start = (pages.value - 1) * SHOWN
            return found()[start : start + SHOWN]

        def lay_out() -> None:
            if not seen:
                return
            asking.set_visibility(False)
            total, every = len(found()), len(seen[-1].agents)
            pages.max = max(1, -(-total // SHOWN))
            if pages.value > pages.max:
                pages.set_value(pages.max)
            pages.set_visibility(pages.max > 1)
            running = sum(each.status == "running" for each in seen[-1].agents)
            shown = f"{total} of {every}" if total != every else f"{every} in all"
            count.set_text(f"{shown}, {running} running")
            cards.show(on_page(), seen[-1], searched=bool(every))
            chat.show({each.id: each for each in seen[-1].agents})

        def show(answer: Agents) -> None:
            # What was known of another page is shown until it is asked for again.
            old = seen[-1].doing if seen else {}
            seen[:] = [Agents(answer.agents, {**old, **answer.doing}, answer.wallets)]
            lay_out()

        async def once() -> Agents:
            wallets = seen[-1].wallets if seen else {}
            return await ask([each.id for each in on_page()], SHOWN, wallets)

        feed = Feed(freshness, EVERY_S, once, show)

        async def turn() -> None:
            lay_out()
            await feed.refresh()

        async def look() -> None:
            pages.set_value(1)
            await turn()

        search.on_value_change(look)
        pages.on_value_change(turn)


class _Cards:
    """A card an agent. One that stays is never made anew: it may have the focus."""

    def __init__(
        self,
        page: ui.element,
        again: Callable[[], Awaitable[None]],
        chat: Callable[[Agent], None],
    ) -> None:
        self._page = page
        self._again = again
        self._chat = chat
        self._cards: dict[str, _Card] = {}
        self._place = ui.element("div").classes("sw-agents").props("role=list")
        self._empty = ui.label().classes("sw-empty")
        self._empty.set_visibility(False)

    def show(self, agents: Sequence[Agent], seen: Agents, *, searched: bool) -> None:
        wanted = [each.id for each in agents]
        for gone in self._cards.keys() - set(wanted):
            self._cards.pop(gone).card.delete()
        with self._place:
            for each in agents:
                if each.id not in self._cards:
                    self._cards[each.id] = _Card(each, self._page, self._again, self._chat)
        # In a dict's order, which is the order they stand in.
        if list(self._cards) != wanted:
            self._cards = {each: self._cards[each] for each in wanted}
            for at, card in enumerate(self._cards.values()):
                card.card.move(target_index=at)
        for each in agents:
            card = self._cards[each.id]
            card.show(each, seen.doing.get(each.id), seen.wallets)
        nothing = "No agent fits the search." if searched else _NONE_YET
        self._empty.set_text(nothing)
        self._empty.set_visibility(not agents)


_NONE_YET = "No agent yet. Make one: it gets a wallet of its own, and spends within its guardrails."


class _Card:
    def __init__(
        self,
        agent: Agent,
        page: ui.element,
        again: Callable[[], Awaitable[None]],
        chat: Callable[[Agent], None],
    ) -> None:
        with ui.element("article").classes("sw-card").props("role=listitem") as self.card:
            with ui.element("div").classes("sw-row sw-nowrap"):
                self._name = ui.link(agent.name, f"/agents/{agent.id}")
                self._name.classes("sw-card-title sw-text")
                ui.space()
                self._chip = Chip()
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
                self._switches = Switches(agent, page, again, chat)
                ui.space()
                more = ui.link("Decisions", f"/agents/{agent.id}").classes("sw-more")
                more.props["aria-label"] = f"Decisions of {agent.name}"

    def show(self, agent: Agent, doing: Doing | None, wallets: Mapping[str, str]) -> None:
        self.card.props["data-testid"] = f"agent-{agent.name}"
        self._name.set_text(agent.name)
        self._chip.show(agent)
        self._wallet.set_text(wallets.get(agent.wallet_id, "its wallet"))
        demo = "" if agent.is_llm else ", not a language model"
        made_of = f"{agent.llm_provider}, {agent.llm_model}"
        named = agent.llm_provider if agent.llm_provider == agent.llm_model else made_of
        self._model.set_text(f"{named}{demo}, {interval_text(agent.loop_interval_ms)}")
        self._strategy.show(agent.strategy)
        self._switches.show(agent)
        self._error.set_text(agent.error or "")
        told = doing is not None and doing.last is not None and doing.last.outcome == agent.error
        self._error.set_visibility(agent.error is not None and not told)
        if doing is not None:
            self._bars.show(bars(doing.limits))
            self._decided(doing)

    def _decided(self, doing: Doing) -> None:
        last = doing.last
        if last is None:
            self._action.set_text("No decision yet")
            return
        self._action.set_text(action_text(last))
        self._ago.set_text(f"cycle {last.cycle:,}, {ago(last.timestamp)}")
        self._outcome.set_text(last.outcome)
        self._reasoning.set_text(last.reasoning)
