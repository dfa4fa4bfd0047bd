"""Tokens known by symbol on each network; everything else is named by its mint.

Anybody can choose a symbol, so a text that only looks like a known symbol is refused. The error
names the mint of the known symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from solward.solana.programs import LOCALNET_USDC_MINT, WRAPPED_SOL_MINT
from solward.support.skeletons import skeleton
from solward.types.bounds import Address, Name
from solward.types.errors import InvalidRequest

# Symbols that a refusal lists; a list may have hundreds.
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A mint with its symbol and decimals."""

    symbol: Name
    mint: Address
    decimals: int


_SOL = KnownToken("SOL", WRAPPED_SOL_MINT, 9)

# Mints from the issuers' own documents (Circle, Tether, Paxos, Coinbase, bonkcoin.com, Jupiter,
# Jito, Pyth, Raydium, Orca, Marinade, SolBlaze), each compared with a second public source. Wrapped
# Bitcoin of other bridges is left out: more than one mint goes by the name of WBTC.
_MAINNET = (
    _SOL,
    KnownToken("USDC", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", 6),
    KnownToken("BONK", "DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263", 5),
    KnownToken("USDT", "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB", 6),
    KnownToken("PYUSD", "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo", 6),
    KnownToken("EURC", "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr", 6),
    KnownToken("cbBTC", "cbbtcf3aa214zXHbiAZQwf4122FBYbraNdFqgw4iMij", 8),
    KnownToken("JitoSOL", "J1toso1uCk3RLmjorhTtrVwY9HJ7X8V9yYac6Y7kGCPn", 9),
    KnownToken("jupSOL", "jupSoLaHXQiZZTSfEWMTRRgpnyFm8f6sZdosWBjx93v", 9),
    KnownToken("mSOL", "mSoLzYCxHdYgdzU16g5QSh3i5K3z3KZK7ytfqcJm7So", 9),
    KnownToken("bSOL", "bSo13r4TkiE4KumL71LsHTPpL2euBYLFx6h9HP3piy1", 9),
    KnownToken("JUP", "JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN", 6),
    KnownToken("JTO", "jtojtomepa8beP8AuQc6eXt5FriJwfFMwQx2v2f9mCL", 9),
    KnownToken("PYTH", "HZ1JovNiVvGrGNiiYvEozEVgZ58xaU3RKwX8eACQBCt3", 6),
    KnownToken("RAY", "4k3Dyjzvzp8eMZWUXbBCjEvwSkkk59S5iCNLY3QrkX6R", 6),
    KnownToken("ORCA", "orcaEKTdK7LKz57vaAYr9QeNsVEPfiu6QeMU1kektZE", 6),
    KnownToken("WIF", "EKpQGSJtjMFqKZ9KQanSqYXRcF8fBopzLHYxdM65zcjm", 6),
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
    """Return a listed mint's decimals without asking a node; None if no network lists the mint."""
    return _DECIMALS.get(mint)


def know_decimals(tokens: Iterable[KnownToken]) -> None:
    """Add the decimals of these mints to the known ones; a mint's decimals never change.

    Decimals that are already known stay.
    """
    for token in tokens:
        _DECIMALS.setdefault(token.mint, token.decimals)


class TokenList:
    """The token symbols of one network. Lookups ignore case."""

    def __init__(self, tokens: Iterable[KnownToken]) -> None:
        self._tokens = tuple(tokens)
        self._by_symbol = {token.symbol.upper(): token for token in self._tokens}
        self._by_mint = {token.mint: token for token in self._tokens}
        self._by_skeleton = {skeleton(token.symbol): token for token in self._tokens}

    def __iter__(self) -> Iterator[KnownToken]:
        return iter(self._tokens)

    def symbol_of(self, mint: str) -> str | None:
        """Return a mint's symbol, or None if the mint is not listed."""
        token = self._by_mint.get(mint)
        return token.symbol if token else None

    def alike(self, symbol: str) -> KnownToken | None:
        """Return the listed token whose symbol equals or resembles this text, or None."""
        return self._by_skeleton.get(skeleton(symbol))

    def resolve(self, text: object, field: str) -> str:
        """Return the mint address of a symbol, or the address itself if `text` is one.

        Args:
            field: name of the parameter, for the error.

        Raises:
            InvalidRequest: if it is neither. The text lists the symbols, or names the one that
                `text` looks like.
        """
        if isinstance(text, str):
            # Some letters of other scripts become ASCII in upper case. No symbol has them, so only
            # ASCII texts are looked up.
            token = self._by_symbol.get(text.upper()) if text.isascii() else None
            if token is not None:
                return token.mint
            # Imported here, because the dashboard uses the list, but never reads an address.
            from solders.pubkey import Pubkey

            try:
                return str(Pubkey.from_string(text))
            except ValueError:
                pass
            alike = self.alike(text)
            if alike is not None:
                raise InvalidRequest(
                    f"{field} looks like {alike.symbol} but is spelled differently;"
                    f" {alike.symbol} is the mint {alike.mint}"
                )
        known = ", ".join(token.symbol for token in self._tokens[:_MOST_NAMED])
        if len(self._tokens) > _MOST_NAMED:
            known += f" and {len(self._tokens) - _MOST_NAMED} more"
        raise InvalidRequest(f"{field} must be a mint address or a known symbol ({known})")


def token_list(network: str, extra: Iterable[KnownToken] = ()) -> TokenList:
    """Return the list of a network (`mainnet-beta`, `devnet`, `testnet`, `localnet`) plus `extra`.

    Built-in tokens take precedence: tokens of `extra` are left out if their mint is built in, or
    if their symbol could be mistaken for a built-in one.
    """
    known = {"mainnet-beta": _MAINNET, "devnet": _DEVNET, "localnet": _LOCALNET}
    tokens = list(known.get(network, (_SOL,)))
    mints = {token.mint for token in tokens}
    looks = {skeleton(token.symbol) for token in tokens}
    for token in extra:
        look = skeleton(token.symbol)
        if token.mint not in mints and look not in looks:
            tokens.append(token)
            mints.add(token.mint)
            looks.add(look)
    return TokenList(tokens)
