"""Agents of one process: made, changed, started and stopped, and what they did."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from solward.agents import placement
from solward.agents.budget import TokensUsed
from solward.agents.chat import chat_request, pieces, reply
from solward.agents.cycle import Next, run_cycle
from solward.agents.cycle_parts import (
    AgentHost,
    check_options,
    check_startable,
    completer,
    installed,
    parts_of,
    streamer,
)
from solward.agents.decisions import Decision, MemoryEntry, decision_of, memory_of
from solward.agents.fields import Defaults, read_create, read_update
from solward.agents.model import (
    Agent,
    AgentGuardrails,
    AgentStatistics,
    AgentStatus,
    DesiredState,
    agent_of,
)
from solward.agents.placement import Place
from solward.agents.remember import tell, usage_row, used_of
from solward.clock import now_ms
from solward.errors import AgentNotFound, InvalidRequest
from solward.provider import CompletionRequest, Usage
from solward.store import agents as store
from solward.store.cycles import MEMORY_GIVEN

_WALLET_NAME_MAX = 64
_ACTIVE = (AgentStatus.RUNNING, AgentStatus.ERROR)


class AgentService:
    """Every method that names an agent raises `AgentNotFound` when there is none.

    Args:
        place: says where cycles run; `placement.default` where it is None.
    """

    def __init__(self, host: AgentHost, place: Place | None = None) -> None:
        self._host = host
        self._database = host.database
        self._parts = parts_of(host)
        self._placement = (place or placement.default)(host.database, self.run_cycle)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def resume(self) -> None:
        """Run again what should run, as it was when the last process ended."""
        await self._placement.open()

    async def close(self) -> None:
        """End all cycles of this process; the agents' desired states stay."""
        await self._placement.close()

    async def run_cycle(self, agent_id: str, cycle: int) -> Next | None:
        """Run one cycle here and now: `solward.agents.cycle.run_cycle`."""
        return await run_cycle(agent_id, cycle, self._parts)

    async def create(self, body: Mapping[str, Any]) -> Agent:
        """Make an agent from a create body; the second form gets its own wallet.

        Raises:
            InvalidRequest: naming the field.
            WalletNotFound: no such wallet.
        """
        providers = self._host.registry.providers
        models = {name: loaded.spec.default_model for name, loaded in providers.items()}
        fields = read_create(body, models, self._defaults())
        check_options(providers[fields.llm_provider], fields.llm_options)
        wallets = self._host.wallets
        if fields.wallet_id is None:
            name = f"{fields.name[: _WALLET_NAME_MAX - len('-wallet')]}-wallet"
            wallet = await wallets.create(name)
        else:
            wallet = await wallets.get(fields.wallet_id)
        agent = Agent(
            id=str(uuid.uuid4()),
            name=fields.name,
            wallet_id=wallet.id,
            llm_provider=fields.llm_provider,
            llm_model=fields.llm_model,
            strategy=fields.strategy,
            guardrails=fields.guardrails,
            loop_interval_ms=fields.loop_interval_ms,
            status=AgentStatus.IDLE,
            desired_state=DesiredState.STOPPED,
            created_ms=now_ms(),
            llm_options=fields.llm_options,
            llm_budget=fields.llm_budget,
            is_llm=providers[fields.llm_provider].spec.is_llm,
        )
        async with self._database.write() as connection:
            await store.insert_agent(connection, agent.to_row())
        return agent

    async def list(self) -> tuple[Agent, ...]:
        """All agents, oldest first."""
        async with self._database.read() as connection:
            rows = await store.list_agents(connection)
        return tuple(map(self._agent, rows))

    async def get(self, agent_id: str) -> Agent:
        """One agent."""
        async with self._database.read() as connection:
            return self._agent(await store.get_agent(connection, agent_id))

    async def update(self, agent_id: str, body: Mapping[str, Any]) -> Agent:
        """Change fields of an agent; a running one goes by them from its next cycle on.

        Raises:
            InvalidRequest: naming the field.
        """
        async with self._database.write() as connection:
            agent = self._agent(await store.get_agent(connection, agent_id, lock=True))
            changed = read_update(body, self._host.registry.providers, agent)
            if not changed:
                return agent
            agent = replace(agent, **changed)
            if "llm_provider" in changed or "llm_options" in changed:
                check_options(installed(self._host, agent), agent.llm_options)
            row = agent.to_row()
            columns = {name: row[name] for name in changed}
            return self._agent(await store.update_agent(connection, agent_id, columns))

    async def delete(self, agent_id: str) -> None:
        """Stop an agent and remove it with its decisions and memory; its transactions stay."""
        async with self._lock(agent_id):
            await self._end(agent_id, DesiredState.STOPPED)
            async with self._database.write() as connection:
                await store.delete_agent(connection, agent_id)

    async def start(self, agent_id: str) -> Agent:
        """Run its cycles, the first at once; a running agent is left as it is.

        Raises:
            InvalidRequest: its provider's key is not set, or its provider is not installed.
        """
        async with self._lock(agent_id):
            now = now_ms()
            async with self._database.write() as connection:
                agent = self._agent(await store.get_agent(connection, agent_id, lock=True))
                if agent.status is AgentStatus.RUNNING:
                    return agent
                check_startable(self._host, agent)
                fields = {
                    "status": AgentStatus.RUNNING.value,
                    "desired_state": DesiredState.RUNNING.value,
                    "next_run_ms": now,
                    "deferred_cycle": None,
                    "failures": 0,
                    "error": None,
                }
                agent = self._agent(await store.update_agent(connection, agent_id, fields))
                tell(connection, agent.id, agent.name, agent.status)
            await self._placement.begin(agent.id, agent.cycle_no, now)
            return agent

    async def stop(self, agent_id: str) -> Agent:
        """End its cycles; returns when the agent will do nothing more.

        What it is paying just then is finished and recorded first.
        """
        async with self._lock(agent_id):
            return await self._end(agent_id, DesiredState.STOPPED)

    async def pause(self, agent_id: str) -> Agent:
        """Set a running agent aside until it is started; as `stop` otherwise.

        Raises:
            InvalidRequest: it is neither running nor paused.
        """
        async with self._lock(agent_id):
            return await self._end(agent_id, DesiredState.PAUSED)

    async def chat(self, agent_id: str, message: str) -> str:
        """The model's answer to a person.

        Raises:
            InvalidRequest: the message is empty, or the agent is not running.
            ProviderError: the model gave no answer.
            TokenBudgetReached: the agent's token budget has no room for it.
        """
        agent, request = await self._chat_request(agent_id, message)
        completion = await reply(agent, request, completer(self._host, agent))
        await self._used(agent, completion.usage)
        return completion.text or ""

    async def chat_stream(self, agent_id: str, message: str) -> AsyncGenerator[str, None]:
        """As `chat`, in pieces as they come; what is refused is refused before the first.

        Closing it ends the provider's work.
        """
        agent, request = await self._chat_request(agent_id, message)
        usage: Usage | None = None
        try:
            async with aclosing(pieces(agent, request, streamer(self._host, agent))) as answer:
                async for piece in answer:
                    if isinstance(piece, Usage):
                        usage = piece
                    elif piece:
                        yield piece
        finally:
            await self._used(agent, usage)

    async def decisions(
        self, agent_id: str, *, limit: int = 50, before: int | None = None
    ) -> tuple[Decision, ...]:
        """What the agent decided, newest first, of cycles before `before`."""
        async with self._database.read() as connection:
            self._agent(await store.get_agent(connection, agent_id))
            rows = await store.list_decisions(connection, agent_id, limit, before)
        return tuple(map(decision_of, rows))

    async def memory(
        self, agent_id: str, *, limit: int = store.MEMORY_KEPT
    ) -> tuple[MemoryEntry, ...]:
        """What the agent remembers, newest first; at most 100 entries are kept."""
        async with self._database.read() as connection:
            self._agent(await store.get_agent(connection, agent_id))
            rows = await store.list_memory(connection, agent_id, limit)
        return tuple(map(memory_of, rows))

    async def tokens(self, agent_id: str) -> TokensUsed:
        """What the agent used of its model in the last day."""
        async with self._database.read() as connection:
            self._agent(await store.get_agent(connection, agent_id))
            return await used_of(connection, agent_id)

    async def statistics(self) -> AgentStatistics:
        """How many agents there are, by status."""
        async with self._database.read() as connection:
            counts = await store.count_by_status(connection)
        return AgentStatistics(
            total=sum(counts.values()),
            **{status.value: counts.get(status.value, 0) for status in AgentStatus},
        )

    async def _chat_request(self, agent_id: str, message: str) -> tuple[Agent, CompletionRequest]:
        if not isinstance(message, str) or not message.strip():
            raise InvalidRequest("message must be a non-empty string")
        async with self._database.read() as connection:
            agent = self._agent(await store.get_agent(connection, agent_id))
            if agent.status not in _ACTIVE:
                raise InvalidRequest("Agent is not running")
            memory = await store.list_memory(connection, agent_id, MEMORY_GIVEN)
            used = await used_of(connection, agent_id)
        entries = tuple(map(memory_of, memory))
        network = self._host.network
        return agent, chat_request(agent, message, entries, network=network, used=used)

    async def _used(self, agent: Agent, usage: Usage | None) -> None:
        if usage is not None:
            async with self._database.write() as connection:
                await store.add_usage(connection, [usage_row(agent.id, now_ms(), usage)])

    async def _end(self, agent_id: str, desired: DesiredState) -> Agent:
        async with self._database.write() as connection:
            was = self._agent(await store.get_agent(connection, agent_id, lock=True))
            if desired is DesiredState.PAUSED:
                if was.status is AgentStatus.PAUSED:
                    return was
                if was.status not in _ACTIVE:
                    raise InvalidRequest("Agent is not running")
            fields = {"status": desired.value, "desired_state": desired.value}
            agent = self._agent(await store.update_agent(connection, agent_id, fields))
            if agent.status is not was.status:
                tell(connection, agent.id, agent.name, agent.status)
        await self._placement.halt(agent_id)
        return agent

    def _agent(self, row: Mapping[str, Any] | None) -> Agent:
        if row is None:
            raise AgentNotFound
        loaded = self._host.registry.providers.get(row["llm_provider"])
        return agent_of(row, is_llm=loaded is None or loaded.spec.is_llm)

    def _defaults(self) -> Defaults:
        settings = self._host.settings
        return Defaults(
            AgentGuardrails(
                settings.max_lamports_per_transaction,
                settings.max_transactions_per_minute,
                settings.daily_spending_limit_lamports,
            ),
            settings.default_llm_provider,
            settings.default_llm_model,
        )

    def _lock(self, agent_id: str) -> asyncio.Lock:
        lock = self._locks.get(agent_id)
        if lock is None:
            lock = self._locks[agent_id] = asyncio.Lock()
        return lock
