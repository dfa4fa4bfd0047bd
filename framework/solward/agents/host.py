"""What the agents need of the process they live in, and the cycle's parts made from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from solward.agents.cycle import CycleParts
from solward.agents.model import Agent
from solward.agents.remember import Journal
from solward.agents.think import Complete
from solward.context import AgentView
from solward.errors import ProviderError
from solward.events import EventBus
from solward.operations.balances import Balances
from solward.record import TransactionRecord
from solward.registry import Registry
from solward.settings import Settings
from solward.skill import Effects
from solward.store.database import Database
from solward.transactions.request import Actor
from solward.wallets import Wallets


class AgentHost(Protocol):
    """The part of `Solward` that agents stand on."""

    settings: Settings
    network: str
    database: Database
    wallets: Wallets
    registry: Registry
    events: EventBus

    async def balances(self, wallet_id: str) -> Balances:
        """See `Solward.balances`."""
        ...

    async def transactions(
        self, wallet_id: str | None = None, *, limit: int = 50, before: str | None = None
    ) -> list[TransactionRecord]:
        """See `Solward.transactions`."""
        ...

    async def run_skill(
        self,
        name: str,
        params: Any,
        wallet_id: str,
        actor: Actor,
        agent: AgentView | None = None,
    ) -> str:
        """See `Solward.run_skill`."""
        ...


def parts_of(host: AgentHost) -> CycleParts:
    """The parts of a cycle, from a process."""
    tools = host.registry.tools()

    async def recent(wallet_id: str, limit: int) -> Sequence[TransactionRecord]:
        return await host.transactions(wallet_id, limit=limit)

    def spends(skill: str) -> bool:
        loaded = host.registry.skills.get(skill)
        return loaded is not None and loaded.spec.effects is Effects.SPEND

    return CycleParts(
        journal=Journal(host.database, host.events.publish),
        wallet=host.wallets.get,
        balances=host.balances,
        recent=recent,
        tools=lambda: tools,
        provider=lambda agent: completer(host.registry, agent),
        run_skill=host.run_skill,
        spends=spends,
        network=host.network,
    )


def completer(registry: Registry, agent: Agent) -> Complete:
    """How to ask an agent's provider; raises `ProviderError` when it is not installed."""
    loaded = registry.providers.get(agent.llm_provider)
    if loaded is None:
        raise ProviderError(f"The provider {agent.llm_provider!r} is not installed")
    return loaded.complete
