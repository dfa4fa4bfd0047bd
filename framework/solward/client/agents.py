"""`client.agents`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from solward.client.arguments import segment
from solward.client.errors import BadAnswer, ServerError
from solward.client.http import read_answer
from solward.client.requests import AgentRequests
from solward.client.wallets import find_one
from solward.resources.agents import Agent

# A model may think long before its first word; the provider's deadline bounds it.
_CHAT_SILENCE_S = 300.0


class Agents(AgentRequests):
    """Agents: create, start, stop, chat, and read their decisions and memory."""

    async def find(self, name_or_id: str) -> Agent:
        """The agent with this id, or the only one of this name or beginning of an id.

        Raises:
            NotFoundError: there is none.
            AmbiguousName: there are several.
        """
        return find_one("agent", name_or_id, await self.list())

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


def _path(agent_id: str, *rest: str) -> str:
    return "/".join(("/agents", segment(agent_id, "agent_id"), *rest))
