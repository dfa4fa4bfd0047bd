"""Symbols: what is listed, and texts that only look like a listed one."""

from __future__ import annotations

import pytest
from solders.pubkey import Pubkey
from tests.promises import promise

from solward.solana.token_list import KnownToken, TokenList, token_list
from solward.support.skeletons import skeleton
from solward.types.errors import InvalidRequest

MAINNET = token_list("mainnet-beta")
USDC = MAINNET.resolve("USDC", "mint")

# As recorded in August 2026 from the issuers' documents and a second public list of each, once
# more: a mistake in one of the two places is seen.
RECORDED = """
SOL So11111111111111111111111111111111111111112 9
USDC EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v 6
USDT Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB 6
PYUSD 2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo 6
EURC HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr 6
cbBTC cbbtcf3aa214zXHbiAZQwf4122FBYbraNdFqgw4iMij 8
JitoSOL J1toso1uCk3RLmjorhTtrVwY9HJ7X8V9yYac6Y7kGCPn 9
jupSOL jupSoLaHXQiZZTSfEWMTRRgpnyFm8f6sZdosWBjx93v 9
mSOL mSoLzYCxHdYgdzU16g5QSh3i5K3z3KZK7ytfqcJm7So 9
bSOL bSo13r4TkiE4KumL71LsHTPpL2euBYLFx6h9HP3piy1 9
BONK DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263 5
JUP JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN 6
JTO jtojtomepa8beP8AuQc6eXt5FriJwfFMwQx2v2f9mCL 9
PYTH HZ1JovNiVvGrGNiiYvEozEVgZ58xaU3RKwX8eACQBCt3 6
RAY 4k3Dyjzvzp8eMZWUXbBCjEvwSkkk59S5iCNLY3QrkX6R 6
ORCA orcaEKTdK7LKz57vaAYr9QeNsVEPfiu6QeMU1kektZE 6
WIF EKpQGSJtjMFqKZ9KQanSqYXRcF8fBopzLHYxdM65zcjm 6
"""


@promise("built-ins-as-recorded")
def test_the_list_of_mainnet_is_what_was_recorded() -> None:
    recorded = {tuple(line.split()) for line in RECORDED.strip().splitlines()}
    assert {(each.symbol, each.mint, str(each.decimals)) for each in MAINNET} == recorded
    assert {len(bytes(Pubkey.from_string(each.mint))) for each in MAINNET} == {32}


@pytest.mark.parametrize("network", ["mainnet-beta", "devnet", "localnet", "testnet"])
def test_no_two_listed_symbols_can_be_taken_for_each_other(network: str) -> None:
    known = list(token_list(network))
    assert len({skeleton(each.symbol) for each in known}) == len(known)


@promise("symbol-case-ignored")
def test_a_symbol_is_known_in_either_case_and_any_mint_by_its_address() -> None:
    for text in ("USDT", "usdt", "Usdt"):
        assert MAINNET.symbol_of(MAINNET.resolve(text, "mint")) == "USDT"
    assert MAINNET.resolve("jitosol", "mint") == MAINNET.resolve("JitoSOL", "mint")
    other = str(Pubkey.new_unique())
    assert MAINNET.resolve(other, "mint") == other
    assert MAINNET.symbol_of(other) is None


@promise("lookalike-symbol-refused")
@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("USD\u0421", "USDC"),  # Cyrillic Es
        ("\u03a5SDC", "USDC"),  # Greek Upsilon
        ("u\u017fdc", "USDC"),  # long s, whose upper case is S
        ("\uff35\uff33\uff24\uff23", "USDC"),  # full width
        ("US\u200bDC", "USDC"),  # zero width space
        ("U\u0301SDC", "USDC"),  # with an accent
        ("U5DC", "USDC"),
        ("$USDC", "USDC"),
        (" USDC", "USDC"),
        ("USDC.", "USDC"),
        ("S0L", "SOL"),
        ("SOl\u0131", "SOLI"),
        ("B0NK", "BONK"),
        ("W1F", "WIF"),
        ("WlF", "WIF"),
        ("0RC\u0410", "ORCA"),
        ("JITOS0L", "JitoSOL"),
    ],
    ids=ascii,
)
def test_what_only_looks_like_a_symbol_is_refused_with_the_mint_it_has(
    text: str, symbol: str
) -> None:
    tokens = TokenList([*MAINNET, KnownToken("SOLI", str(Pubkey.new_unique()), 6)])
    mint = tokens.resolve(symbol, "mint")
    with pytest.raises(InvalidRequest) as refused:
        tokens.resolve(text, "inputToken")
    assert str(refused.value) == (
        f"inputToken looks like {symbol} but is spelled differently; {symbol} is the mint {mint}"
    )


@pytest.mark.parametrize("text", ["NOPE", "USDCX", "", "x" * 64, 5, None, "USD", "\u4e2d"], ids=str)
def test_what_is_neither_is_refused_with_the_first_symbols(text: object) -> None:
    many = [KnownToken(f"T{number}", str(Pubkey.new_unique()), 6) for number in range(100, 140)]
    with pytest.raises(InvalidRequest) as refused:
        TokenList([*MAINNET, *many]).resolve(text, "mint")
    assert str(refused.value).startswith("mint must be a mint address or a known symbol (SOL, USDC")
    assert str(refused.value).endswith("and 37 more)")


def test_what_is_added_takes_no_symbol_and_no_mint_of_what_is_built_in() -> None:
    mints = [str(Pubkey.new_unique()) for _ in range(5)]
    extra = [
        KnownToken("USDC", mints[0], 6),
        KnownToken("uSd\u0441", mints[1], 6),
        KnownToken("BETTER", USDC, 9),
        KnownToken("NEW", mints[2], 2),
        KnownToken("NEVV", mints[3], 2),
    ]
    tokens = token_list("mainnet-beta", extra)
    assert tokens.resolve("USDC", "mint") == USDC
    assert tokens.symbol_of(USDC) == "USDC"
    assert [each for each in tokens if each not in set(MAINNET)] == [extra[3]]
