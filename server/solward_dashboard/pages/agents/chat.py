"""Writing with a running agent; its answer comes as the model speaks."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from nicegui import ui

from solward.client import Agent
from solward.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.pages.agents.data import ACTIVE

_LONGEST = 20_000


class Chat:
    """A dialog; what was said with each agent stays as long as the page."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._talks: dict[str, _Talk] = {}
        with ui.dialog() as self._dialog, ui.card().classes("sw-dialog sw-dialog-wide"):
            self._dialog.props('aria-label="Chat"')
            with ui.element("div").classes("sw-row sw-nowrap"):
                self._title = ui.label().classes("sw-card-title sw-text")
                ui.space()
                close = ui.button(icon="close", color=None, on_click=self._dialog.close)
                close.props('flat round dense aria-label="Close"')
            self._note = ui.label().classes("sw-dim sw-text")
            self._area = ui.scroll_area().classes("sw-chat")
            self._area.props('role=log aria-live=polite data-testid="chat"')
            with ui.element("div").classes("sw-row sw-nowrap"):
                self._input = ui.input("Message").props("outlined dense autofocus")
                self._input.props(f"maxlength={_LONGEST} autocomplete=off").classes("sw-grow")
                self._input.on("keydown.enter", self._send)
                self._button = ui.button("Send", on_click=self._send)
                self._button.props('no-caps unelevated data-testid="send"')
                self._halt = ui.button("Stop", color=None, on_click=self._stop)
                self._halt.props('outline no-caps aria-label="Stop the answer"')

    def open(self, agent: Agent) -> None:
        """Go on with what was said with this agent."""
        self._agent = agent
        if agent.id not in self._talks:
            with self._area:
                self._talks[agent.id] = _Talk()
        for agent_id, talk in self._talks.items():
            talk.place.set_visibility(agent_id == agent.id)
        self._title.set_text(f"Chat with {agent.name}")
        self._show()
        self._dialog.open()

    def show(self, agents: dict[str, Agent]) -> None:
        """What became of the agent since."""
        if self._agent is not None and self._agent.id in agents:
            self._agent = agents[self._agent.id]
            self._show()

    def _show(self) -> None:
        agent = self._agent
        if agent is None:
            return
        active = agent.status in ACTIVE
        says = "It answers and executes nothing."
        if not agent.is_llm:
            says = "It is not a language model: it answers by fixed rules, and executes nothing."
        self._note.set_text(says if active else "It is not running. Start it to write with it.")
        busy = self._talks[agent.id].answering is not None
        self._button.set_enabled(active and not busy)
        self._halt.set_visibility(busy)

    async def _send(self) -> None:
        agent, message = self._agent, (self._input.value or "").strip()
        if agent is None or agent.status not in ACTIVE or not message:
            return
        talk = self._talks[agent.id]
        if talk.answering is not None:
            return
        self._input.set_value("")
        # A task of its own, which the stop button ends.
        talk.answering = asyncio.create_task(talk.ask(agent, message, self._area))
        self._show()
        try:
            await asyncio.wait([talk.answering])
        finally:
            talk.answering.cancel()
            talk.answering = None
            self._show()

    def _stop(self) -> None:
        talk = self._talks.get(self._agent.id) if self._agent else None
        if talk is not None and talk.answering is not None:
            talk.answering.cancel()


class _Talk:
    def __init__(self) -> None:
        self.place = ui.element("div").classes("sw-form")
        self.answering: asyncio.Task[None] | None = None

    async def ask(self, agent: Agent, message: str, area: ui.scroll_area) -> None:
        """Show the message, and the answer piece by piece."""
        self._say(message, "You", sent=True)
        answer = self._say("…", agent.name, sent=False)
        area.scroll_to(percent=1)
        said = ""
        try:
            async with aclosing(api().agents.chat_stream(agent.id, message)) as pieces:
                async for piece in pieces:
                    if self.place.is_deleted:
                        return
                    said += piece
                    answer.set_text(said)
                    area.scroll_to(percent=1)
            if not said.strip():
                answer.set_text("(no answer)")
        except SolwardError as error:
            answer.set_text(f"{said}\n{error}".strip())
            answer.classes(add="sw-bad")
        except asyncio.CancelledError:
            answer.set_text(f"{said} (stopped)".strip())
            raise
        finally:
            area.scroll_to(percent=1)

    def _say(self, text: str, name: str, *, sent: bool) -> ui.label:
        with self.place, ui.element("div").classes("sw-said" + (" sw-said-by-me" if sent else "")):
            ui.label(name).classes("sw-dim")
            # A label shows text as text, whoever wrote it.
            return ui.label(text).classes("sw-text").props(f'data-testid="{_kind(sent)}"')


def _kind(sent: bool) -> str:
    return "said" if sent else "answer"
