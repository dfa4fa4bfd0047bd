"""Agents of one process: made, changed, started and stopped, and what they did."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from solward.agents.cycle import run_cycle
from solward.agents.fields import Defaults, read_create, read_update
from solward.agents.host import AgentHost, completer, parts_of
from solward.agents.model import (
    Agent,
    AgentGuardrails,
    AgentStatistics,
    AgentStatus,
    Decision,
    DesiredState,
    MemoryEntry,
    agent_of,
    decision_of,
    guardrails_text,
    memory_of,
)
from solward.agents.runner import Runner
from solward.agents.think import MEMORY_GIVEN, reply
from solward.clock import now_ms
from solward.errors import AgentNotFound, InvalidRequest
from solward.store import agents as store

_WALLET_NAME_MAX = 64
_ACTIVE = (AgentStatus.RUNNING, AgentStatus.ERROR)


class AgentService:
    """Every method that names an agent raises `AgentNotFound` when there is none."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._database = host.database
        self._parts = parts_of(host)
        self._runner = Runner(functools.partial(run_cycle, parts=self._parts))
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def resume(self) -> None:
        """Run again what should run, as it was when the last process ended."""
        async with self._database.read() as connection:
            waiting = await store.agents_to_run(connection)
        now = now_ms()
        for agent_id, cycle, due_ms in waiting:
            self._runner.schedule(agent_id, cycle, now if due_ms is None else due_ms)

    async def close(self) -> None:
        """End all cycles of this process; the agents' desired states stay."""
        await self._runner.close()

    async def create(self, body: Mapping[str, Any]) -> Agent:
        """Make an agent from a create body (contract 4.4); the second form gets its own wallet.

        Raises:
            InvalidRequest: naming the field.
            WalletNotFound: no such wallet.
        """
        providers = self._host.registry.providers
        models = {name: loaded.spec.default_model for name, loaded in providers.items()}
        fields = read_create(body, models, self._defaults())
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
            agent = self._agent(await store.get_agent(connection, agent_id))
            changed = read_update(body, self._host.registry.providers, agent.guardrails)
            if not changed:
                return agent
            if "guardrails" in changed:
                changed["guardrails"] = guardrails_text(changed["guardrails"])
            return self._agent(await store.update_agent(connection, agent_id, changed))

    async def delete(self, agent_id: str) -> None:
        """Stop an agent and remove it with its decisions and memory; its transactions stay."""
        async with self._lock(agent_id):
            await self._end(agent_id, DesiredState.STOPPED)
            async with self._database.write() as connection:
                await store.delete_agent(connection, agent_id)

    async def start(self, agent_id: str) -> Agent:
        """Run its cycles, the first at once; a running agent is left as it is."""
        async with self._lock(agent_id):
            now = now_ms()
            async with self._database.write() as connection:
                agent = self._agent(await store.get_agent(connection, agent_id))
                if agent.status is AgentStatus.RUNNING:
                    return agent
                fields = {
                    "status": AgentStatus.RUNNING.value,
                    "desired_state": DesiredState.RUNNING.value,
                    "next_run_ms": now,
                    "failures": 0,
                    "error": None,
                }
                agent = self._agent(await store.update_agent(connection, agent_id, fields))
            self._runner.schedule(agent.id, agent.cycle_no, now)
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
            agent = await self.get(agent_id)
            if agent.status is AgentStatus.PAUSED:
                return agent
            if agent.status not in _ACTIVE:
                raise InvalidRequest("Agent is not running")
            return await self._end(agent_id, DesiredState.PAUSED)

    async def chat(self, agent_id: str, message: str) -> str:
        """The model's answer to a person (contract 4.5).

        Raises:
            InvalidRequest: the message is empty, or the agent is not running.
            ProviderError: the model gave no answer.
        """
        if not isinstance(message, str) or not message.strip():
            raise InvalidRequest("message must be a non-empty string")
        agent = await self.get(agent_id)
        if agent.status not in _ACTIVE:
            raise InvalidRequest("Agent is not running")
        return await reply(
            agent,
            message,
            await self.memory(agent_id, limit=MEMORY_GIVEN),
            network=self._host.network,
            complete=completer(self._host.registry, agent),
        )

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

    async def statistics(self) -> AgentStatistics:
        """How many agents there are, by status."""
        async with self._database.read() as connection:
            counts = await store.count_by_status(connection)
        return AgentStatistics(
            total=sum(counts.values()),
            **{status.value: counts.get(status.value, 0) for status in AgentStatus},
        )

    async def _end(self, agent_id: str, desired: DesiredState) -> Agent:
        async with self._database.write() as connection:
            fields = {"status": desired.value, "desired_state": desired.value}
            agent = self._agent(await store.update_agent(connection, agent_id, fields))
        await self._runner.halt(agent_id)
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
