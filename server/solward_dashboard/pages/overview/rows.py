"""The overview's lists of limits and decisions; their rows are updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nicegui import ui

from solward_dashboard.pages.overview.data import DECISIONS, WALLETS, AgentDecision, Budget
from solward_dashboard.wording import ago, local_times, plain

_SHOWN = 240


class LimitRows:
    """A bar a wallet."""

    def __init__(self) -> None:
        self._empty = ui.element("div").classes("sw-empty")
        with self._empty:
            ui.label("No wallet yet.")
            ui.link("Make one on the Wallets page", "/wallets")
        self._empty.set_visibility(False)
        with ui.element("div").classes("sw-list"):
            self._rows = [_LimitRow() for _ in range(WALLETS)]

    def show(self, budgets: Sequence[Budget]) -> None:
        """Show the first `WALLETS`."""
        self._empty.set_visibility(not budgets)
        for at, row in enumerate(self._rows):
            row.show(budgets[at] if at < len(budgets) else None)


class _LimitRow:
    def __init__(self) -> None:
        self._row = ui.element("div")
        with self._row:
            with ui.element("div").classes("sw-row"):
                self._name = ui.label().classes("sw-text")
                ui.space()
                self._used = ui.label().classes("sw-dim")
            self._bar = ui.linear_progress(0, show_value=False, size="8px")
            self._bar.props("rounded instant-feedback")
        self._row.set_visibility(False)

    def show(self, budget: Budget | None) -> None:
        self._row.set_visibility(budget is not None)
        if budget is None:
            return
        text = f"{plain(budget.used)} of {plain(budget.limit)} SOL"
        self._name.set_text(f"{budget.wallet} (frozen)" if budget.frozen else budget.wallet)
        self._used.set_text(text)
        self._bar.set_value(budget.share)
        colour = "negative" if budget.share >= 0.9 else "warning" if budget.share >= 0.7 else "teal"
        self._bar.props["color"] = colour
        self._bar.props["aria-label"] = f"{budget.wallet}: {text}"
        self._bar.update()


class DecisionRows:
    """The newest decisions, newest first."""

    def __init__(self) -> None:
        self._empty = ui.element("div").classes("sw-empty")
        with self._empty:
            ui.label("No agent has decided anything yet.")
            ui.link("Make and start one on the Agents page", "/agents")
        self._empty.set_visibility(False)
        with ui.element("div").classes("sw-list"):
            self._rows = [_DecisionRow() for _ in range(DECISIONS)]

    def show(self, decisions: Sequence[AgentDecision], now: datetime) -> None:
        """Show the first `DECISIONS` with their age."""
        self._empty.set_visibility(not decisions)
        for at, row in enumerate(self._rows):
            row.show(decisions[at] if at < len(decisions) else None, now)


class _DecisionRow:
    def __init__(self) -> None:
        self._row = ui.element("div")
        with self._row:
            with ui.element("div").classes("sw-row"):
                self._agent = ui.label().classes("sw-strong sw-text")
                ui.space()
                self._ago = ui.label().classes("sw-dim")
            # One line each, so that the list keeps its height.
            self._action = ui.label().classes("sw-mono sw-cut")
            self._outcome = ui.label().classes("sw-dim sw-cut")
        self._row.set_visibility(False)

    def show(self, taken: AgentDecision | None, now: datetime) -> None:
        self._row.set_visibility(taken is not None)
        if taken is None:
            return
        decision = taken.decision
        self._agent.set_text(taken.agent)
        self._action.set_text(_cut((decision.action or "wait").removesuffix("({})")))
        self._ago.set_text(ago(decision.timestamp, now))
        self._outcome.set_text(_cut(local_times(decision.outcome)))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
