"""What the agents need of the process they live in, and the cycle's parts made from it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from solward.agents.batch import Batcher
from solward.agents.chat import Stream
from solward.agents.cycle import CycleParts
from solward.agents.model import Agent
from solward.agents.observe import RECENT_TRANSACTIONS
from solward.agents.phases import PhaseHook
from solward.agents.remember import Journal
from solward.agents.think import Complete
from solward.context import AgentView
from solward.errors import InvalidRequest, ProviderError
from solward.record import TransactionRecord
from solward.registry import Registry
from solward.registry.loaded import LoadedProvider
from solward.settings import Settings
from solward.skill import Effects
from solward.solana.balances import Balances
from solward.vault.store import transactions as transaction_store
from solward.vault.store.database import Database
from solward.vault.transactions.request import Actor
from solward.vault.wallets import Wallets


class AgentHost(Protocol):
    """The part of `Solward` that agents stand on."""

    settings: Settings
    network: str
    database: Database
    wallets: Wallets
    registry: Registry

    @property
    def phase_hook(self) -> PhaseHook:
        """Told of each phase of a cycle."""
        ...

    async def balances(self, wallet_id: str) -> Balances:
        """See `Solward.balances`."""
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

    async def newest(wallet_ids: Sequence[str]) -> list[Sequence[TransactionRecord]]:
        async with host.database.read() as connection:
            found = await transaction_store.recent(connection, wallet_ids, RECENT_TRANSACTIONS)
        return [found.get(wallet_id, ()) for wallet_id in wallet_ids]

    def spends(skill: str) -> bool:
        loaded = host.registry.skills.get(skill)
        return loaded is not None and loaded.spec.effects is Effects.SPEND

    return CycleParts(
        journal=Journal(host.database),
        wallet=host.wallets.get,
        balances=host.balances,
        recent=Batcher(newest),
        tools=lambda: host.registry.tools(),
        provider=lambda agent: completer(host, agent),
        run_skill=host.run_skill,
        spends=spends,
        network=host.network,
        hook=host.phase_hook,
    )


def completer(host: AgentHost, agent: Agent) -> Complete:
    """How to ask an agent's provider; raises `ProviderError` when it is not installed."""
    loaded = installed(host, agent)
    context = host.settings.lend(loaded.spec)
    return functools.partial(loaded.complete, options=agent.llm_options, context=context)


def streamer(host: AgentHost, agent: Agent) -> Stream:
    """As `completer`, for an answer in pieces."""
    loaded = installed(host, agent)
    context = host.settings.lend(loaded.spec)
    return functools.partial(loaded.stream, options=agent.llm_options, context=context)


def installed(host: AgentHost, agent: Agent) -> LoadedProvider:
    """An agent's provider; raises `ProviderError` when it is not installed."""
    loaded = host.registry.providers.get(agent.llm_provider)
    if loaded is None:
        raise ProviderError(
            f"The provider {agent.llm_provider!r} is not loaded: install its plugin"
            " (`solward plugins list` says what is left out and why),"
            " or give the agent another llmProvider"
        )
    return loaded


def check_options(provider: LoadedProvider, options: Mapping[str, Any]) -> None:
    """Raises `InvalidRequest`, naming the option the provider does not take."""
    try:
        provider.validate_options(dict(options))
    except InvalidRequest as error:
        raise InvalidRequest(f"llmOptions: {error}") from None


def check_startable(host: AgentHost, agent: Agent) -> None:
    """Raises `InvalidRequest`, saying what its provider lacks: a plugin or a key."""
    try:
        spec = installed(host, agent).spec
    except ProviderError as error:
        raise InvalidRequest(str(error)) from None
    if not host.settings.configured(spec):
        raise InvalidRequest(
            f"Set {spec.secret_env} to start an agent of the provider {spec.name!r}"
        )
