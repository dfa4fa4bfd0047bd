"""Observe: the state of an agent's wallet, read before the agent decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import structlog

from solward.agents.agent import Agent
from solward.clock import iso
from solward.errors import SolwardError
from solward.hold import Hold
from solward.money import lamports_to_sol
from solward.record import TransactionRecord
from solward.solana.balances import Balances

RECENT_TRANSACTIONS = 5

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
    def balances(self) -> Callable[[str], Awaitable[Balances]]:
        """Wallet id -> its SOL and tokens."""
        ...

    @property
    def recent(self) -> Callable[[str], Awaitable[Sequence[TransactionRecord]]]:
        """Wallet id -> its `RECENT_TRANSACTIONS` newest transactions."""
        ...

    @property
    def held(self) -> Callable[[str], Awaitable[Sequence[Hold]]]:
        """Agent id -> what it asked for that waits for a person."""
        ...


async def nothing_held(_agent_id: str) -> Sequence[Hold]:
    """Where nothing waits for a person."""
    return ()


async def observe(
    agent: Agent, cycle: int, sources: ObservationSources, now_ms: int
) -> dict[str, Any]:
    """Name, address, balances and recent transactions of the wallet, and what the agent asked for
    that waits for a person; amounts are Decimal.

    Never raises: when collecting fails it is `{error, cycle, timestamp}`, and Think still runs.
    """
    when = {"cycle": cycle, "timestamp": iso(now_ms)}
    try:
        wallet = await sources.wallet(agent.wallet_id)
        balances = await sources.balances(agent.wallet_id)
        recent = await sources.recent(agent.wallet_id)
        held = await sources.held(agent.id)
    except SolwardError as error:
        return {"error": f"The wallet could not be observed: {error}"} | when
    except Exception:
        _log.exception("observation_failed", agent_id=agent.id, cycle=cycle)
        return {"error": "The wallet could not be observed: an internal error"} | when
    # Only where there is something: a model that reads of it every time asks for it.
    waiting = {"heldTransactions": [_held(each) for each in held]} if held else {}
    return (
        {
            "walletName": wallet.name,
            "walletAddress": wallet.address,
            "solBalance": lamports_to_sol(balances.lamports),
            "tokenBalances": [_token(token) for token in balances.to_json()["tokens"]],
            "recentTransactions": [_transaction(record) for record in recent],
        }
        | waiting
        | when
    )


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
