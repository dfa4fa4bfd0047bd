"""The page of one agent: its head, strategy, limits and decisions, newest first: a line each, and
all of it when expanded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from solward.client import Agent, Decision, Hold, NotFoundError
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import fact, heading, notify_error
from solward_dashboard.frame import Poll, frame_of_one
from solward_dashboard.grants import GrantsLeft, OpenHolds
from solward_dashboard.pages.agents.actions import AgentButtons, Bars, StatusBadge, Strategy
from solward_dashboard.pages.agents.chat import Chat
from solward_dashboard.pages.agents.data import action_text, bars, interval_text, usage_text
from solward_dashboard.pages.agents.form import change_agent, create_agent
from solward_dashboard.wording import ago, local_times, plain, second, short, value_text

EVERY_S = 5.0

NEWEST = 20
_OLDER = 50
# Entries of a page that stays open; loading older ones raises it.
_MOST = 500
_CUT = 240
_LONG_DETAIL = 30


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


class Timeline:
    """The decisions of one agent; expanded entries stay expanded when others are added."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._entries: dict[int, _Entry] = {}
        self._most = _MOST
        with ui.element("section").classes("sw-card").props('data-testid="timeline"'):
            heading("Decisions")
            self._empty = ui.label("It has not decided anything yet. Start it.")
            self._empty.classes("sw-empty")
            self._list = ui.element("ul").classes("sw-list")
            self._more = ui.button("Older decisions", color=None, on_click=self._older)
            self._more.props("flat dense no-caps").classes("sw-start").set_visibility(False)

    def show(self, newest: Sequence[Decision]) -> None:
        """Add new decisions; `newest` are the last `NEWEST` ones, newest first."""
        added = [each for each in newest if each.cycle not in self._entries]
        if added and len(added) == len(newest) and self._entries:
            # The page was hidden so long that decisions in between are missing.
            self._list.clear()
            self._entries.clear()
        if not self._entries:
            self._more.set_visibility(len(newest) == NEWEST)
        for decision in reversed(added):
            self._add(decision).row.move(target_index=0)
        for cycle in beyond(self._entries, self._most):
            self._entries.pop(cycle).row.delete()
            self._more.set_visibility(True)
        self._empty.set_visibility(not self._entries)
        for entry in self._entries.values():
            entry.age()

    def _add(self, decision: Decision) -> _Entry:
        with self._list:
            entry = self._entries[decision.cycle] = _Entry(decision)
        return entry

    async def _older(self) -> None:
        if not self._entries:
            return
        self._more.disable()
        try:
            oldest = min(self._entries)
            found = await api().agents.decisions(self._agent_id, limit=_OLDER, before=oldest)
        except SolwardError as error:
            notify_error(error)
            return
        finally:
            self._more.enable()
        for decision in found:
            if decision.cycle not in self._entries:
                self._add(decision).age()
        self._most += len(found)
        self._more.set_visibility(len(found) == _OLDER)


class _Entry:
    def __init__(self, decision: Decision) -> None:
        self._decision = decision
        self._built = False
        with ui.element("li") as self.row:
            self._expansion = ui.expansion(
                f"Cycle {decision.cycle:,}", on_value_change=self._build
            ).classes("sw-decision")
            # Named by its header, not by a word that stands beside it.
            self._expansion.props["toggle-aria-label"] = ""
            self._expansion.props["data-testid"] = f"decision-{decision.cycle}"
            with self._expansion.add_slot("header"), ui.element("div").classes("sw-grow"):
                with ui.element("div").classes("sw-row sw-nowrap"):
                    ui.label(f"Cycle {decision.cycle:,}").classes("sw-dim sw-keep")
                    ui.label(_cut(action_text(decision))).classes("sw-mono sw-cut sw-grow")
                    self._ago = ui.label().classes("sw-dim sw-keep")
                ui.label(_cut(local_times(decision.outcome))).classes("sw-cut")

    def age(self) -> None:
        self._ago.set_text(ago(self._decision.timestamp))

    def _build(self) -> None:
        # Most entries are never expanded.
        if self._built or not self._expansion.value:
            return
        self._built = True
        decision = self._decision
        with self._expansion, ui.element("dl").classes("sw-facts"):
            fact("Observation", observation_text(decision.observations))
            fact("Reasoning", decision.reasoning)
            fact("Action", decision.action or "none", "sw-mono sw-pre")
            fact("Outcome", local_times(decision.outcome))
            if used := usage_text(decision.usage):
                fact("Model", used)
            fact("Time", second(decision.timestamp))


def beyond(cycles: Collection[int], most: int) -> list[int]:
    """The oldest cycles, where there are more than `most`."""
    return sorted(cycles)[: max(0, len(cycles) - most)]


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
        lines.append(f"- {kind} {each['status']}: {_cut(', '.join(details))}")
    return "\n".join(lines)


def _detail(value: Any) -> str:
    text = value_text(value)
    return short(text) if len(text) > _LONG_DETAIL else text


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _CUT else f"{line[: _CUT - 1]}…"
