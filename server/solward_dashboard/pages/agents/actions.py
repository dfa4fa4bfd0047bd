"""An agent's buttons (start, pause, stop, chat, delete), status badge, limit bars and strategy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nicegui import ui

from solward.client import Agent
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed
from solward_dashboard.pages.agents.data import ACTIVE, STATUS_CLASSES


def status_badge() -> sw.Redrawn[str]:
    """An agent's status, in colour and in words."""

    def build(status: str) -> None:
        sw.marked(ui.badge(status), "status").classes(STATUS_CLASSES.get(status, "sw-idle"))

    return sw.Redrawn(build, "sw-keep")


def limit_bars() -> sw.Redrawn[Sequence[sw.Bar]]:
    """A bar a limit."""
    return sw.Redrawn(lambda bars: [*map(sw.show_bar, bars)], "sw-bars")


def agent_buttons(chat: Callable[[Agent], None], *, leaves: bool = False) -> sw.Redrawn[Agent]:
    """The buttons that an agent's status allows.

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
            switch(
                "Start",
                "play_arrow",
                calls.start,
                sw.POLICY if agent.status == "idle" else sw.OPERATE,
            )
        if active:
            switch("Pause", "pause", calls.pause)
        if active or agent.status == "paused":
            switch("Stop", "stop", calls.stop)
        talk = sw.button(
            "Chat",
            lambda: chat(agent),
            icon="chat",
            look=sw.SMALL,
            needs=sw.POLICY,
            of=f"with {agent.name}",
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
        self._text.classes(**{"remove" if self._expanded else "add": "sw-clamp"})
        self._more.set_text("Less" if self._expanded else "Whole strategy")
        self._more.props["aria-expanded"] = "true" if self._expanded else "false"
