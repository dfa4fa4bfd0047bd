"""The agents of a service: create, change, start, stop, chat, and read their decisions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Mapping,
    MutableSequence,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from solward.agents import placement, provider_call, store
from solward.agents.agent import (
    Agent,
    Decision,
    DesiredState,
    MemoryEntry,
    TokensUsed,
    agent_of,
    decision_of,
    guardrails_json,
    statistics_json,
)
from solward.agents.budget import BudgetReservation, ModelBudget, usage_row
from solward.agents.cycle import CycleParts, NextCycle, PhaseHook, run_cycle
from solward.agents.fields import (
    TEMPLATES,
    Defaults,
    read_create,
    read_guardrails,
    read_update,
    template_of,
    with_template,
)
from solward.agents.observe import PermissionReader, SnapshotReader
from solward.agents.placement import MakePlacement
from solward.agents.provider_call import (
    check_options,
    check_startable,
    completer,
    installed_provider,
    streamer,
)
from solward.agents.remember import MEMORY_GIVEN, Journal, record_status, tokens_of
from solward.agents.think import chat_request
from solward.audit.acts import record_act
from solward.database.database import Database
from solward.operations.policies.changes import drop_set, lock_policy, put_set
from solward.operations.policies.documents import Policies
from solward.operations.policies.grant_report import can_leave, limits_report, principal_grants
from solward.plugins import Registry
from solward.resources.agents import MEMORY_KEPT, AgentStatus, Guardrails
from solward.runner import RunSkill, no_hook
from solward.settings import Settings
from solward.solana.balances import Balances
from solward.solana.token_list import TokenList
from solward.support.clock import now_ms
from solward.types.errors import AgentNotFound, InvalidRequest, ProviderError
from solward.types.events import EventKind
from solward.types.provider import CompletionRequest, Usage
from solward.types.skill import Effects
from solward.vault.custody import Wallets
from solward.vault.grants.model import Grant
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import Actor

_WALLET_NAME_MAX = 64
_ACTIVE = (AgentStatus.RUNNING, AgentStatus.ERROR)


class AgentService:
    """The agents of a service. Methods for one agent raise `AgentNotFound` if it does not exist.

    Args:
        registry: returns the currently loaded plugins.
        ceilings: the limits of each wallet.
        balances: wallet id and `AgentSnapshot.mark` -> the wallet's SOL and tokens.
        hook: called after each phase of a cycle.
        place: creates the placement of cycles; None for `placement.default_placement`.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        network: str,
        database: Database,
        wallets: Wallets,
        tokens: TokenList,
        policies: Policies,
        registry: Callable[[], Registry],
        ceilings: ScopeLimits,
        balances: Callable[[str, Hashable], Awaitable[Balances]],
        run_skill: RunSkill,
        hook: PhaseHook = no_hook,
        place: MakePlacement | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._wallets = wallets
        self._tokens = tokens
        self._policies = policies
        self._registry = registry
        self._ceilings = ceilings
        permissions = PermissionReader(database, tokens)
        self.parts = CycleParts(
            journal=Journal(database),
            wallet=wallets.get,
            balances=balances,
            stored=SnapshotReader(database, permissions),
            permissions=permissions,
            tools=lambda: registry().tools(),
            provider=lambda agent: completer(settings, registry(), agent),
            budget=ModelBudget(database, registry),
            run_skill=run_skill,
            spends=self._may_spend,
            network=network,
            hook=hook,
        )
        self._placement = (place or placement.default_placement)(database, self.run_cycle)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def resume(self) -> None:
        """Resume the agents that were running when the last process ended."""
        await self._placement.open()

    async def providers_in_use(self) -> frozenset[str]:
        """Return the providers of agents that should run, and a configured default provider."""
        async with self._database.read() as connection:
            found = await store.providers_to_run(connection)
        settings = self._settings
        default = self._registry().providers.get(settings.default_llm_provider or "")
        if default is not None and settings.configured(default.spec):
            found |= {default.spec.name}
        return frozenset(found)

    async def close(self) -> None:
        """End all cycles of this process, and keep the agents' desired states."""
        await self._placement.close()

    async def run_cycle(self, agent_id: str, cycle: int) -> NextCycle | None:
        """Run one cycle immediately in this process with `solward.agents.cycle.run_cycle`."""
        return await run_cycle(agent_id, cycle, self.parts)

    async def create(self, body: Mapping[str, Any]) -> Agent:
        """Create an agent from a request body; the body's second form also creates its wallet.

        If the body has `template`, missing fields come from that template.

        Raises:
            InvalidRequest: naming the field.
            WalletNotFound: the wallet does not exist.
        """
        providers = self._registry().providers
        models = {name: loaded.spec.default_model for name, loaded in providers.items()}
        template = template_of(body)
        has_strategy = body.get("strategy") is not None
        if template is not None:
            body = with_template(body, template)
        asked = read_create(body, models, self._defaults())
        provider = providers[asked["llm_provider"]]
        if template is not None and not provider.spec.is_llm and not has_strategy:
            raise InvalidRequest(
                f"The template {template.name} needs a language model, and the provider"
                f" {provider.spec.name!r} is not one; set another llmProvider, or a strategy"
            )
        check_options(provider, asked["llm_options"])
        agent_id, grants, name = str(uuid.uuid4()), None, asked["name"]
        if body.get("grants") is not None:
            grants = await self._read_grants(agent_id, name, body["grants"])
        wallets = self._wallets
        if asked["wallet_id"] is None:
            wallet = await wallets.create(f"{name[: _WALLET_NAME_MAX - len('-wallet')]}-wallet")
        else:
            wallet = await wallets.get(asked["wallet_id"])
        created = {
            "id": agent_id,
            "wallet_id": wallet.id,
            "status": AgentStatus.IDLE,
            "desired_state": DesiredState.STOPPED,
            "created_ms": now_ms(),
            "is_llm": provider.spec.is_llm,
        }
        agent = Agent(**asked | created)
        async with self._database.write() as connection:
            if grants is not None:
                await lock_policy(connection)
                await put_set(self._database, connection, _principal(agent_id), grants)
            await store.insert_agent(connection, agent.to_row())
            record_act(connection, EventKind.AGENT_CREATED, _subject(agent), after=agent.to_audit())
        return agent

    async def templates(self) -> list[dict[str, Any]]:
        """Return the templates for the route: the fields of `POST /agents`, the grants as
        sentences, and as `canLeave` the maximum that such an agent can move in any 24 hours."""
        async with self._database.read() as connection:
            now = await self._database.moment(connection)
        # A new id, so that no stored grant applies.
        who, ceilings = _principal(str(uuid.uuid4())), self._ceilings
        listed = []
        for each in TEMPLATES.values():
            own = Guardrails.of(each.guardrails)
            rails = read_guardrails(own, None, self._defaults().guardrails)
            try:
                said = await self._policies.draft(who, each.name, list(each.grants))
            except InvalidRequest:
                # The grants name a token that the network lacks, so the template cannot be used.
                continue
            leaving = can_leave("", ceilings, [(who, rails)], {who: said.grants}, now)
            listed.append(
                {
                    "name": each.name,
                    "title": each.title,
                    "summary": each.summary,
                    "strategy": each.strategy,
                    "loopIntervalMs": each.loop_interval_ms,
                    "guardrails": guardrails_json(rails),
                    "grants": list(each.grants),
                    "sentences": said.sentences,
                    "canLeave": leaving.to_json(None, said.names),
                }
            )
        return listed

    async def list(self, wallet_id: str | None = None) -> tuple[Agent, ...]:
        """Return the agents of a wallet, or all for None; oldest first."""
        async with self._database.read() as connection:
            rows = await store.list_agents(connection, wallet_id)
        return tuple(map(self._agent_from_row, rows))

    async def get(self, agent_id: str) -> Agent:
        """Return one agent."""
        async with self._database.read() as connection:
            return self._agent_from_row(await store.get_agent(connection, agent_id))

    async def actor(self, agent_id: str) -> Actor:
        """Return the actor of an agent's transactions outside of any cycle."""
        agent = await self.get(agent_id)
        who = _principal(agent.id)
        return Actor(who, agent_id=agent.id, limits=((who, agent.guardrails),))

    async def update(self, agent_id: str, body: Mapping[str, Any]) -> Agent:
        """Change fields of an agent; a running agent uses them from its next cycle on.

        New `grants` take effect at once; null removes the agent's grants.

        Raises:
            InvalidRequest: naming the field.
        """
        grants = None
        if body.get("grants") is not None:
            agent = await self.get(agent_id)
            grants = await self._read_grants(agent_id, agent.name, body["grants"])
        async with self._database.write() as connection:
            if "grants" in body:
                await lock_policy(connection)
            agent = self._agent_from_row(await store.get_agent(connection, agent_id, lock=True))
            changed = read_update(body, self._registry().providers, agent)
            if "grants" in body:
                await put_set(self._database, connection, _principal(agent_id), grants)
            if not changed:
                return agent
            was, agent = agent, replace(agent, **changed)
            if "llm_provider" in changed or "llm_options" in changed:
                check_options(installed_provider(self._registry(), agent), agent.llm_options)
            row = agent.to_row()
            columns = {name: row[name] for name in changed}
            if (before := was.to_audit()) != (after := agent.to_audit()):
                subject = _subject(agent)
                record_act(connection, EventKind.AGENT_CHANGED, subject, before, after)
            return self._agent_from_row(await store.update_agent(connection, agent_id, columns))

    async def delete(self, agent_id: str) -> None:
        """Stop an agent and delete it with its decisions and memory, but not its transactions."""
        async with self._lock(agent_id):
            await self._end_cycles(agent_id, DesiredState.STOPPED)
            async with self._database.write() as connection:
                await lock_policy(connection)
                row = await store.get_agent(connection, agent_id, lock=True)
                if row is None:
                    return  # another process deleted it
                await drop_set(self._database, connection, _principal(agent_id))
                await store.delete_agent(connection, agent_id)
                agent = self._agent_from_row(row)
                record_act(
                    connection, EventKind.AGENT_DELETED, _subject(agent), before=agent.to_audit()
                )

    async def start(self, agent_id: str) -> Agent:
        """Start an agent's cycles, the first one now; does nothing if the agent is running.

        Raises:
            InvalidRequest: the agent's provider is not installed, or the provider's key is not set.
        """
        async with self._lock(agent_id):
            now = now_ms()
            async with self._database.write() as connection:
                agent = self._agent_from_row(await store.get_agent(connection, agent_id, lock=True))
                if agent.status is AgentStatus.RUNNING:
                    return agent
                check_startable(self._settings, self._registry(), agent)
                fields = {
                    "status": AgentStatus.RUNNING.value,
                    "desired_state": DesiredState.RUNNING.value,
                    "next_run_ms": now,
                    "deferred_cycle": None,
                    "failures": 0,
                    "error": None,
                }
                was = agent.status
                agent = self._agent_from_row(await store.update_agent(connection, agent_id, fields))
                record_status(connection, agent.id, agent.name, was, agent.status)
            await self._placement.begin(agent.id, agent.cycle_no, now)
            return agent

    async def stop(self, agent_id: str) -> Agent:
        """Stop an agent; return once none of its cycles is running.

        An action that may spend is finished and recorded. An agent that never ran stays idle.
        """
        async with self._lock(agent_id):
            return await self._end_cycles(agent_id, DesiredState.STOPPED)

    async def pause(self, agent_id: str) -> Agent:
        """Pause a running agent until it is started again; otherwise like `stop`.

        Raises:
            InvalidRequest: the agent is neither running nor paused.
        """
        async with self._lock(agent_id):
            return await self._end_cycles(agent_id, DesiredState.PAUSED)

    async def chat(self, agent_id: str, message: str) -> str:
        """Return the model's answer to a person.

        Raises:
            InvalidRequest: the message is empty, or the agent is not running.
            ProviderError: the model gave no answer.
            TokenBudgetReached: the agent's token budget has no room for it.
        """
        agent, request, reserved = await self._chat_request(agent_id, message)
        provider = completer(self._settings, self._registry(), agent)
        async with self._count_usage(agent, reserved) as used:
            completion = await provider_call.complete(agent, provider, request)
            if completion.usage is not None:
                used.append(completion.usage)
        return (completion.text or "").strip()

    async def chat_stream(self, agent_id: str, message: str) -> AsyncGenerator[str, None]:
        """Stream the model's answer to a person; raises the errors of `chat` before any piece.

        Closing the generator cancels the provider's call.
        """
        agent, request, reserved = await self._chat_request(agent_id, message)
        provider = streamer(self._settings, self._registry(), agent)
        async with (
            self._count_usage(agent, reserved) as used,
            aclosing(provider_call.stream(agent, provider, request)) as answer,
        ):
            async for piece in answer:
                if isinstance(piece, Usage):
                    used.append(piece)
                elif piece:
                    yield piece

    async def decisions(
        self, agent_id: str, *, limit: int = 50, before: int | None = None
    ) -> tuple[Decision, ...]:
        """Return the agent's decisions in cycles before the cycle `before`, newest first."""
        async with self._database.read() as connection:
            self._agent_from_row(await store.get_agent(connection, agent_id))
            rows = await store.list_decisions(connection, agent_id, limit, before)
        return tuple(map(decision_of, rows))

    async def memory(self, agent_id: str, *, limit: int = MEMORY_KEPT) -> tuple[MemoryEntry, ...]:
        """Return the agent's memory, newest first; at most 100 entries are kept."""
        async with self._database.read() as connection:
            self._agent_from_row(await store.get_agent(connection, agent_id))
            rows = await store.list_memory(connection, agent_id, limit)
        return tuple(MemoryEntry(**row) for row in rows)

    async def tokens(self, agent_id: str) -> TokensUsed:
        """Return the tokens that the agent's model used in the last day."""
        async with self._database.read() as connection:
            self._agent_from_row(await store.get_agent(connection, agent_id))
            return await tokens_of(self._database, connection, agent_id)

    async def limits(self, agent_id: str) -> dict[str, Any]:
        """Return the agent's limits with the amounts spent and reserved in each, its model's
        tokens, and the amounts that the grants of the agent and its wallet still allow."""
        agent = await self.get(agent_id)
        report = await limits_report(self._database, f"agent:{agent.id}", agent.guardrails)
        used = await self.tokens(agent_id)
        model = {"budget": agent.llm_budget.to_json(), "lastDay": used.to_json()}
        principals = (f"agent:{agent.id}", f"wallet:{agent.wallet_id}")
        grants = {"grants": await principal_grants(self._database, self._tokens, principals)}
        return {"agentId": agent.id, "walletId": agent.wallet_id, "model": model} | report | grants

    async def statistics(self) -> dict[str, int]:
        """Return the number of agents by status, for the health answer."""
        async with self._database.read() as connection:
            return statistics_json(await store.count_by_status(connection))

    async def _read_grants(self, agent_id: str, name: str, value: object) -> Sequence[Grant]:
        return await self._policies.grants_of(_principal(agent_id), name, value)

    async def _chat_request(
        self, agent_id: str, message: str
    ) -> tuple[Agent, CompletionRequest, BudgetReservation | None]:
        if not isinstance(message, str) or not message.strip():
            raise InvalidRequest("message must be a non-empty string")
        async with self._database.read() as connection:
            agent = self._agent_from_row(await store.get_agent(connection, agent_id))
            if agent.status not in _ACTIVE:
                raise InvalidRequest("Agent is not running")
            memory = await store.list_memory(connection, agent_id, MEMORY_GIVEN)
        entries = tuple(MemoryEntry(**row) for row in memory)
        request = chat_request(
            agent,
            message,
            entries,
            network=self.parts.network,
            permissions=await self.parts.permissions(agent),
        )
        return agent, *await self.parts.budget.reserve(agent, request)

    @asynccontextmanager
    async def _count_usage(
        self, agent: Agent, reserved: BudgetReservation | None
    ) -> AsyncIterator[MutableSequence[Usage]]:
        """Count the usage that the block appends. If the reader stops reading the answer early, the
        reservation stays counted."""
        used: MutableSequence[Usage] = []
        try:
            yield used
        except BaseException as error:
            if isinstance(error, ProviderError) and error.usage is not None:
                used.append(error.usage)
            if used:
                await self._add_usage(agent, reserved, used[0])
            else:
                await self.parts.budget.settle_failed(reserved, error)
            raise
        await self._add_usage(agent, reserved, used[-1] if used else None)

    async def _add_usage(
        self, agent: Agent, reserved: BudgetReservation | None, usage: Usage | None
    ) -> None:
        if reserved is not None:
            await self.parts.budget.settle(reserved, usage)
        elif usage is not None:
            async with self._database.write() as connection:
                await store.add_usage(connection, [usage_row(agent.id, now_ms(), usage)])

    async def _end_cycles(self, agent_id: str, desired: DesiredState) -> Agent:
        async with self._database.write() as connection:
            was = self._agent_from_row(await store.get_agent(connection, agent_id, lock=True))
            never_ran = was.status is AgentStatus.IDLE and was.desired_state is desired
            if never_ran and desired is DesiredState.STOPPED:
                # A stop must not look like a run, because that decides who may start the agent.
                return was
            if desired is DesiredState.PAUSED:
                if was.status is AgentStatus.PAUSED:
                    return was
                if was.status not in _ACTIVE:
                    raise InvalidRequest("Agent is not running")
            fields = {"status": desired.value, "desired_state": desired.value}
            agent = self._agent_from_row(await store.update_agent(connection, agent_id, fields))
            if agent.status is not was.status:
                record_status(connection, agent.id, agent.name, was.status, agent.status)
        await self._placement.halt(agent_id)
        return agent

    def _agent_from_row(self, row: Mapping[str, Any] | None) -> Agent:
        if row is None:
            raise AgentNotFound
        loaded = self._registry().providers.get(row["llm_provider"])
        return agent_of(row, is_llm=loaded is None or loaded.spec.is_llm)

    def _may_spend(self, skill: str) -> bool:
        loaded = self._registry().skills.get(skill)
        return loaded is not None and loaded.spec.effects is Effects.SPEND

    def _defaults(self) -> Defaults:
        settings = self._settings
        return Defaults(
            replace(self._ceilings, daily_tokens={}, daily_costs_lamports=None),
            settings.default_llm_provider,
            settings.default_llm_model,
        )

    def _lock(self, agent_id: str) -> asyncio.Lock:
        return self._locks.setdefault(agent_id, asyncio.Lock())


def _principal(agent_id: str) -> str:
    return f"agent:{agent_id}"


def _subject(agent: Agent) -> dict[str, str]:
    return {"agentId": agent.id, "name": agent.name}
