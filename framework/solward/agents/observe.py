"""Observe: the state of an agent's wallet, read before the agent decides.

What the store says of an agent and its wallet is read in one transaction for many agents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from solward.agents.agent import Agent
from solward.agents.batch import Batcher
from solward.agents.permissions import WITHOUT_GRANTS, PermissionReader, Permissions
from solward.database.database import Database
from solward.solana.balances import Balances
from solward.support.clock import iso
from solward.types.errors import SolwardError
from solward.types.money import lamports_to_sol
from solward.types.record import Hold, TransactionRecord
from solward.vault.custody import Wallet
from solward.vault.store import holds as hold_store
from solward.vault.store import transactions as transaction_store

RECENT_TRANSACTIONS = 5

_log = structlog.get_logger(__name__)


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


class Observed(NamedTuple):
    """An observation, and what the agent may do by what was read with it; None where that
    failed."""

    body: dict[str, Any]
    permissions: Permissions | None


async def observe(
    agent: Agent,
    cycle: int,
    now_ms: int,
    *,
    wallet: Callable[[str], Awaitable[Wallet]],
    balances: Callable[[str, Hashable], Awaitable[Balances]],
    stored: Callable[[Agent], Awaitable[Stored]],
) -> Observed:
    """Name, address, balances and recent transactions of the wallet, and what the agent asked for
    that waits for a person; amounts are Decimal.

    Args:
        wallet: wallet id -> its name and address.
        balances: wallet id and `Stored.mark` -> its SOL and tokens.
        stored: what the store says of an agent and its wallet.

    Never raises: when collecting fails it is `{error, cycle, timestamp}`, and Think still runs.
    """
    when = {"cycle": cycle, "timestamp": iso(now_ms)}
    permissions = None
    try:
        observed = await wallet(agent.wallet_id)
        # Before the balances: what is stored as confirmed has changed these.
        known = await stored(agent)
        permissions = known.permissions
        holds = await balances(agent.wallet_id, known.mark)
    except SolwardError as error:
        body = {"error": f"The wallet could not be observed: {error}"}
        return Observed(body | when, permissions)
    except Exception:
        _log.exception("observation_failed", agent_id=agent.id, cycle=cycle)
        body = {"error": "The wallet could not be observed: an internal error"}
        return Observed(body | when, permissions)
    # Only where there is something: a model that reads of it every time asks for it.
    waiting = {"heldTransactions": [_held(each) for each in known.held]} if known.held else {}
    seen = {
        "walletName": observed.name,
        "walletAddress": observed.address,
        "solBalance": lamports_to_sol(holds.lamports),
        "tokenBalances": [_token(token) for token in holds.to_json()["tokens"]],
        "recentTransactions": [_transaction(record) for record in known.recent],
    }
    return Observed(seen | waiting | when, permissions)


def _token(token: dict[str, Any]) -> dict[str, Any]:
    return {name: token[name] for name in ("mint", "symbol", "uiBalance") if name in token}


def _held(hold: Hold) -> dict[str, Any]:
    return {
        "id": hold.id,
        "state": hold.state.value,
        "type": hold.type,
        "sentence": hold.sentence,
        "expiresAt": iso(hold.expires_ms),
    }


def _transaction(record: TransactionRecord) -> dict[str, Any]:
    body = record.to_json()
    # A model can learn from the reason of a blocked or failed transaction.
    names = ("type", "status", "details", "timestamp", "error")
    return {name: body[name] for name in names if name in body}
