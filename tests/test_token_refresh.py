"""What of a published list of tokens is believed, on the real VM."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from tests.promises import promise
from tests.support.tokens import TOKEN, TOKEN_2022, TokenBench
from tests.support.tokens import tokens as tokens

from solward.service.token_refresh import MOST_TOKENS, CheckedList, check_published, parse_published
from solward.solana.programs import LOCALNET_USDC_MINT
from solward.solana.token_list import KnownToken
from solward.types.errors import InvalidRequest
from solward.types.ledger import Account, ReadLedger

KEY = bytes(Keypair.from_seed(bytes(range(32))).pubkey())
MINT = str(Pubkey.from_bytes(KEY))


def entry(symbol: str, mint: str = MINT, **changed: Any) -> dict[str, Any]:
    """A token as Jupiter's token API has it."""
    return {
        "id": mint, "name": "A token", "symbol": symbol, "decimals": 6, "isVerified": True,
        "tokenProgram": str(TOKEN), "organicScore": 98.1, "tags": ["verified"],
    } | changed  # fmt: skip


async def checked(
    tokens: TokenBench,
    entries: Sequence[Mapping[str, Any]],
    *,
    stored: Sequence[KnownToken] = (),
    nodes: Sequence[ReadLedger] = (),
    only: Sequence[str] = (),
) -> CheckedList:
    offered, unread = parse_published(json.dumps(entries).encode(), "localnet")
    assert unread == []
    every = [cast("ReadLedger", tokens.bench.ledger), *nodes]
    return await check_published(offered, "localnet", stored, every, only)


def reasons(found: CheckedList) -> dict[str, str]:
    return {each.symbol: each.reason for each in found.refused}


@promise("every-node-agrees")
async def test_verified_tokens_that_the_chain_has_are_taken_and_no_others(
    tokens: TokenBench,
) -> None:
    mints = [await tokens.mint() for _ in range(3)]
    newer = await tokens.mint(TOKEN_2022, decimals=2)
    found = await checked(
        tokens,
        [
            entry("AAA", mints[0]),
            entry("BBB", mints[1], isVerified=False),
            entry("CCC", mints[2], isVerified=None, tags=["community"]),
            entry("DDD", newer, decimals=2, tokenProgram=str(TOKEN_2022)),
            entry("USDC", LOCALNET_USDC_MINT),
        ],
    )
    assert found.tokens == (KnownToken("AAA", mints[0], 6), KnownToken("DDD", newer, 2))
    assert [mint.address for mint in found.mints] == [mints[0], newer]
    assert (found.refused, found.unverified, found.built_in) == ((), 2, 1)


@promise("every-node-agrees")
async def test_what_the_chain_has_otherwise_is_refused_by_its_reason(tokens: TokenBench) -> None:
    plain = [await tokens.mint() for _ in range(2)]
    unmovable = await tokens.mint(TOKEN_2022, space=170, extensions=[b"\x20"])
    hooked = await tokens.mint(TOKEN_2022, space=234, extensions=[b"\x24\x00" + KEY + KEY])
    newer = {"tokenProgram": str(TOKEN_2022)}
    found = await checked(
        tokens,
        [
            entry("NINE", plain[0], decimals=9),
            entry("OTHER", plain[1], **newer),
            entry("NONE", str(Keypair().pubkey())),
            entry("STUCK", unmovable, **newer),
            entry("HOOKED", hooked, **newer),
        ],
    )
    assert found.tokens == ()
    assert reasons(found) == {
        "NINE": "it has 9 decimals in the list, but 6 on the chain",
        "OTHER": f"its program is {TOKEN_2022} in the list, but {TOKEN} on the chain",
        "NONE": "its address is not a mint on this network",
        "STUCK": "its tokens cannot be transferred",
        "HOOKED": "its transfers call a program (a transfer hook), so it cannot be sent",
    }


@promise("every-node-agrees")
async def test_each_node_is_asked_and_what_they_do_not_agree_on_is_refused(
    tokens: TokenBench,
) -> None:
    one, two, three = [await tokens.mint() for _ in range(3)]

    class Lying:
        """A node that has other decimals of one mint, and none of another."""

        async def accounts(self, addresses: Sequence[str]) -> dict[str, Account | None]:
            found = await tokens.bench.ledger.accounts(addresses)
            state = found[two]
            assert state is not None
            data = state.data[:44] + b"\x09" + state.data[45:]
            return {**found, two: Account(state.lamports, state.owner, data), three: None}

    entries = [entry("AAA", one), entry("BBB", two), entry("CCC", three)]
    found = await checked(tokens, entries, nodes=[cast("ReadLedger", Lying())])
    assert [each.symbol for each in found.tokens] == ["AAA"]
    assert reasons(found) == {
        "BBB": "the nodes do not agree on its mint",
        "CCC": "its address is not a mint on this network",
    }


@promise("confusable-symbol-refused")
async def test_symbols_that_could_be_taken_for_anothers_are_refused(tokens: TokenBench) -> None:
    mints = [await tokens.mint() for _ in range(9)]
    stored = [KnownToken("MINE", str(Keypair().pubkey()), 6)]
    symbols = ["USDC", "uѕdc", "U5DC", "TWIN", "TW1N", "MlNE", "$OK", "ＯＫ", "FINE"]
    found = await checked(
        tokens,
        [entry(symbol, mint) for symbol, mint in zip(symbols, mints, strict=True)],
        stored=stored,
    )
    assert [each.symbol for each in found.tokens] == ["FINE"]
    told = reasons(found)
    for symbol in ("USDC", "uѕdc", "U5DC"):
        assert told[symbol] == f"its symbol looks like USDC of the mint {LOCALNET_USDC_MINT}"
    for symbol in ("TWIN", "TW1N"):
        assert told[symbol].startswith("another verified token of the list has a symbol that looks")
    assert told["MlNE"].startswith(
        f"its symbol looks like MINE of the mint {stored[0].mint} in the stored list"
    )
    for symbol in ("$OK", "ＯＫ"):
        assert told[symbol] == "its symbol is not 1 to 16 ASCII letters and digits"


async def test_only_those_that_are_named_are_taken(tokens: TokenBench) -> None:
    one, two = [await tokens.mint() for _ in range(2)]
    entries = [entry("AAA", one), entry("BBB", two), entry("CCC", isVerified=False)]
    found = await checked(tokens, entries, only=["bbb"])
    assert [each.symbol for each in found.tokens] == ["BBB"]
    with pytest.raises(InvalidRequest, match="The list has no verified token CCC, DDD"):
        await checked(tokens, entries, only=["AAA", "CCC", "DDD"])
    many = [entry(f"T{number}", str(Pubkey.new_unique())) for number in range(MOST_TOKENS + 1)]
    with pytest.raises(InvalidRequest, match=r"501 verified tokens, but at most 500 .* --only"):
        await checked(tokens, many)


def test_a_token_list_counts_for_its_network_by_its_tags() -> None:
    def listed(symbol: str, chain: int, *tags: str) -> dict[str, Any]:
        return {"chainId": chain, "address": MINT, "symbol": symbol, "decimals": 6, "tags": tags}

    document = {
        "name": "A list",
        "tokens": [
            listed("AAA", 101, "verified"), listed("BBB", 101, "strict"),
            listed("CCC", 101, "wrapped"), listed("DDD", 103, "verified"),
        ],
    }  # fmt: skip
    found, _ = parse_published(json.dumps(document).encode(), "mainnet-beta")
    assert {each.symbol: each.is_verified for each in found} == {
        "AAA": True, "BBB": True, "CCC": False,
    }  # fmt: skip
    [other], _ = parse_published(json.dumps(document).encode(), "devnet")
    assert (other.symbol, other.mint, other.program) == ("DDD", MINT, None)


@promise("odd-entry-left-out")
@pytest.mark.parametrize(
    "odd",
    [
        5,
        None,
        [],
        {},
        entry("B", "nobody"),
        entry("B", decimals=6.5),
        entry("B", tags="verified"),
        entry("B", isVerified=1),
        entry("B") | {"symbol": None},
    ],
    ids=str,
)
def test_an_odd_entry_is_left_out_and_named_and_the_others_hold(odd: Any) -> None:
    document = [entry("A"), odd, entry("C")]
    found, [unread] = parse_published(json.dumps(document).encode(), "mainnet-beta")
    assert [each.symbol for each in found] == ["A", "C"]
    assert unread.startswith("Entry 1 of the token list: ")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("{", "is not JSON"),
        ("{}", "must be an array of tokens"),
        ("5", "must be an array of tokens"),
        (["USDC"], "Entry 0 of the token list: tags"),
        ([entry("B", "nobody"), 5], "Entry 0 of the token list: its mint must be"),
        ([entry("A", decimals=6.5)], "Entry 0 of the token list: decimals must be a int"),
        ([entry("A", decimals=256)], "Entry 0 of the token list: decimals must be 0 to 255"),
        ([entry("A", decimals=True)], "decimals must be a int"),
        ([entry("A", isVerified="true")], "isVerified must be a bool"),
        ([entry("A") | {"symbol": None}], "symbol must be a str"),
        ({"tokens": [{"chainId": 101, "address": MINT}]}, "symbol must be a str"),
    ],
    ids=str,
)
def test_what_is_no_token_list_is_refused_by_its_entry(document: Any, text: str) -> None:
    data = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(InvalidRequest, match=text):
        parse_published(data.encode(), "mainnet-beta")
