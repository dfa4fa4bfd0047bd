"""Balances of a wallet, in the form that skills, routes and observations return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solward.solana.token_list import TokenList
from solward.types.ledger import ReadLedger, TokenHolding
from solward.types.money import from_units, lamports_to_sol


@dataclass(frozen=True, slots=True)
class TokenBalance:
    """A wallet's holding of one mint, over all of its token accounts. `ui` is in whole tokens.

    Attributes:
        units: smallest units.
        symbol: None if the mint is not on the network's list.
    """

    mint: str
    units: int
    decimals: int
    symbol: str | None = None

    @property
    def ui(self) -> Decimal:
        """Whole tokens."""
        return from_units(self.units, self.decimals)

    def to_json(self) -> dict[str, Any]:
        """Return JSON with `uiBalance` as a number, `rawBalance` as text, `symbol` if known."""
        body: dict[str, Any] = {"mint": self.mint}
        if self.symbol is not None:
            body["symbol"] = self.symbol
        return body | {
            "uiBalance": self.ui,
            "rawBalance": str(self.units),
            "decimals": self.decimals,
        }


@dataclass(frozen=True, slots=True)
class Balances:
    """A wallet's SOL, in lamports, and its tokens."""

    lamports: int
    tokens: tuple[TokenBalance, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the balance as the API shows it."""
        return {
            "sol": lamports_to_sol(self.lamports),
            "tokens": [token.to_json() for token in self.tokens],
        }


async def read_balances(ledger: ReadLedger, tokens: TokenList, address: str) -> Balances:
    """Read a wallet's holdings; raises `LedgerError` when the ledger does not answer."""
    return balances_of(await ledger.balance(address), await ledger.holdings(address), tokens)


def balances_of(
    lamports: int, holdings: Iterable[TokenHolding], tokens: TokenList, *, empty: bool = False
) -> Balances:
    """Return the balances of a wallet, with its token accounts added up by mint.

    Args:
        empty: also include tokens whose accounts are open but empty.
    """
    units: dict[str, int] = {}
    decimals: dict[str, int] = {}
    for holding in holdings:
        units[holding.mint] = units.get(holding.mint, 0) + holding.units
        decimals[holding.mint] = holding.decimals
    return Balances(
        lamports,
        tuple(
            TokenBalance(mint, amount, decimals[mint], tokens.symbol_of(mint))
            for mint, amount in units.items()
            if amount or empty
        ),
    )
