"""What agents need of the service, in one protocol, and the parts of a cycle made from it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from solward.agents.cycle import CycleParts, PhaseHook
from solward.agents.model_budget import ModelBudget
from solward.agents.observe import StoredReads
from solward.agents.permissions import PermissionReader
from solward.agents.provider_call import completer
from solward.agents.remember import Journal
from solward.context import AgentView
from solward.database.database import Database
from solward.operations.policies.documents import Policies
from solward.plugins import Registry
from solward.settings import Settings
from solward.solana.balances import Balances
from solward.solana.token_list import TokenList
from solward.types.skill import Effects
from solward.vault.custody import Wallets
from solward.vault.guardrails import ScopeLimits
from solward.vault.money.request import Actor


class ServiceForAgents(Protocol):
    """The part of `solward.service.service.Solward` that agents use."""

    settings: Settings
    network: str
    database: Database
    wallets: Wallets
    registry: Registry
    tokens: TokenList
    policies: Policies

    @property
    def wallet_ceilings(self) -> ScopeLimits:
        """See `Solward.wallet_ceilings`."""
        ...

    @property
    def phase_hook(self) -> PhaseHook:
        """Called after each phase of a cycle."""
        ...

    async def observed_balances(self, wallet_id: str, mark: Hashable) -> Balances:
        """See `Solward.observed_balances`."""
        ...

    async def grants_left(self, principals: Sequence[str]) -> list[dict[str, Any]]:
        """See `Solward.grants_left`."""
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

    def spends(skill: str) -> bool:
        loaded = service.registry.skills.get(skill)
        return loaded is not None and loaded.spec.effects is Effects.SPEND

    permissions = PermissionReader(service.database, service.tokens)
    return CycleParts(
        journal=Journal(service.database),
        wallet=service.wallets.get,
        balances=service.observed_balances,
        stored=StoredReads(service.database, permissions),
        permissions=permissions,
        tools=lambda: service.registry.tools(),
        provider=lambda agent: completer(service.settings, service.registry, agent),
        budget=ModelBudget(service.database, lambda: service.registry),
        run_skill=service.run_skill,
        spends=spends,
        network=service.network,
        hook=service.phase_hook,
    )
