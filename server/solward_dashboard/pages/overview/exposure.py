"""What all wallets hold of each asset, and what of it can leave in 24 hours; sums are exact."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from solward.client import ApiError, Balance, Wallet
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_dashboard.api import api
from solward_dashboard.pages.wallets.data import check_any
from solward_dashboard.wording import exact, short

WALLETS: Final = 25
"""Of so many wallets balances are asked for: each is a request of the ledger."""
SHOWN: Final = 10
"""Assets of the list."""
_AT_ONCE: Final = 6
_SOL, _COSTS, _OTHERS = "SOL", "COSTS", "*"


@dataclass(frozen=True, slots=True)
class Exposure:
    """One asset over some wallets; amounts are whole units.

    Attributes:
        mint: None of SOL, which wrapped SOL is part of.
        most: what may leave in 24 hours, None where nothing bounds it in some wallet; of SOL
            without `costs`, its fees and rent.
        dollars: what may leave in dollars' worth instead, or beside.
        at_worst: of what is held, the most that can leave in 24 hours.
        unbounded: in how many wallets nothing bounds it, and why.
    """

    name: str
    mint: str | None
    held: Decimal = Decimal(0)
    wrapped: Decimal = Decimal(0)
    most: Decimal | None = Decimal(0)
    costs: Decimal = Decimal(0)
    dollars: Decimal = Decimal(0)
    at_worst: Decimal = Decimal(0)
    unbounded: int = 0
    reason: str = ""

    @property
    def most_text(self) -> str:
        """`at most 10 SOL and 0.05 SOL of fees and rent`, or that nothing bounds it, and why."""
        if self.most is None:
            many = "wallet" if self.unbounded == 1 else "wallets"
            return f"not bounded in {self.unbounded} {many}: {self.reason}"
        parts = [f"{exact(self.most)} {self.name}"] if self.most or not self.dollars else []
        if self.dollars:
            parts.append(f"{exact(self.dollars)} dollars' worth")
        if self.costs:
            parts.append(f"{exact(self.costs)} SOL of fees and rent")
        if parts == [f"0 {self.name}"]:
            return "nothing may leave"
        return f"at most {' and '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Exposures:
    """Every asset that a wallet holds: SOL, then what nothing bounds, then the rest by name.

    Attributes:
        others: what may leave of tokens that no wallet holds now, where that is not nothing.
        of: how many wallets these are of `wallets`.
        frozen: how many of these are frozen.
        unread: how many wallets were asked for that cannot be read now.
    """

    assets: tuple[Exposure, ...]
    others: str
    of: int
    wallets: int
    frozen: int
    unread: int = 0

    @property
    def of_text(self) -> str:
        """Which wallets these are."""
        if self.unread:
            return f"of {self.of} of {self.wallets:,} wallets, {self.unread} cannot be read now"
        if self.wallets > self.of:
            return f"of the {self.of} oldest of {self.wallets:,} wallets"
        return "of 1 wallet" if self.wallets == 1 else f"of {self.wallets} wallets"


@dataclass(slots=True)
class _Sum:
    name: str
    mint: str | None
    held: Decimal = Decimal(0)
    wrapped: Decimal = Decimal(0)
    most: Decimal = Decimal(0)
    costs: Decimal = Decimal(0)
    dollars: Decimal = Decimal(0)
    at_worst: Decimal = Decimal(0)
    reasons: list[str] = field(default_factory=list)

    def add(
        self, held: Decimal, bound: Mapping[str, Any], *, costs: Decimal = Decimal(0), usd: bool
    ) -> None:
        """What one wallet holds, and what bounds it there; in dollars where `usd`."""
        self.held += held
        self.costs += costs
        if bound["most"] is None:
            self.reasons.append(str(bound["reason"]))
            self.at_worst += held
            return
        most = Decimal(bound["most"])
        beside = Decimal(bound.get("dollarsBeside", 0))
        self.dollars += most if usd else beside
        self.most += Decimal(0) if usd else most
        # What dollars buy is not known here.
        in_dollars = bool(most if usd else beside)
        self.at_worst += held if in_dollars else min(held, Decimal(0) if usd else most + costs)

    def done(self) -> Exposure:
        unbounded = len(self.reasons)
        return Exposure(
            self.name,
            self.mint,
            self.held,
            self.wrapped,
            None if unbounded else self.most,
            self.costs,
            self.dollars,
            self.at_worst,
            unbounded,
            self.reasons[0] if unbounded else "",
        )


def summed(
    rows: Iterable[tuple[Balance, Mapping[str, Any]]], wallets: int, unread: int = 0
) -> Exposures:
    """Of each wallet its balance and the answer of `GET /wallets/:id/limits`; pure.

    Args:
        wallets: how many there are in all.
        unread: see `Exposures`.
    """
    rows = tuple(rows)
    sums = {_SOL: _Sum("SOL", None)}
    # Every asset is bounded in every wallet, also where one does not hold it.
    for balance, _ in rows:
        for token in balance.tokens:
            if token.mint != WRAPPED_SOL_MINT:
                name = token.symbol or short(token.mint)
                sums.setdefault(token.mint, _Sum(name, token.mint))
    others: list[Mapping[str, Any]] = []
    for balance, limits in rows:
        bounds = limits["canLeave"]["assets"]
        held = {each.mint: each.amount for each in balance.tokens}
        wrapped = held.pop(WRAPPED_SOL_MINT, Decimal(0))
        costs = bounds.get(_COSTS, {"most": "0"})["most"]
        if costs is None:
            # Lent to pockets: as unbounded as SOL is.
            bounds = {**bounds, _SOL: {"most": None, "reason": bounds[_COSTS]["reason"]}}
        sums[_SOL].wrapped += wrapped
        sums[_SOL].add(balance.sol + wrapped, bounds[_SOL], costs=Decimal(costs or 0), usd=False)
        others.append(bounds[_OTHERS])
        for mint, each in sums.items():
            if mint == _SOL:
                continue
            named = bounds.get(each.name, bounds.get(mint))
            each.add(held.get(mint, Decimal(0)), named or bounds[_OTHERS], usd=named is None)
    sol, *tokens = (each.done() for each in sums.values())
    tokens.sort(key=lambda each: (-each.unbounded, each.at_worst == 0, each.name, each.mint))
    frozen = sum(bool(limits.get("frozen")) for _, limits in rows)
    return Exposures((sol, *tokens), _others_text(others), len(rows), wallets, frozen, unread)


def _others_text(bounds: Sequence[Mapping[str, Any]]) -> str:
    loose = [each["reason"] for each in bounds if each["most"] is None]
    if loose:
        many = "wallet" if len(loose) == 1 else "wallets"
        return f"not bounded in {len(loose)} {many}: {loose[0]}"
    dollars = sum((Decimal(each["most"]) for each in bounds), Decimal(0))
    return f"at most {exact(dollars)} dollars' worth" if dollars else ""


async def fetch() -> Exposures:
    """Of the `WALLETS` oldest wallets."""
    wallets = await api().wallets.list()
    limiter = asyncio.Semaphore(_AT_ONCE)

    async def one(wallet: Wallet) -> tuple[Balance, Mapping[str, Any]] | ApiError:
        async with limiter:
            try:
                return (
                    await api().wallets.balance(wallet.id),
                    await api().wallets.limits(wallet.id),
                )
            except ApiError as error:
                return error

    rows = await asyncio.gather(*map(one, wallets[:WALLETS]))
    check_any(rows)
    read = [each for each in rows if not isinstance(each, ApiError)]
    return summed(read, len(wallets), len(rows) - len(read))
