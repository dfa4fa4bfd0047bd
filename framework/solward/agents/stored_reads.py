"""What the store says of an agent and its wallet at the begin of a cycle: one transaction for many
agents."""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Sequence
from dataclasses import dataclass

from solward.agents.agent import Agent
from solward.agents.batch import Batcher
from solward.agents.permissions import WITHOUT_GRANTS, PermissionReader, Permissions
from solward.database.database import Database
from solward.types.hold import Hold
from solward.types.record import TransactionRecord
from solward.vault.store import holds as hold_store
from solward.vault.store import transactions as transaction_store

RECENT_TRANSACTIONS = 5


@dataclass(frozen=True, slots=True)
class Stored:
    """Attributes:
    recent: the wallet's `RECENT_TRANSACTIONS` newest transactions.
    held: what the agent asked for that waits for a person.
    permissions: what grants let it do.
    """

    recent: Sequence[TransactionRecord] = ()
    held: Sequence[Hold] = ()
    permissions: Permissions = WITHOUT_GRANTS

    @property
    def mark(self) -> Hashable:
        """Another one after each transaction of the wallet that began or ended."""
        return tuple((record.id, record.status) for record in self.recent)


class StoredReads:
    """Reads it; raises `StoreError`."""

    def __init__(self, database: Database, permissions: PermissionReader) -> None:
        self._database = database
        self._permissions = permissions
        self._reading: Batcher[Agent, Stored] = Batcher(self._read)

    def __call__(self, agent: Agent) -> Awaitable[Stored]:
        """What the store says of an agent."""
        return self._reading(agent)

    async def _read(self, agents: Sequence[Agent]) -> list[Stored]:
        wallets = sorted({agent.wallet_id for agent in agents})
        principals = {f"agent:{agent.id}" for agent in agents}
        async with self._database.read() as connection:
            recent = await transaction_store.recent(connection, wallets, RECENT_TRANSACTIONS)
            held = await hold_store.open_of(connection, principals)
            permissions = await self._permissions.read(connection, agents)
        return [
            Stored(recent.get(agent.wallet_id, ()), held.get(f"agent:{agent.id}", ()), may)
            for agent, may in zip(agents, permissions, strict=True)
        ]
