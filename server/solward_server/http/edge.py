"""What every route works with."""

from __future__ import annotations

from dataclasses import dataclass

from solward.agents.model import Agent
from solward.errors import AgentNotFound
from solward.service import Solward
from solward.vault.wallets import Wallet
from solward_server.http.api_keys import KeyStore, MemoryKeys
from solward_server.http.api_keys_database import DatabaseKeys
from solward_server.http.auth import caller, confined_to
from solward_server.http.idempotency import SkillCalls
from solward_server.http.rate_limits import Limiter, RateLimiter, SharedRateLimiter


@dataclass(frozen=True, slots=True)
class Edge:
    """The service and what the HTTP side adds to it."""

    service: Solward
    keys: KeyStore
    limiter: Limiter
    skill_calls: SkillCalls

    async def wallet(self, wallet_id: str) -> Wallet:
        """A wallet the caller may use; raises `WalletNotFound` for any other."""
        confined_to(wallet_id)
        return await self.service.wallets.get(wallet_id)

    async def shown(self, wallet_id: str) -> Wallet:
        """As `wallet`, with its tags as they are now."""
        confined_to(wallet_id)
        return await self.service.wallets.shown(wallet_id)

    async def agent(self, agent_id: str) -> Agent:
        """An agent the caller may see; raises `AgentNotFound` for any other."""
        agent = await self.service.agents.get(agent_id)
        if caller().wallet_id not in (None, agent.wallet_id):
            raise AgentNotFound
        return agent

    async def count_request(self) -> None:
        """Count a transaction-producing request; raises `TooManyRequests`."""
        key = caller().key
        if key is not None:
            await self.limiter.take(key.id, key.rate_limit)


def edge_of(service: Solward) -> Edge:
    """What a service's settings and database ask for."""
    database = service.database
    limiter = SharedRateLimiter(database) if database.shared else RateLimiter()
    return Edge(service, _key_store(service), limiter, SkillCalls(service.process.id))


def _key_store(service: Solward) -> KeyStore:
    """The store that `API_KEY_STORE` names."""
    if service.settings.api_key_store == "database":
        return DatabaseKeys(service.database)
    return MemoryKeys()
