"""`client.agents`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from solward.client.agent_models import AgentTemplate
from solward.client.arguments import segment
from solward.client.errors import BadAnswer, ServerError
from solward.client.http import read_answer
from solward.client.requests import AgentRequests
from solward.client.wallets import find_one
from solward.resources.agents import Agent, Decision, Memory

# A model may think long before its first word; the provider's deadline bounds it.
_CHAT_SILENCE_S = 300.0


class Agents(AgentRequests):
    """Agents: create, start, stop, chat, and read their decisions and memory."""

    async def list(self) -> tuple[Agent, ...]:
        """Every agent this token may see."""
        return self._http.read_list(Agent.of, await self._http.get("/agents"), "agents")

    async def get(self, agent_id: str) -> Agent:
        """One agent by its id; raises `NotFoundError`."""
        return self._http.read(Agent.of, await self._http.get(_path(agent_id)))

    async def find(self, name_or_id: str) -> Agent:
        """The agent with this id, or the only one of this name or beginning of an id.

        Raises:
            NotFoundError: there is none.
            AmbiguousName: there are several.
        """
        return find_one("agent", name_or_id, await self.list())

    async def templates(self) -> tuple[AgentTemplate, ...]:
        """The starting points of agents."""
        raw = await self._http.get("/agent-templates")
        return self._http.read_list(AgentTemplate.of, raw, "templates")

    async def delete(self, agent_id: str) -> None:
        """Delete it with its decisions and memory; its transactions stay."""
        await self._http.send("DELETE", _path(agent_id))

    async def start(self, agent_id: str) -> str:
        """Start or resume it; returns `started`."""
        return await self._switch(agent_id, "start")

    async def stop(self, agent_id: str) -> str:
        """Stop it, after an action that spends has ended; returns `stopped`."""
        return await self._switch(agent_id, "stop")

    async def pause(self, agent_id: str) -> str:
        """Pause a running agent; returns `paused`."""
        return await self._switch(agent_id, "pause")

    async def chat(self, agent_id: str, message: str) -> str:
        """Write to a running agent; its whole answer."""
        timeout_s = max(self._http.timeout_s, _CHAT_SILENCE_S)
        body = {"message": message}
        answer = await self._http.send("POST", _path(agent_id, "chat"), body, timeout_s)
        return self._http.read(lambda raw: str(raw["response"]), answer)

    async def chat_stream(self, agent_id: str, message: str) -> AsyncGenerator[str, None]:
        """Write to a running agent; its answer as it arrives.

        Raises:
            ServerError: the model failed midway.
            BadRequest: the agent is not running.
        """
        stream = self._http.stream(
            "POST",
            _path(agent_id, "chat"),
            body={"message": message},
            silence_s=_CHAT_SILENCE_S,
        )
        async with aclosing(stream) as events:
            async for event in events:
                data = self._http.read(lambda text: dict(read_answer(text)), event.data)
                if event.event == "delta":
                    yield self._http.read(lambda raw: str(raw["text"]), data)
                elif event.event == "done":
                    return
                elif event.event == "error":
                    raise ServerError(500, str(data.get("error")))
        raise BadAnswer("The agent's answer broke off")

    async def decisions(
        self, agent_id: str, limit: int = 50, before: int | None = None
    ) -> tuple[Decision, ...]:
        """Its decisions, newest first; `before` is a cycle and gives older ones."""
        query = {"limit": limit, "before": before}
        raw = await self._http.get(_path(agent_id, "decisions"), query)
        return self._http.read_list(Decision.of, raw, "decisions")

    async def memory(self, agent_id: str, limit: int = 100) -> tuple[Memory, ...]:
        """Its memory, newest first, at most 100 entries."""
        raw = await self._http.get(_path(agent_id, "memory"), {"limit": limit})
        return self._http.read_list(Memory.of, raw, "memory")

    async def limits(self, agent_id: str) -> Mapping[str, Any]:
        """Its limits, spent and left amounts of each, and its model's usage (docs/rest.md)."""
        return self._http.read(dict, await self._http.get(_path(agent_id, "limits")))

    async def _switch(self, agent_id: str, action: str) -> str:
        answer = await self._http.send("POST", _path(agent_id, action))
        return self._http.read(lambda raw: str(raw["status"]), answer)


def _path(agent_id: str, *rest: str) -> str:
    return "/".join(("/agents", segment(agent_id, "agent_id"), *rest))
