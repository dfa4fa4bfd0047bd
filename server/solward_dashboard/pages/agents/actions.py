"""An agent's buttons (start, pause, stop, chat, delete), status badge, limit bars and strategy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from solward.client import Agent
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, notify_error
from solward_dashboard.pages.agents.data import ACTIVE, STATUS_CLASSES, Bar


class StatusBadge:
    """An agent's status, in colour and in words."""

    def __init__(self) -> None:
        self._badge = ui.badge().props('data-testid="status"')

    def show(self, agent: Agent) -> None:
        """Update the text."""
        self._badge.set_text(agent.status)
        own = STATUS_CLASSES.get(agent.status, "sw-idle")
        others = " ".join({*STATUS_CLASSES.values()} - {own})
        self._badge.classes(add=own, remove=others)


class AgentButtons:
    """The buttons of one agent.

    Args:
        dialogs: an element that outlives the buttons, the parent of dialogs and notifications.
        refresh: called after an action.
        deleted: called in place of `refresh` when the agent is deleted.
    """

    def __init__(
        self,
        agent: Agent,
        dialogs: ui.element,
        refresh: Callable[[], Awaitable[None]],
        chat: Callable[[Agent], None],
        deleted: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._agent = agent
        self._dialogs = dialogs
        self._refresh = refresh
        self._deleted = deleted or refresh
        name = agent.name
        self._start = _button("Start", "play_arrow", name, lambda: self._do("start"))
        self._pause = _button("Pause", "pause", name, lambda: self._do("pause"))
        self._stop = _button("Stop", "stop", name, lambda: self._do("stop"))
        self._chat = _button("Chat", "chat", name, lambda: chat(self._agent))
        self._delete = ui.button(icon="delete_outline", color=None, on_click=self._confirm_delete)
        self._delete.props("flat round dense").classes("sw-needs-policy")
        for each in (self._start, self._pause, self._stop):
            each.classes("sw-needs-operate")
        self._chat.classes("sw-needs-policy")
        self.show(agent)

    def show(self, agent: Agent) -> None:
        """Show the buttons that the status allows."""
        self._agent = agent
        active = agent.status in ACTIVE
        self._start.set_visibility(agent.status != "running")
        # The first start decides that it acts at all.
        never = "sw-needs-policy" if agent.status == "idle" else ""
        self._start.classes(add=never, remove="" if never else "sw-needs-policy")
        self._pause.set_visibility(active)
        self._stop.set_visibility(active or agent.status == "paused")
        self._chat.set_enabled(active)
        for button, verb in ((self._start, "Start"), (self._pause, "Pause"), (self._stop, "Stop")):
            button.props["aria-label"] = f"{verb} {agent.name}"
        self._chat.props["aria-label"] = f"Chat with {agent.name}"
        self._delete.props["aria-label"] = f"Delete {agent.name}"

    async def _do(self, what: str) -> None:
        agents = api().agents
        calls: Mapping[str, Callable[[str], Awaitable[Any]]] = {
            "start": agents.start,
            "pause": agents.pause,
            "stop": agents.stop,
        }
        await self._run(calls[what])
        await self._refresh()

    async def _confirm_delete(self) -> None:
        agent = self._agent
        details = ["Its decisions and its memory go; its transactions stay in the history."]
        if agent.status in ACTIVE:
            details.insert(0, "It is running. It is stopped first.")
        with self._dialogs:
            agreed = await confirmed(f"Delete {agent.name}?", details, "Delete")
        if agreed:
            done = await self._run(api().agents.delete)
            await (self._deleted() if done else self._refresh())

    async def _run(self, call: Callable[[str], Awaitable[Any]]) -> bool:
        buttons = (self._start, self._pause, self._stop, self._delete)
        for each in buttons:
            each.disable()
        try:
            await call(self._agent.id)
        except SolwardError as error:
            with self._dialogs:
                notify_error(error)
            return False
        finally:
            for each in buttons:
                each.enable()
        return True


def _button(text: str, icon: str, name: str, do: Callable[[], Any]) -> ui.button:
    button = ui.button(text, icon=icon, color=None, on_click=do)
    button.props("outline dense no-caps").classes("sw-switch")
    button.props["aria-label"] = f"{text} {name}"
    return button


class Bars:
    """A bar a limit, rebuilt only when other limits are shown."""

    def __init__(self) -> None:
        self._place = ui.element("div").classes("sw-bars")
        self._rows: list[tuple[ui.label, ui.linear_progress]] = []
        self._titles: list[str] = []

    def show(self, bars: Sequence[Bar]) -> None:
        """Show them in their order."""
        titles = [each.title for each in bars]
        if titles != self._titles:
            self._titles = titles
            self._place.clear()
            with self._place:
                self._rows = [self._row(each) for each in titles]
        for (text, line), bar in zip(self._rows, bars, strict=True):
            text.set_text(bar.text)
            line.set_value(bar.share)
            line.props["color"] = (
                "negative" if bar.share >= 0.9 else "warning" if bar.share >= 0.7 else "teal"
            )
            line.props["aria-label"] = f"{bar.title}: {bar.text}"

    @staticmethod
    def _row(title: str) -> tuple[ui.label, ui.linear_progress]:
        with ui.element("div"):
            with ui.element("div").classes("sw-row sw-dim"):
                ui.label(title)
                ui.space()
                text = ui.label().classes("sw-number")
            line = ui.linear_progress(0, show_value=False, size="6px")
            line.props("rounded instant-feedback")
        return text, line


class Strategy:
    """An agent's strategy: its beginning, and all of it on demand where that is more."""

    def __init__(self) -> None:
        self._text = ui.label().classes("sw-text sw-clamp")
        self._more = ui.button("Whole strategy", color=None, on_click=self._toggle)
        self._more.props("flat dense no-caps aria-expanded=false").classes("sw-more sw-start")
        self._expanded = False

    def show(self, strategy: str) -> None:
        """Update the text."""
        self._text.set_text(strategy.strip())

    def _toggle(self) -> None:
        self._expanded = not self._expanded
        self._text.classes(**{"remove" if self._expanded else "add": "sw-clamp"})
        self._more.set_text("Less" if self._expanded else "Whole strategy")
        self._more.props["aria-expanded"] = "true" if self._expanded else "false"
