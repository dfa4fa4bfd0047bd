"""What the overview fetches, and figures made of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solward.client import (
    Agent,
    Decision,
    Health,
    Hold,
    NotFoundError,
    Plugins,
    Refusals,
    Transaction,
    Wallet,
)
from solward.solana.token_list import token_list
from solward_dashboard.api import api
from solward_dashboard.holds import DisplayContext
from solward_dashboard.people import People

# The most that one request returns.
TRANSACTIONS = 500
WALLETS = 10
_AGENTS = 10
DECISIONS = 6
REFUSALS = 6
HOLDS = 3
_MOST_HOLDS = 100


@dataclass(frozen=True, slots=True)
class Budget:
    """A wallet's spent and reserved SOL of the last 24 hours, and its limit."""

    wallet: str
    used: Decimal
    limit: Decimal
    frozen: bool

    @classmethod
    def of(cls, wallet: Wallet, raw: Mapping[str, Any]) -> Budget:
        """From the response of `GET /wallets/:id/limits`."""
        day = raw["dailySpendingLimitSol"]
        used = Decimal(day.get("spent", 0)) + Decimal(day.get("reserved", 0))
        return cls(wallet.name, used, Decimal(day["limit"]), bool(raw.get("frozen")))

    @property
    def share(self) -> float:
        """0 to 1, for a bar."""
        return min(1.0, float(self.used / self.limit)) if self.limit else 1.0


@dataclass(frozen=True, slots=True)
class AgentDecision:
    """A decision with the name of its agent."""

    agent: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything the page shows."""

    health: Health
    wallets: int
    budgets: tuple[Budget, ...]
    transactions: tuple[Transaction, ...]
    decisions: tuple[AgentDecision, ...]
    plugins: Plugins
    refusals: Refusals
    holds: tuple[Hold, ...]
    context: DisplayContext

    @property
    def spent(self) -> Decimal:
        """By the wallets of `budgets`, in SOL."""
        return sum((each.used for each in self.budgets), Decimal(0))

    @property
    def spent_by(self) -> str:
        """Which wallets that is."""
        if self.wallets > len(self.budgets):
            return f"by the {len(self.budgets)} most active of {self.wallets:,} wallets"
        return "by 1 wallet" if self.wallets == 1 else f"by {self.wallets} wallets"


async def fetch() -> Overview:
    """Limits are those of the most active wallets, decisions those of some agents."""
    health, wallets, transactions, agents, plugins = await asyncio.gather(
        api().health(),
        api().wallets.list(),
        api().transactions.list(limit=TRANSACTIONS),
        api().agents.list(),
        api().plugins(),
    )
    refusals, holds, keys, contacts = await asyncio.gather(
        api().transactions.refusals(limit=REFUSALS),
        api().holds.list(is_open=True, limit=_MOST_HOLDS),
        api().keys.list(),
        api().contacts.list(),
    )
    people = People.of(wallets, agents, keys, contacts)
    active = most_active(wallets, transactions)[:WALLETS]
    deciding = running_first(agents)[:_AGENTS]
    limits, decisions = await asyncio.gather(
        asyncio.gather(*(api().wallets.limits(each.id) for each in active)),
        asyncio.gather(*(_decisions(each) for each in deciding)),
    )
    return Overview(
        health,
        len(wallets),
        tuple(map(Budget.of, active, limits)),
        transactions,
        latest(zip(deciding, decisions, strict=True)),
        plugins,
        refusals,
        tuple(each for each in holds if each.state == "held"),
        DisplayContext(people, token_list(health.network), {}, health.network),
    )


async def _decisions(agent: Agent) -> tuple[Decision, ...]:
    try:
        return await api().agents.decisions(agent.id, limit=DECISIONS)
    except NotFoundError:
        # Deleted since the agents were listed.
        return ()


def most_active(wallets: Sequence[Wallet], transactions: Sequence[Transaction]) -> list[Wallet]:
    """The wallets of the newest transactions, filled up by the oldest wallets; oldest first."""
    newest = list(dict.fromkeys(each.wallet_id for each in transactions))
    place = {wallet_id: at for at, wallet_id in enumerate(newest)}
    chosen = sorted(wallets, key=lambda each: place.get(each.id, len(place)))[:WALLETS]
    # Ordered by age, so that bars do not swap places with every transaction.
    return sorted(chosen, key=lambda each: (each.created_at, each.id))


def running_first(agents: Sequence[Agent]) -> list[Agent]:
    """Running agents first."""
    return sorted(agents, key=lambda each: each.status != "running")


def latest(
    by_agent: Iterable[tuple[Agent, Sequence[Decision]]], count: int = DECISIONS
) -> tuple[AgentDecision, ...]:
    """The newest decisions of all agents, newest first."""
    everything = [AgentDecision(agent.name, each) for agent, found in by_agent for each in found]
    everything.sort(key=lambda each: each.decision.timestamp, reverse=True)
    return tuple(everything[:count])
