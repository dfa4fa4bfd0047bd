"""Observe: what an agent sees of its wallet before it decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import structlog

from solward.agents.model import Agent
from solward.clock import iso
from solward.errors import SolwardError
from solward.money import lamports_to_sol
from solward.record import TransactionRecord
from solward.solana.balances import Balances

RECENT_TRANSACTIONS = 5  # in an observation

_log = structlog.get_logger(__name__)


class WalletFacts(Protocol):
    """The facts of a wallet that an observation names."""

    @property
    def name(self) -> str:
        """The wallet's name."""
        ...

    @property
    def address(self) -> str:
        """Its base58 address."""
        ...


class Sources(Protocol):
    """Where an observation comes from."""

    @property
    def wallet(self) -> Callable[[str], Awaitable[WalletFacts]]:
        """Wallet id -> its name and address."""
        ...

    @property
    def balances(self) -> Callable[[str], Awaitable[Balances]]:
        """Wallet id -> what it holds."""
        ...

    @property
    def recent(self) -> Callable[[str], Awaitable[Sequence[TransactionRecord]]]:
        """Wallet id -> its `RECENT_TRANSACTIONS` newest transactions."""
        ...


async def observe(agent: Agent, cycle: int, sources: Sources, now_ms: int) -> dict[str, Any]:
    """What the cycle starts from: wallet, balances, recent transactions; amounts are Decimal.

    Never raises: when collecting fails it is `{error, cycle, timestamp}`, and Think still runs.
    """
    when = {"cycle": cycle, "timestamp": iso(now_ms)}
    try:
        wallet = await sources.wallet(agent.wallet_id)
        balances = await sources.balances(agent.wallet_id)
        recent = await sources.recent(agent.wallet_id)
    except SolwardError as error:
        return {"error": f"The wallet could not be observed: {error}"} | when
    except Exception:
        _log.exception("observation_failed", agent_id=agent.id, cycle=cycle)
        return {"error": "The wallet could not be observed: an internal error"} | when
    return {
        "walletName": wallet.name,
        "walletAddress": wallet.address,
        "solBalance": lamports_to_sol(balances.lamports),
        "tokenBalances": [_token(token) for token in balances.to_json()["tokens"]],
        "recentTransactions": [_transaction(record) for record in recent],
    } | when


def _token(token: dict[str, Any]) -> dict[str, Any]:
    return {name: token[name] for name in ("mint", "symbol", "uiBalance") if name in token}


def _transaction(record: TransactionRecord) -> dict[str, Any]:
    body = record.to_json()
    # The reason of a blocked or failed one is what a model can learn from.
    names = ("type", "status", "details", "timestamp", "error")
    return {name: body[name] for name in names if name in body}
