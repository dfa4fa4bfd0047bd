"""What agents need of the service, in one protocol, and the parts of a cycle made from it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from solward.agents.batch import Batcher
from solward.agents.cycle import CycleParts, PhaseHook
from solward.agents.model import Agent
from solward.agents.observe import RECENT_TRANSACTIONS
from solward.agents.provider_call import Complete, Stream
from solward.agents.remember import Journal
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


class ServiceForAgents(Protocol):
    """The part of `solward.service.Solward` that agents use."""

    settings: Settings
    network: str
    database: Database
    wallets: Wallets
    registry: Registry

    @property
    def phase_hook(self) -> PhaseHook:
        """Called after each phase of a cycle."""
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


def parts_of(service: ServiceForAgents) -> CycleParts:
    """The parts of a cycle, from the service."""

    async def newest(wallet_ids: Sequence[str]) -> list[Sequence[TransactionRecord]]:
        async with service.database.read() as connection:
            found = await transaction_store.recent(connection, wallet_ids, RECENT_TRANSACTIONS)
        return [found.get(wallet_id, ()) for wallet_id in wallet_ids]

    def spends(skill: str) -> bool:
        loaded = service.registry.skills.get(skill)
        return loaded is not None and loaded.spec.effects is Effects.SPEND

    return CycleParts(
        journal=Journal(service.database),
        wallet=service.wallets.get,
        balances=service.balances,
        recent=Batcher(newest),
        tools=lambda: service.registry.tools(),
        provider=lambda agent: completer(service, agent),
        run_skill=service.run_skill,
        spends=spends,
        network=service.network,
        hook=service.phase_hook,
    )


def completer(service: ServiceForAgents, agent: Agent) -> Complete:
    """The call of an agent's provider; raises `ProviderError` when it is not installed."""
    loaded = installed(service, agent)
    context = service.settings.provider_context(loaded.spec)
    return functools.partial(loaded.complete, options=agent.llm_options, context=context)


def streamer(service: ServiceForAgents, agent: Agent) -> Stream:
    """As `completer`, for a streamed answer."""
    loaded = installed(service, agent)
    context = service.settings.provider_context(loaded.spec)
    return functools.partial(loaded.stream, options=agent.llm_options, context=context)


def installed(service: ServiceForAgents, agent: Agent) -> LoadedProvider:
    """An agent's provider; raises `ProviderError` when it is not installed."""
    loaded = service.registry.providers.get(agent.llm_provider)
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


def check_startable(service: ServiceForAgents, agent: Agent) -> None:
    """Raises `InvalidRequest`, saying what its provider lacks: a plugin or a key."""
    try:
        spec = installed(service, agent).spec
    except ProviderError as error:
        raise InvalidRequest(str(error)) from None
    if not service.settings.configured(spec):
        raise InvalidRequest(
            f"Set {spec.secret_env} to start an agent of the provider {spec.name!r}"
        )
