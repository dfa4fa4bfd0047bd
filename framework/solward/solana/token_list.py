"""Tokens known by symbol on each network; everything else is named by its mint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from solders.pubkey import Pubkey

from solward.errors import InvalidRequest
from solward.solana.programs import LOCALNET_USDC_MINT, WRAPPED_SOL_MINT


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A mint with its symbol and decimals."""

    symbol: str
    mint: str
    decimals: int


_SOL = KnownToken("SOL", WRAPPED_SOL_MINT, 9)

# Issuers' own documentation: Circle's USDC addresses, bonkcoin.com.
_MAINNET = (
    _SOL,
    KnownToken("USDC", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", 6),
    KnownToken("BONK", "DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263", 5),
)
# The demo market's mints (`solward_localnet.market` derives the same, tested).
_LOCALNET = (
    _SOL,
    KnownToken("USDC", LOCALNET_USDC_MINT, 6),
    KnownToken("BONK", "9RY7JPD4C7RBFzo4FQxAyXELoh1kNYGx8WHrVyW8ADcK", 5),
)
_DEVNET = (_SOL, KnownToken("USDC", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU", 6))


_DECIMALS = {token.mint: token.decimals for token in (*_MAINNET, *_LOCALNET, *_DEVNET)}


def known_decimals(mint: str) -> int | None:
    """A listed mint's decimals, whatever a node says; None where it is on no network's list."""
    return _DECIMALS.get(mint)


class TokenList:
    """Symbols of one network, looked up either way; symbols ignore case."""

    def __init__(self, tokens: Iterable[KnownToken]) -> None:
        self._tokens = tuple(tokens)
        self._by_symbol = {token.symbol.upper(): token for token in self._tokens}
        self._by_mint = {token.mint: token for token in self._tokens}

    def __iter__(self) -> Iterator[KnownToken]:
        return iter(self._tokens)

    def symbol_of(self, mint: str) -> str | None:
        """The mint's symbol, None when it is not listed."""
        token = self._by_mint.get(mint)
        return token.symbol if token else None

    def resolve(self, text: object, field: str) -> str:
        """A symbol or a mint address as given by a caller -> the mint address.

        Raises:
            InvalidRequest: neither a known symbol nor an address; lists the symbols.
        """
        if isinstance(text, str):
            token = self._by_symbol.get(text.upper())
            if token is not None:
                return token.mint
            try:
                return str(Pubkey.from_string(text))
            except ValueError:
                pass
        known = ", ".join(token.symbol for token in self._tokens)
        raise InvalidRequest(f"{field} must be a mint address or a known symbol ({known})")


def token_list(network: str, extra: Iterable[KnownToken] = ()) -> TokenList:
    """The list of a network (`mainnet-beta`, `devnet`, `testnet`, `localnet`) plus `extra`."""
    known = {"mainnet-beta": _MAINNET, "devnet": _DEVNET, "localnet": _LOCALNET}
    base = known.get(network, (_SOL,))
    return TokenList((*base, *extra))
