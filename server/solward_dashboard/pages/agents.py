"""The agents page, a table; the page of one agent; and the chat with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import Agent, Decision, Hold
from solward.resources.agents import AgentStatus, Said
from solward.resources.declare import declared_fields
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import SolwardError
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed
from solward_dashboard.frame import Poll, frame, frame_of_one
from solward_dashboard.leaving import grants_card, holds_card
from solward_dashboard.links import address_of, list_address
from solward_dashboard.lists import Bulk, ListTable, NewestFirst, Row, search_words
from solward_dashboard.pages.agent_form import change_agent, create_agent
from solward_dashboard.wording import (
    ago,
    cut,
    day,
    interval_text,
    local_times,
    plain,
    second,
    short,
    value_text,
)

EVERY_S = 5.0
SEARCH_LABEL = "Search by name, status, wallet or model"
_NONE_YET = "No agent yet. Create one: it gets its own wallet, and spends within its guardrails."
_MODEL_BARS = (
    ("Model's tokens in a day", "maxTokensPerDay", "tokens", ""),
    ("USD for the model in a day", "maxUsdPerDay", "usd", " USD"),
)
_STATUS_CLASSES = {"running": "sw-confirmed", "paused": "sw-pending", "error": "sw-blocked"}
_STATUS_TONES = {name: each.replace("-", "-text-") for name, each in _STATUS_CLASSES.items()}
NEWEST = 20
# Entries of a page that stays open; loading older ones raises it.
_MOST = 500
_LONG_DETAIL = 30
# Statuses in which an agent can be paused, stopped and chatted with (docs/how-to/agents.md).
ACTIVE = ("running", "error")
_LONGEST = declared_fields(Said)["message"].schema()["maxLength"]


def page() -> None:
    """Build the page once for a visitor; elements are updated in place."""
    with frame("/agents") as freshness:
        known: list[Sequence[Agent]] = []
        # Names of wallets never change.
        wallets: dict[str, str] = {}

        def find(search: str) -> Sequence[Row] | None:
            if not known:
                return None
            return [_row(each, wallets) for each in find_agents(known[0], wallets, search)]

        bulk = (
            Bulk("Start", "play_arrow", lambda own, _: api().agents.start(own)),
            Bulk("Pause", "pause", lambda own, _: api().agents.pause(own)),
        )
        statuses = [*map(str, AgentStatus)]
        table = ListTable("agent", SEARCH_LABEL, statuses, find, bulk, create_agent, _NONE_YET)

        async def fetch() -> Sequence[Agent]:
            agents = await api().agents.list()
            if not {each.wallet_id for each in agents} <= wallets.keys():
                wallets.update({each.id: each.name for each in await api().wallets.list()})
            return agents

        def show(agents: Sequence[Agent]) -> None:
            known[:] = [agents]
            table.note = f", {sum(each.status == 'running' for each in agents)} running"
            table.draw()

        Poll(freshness, EVERY_S, fetch, show)


def _row(agent: Agent, wallets: Mapping[str, str]) -> Row:
    limit = agent.guardrails["dailySpendingLimitSol"]
    cells = {
        "name": agent.name,
        "status": agent.status,
        "wallet": wallets.get(agent.wallet_id, "its wallet"),
        "model": model_text(agent),
        "every": interval_text(agent.loop_interval_ms),
        "limit": plain(limit),
        "error": local_times(agent.error or ""),
        "created": day(agent.created_at),
    }
    keys = {"every": agent.loop_interval_ms, "limit": Decimal(limit), "created": agent.created_at}
    links = {
        "name": address_of(f"agent:{agent.id}"),
        "wallet": address_of(f"wallet:{agent.wallet_id}"),
    }
    tones = {"status": _STATUS_TONES.get(agent.status, ""), "error": "sw-bad"}
    return Row(agent.id, cells, keys, links, tones)


def status_badge() -> sw.LiveContent[str]:
    """Return a badge that shows an agent's status in colour and in words."""

    def build(status: str) -> None:
        sw.marked(ui.badge(status), "status").classes(_STATUS_CLASSES.get(status, "sw-idle"))

    return sw.LiveContent(build, "sw-keep")


def limit_bars() -> sw.LiveContent[Mapping[str, Any]]:
    """Return bars for an agent's limits: SOL per day, and its model's tokens and dollars."""

    def build(limits: Mapping[str, Any]) -> None:
        sw.show_limit("Spent in 24 hours", limits["dailySpendingLimitSol"], " SOL")
        model = limits.get("model", {})
        budget, used = model.get("budget", {}), model.get("lastDay", {})
        for title, name, of, unit in _MODEL_BARS:
            if budget.get(name) is not None:
                sw.show_limit(title, {"limit": budget[name], "spent": used[of]}, unit)

    return sw.LiveContent(build, "sw-bars")


def agent_buttons(chat: Callable[[Agent], None]) -> sw.LiveContent[Agent]:
    """Return the buttons that an agent's status allows: start, pause, stop, chat, delete."""

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
            ui.navigate.to("/agents")

        if agent.status != "running":
            # The first start is the decision that the agent may act at all.
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
        details = ["Decisions and memory of the agent are deleted. Its transactions stay."]
        if active:
            details.insert(0, "The agent is running, and is stopped first.")
        sw.action(
            "",
            delete,
            ask=lambda: confirmed(f"Delete {agent.name}?", details, "Delete"),
            icon="delete_outline",
            look=sw.ICON,
            needs=sw.POLICY,
            of=f"Delete {agent.name}",
        )

    return sw.LiveContent(build, "sw-row", of=lambda agent: (agent.id, agent.name, agent.status))


class StrategyText:
    """An agent's strategy, cut to its beginning until a button shows all of it."""

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


def find_agents(agents: Sequence[Agent], wallets: Mapping[str, str], search: str) -> list[Agent]:
    """Return the agents with every searched word in name, wallet, status, provider or model."""
    return search_words(
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
    """Return a decision's skill with its parameters, or `no action`."""
    return "no action" if decision.action is None else decision.action.removesuffix("({})")


def usage_text(usage: Mapping[str, Any] | None) -> str:
    """Return `912 + 41 tokens, about 0.000161 USD`; empty if the provider does not count."""
    if usage is None:
        return ""
    cost = usage.get("costUsd")
    price = "" if cost is None else f", about {plain(cost)} USD"
    return f"{plain(usage['inputTokens'])} + {plain(usage['outputTokens'])} tokens{price}"


def model_text(agent: Agent) -> str:
    """Return an agent's provider and model."""
    model = "" if agent.llm_model == agent.llm_provider else f", model {agent.llm_model}"
    return f"{agent.llm_provider}{model}"


def provider_text(agent: Agent) -> str:
    """Return an agent's provider and model, and how often it decides."""
    demo = "" if agent.is_llm else " (not a language model)"
    return f"{model_text(agent)}{demo}, {interval_text(agent.loop_interval_ms)}"


@dataclass(frozen=True, slots=True)
class OneAgent:
    """Everything that the page of an agent shows."""

    agent: Agent
    wallet: str
    limits: Mapping[str, Any]
    newest: tuple[Decision, ...]
    waiting: tuple[Hold, ...]


async def fetch(agent_id: str) -> OneAgent:
    """Fetch everything that the page of an agent shows."""
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


def page_of_one(agent_id: str) -> None:
    """Build the page once for a visitor; elements are updated in place."""
    with frame_of_one("/agents", "Agent", agent_id) as shown:
        chat = Chat()
        latest: list[Agent] = []
        with sw.card(testid="head"):
            with sw.row():
                status = status_badge()
                head = sw.LiveContent(_show_head, "sw-row")
            error = sw.optional_text("sw-bad sw-text")
            with sw.row():
                buttons = agent_buttons(chat.open)
                for words, icon, act in (
                    ("Change", "edit", lambda: change_agent(latest[0])),
                    ("Clone", "content_copy", lambda: create_agent(latest[0])),
                ):
                    sw.button(words, act, icon=icon, look=sw.SMALL, needs=sw.POLICY)
        with sw.stack("sw-wide"):
            with sw.card("Strategy"):
                strategy = StrategyText()
            with sw.at_place(sw.card("Limits"), "limits"):
                used = limit_bars()
                rails, model = sw.dim(), sw.dim()
        waiting = holds_card()
        grants = grants_card()
        with sw.card("Decisions", "timeline"):
            decisions = NewestFirst[Decision](
                "decision",
                _make_entry,
                lambda last: api().agents.decisions(agent_id, limit=NEWEST, before=last.cycle),
                NEWEST,
                key=lambda decision: decision.cycle,
                none="No decision yet. Start the agent.",
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
            rails.set_text(
                f"At most {plain(agent.guardrails['maxSolPerTransaction'])} SOL per transaction, "
                f"{plain(agent.guardrails['maxTransactionsPerMinute'])} transactions per minute."
            )
            model.set_text(_usage_text(found))
            decisions.show(found.newest)
            chat.show([agent])

        shown.poll(EVERY_S, lambda: fetch(agent_id), show, lambda found: found.agent.name)


def _show_head(found: OneAgent) -> None:
    agent = found.agent
    ui.link(f"Wallet {found.wallet}", address_of(f"wallet:{agent.wallet_id}"))
    ui.link("Add a grant", list_address("/policy", grant=f"agent:{agent.id}")).classes(sw.POLICY)
    ui.link("Transactions", list_address("/transactions", agent=agent.id))
    payments = list_address("/payments", wallet=agent.wallet_id)
    ui.link("Payments from the agent's wallet", payments)
    ui.link("Audit log", list_address("/audit", agent=agent.id))
    options = ", ".join(f"{name} {value_text(each)}" for name, each in agent.llm_options.items())
    asked = f", options {options}" if options else ""
    sw.text(f"Provider {provider_text(agent)}{asked}, agent created {ago(agent.created_at)}")


def _usage_text(latest: OneAgent) -> str:
    used = latest.limits.get("model", {}).get("lastDay", {})
    tokens = used.get("tokens", 0)
    if not tokens:
        return "The agent used no tokens of a language model in the last day."
    unpriced = used.get("unpricedTokens", 0)
    rest = f", and {plain(unpriced)} tokens whose price is not known" if unpriced else ""
    price = f"about {plain(used.get('usd', 0))} USD{rest}"
    return f"Tokens of the agent's model in the last day: {plain(tokens)}, {price}."


def _make_entry(decision: Decision) -> ui.element:
    def build() -> None:
        # Most entries are never expanded.
        if expansion.value and not body.default_slot.children:
            with body:
                _show_facts(decision)

    cycle = f"Cycle {decision.cycle:,}"
    with ui.element("li") as item:
        expansion = ui.expansion(cycle, on_value_change=build).classes("sw-decision")
        # The header alone names it for screen readers.
        expansion.props["toggle-aria-label"] = ""
        sw.marked(expansion, f"decision-{decision.cycle}")
        with expansion.add_slot("header"), sw.stack("sw-grow"):
            with sw.row("sw-nowrap"):
                sw.dim(cycle, "sw-keep")
                sw.text(cut(action_text(decision)), "sw-mono sw-cut sw-grow")
                sw.Age(decision.timestamp).classes("sw-dim sw-keep")
            sw.text(cut(local_times(decision.outcome)), "sw-cut")
        with expansion, sw.facts() as body:
            pass
    return item


def _show_facts(decision: Decision) -> None:
    sw.fact("Observation", observation_text(decision.observations))
    sw.fact("Reasoning", decision.reasoning)
    sw.fact("Action", decision.action or "none", "sw-mono sw-pre")
    sw.fact("Outcome", local_times(decision.outcome))
    if used := usage_text(decision.usage):
        sw.fact("Model", used)
    sw.fact("Time", second(decision.timestamp))


def observation_text(observation: Mapping[str, Any]) -> str:
    """Return the lines about an observed wallet, or why it could not be observed."""
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


class Chat:
    """A dialog with a conversation per agent, which lasts while the page is open."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._conversations: dict[str, _Conversation] = {}
        with ui.dialog() as self._dialog, ui.card().classes("sw-dialog sw-dialog-wide"):
            self._dialog.props('aria-label="Chat"')
            with sw.row("sw-nowrap"):
                self._title = sw.heading().classes("sw-text")
                ui.space()
                close = ui.button(icon="close", color=None, on_click=self._dialog.close)
                close.props('flat round dense aria-label="Close"')
            self._note = sw.dim()
            self._area = ui.scroll_area().classes("sw-chat")
            self._area.props('role=log aria-live=polite data-testid="chat"')
            with sw.row("sw-nowrap"):
                self._input = ui.input("Message").props("outlined dense autofocus")
                self._input.props(f"maxlength={_LONGEST} autocomplete=off").classes("sw-grow")
                self._input.on("keydown.enter", self._send)
                self._button = ui.button("Send", on_click=self._send)
                self._button.props('no-caps unelevated data-testid="send"')
                self._stop_button = ui.button("Stop", color=None, on_click=self._stop)
                self._stop_button.props('outline no-caps aria-label="Stop the answer"')

    def open(self, agent: Agent) -> None:
        """Continue the conversation with this agent."""
        self._agent = agent
        if agent.id not in self._conversations:
            with self._area:
                self._conversations[agent.id] = _Conversation()
        for agent_id, conversation in self._conversations.items():
            conversation.place.set_visibility(agent_id == agent.id)
        self._title.set_text(f"Chat with {agent.name}")
        self._show_status()
        self._dialog.open()

    def show(self, agents: Sequence[Agent]) -> None:
        """Update the agent's status."""
        for each in agents:
            if self._agent is not None and self._agent.id == each.id:
                self._agent = each
                self._show_status()

    def _show_status(self) -> None:
        agent = self._agent
        if agent is None:
            return
        active = agent.status in ACTIVE
        note = "In the chat the agent answers, but executes nothing."
        if not agent.is_llm:
            note = "The agent is no language model: it answers by fixed rules and executes nothing."
        self._note.set_text(note if active else "The agent is not running. Start it to chat.")
        busy = self._conversations[agent.id].task is not None
        self._button.set_enabled(active and not busy)
        self._stop_button.set_visibility(busy)

    async def _send(self) -> None:
        agent, message = self._agent, (self._input.value or "").strip()
        if agent is None or agent.status not in ACTIVE or not message:
            return
        conversation = self._conversations[agent.id]
        if conversation.task is not None:
            return
        self._input.set_value("")
        # As a task, the stop button can cancel it.
        conversation.task = asyncio.create_task(conversation.ask(agent, message, self._area))
        self._show_status()
        try:
            await asyncio.wait([conversation.task])
        finally:
            conversation.task.cancel()
            conversation.task = None
            self._show_status()

    def _stop(self) -> None:
        conversation = self._conversations.get(self._agent.id) if self._agent else None
        if conversation is not None and conversation.task is not None:
            conversation.task.cancel()


class _Conversation:
    def __init__(self) -> None:
        self.place = ui.element("div").classes("sw-form")
        self.task: asyncio.Task[None] | None = None

    async def ask(self, agent: Agent, message: str, area: ui.scroll_area) -> None:
        """Show the message, and the response piece by piece."""
        self._add_message(message, "You", sent=True)
        answer = self._add_message("…", agent.name, sent=False)
        area.scroll_to(percent=1)
        received = ""
        try:
            async with aclosing(api().agents.chat_stream(agent.id, message)) as pieces:
                async for piece in pieces:
                    if self.place.is_deleted:
                        return
                    received += piece
                    answer.set_text(received)
                    area.scroll_to(percent=1)
            if not received.strip():
                answer.set_text("(no answer)")
        except SolwardError as error:
            answer.set_text(f"{received}\n{error}".strip())
            answer.classes(add="sw-bad")
        except asyncio.CancelledError:
            answer.set_text(f"{received} (stopped)".strip())
            raise
        finally:
            area.scroll_to(percent=1)

    def _add_message(self, words: str, name: str, *, sent: bool) -> ui.label:
        with self.place, ui.element("div").classes("sw-said" + (" sw-said-by-me" if sent else "")):
            sw.dim(name)
            return sw.text(words, testid="said" if sent else "answer")
