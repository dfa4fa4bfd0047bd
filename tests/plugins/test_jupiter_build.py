"""The jupiter venue's `venue_instructions`: what it asks `/swap/v2/build`, and what it takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from tests.market_venue import trade
from tests.swap_api import venue_app

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import InvalidRequest, LedgerUnavailable
from solward.types.venue import Quote, SwapInstructions, VenueContext
from solward_localnet.market import MARKET_PROGRAM, POOLS, genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_plugins.venues import jupiter

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
TAKER, DESTINATION, STRANGER = (str(Keypair().pubkey()) for _ in range(3))
TABLE, HELD = (str(Keypair().pubkey()) for _ in range(2))
ASSOCIATED = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SYSTEM = "11111111111111111111111111111111"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
OFFER = Quote(WRAPPED_SOL_MINT, USDC, 100_000_000, 16_198_753, 16_117_760, 50, Decimal(0))

Handler = Callable[[httpx.Request], httpx.Response]


def meta(key: str, signer: bool = False, writable: bool = False) -> dict[str, Any]:
    return {"pubkey": key, "isSigner": signer, "isWritable": writable}


def body(program: str, accounts: list[dict[str, Any]], data: bytes) -> dict[str, Any]:
    return {
        "programId": program,
        "accounts": accounts,
        "data": base64.b64encode(data).decode(),
    }


def opening(owner: str, mint: str, data: bytes = b"\x01", payer: str = TAKER) -> dict[str, Any]:
    account = get_associated_token_address(Pubkey.from_string(owner), Pubkey.from_string(mint))
    keys = [meta(payer, True, True), meta(str(account), False, True), meta(owner), meta(mint)]
    return body(ASSOCIATED, [*keys, meta(SYSTEM), meta(TOKEN)], data)


SWAP = body(
    JUPITER,
    [meta(TAKER, signer=True), meta(DESTINATION, writable=True), meta(HELD)],
    bytes.fromhex("bb64facc31c4af14") + b"\x01\x02",
)
# As `/swap/v2/build` answers: compute budget, wrapping and tips beside the swap.
ANSWER: dict[str, Any] = {
    "inputMint": WRAPPED_SOL_MINT,
    "outputMint": USDC,
    "inAmount": "100000000",
    "outAmount": "16200000",
    "otherAmountThreshold": "16119000",
    "swapMode": "ExactIn",
    "slippageBps": 50,
    "priceImpactPct": "0.0001",
    "routePlan": [{"swapInfo": {"label": "Meteora DLMM"}, "percent": 100, "bps": 10_000}],
    "computeBudgetInstructions": [
        body("ComputeBudget111111111111111111111111111111", [], b"\x03" + bytes(8))
    ],
    "setupInstructions": [
        opening(TAKER, WRAPPED_SOL_MINT),
        body(SYSTEM, [meta(TAKER, True, True), meta(HELD, False, True)], b"\x02" + bytes(11)),
        body(TOKEN, [meta(HELD, False, True)], b"\x11"),
    ],
    "swapInstruction": SWAP,
    "cleanupInstruction": body(TOKEN, [meta(HELD), meta(TAKER), meta(TAKER, True)], b"\x09"),
    "otherInstructions": [],
    "tipInstruction": body(SYSTEM, [meta(TAKER, True, True), meta(STRANGER)], b"\x02" + bytes(11)),
    "addressesByLookupTableAddress": {TABLE: [HELD, STRANGER]},
    "blockhashWithMetadata": {"blockhash": [7] * 32, "lastValidBlockHeight": 279_632_475},
}


async def instructions(handler: Handler, most: int | None = None) -> SwapInstructions:
    transport = httpx.MockTransport(handler)
    async with httpx.AsyncClient(transport=transport, base_url="https://venue.example/pro") as http:
        return await jupiter.venue_instructions(OFFER, TAKER, DESTINATION, most, VenueContext(http))


def answers(changed: dict[str, Any] | bytes, status: int = 200) -> Handler:
    content = changed if isinstance(changed, bytes) else json.dumps(ANSWER | changed).encode()
    return lambda _request: httpx.Response(status, content=content)


@pytest.mark.parametrize("most", [None, 40])
async def test_it_asks_for_the_takers_swap_and_names_no_other_key(most: int | None) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=ANSWER)

    await instructions(handler, most)
    (request,) = seen
    assert (request.method, request.url.path) == ("GET", "/pro/swap/v2/build")
    # Neither `payer` nor `nativeDestinationAccount`: both put another key into the swap.
    assert dict(request.url.params) == {
        "inputMint": WRAPPED_SOL_MINT,
        "outputMint": USDC,
        "amount": "100000000",
        "slippageBps": "50",
        "taker": TAKER,
        "destinationTokenAccount": DESTINATION,
        "wrapAndUnwrapSol": "false",
    } | ({} if most is None else {"maxAccounts": "40"})


async def test_it_takes_the_swap_its_quote_its_tables_and_the_takers_accounts() -> None:
    made = await instructions(answers({}))
    assert made.quote == Quote(
        WRAPPED_SOL_MINT, USDC, 100_000_000, 16_200_000, 16_119_000, 50, Decimal("0.0001")
    )
    assert made.swap == Instruction(
        Pubkey.from_string(JUPITER),
        bytes.fromhex("bb64facc31c4af140102"),
        [
            AccountMeta(Pubkey.from_string(TAKER), True, False),
            AccountMeta(Pubkey.from_string(DESTINATION), False, True),
            AccountMeta(Pubkey.from_string(HELD), False, False),
        ],
    )
    assert made.accounts == (WRAPPED_SOL_MINT,)
    assert made.tables == {TABLE: (HELD, STRANGER)}
    assert made.compute_units is None


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x01"])
async def test_of_the_setup_only_the_takers_own_associated_accounts_are_taken(data: bytes) -> None:
    setup = [
        opening(TAKER, USDC, data),
        opening(TAKER, USDC, data),
        opening(TAKER, WRAPPED_SOL_MINT, data, payer=STRANGER),
        opening(STRANGER, TABLE, data),
        opening(TAKER, TABLE, b"\x02"),
        body(STRANGER, opening(TAKER, TABLE)["accounts"], b"\x01"),
        body(ASSOCIATED, [], b"\x01"),
    ]
    made = await instructions(answers({"setupInstructions": setup}))
    assert made.accounts == (USDC, WRAPPED_SOL_MINT)


@pytest.mark.parametrize("tables", [None, {}])
async def test_a_route_may_need_no_lookup_table(tables: Any) -> None:
    assert (await instructions(answers({"addressesByLookupTableAddress": tables}))).tables == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"swapInstruction": None},
        {"swapInstruction": "swap"},
        {"swapInstruction": {**SWAP, "programId": "nowhere"}},
        {"swapInstruction": {**SWAP, "programId": None}},
        {"swapInstruction": {**SWAP, "data": "not base64!"}},
        {"swapInstruction": {**SWAP, "data": 7}},
        {"swapInstruction": {**SWAP, "accounts": None}},
        {"swapInstruction": {**SWAP, "accounts": [meta("nobody")]}},
        {"swapInstruction": {**SWAP, "accounts": [{**meta(TAKER), "isSigner": "false"}]}},
        {"swapInstruction": {**SWAP, "accounts": [{**meta(TAKER), "isWritable": 1}]}},
        {"swapInstruction": {**SWAP, "accounts": [TAKER]}},
        {"setupInstructions": None},
        {"setupInstructions": {}, "swapInstruction": []},
        {"setupInstructions": ["open"]},
        {"addressesByLookupTableAddress": [TABLE]},
        {"addressesByLookupTableAddress": {TABLE: None}},
        {"addressesByLookupTableAddress": {TABLE: ["nobody"]}},
        {"addressesByLookupTableAddress": {"nowhere": []}},
        {"outAmount": "-1"},
        {"otherAmountThreshold": None},
        {"priceImpactPct": "NaN"},
    ],
)
async def test_an_answer_of_another_shape_is_not_guessed_at(changed: dict[str, Any]) -> None:
    with pytest.raises(LedgerUnavailable, match="The swap venue's answer has an unexpected shape"):
        await instructions(answers(changed))


@pytest.mark.parametrize("missing", sorted(set(ANSWER) - {"priceImpactPct"}))
async def test_what_is_not_used_may_be_missing(missing: str) -> None:
    unused = {
        "swapMode",
        "routePlan",
        "computeBudgetInstructions",
        "cleanupInstruction",
        "otherInstructions",
        "tipInstruction",
        "blockhashWithMetadata",
    }
    kept = {name: value for name, value in ANSWER.items() if name != missing}
    handler = answers(json.dumps(kept).encode())
    if missing in unused:
        await instructions(handler)
    else:
        with pytest.raises(LedgerUnavailable, match="unexpected shape"):
            await instructions(handler)


async def test_the_localnets_market_answers_what_the_venue_asks() -> None:
    pool = POOLS[0]
    node = await Localnet.open(None, LocalnetOptions(ticker=False, genesis=genesis_accounts))
    try:
        transport = httpx.ASGITransport(venue_app(node.call))
        async with httpx.AsyncClient(transport=transport, base_url="http://localnet") as http:
            offer = Quote(WRAPPED_SOL_MINT, str(pool.mint), 10**9, 1, 1, 50, Decimal(0))
            context = VenueContext(http)
            made = await jupiter.venue_instructions(offer, TAKER, DESTINATION, None, context)
            with pytest.raises(InvalidRequest, match="no route of at most 8 accounts"):
                await jupiter.venue_instructions(offer, TAKER, DESTINATION, 8, context)
    finally:
        await node.close()
    assert made.quote.out_amount == trade(10**9, pool.sol, pool.units).received
    assert made.swap.program_id == MARKET_PROGRAM
    assert [str(each.pubkey) for each in made.swap.accounts if each.is_signer] == [TAKER]
    assert DESTINATION in [str(each.pubkey) for each in made.swap.accounts if each.is_writable]
    assert (made.accounts, made.tables) == ((), {})
