"""`SolwardClient`, the typed client of a running service, and its parts `agents`, `policy` and
`plugin_state`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx

from solward.client.arguments import json_fields, segment
from solward.client.errors import BadAnswer, ServerError, Unreachable
from solward.client.http import Http, ServerSentEvent, read_answer
from solward.client.requests import (
    Admins,
    AgentRequests,
    Contacts,
    Grants,
    Holds,
    Keys,
    Payments,
    PluginStateRequests,
    PolicyRequests,
    Schedules,
    ServiceRequests,
)
from solward.client.wallets import Transactions, Wallets, find_one
from solward.resources.agents import Agent
from solward.resources.events import AuditEntry, AuditFilter, Event
from solward.resources.plugins import SET, SettingState
from solward.resources.policy import REPLACE_GRANTS, PrincipalGrants
from solward.resources.service import SwapQuote

if TYPE_CHECKING:
    from solward.settings import Settings

DEFAULT_TIMEOUT_S = 60.0

# The service sends a comment every 15 s; three missed ones mean that it is gone.
_SILENCE_S = 45.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 2.0
_LARGEST_PAGE = 500
# A model may think for long before its first word; only the provider's deadline limits this wait.
_CHAT_SILENCE_S = 300.0


class Agents(AgentRequests):
    """Agents: create, start, stop, chat, and read their decisions and memory."""

    async def find(self, name_or_id: str) -> Agent:
        """Return the agent with this id, or the only one with this name or beginning of its id.

        Raises:
            NotFoundError: there is no such agent.
            AmbiguousName: several agents match.
        """
        return find_one("agent", name_or_id, await self.list())

    async def chat(self, agent_id: str, message: str) -> str:
        """Write to a running agent and return its whole answer."""
        timeout_s = max(self._http.timeout_s, _CHAT_SILENCE_S)
        path, body = f"/agents/{segment(agent_id, 'agent_id')}/chat", {"message": message}
        answer = await self._http.send("POST", path, body, timeout_s)
        return self._http.read(lambda raw: str(raw["response"]), answer)

    async def chat_stream(self, agent_id: str, message: str) -> AsyncGenerator[str, None]:
        """Write to a running agent and yield its answer as it arrives.

        Raises:
            ServerError: the model failed midway.
            BadRequest: the agent is not running.
        """
        path, body = f"/agents/{segment(agent_id, 'agent_id')}/chat", {"message": message}
        stream = self._http.stream("POST", path, body=body, silence_s=_CHAT_SILENCE_S)
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                data = self._http.read(lambda text: dict(read_answer(text)), event.data)
                if event.event == "delta":
                    yield self._http.read(lambda raw: str(raw["text"]), data)
                elif event.event == "done":
                    return
                elif event.event == "error":
                    raise ServerError(500, str(data.get("error")))
        raise BadAnswer("The agent's answer broke off")


class PluginState(PluginStateRequests):
    """The settings of skills and the entries that plugins store; needs the admin secret."""

    async def set(self, skill: str, name: str, value: Any) -> SettingState:
        """Set a skill's setting, from its next call on; None sets null if the schema allows it.

        Raises:
            NotFoundError: no loaded skill has this name.
            BadRequest: the skill declares no such setting, or the value does not fit.
        """
        now: SettingState = await self._ask(SET, skill, name, fields={"value": value})
        return now


class Policies(PolicyRequests):
    """The policy: the grants of all principals; needs the admin secret."""

    async def put(
        self, principal: str, grants: Grants | None, *, version: int | None = None
    ) -> PrincipalGrants:
        """Replace the grants of one principal, such as `agent:scout`.

        Args:
            grants: if empty, the principal may only read; None removes it from grants.
            version: the version of the policy that the change was written for; None for any.

        Raises:
            NotFoundError: no principal has this id or name.
            BadRequest: a grant is wrong; the message names its path.
            Conflict: the policy has another version now.
        """
        fields = {"grants": None if grants is None else [*grants]} | json_fields(version=version)
        now: PrincipalGrants = await self._ask(REPLACE_GRANTS, principal, fields=fields)
        return now


class SolwardClient(ServiceRequests):
    """A client of one service. Use it in an `async with` block, and from one event loop only.

    Attributes:
        wallets, transactions, contacts, payments, agents, schedules, keys, admins, policy, holds,
            plugin_state: each resource's calls; `help(client.wallets)` describes their arguments.

    Args:
        url: the service's address, such as `http://127.0.0.1:3001`.
        token: the admin secret or an API key.
        timeout_s: how long a call waits for its answer. The service itself waits up to 45
            seconds for a transaction's end.
        transport: httpx transport; for tests, and for a service in this process.

    Raises:
        InvalidRequest: the address or the token cannot be used.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(Http(url, token, timeout_s=timeout_s, transport=transport))
        self.wallets = Wallets(self._http)
        self.transactions = Transactions(self._http)
        self.contacts = Contacts(self._http)
        self.payments = Payments(self._http)
        self.agents = Agents(self._http)
        self.schedules = Schedules(self._http)
        self.keys = Keys(self._http)
        self.admins = Admins(self._http)
        self.policy = Policies(self._http)
        self.holds = Holds(self._http)
        self.plugin_state = PluginState(self._http)

    @classmethod
    def from_settings(cls, settings: Settings, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Self:
        """Return a client of the service at `SOLWARD_API_URL` that sends `SOLWARD_API_KEY`.

        Raises:
            ConfigError: the URL is from a `.env` file, and the key is from elsewhere.
        """
        return cls(*settings.client_target, timeout_s=timeout_s)

    @property
    def url(self) -> str:
        """The service's address."""
        return self._http.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def quote(self, body: Mapping[str, Any]) -> SwapQuote:
        """Quote a swap at current prices; `body` has the fields of the swap's route."""
        return self._http.read(SwapQuote.of, await self._http.send("POST", "/quote", body))

    async def audit_entries(
        self, only: AuditFilter, before: int | None = None
    ) -> AsyncGenerator[AuditEntry, None]:
        """Yield every audit entry that matches, newest first, and fetch them page by page."""
        while True:
            page = await self.audit(**asdict(only), limit=_LARGEST_PAGE, before=before)
            for entry in page.entries:
                yield entry
            if page.next is None:
                return
            before = page.next

    async def events(
        self, types: Sequence[str] = (), after: int | None = None
    ) -> AsyncGenerator[Event, None]:
        """Yield events from now on, or after the event numbered `after`; 0 replays everything.

        Until it is closed, it reconnects after the last event, without gap or duplicate.

        Args:
            types: the kinds of events to receive (docs/reference/events.md); all kinds if empty.

        Raises:
            Unreachable: the service did not answer at the beginning.
            ApiError: the service refused.
        """
        # Read first, so that a reconnect before the first event has a number to resume after.
        newest = (await self.audit(limit=1)).entries
        if after is None:
            after = newest[0].seq if newest else 0
        pause = _FIRST_PAUSE_S
        while True:
            # Retry while the service restarts, or a proxy has no service behind it.
            with contextlib.suppress(Unreachable, ServerError):
                async with contextlib.aclosing(self._stream(types, after)) as stream:
                    async for sent in stream:
                        event = self._http.read(_event_of, sent)
                        after, pause = event.seq, _FIRST_PAUSE_S
                        yield event
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _stream(self, types: Sequence[str], after: int) -> AsyncGenerator[ServerSentEvent, None]:
        return self._http.stream(
            "GET",
            "/events",
            query=json_fields(types=",".join(types) or None),
            headers={"Last-Event-ID": str(after)},
            silence_s=_SILENCE_S,
        )


def _event_of(sent: ServerSentEvent) -> Event:
    data = dict(read_answer(sent.data))
    return Event.of({"seq": int(sent.id or ""), "event": sent.event, "data": data})
