"""An agent's decisions, newest first: a line each, and all of it when expanded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nicegui import ui

from solward.client import Decision
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import fact, heading
from solward_dashboard.notices import notify_error
from solward_dashboard.pages.agents.data import action_text, usage_text
from solward_dashboard.wording import ago, local_times, plain, second, short, value_text

NEWEST = 20
_OLDER = 50
# Entries of a page that stays open; loading older ones raises it.
_MOST = 500
_CUT = 240
_LONG_DETAIL = 30


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
