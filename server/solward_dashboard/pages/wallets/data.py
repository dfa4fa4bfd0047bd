"""What the wallets page fetches, and texts made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solward.client import ApiError, Balance, TokenBalance, Wallet
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_dashboard.api import api, of_each
from solward_dashboard.wording import plain, short

_ADDRESS_PART = 4
_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Holding:
    """What a wallet holds, and its limits (`GET /wallets/:id/limits`)."""

    balance: Balance
    limits: Mapping[str, Any]

    @property
    def frozen(self) -> bool:
        """Whether it is frozen."""
        return bool(self.limits.get("frozen"))


@dataclass(frozen=True, slots=True)
class Wallets:
    """All wallets, and what those on the page hold, by wallet id, or why that cannot be read."""

    wallets: tuple[Wallet, ...]
    holdings: Mapping[str, Holding | ApiError]


async def fetch(shown: Sequence[str], first: int) -> Wallets:
    """All wallets, and what those in `shown` hold; the `first` ones where it is empty.

    Raises:
        ApiError: what none of them holds can be read.
    """
    wallets = await api().wallets.list()
    known = {each.id for each in wallets}
    wanted = [each for each in shown if each in known] or [each.id for each in wallets[:first]]
    holdings = await of_each(wanted, holding)
    check_any([*holdings.values()])
    return Wallets(wallets, holdings)


async def holding(wallet_id: str) -> Holding | ApiError:
    """What a wallet holds, or why that cannot be read."""
    try:
        balance = await api().wallets.balance(wallet_id)
        return Holding(balance, await api().wallets.limits(wallet_id))
    except ApiError as error:
        return error


def check_any(answers: Sequence[object]) -> None:
    """Raise the first of the answers about several wallets where every one is an error: the page
    then says so once, and not at each."""
    errors = [each for each in answers if isinstance(each, ApiError)]
    if errors and len(errors) == len(answers):
        raise errors[0]


def matching(wallets: Sequence[Wallet], search: str) -> list[Wallet]:
    """Wallets whose name, tags or address contain every word of the search.

    Words of less than four characters are not searched in addresses: they are in too many.
    """
    words = search.casefold().split()
    return [each for each in wallets if all(_has(each, word) for word in words)]


def _has(wallet: Wallet, word: str) -> bool:
    texts = (wallet.name, *wallet.tags, *([wallet.address] if len(word) >= _ADDRESS_PART else []))
    return any(word in each.casefold() for each in texts)


def tokens_text(tokens: Sequence[TokenBalance]) -> str:
    """`7.4 USDC, 0.05 wSOL and 2 more`."""
    if not tokens:
        return "no tokens"
    parts = [f"{plain(each.amount)} {token_name(each)}" for each in tokens[:_TOKENS]]
    more = len(tokens) - _TOKENS
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def token_name(token: TokenBalance) -> str:
    """Its symbol, or the ends of its mint; wrapped SOL is `wSOL`, because its symbol is SOL."""
    if token.mint == WRAPPED_SOL_MINT:
        return "wSOL"
    return token.symbol or short(token.mint)
