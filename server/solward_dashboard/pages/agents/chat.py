"""The chat dialog: the response is streamed as the model writes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from nicegui import ui

from solward.client import Agent
from solward.resources.agents import Said
from solward.resources.declare import declared_fields
from solward.types.errors import SolwardError
from solward_dashboard import parts as sw
from solward_dashboard.api import api

# Statuses in which an agent can be paused, stopped and chatted with (docs/agents.md).
ACTIVE = ("running", "error")
_LONGEST = declared_fields(Said)["message"].schema()["maxLength"]


class Chat:
    """A dialog; the conversation with each agent is kept as long as the page."""

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
        self._show()
        self._dialog.open()

    def show(self, agents: Sequence[Agent]) -> None:
        """Update the agent's status."""
        for each in agents:
            if self._agent is not None and self._agent.id == each.id:
                self._agent = each
                self._show()

    def _show(self) -> None:
        agent = self._agent
        if agent is None:
            return
        active = agent.status in ACTIVE
        note = "It answers and executes nothing."
        if not agent.is_llm:
            note = "It is not a language model: it answers by fixed rules, and executes nothing."
        self._note.set_text(note if active else "It is not running. Start it to write with it.")
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
        # A task, so that the stop button can cancel it.
        conversation.task = asyncio.create_task(conversation.ask(agent, message, self._area))
        self._show()
        try:
            await asyncio.wait([conversation.task])
        finally:
            conversation.task.cancel()
            conversation.task = None
            self._show()

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
