"""Observe: the state of an agent's wallet, read before the agent decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, Protocol

import structlog

from solward.agents.agent import Agent
from solward.agents.permissions import Permissions
from solward.agents.stored_reads import Stored
from solward.solana.balances import Balances
from solward.support.clock import iso
from solward.types.errors import SolwardError
from solward.types.hold import Hold
from solward.types.money import lamports_to_sol
from solward.types.record import TransactionRecord

_log = structlog.get_logger(__name__)


class ObservedWallet(Protocol):
    """The fields of a wallet that an observation includes."""

    @property
    def name(self) -> str:
        """The wallet's name."""
        ...

    @property
    def address(self) -> str:
        """Its base58 address."""
        ...


class ObservationSources(Protocol):
    """The reads that make an observation."""

    @property
    def wallet(self) -> Callable[[str], Awaitable[ObservedWallet]]:
        """Wallet id -> its name and address."""
        ...

    @property
    def balances(self) -> Callable[[str, Hashable], Awaitable[Balances]]:
        """Wallet id and `Stored.mark` -> its SOL and tokens."""
        ...

    @property
    def stored(self) -> Callable[[Agent], Awaitable[Stored]]:
        """What the store says of an agent and its wallet."""
        ...


class Observed(NamedTuple):
    """An observation, and what the agent may do by what was read with it; None where that
    failed."""

    body: dict[str, Any]
    permissions: Permissions | None


async def observe(agent: Agent, cycle: int, sources: ObservationSources, now_ms: int) -> Observed:
    """Name, address, balances and recent transactions of the wallet, and what the agent asked for
    that waits for a person; amounts are Decimal.

    Never raises: when collecting fails it is `{error, cycle, timestamp}`, and Think still runs.
    """
    when = {"cycle": cycle, "timestamp": iso(now_ms)}
    permissions = None
    try:
        wallet = await sources.wallet(agent.wallet_id)
        # Before the balances: what is stored as confirmed has changed these.
        stored = await sources.stored(agent)
        permissions = stored.permissions
        balances = await sources.balances(agent.wallet_id, stored.mark)
    except SolwardError as error:
        body = {"error": f"The wallet could not be observed: {error}"}
        return Observed(body | when, permissions)
    except Exception:
        _log.exception("observation_failed", agent_id=agent.id, cycle=cycle)
        body = {"error": "The wallet could not be observed: an internal error"}
        return Observed(body | when, permissions)
    # Only where there is something: a model that reads of it every time asks for it.
    waiting = {"heldTransactions": [_held(each) for each in stored.held]} if stored.held else {}
    seen = {
        "walletName": wallet.name,
        "walletAddress": wallet.address,
        "solBalance": lamports_to_sol(balances.lamports),
        "tokenBalances": [_token(token) for token in balances.to_json()["tokens"]],
        "recentTransactions": [_transaction(record) for record in stored.recent],
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
