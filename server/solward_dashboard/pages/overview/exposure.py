"""What all wallets hold of each asset, and what of it can leave in 24 hours; sums are exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from solward.client import Balance
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_dashboard.api import api, of_each
from solward_dashboard.pages.wallets.page import Holding, check_any, holding
from solward_dashboard.wording import counted, exact, short

WALLETS: Final = 25
"""Of so many wallets balances are asked for: each is a request of the ledger."""
SHOWN: Final = 10
"""Assets of the list."""
_SOL, _COSTS, _OTHERS = "SOL", "COSTS", "*"


@dataclass(slots=True)
class Exposure:
    """One asset over some wallets; amounts are whole units.

    Attributes:
        mint: None of SOL, which wrapped SOL is part of.
        bounded: what may leave in 24 hours where something bounds it; of SOL without `costs`, its
            fees and rent.
        dollars: what may leave in dollars' worth instead, or beside.
        at_worst: of what is held, the most that can leave in 24 hours.
        reasons: why nothing bounds it, of each wallet where that is so.
    """

    name: str
    mint: str | None
    held: Decimal = Decimal(0)
    wrapped: Decimal = Decimal(0)
    bounded: Decimal = Decimal(0)
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
        self.bounded += Decimal(0) if usd else most
        # What dollars buy is not known here.
        in_dollars = bool(most if usd else beside)
        self.at_worst += held if in_dollars else min(held, Decimal(0) if usd else most + costs)

    @property
    def most(self) -> Decimal | None:
        """What may leave in 24 hours, None where nothing bounds it in some wallet."""
        return None if self.reasons else self.bounded

    @property
    def most_text(self) -> str:
        """`at most 10 SOL and 0.05 SOL of fees and rent`, or that nothing bounds it, and why."""
        if self.reasons:
            return _unbounded(self.reasons)
        parts = [f"{exact(self.bounded)} {self.name}"] if self.bounded or not self.dollars else []
        if self.dollars:
            parts.append(f"{exact(self.dollars)} dollars' worth")
        if self.costs:
            parts.append(f"{exact(self.costs)} SOL of fees and rent")
        if parts == [f"0 {self.name}"]:
            return "nothing may leave"
        return f"at most {' and '.join(parts)}"


def _unbounded(reasons: Sequence[str]) -> str:
    return f"not bounded in {counted(len(reasons), 'wallet')}: {reasons[0]}"


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


def summed(
    rows: Iterable[tuple[Balance, Mapping[str, Any]]], wallets: int, unread: int = 0
) -> Exposures:
    """Of each wallet its balance and the answer of `GET /wallets/:id/limits`; pure.

    Args:
        wallets: how many there are in all.
        unread: see `Exposures`.
    """
    rows = tuple(rows)
    sums = {_SOL: Exposure("SOL", None)}
    # Every asset is bounded in every wallet, also where one does not hold it.
    for balance, _ in rows:
        for token in balance.tokens:
            if token.mint != WRAPPED_SOL_MINT:
                name = token.symbol or short(token.mint)
                sums.setdefault(token.mint, Exposure(name, token.mint))
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
    sol, *tokens = sums.values()
    tokens.sort(key=lambda each: (-len(each.reasons), each.at_worst == 0, each.name, each.mint))
    frozen = sum(bool(limits.get("frozen")) for _, limits in rows)
    return Exposures((sol, *tokens), _others_text(others), len(rows), wallets, frozen, unread)


def _others_text(bounds: Sequence[Mapping[str, Any]]) -> str:
    loose = [each["reason"] for each in bounds if each["most"] is None]
    if loose:
        return _unbounded(loose)
    dollars = sum((Decimal(each["most"]) for each in bounds), Decimal(0))
    return f"at most {exact(dollars)} dollars' worth" if dollars else ""


async def fetch() -> Exposures:
    """Of the `WALLETS` oldest wallets."""
    wallets = await api().wallets.list()
    found = (await of_each([each.id for each in wallets[:WALLETS]], holding)).values()
    check_any([*found])
    read = [(each.balance, each.limits) for each in found if isinstance(each, Holding)]
    return summed(read, len(wallets), len(found) - len(read))
