"""The observe phase: reads the state of an agent's wallet and what the agent's grants allow.

The stored rows of many agents and their wallets are read in one transaction.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents.agent import Agent
from solward.agents.batch import Batcher
from solward.database.database import Database
from solward.operations.policies.grant_documents import grant_sentence
from solward.operations.policies.grant_sentences import DEFAULTS_SENTENCE, read_only_sentence
from solward.solana.balances import Balances
from solward.solana.token_list import TokenList
from solward.support.clock import iso
from solward.types.errors import SolwardError
from solward.types.guardrail import SOL, Operation
from solward.types.money import lamports_to_sol
from solward.types.provider import ToolDefinition
from solward.types.record import Hold, TransactionRecord
from solward.vault.custody import Wallet
from solward.vault.grants.model import Grant, from_stored
from solward.vault.money.judge.granting import names_of
from solward.vault.store import grants as store
from solward.vault.store import holds as hold_store
from solward.vault.store import transactions as transaction_store

RECENT_TRANSACTIONS = 5
# Each entry has some kilobytes; at most 1,000 agents on one service were measured.
_KEPT: Final = 4_096
_SENDS: Final = frozenset({Operation.TRANSFER, Operation.FUND})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permissions that grants give an agent, for its prompt and its tools.

    Attributes:
        sentences: the grants of the agent and its wallet, or without grants the defaults.
        granted: the names of tools that the agent has only because of a grant.
    """

    sentences: tuple[str, ...] = (DEFAULTS_SENTENCE,)
    granted: frozenset[str] = frozenset()

    def permitted_tools(self, tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """Return the tools without the tools for which the agent lacks a grant."""
        withheld = _BY_GRANT_ALONE.keys() - self.granted
        return tuple(tool for tool in tools if tool.name not in withheld)


# Tool -> test whether a grant allows some use of it. Without a grant, tokens and paid requests are
# refused, so offering these tools would mislead the model.
_BY_GRANT_ALONE: Final[Mapping[str, Callable[[Grant], bool]]] = {
    "transfer_token": lambda grant: bool(grant.may & _SENDS and grant.assets.keys() - {SOL}),
    "pay_request": lambda grant: Operation.PAY in grant.may,
}

WITHOUT_GRANTS: Final = Permissions()


class PermissionReader:
    """Reads agents' permissions. If no grant has changed, only the policy's version is queried."""

    def __init__(self, database: Database, tokens: TokenList) -> None:
        self._database = database
        self._tokens = tokens
        self._known: OrderedDict[tuple[str, str, str], tuple[int, Permissions]] = OrderedDict()

    async def __call__(self, agent: Agent) -> Permissions:
        """Return an agent's current permissions. Each transaction is judged again in any case."""
        async with self._database.read() as connection:
            [permissions] = await self.read(connection, [agent])
        return permissions

    async def read(self, connection: AsyncConnection, agents: Sequence[Agent]) -> list[Permissions]:
        """Return the permissions of each of these agents, in the caller's transaction."""
        version = await store.version(connection)
        return [await self._fetch(connection, agent, version) for agent in agents]

    async def _fetch(self, connection: AsyncConnection, agent: Agent, version: int) -> Permissions:
        key = (agent.id, agent.name, agent.wallet_id)
        known = self._known.get(key)
        if known is None or known[0] != version:
            known = (version, await self._read(connection, agent))
            self._known[key] = known
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return known[1]

    async def _read(self, connection: AsyncConnection, agent: Agent) -> Permissions:
        who, wallet = f"agent:{agent.id}", f"wallet:{agent.wallet_id}"
        stored = await store.sets_of(connection, [who, wallet])
        sets = {each: tuple(map(from_stored, grants)) for each, grants in stored.items()}
        named = {f"wallet:{g.wallet}" for grants in sets.values() for g in grants if g.wallet}
        names = await names_of(connection, self._tokens, {who, wallet, *named})
        sentences: list[str] = [] if who in sets else [DEFAULTS_SENTENCE]
        for each, grants in sets.items():
            sentences.extend(grant_sentence(grant, names) for grant in grants)
            if not grants:
                sentences.append(read_only_sentence(each, names))
        # If the wallet is under grants too, both must allow the tool.
        granted = {
            tool
            for tool, lets in _BY_GRANT_ALONE.items()
            if who in sets and all(any(map(lets, grants)) for grants in sets.values())
        }
        return Permissions(tuple(sentences), frozenset(granted))


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """The stored rows about an agent.

    Attributes:
        recent: the wallet's `RECENT_TRANSACTIONS` newest transactions.
        held: the agent's holds, which wait for a person.
    """

    recent: Sequence[TransactionRecord] = ()
    held: Sequence[Hold] = ()
    permissions: Permissions = WITHOUT_GRANTS

    @property
    def mark(self) -> Hashable:
        """A value that changes whenever a transaction of the wallet begins or ends."""
        return tuple((record.id, record.status) for record in self.recent)


class SnapshotReader:
    """Reads the stored rows of agents; raises `StoreError`."""

    def __init__(self, database: Database, permissions: PermissionReader) -> None:
        self._database = database
        self._permissions = permissions
        self._reading: Batcher[Agent, AgentSnapshot] = Batcher(self._read)

    def __call__(self, agent: Agent) -> Awaitable[AgentSnapshot]:
        """Return an agent's rows."""
        return self._reading(agent)

    async def _read(self, agents: Sequence[Agent]) -> list[AgentSnapshot]:
        wallets = sorted({agent.wallet_id for agent in agents})
        principals = {f"agent:{agent.id}" for agent in agents}
        async with self._database.read() as connection:
            recent = await transaction_store.recent(connection, wallets, RECENT_TRANSACTIONS)
            held = await hold_store.open_by_principal(connection, principals)
            permissions = await self._permissions.read(connection, agents)
        return [
            AgentSnapshot(recent.get(agent.wallet_id, ()), held.get(f"agent:{agent.id}", ()), may)
            for agent, may in zip(agents, permissions, strict=True)
        ]


class Observation(NamedTuple):
    """An observation, and the permissions read with it, which are None if reading failed."""

    body: dict[str, Any]
    permissions: Permissions | None


async def observe(
    agent: Agent,
    cycle: int,
    now_ms: int,
    *,
    wallet: Callable[[str], Awaitable[Wallet]],
    balances: Callable[[str, Hashable], Awaitable[Balances]],
    stored: Callable[[Agent], Awaitable[AgentSnapshot]],
) -> Observation:
    """Read the wallet's name, address, balances and recent transactions, and the agent's holds.

    Args:
        wallet: wallet id -> its name and address.
        balances: wallet id and `AgentSnapshot.mark` -> its SOL and tokens.
        stored: reads an agent's rows from the store.

    Amounts are Decimal. Never raises: if reading fails, the body is `{error, cycle, timestamp}`,
    and the agent still thinks.
    """
    when = {"cycle": cycle, "timestamp": iso(now_ms)}
    permissions = None
    try:
        observed = await wallet(agent.wallet_id)
        # Read before the balances, so that these include every transaction stored as confirmed.
        known = await stored(agent)
        permissions = known.permissions
        holds = await balances(agent.wallet_id, known.mark)
    except Exception as error:
        why = str(error)
        if not isinstance(error, SolwardError):
            _log.exception("observation_failed", agent_id=agent.id, cycle=cycle)
            why = "an internal error"
        failed = {"error": f"The wallet could not be observed: {why}"}
        return Observation(failed | when, permissions)
    # Omitted if empty, because a model that reads of holds in every cycle starts to request them.
    waiting = {"heldTransactions": [_hold_json(each) for each in known.held]} if known.held else {}
    seen = {
        "walletName": observed.name,
        "walletAddress": observed.address,
        "solBalance": lamports_to_sol(holds.lamports),
        "tokenBalances": [_token_json(token) for token in holds.to_json()["tokens"]],
        "recentTransactions": [_transaction_json(record) for record in known.recent],
    }
    return Observation(seen | waiting | when, permissions)


def _token_json(token: dict[str, Any]) -> dict[str, Any]:
    return {name: token[name] for name in ("mint", "symbol", "uiBalance") if name in token}


def _hold_json(hold: Hold) -> dict[str, Any]:
    return {
        "id": hold.id,
        "state": hold.state.value,
        "type": hold.type,
        "sentence": hold.sentence,
        "expiresAt": iso(hold.expires_ms),
    }


def _transaction_json(record: TransactionRecord) -> dict[str, Any]:
    body = record.to_json()
    # A model can learn from the reason why a transaction was blocked or failed.
    names = ("type", "status", "details", "timestamp", "error")
    return {name: body[name] for name in names if name in body}
