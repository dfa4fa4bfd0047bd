"""`GET /swap/v2/build` of the localnet's market, and swaps made of what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from spl.token.instructions import create_idempotent_associated_token_account
from tests.market_venue import trade, venue_app
from tests.support.localnet import FEE, SOL, Chain, StillClock, rent
from tests.support.market import BONK, TAKER, USDC, Market, instruction, open_market, whole

from solward.solana.programs import WRAPPED_SOL_MINT
from solward_localnet.jsonrpc import RpcError
from solward_localnet.market import MARKET_PROGRAM, POOLS, genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

USDC_POOL, BONK_POOL = POOLS
RENT = rent(165)

# The fields of the response (developers.jup.ag, "Build Transaction"), with their types there.
FIELDS = {
    "inputMint": str,
    "outputMint": str,
    "inAmount": str,
    "outAmount": str,
    "otherAmountThreshold": str,
    "swapMode": str,
    "slippageBps": int,
    "routePlan": list,
    "computeBudgetInstructions": list,
    "setupInstructions": list,
    "swapInstruction": dict,
    "otherInstructions": list,
    "addressesByLookupTableAddress": dict,
    "blockhashWithMetadata": dict,
}
HOP_FIELDS = {"ammKey", "label", "inputMint", "outputMint", "inAmount", "outAmount"}


@pytest.fixture
async def market() -> AsyncIterator[Market]:
    async with open_market(venue=venue_app) as opened:
        yield opened


def refused(response: httpx.Response, code: str, text: str, status: int = 400) -> None:
    assert response.status_code == status
    body = response.json()
    assert set(body) == {"error", "errorCode"}
    assert body["errorCode"] == code
    assert text in body["error"]


@pytest.mark.parametrize(
    ("source", "target", "hops"),
    [(WRAPPED_SOL_MINT, USDC, 1), (USDC, WRAPPED_SOL_MINT, 1), (USDC, BONK, 2)],
)
async def test_an_answer_has_every_field_jupiter_documents(
    market: Market, source: str, target: str, hops: int
) -> None:
    answer = await market.build(source, target, 5_000_000, slippageBps=100)
    assert {name: type(answer[name]) for name in FIELDS} == FIELDS
    assert (answer["inputMint"], answer["outputMint"]) == (source, target)
    assert (answer["inAmount"], answer["slippageBps"]) == ("5000000", 100)
    assert answer["swapMode"] == "ExactIn"
    assert 0 < float(answer["priceImpactPct"]) < 0.01
    assert [set(step["swapInfo"]) for step in answer["routePlan"]] == [HOP_FIELDS] * hops
    first, last = answer["routePlan"][0]["swapInfo"], answer["routePlan"][-1]["swapInfo"]
    assert (first["inputMint"], first["inAmount"]) == (source, "5000000")
    assert (last["outputMint"], last["outAmount"]) == (target, answer["outAmount"])
    latest = await market.chain.value("getLatestBlockhash")
    metadata = answer["blockhashWithMetadata"]
    assert bytes(metadata["blockhash"]) == bytes(await market.chain.blockhash())
    assert metadata["lastValidBlockHeight"] == latest["lastValidBlockHeight"]


async def test_a_price_is_that_of_the_pools_reserves(market: Market) -> None:
    answer = await market.build(WRAPPED_SOL_MINT, USDC, SOL)
    expected = trade(SOL, USDC_POOL.sol, USDC_POOL.units)
    assert answer["outAmount"] == str(expected.received) == "149548509"
    assert answer["otherAmountThreshold"] == "148800767"
    assert answer["priceImpactPct"] == str(expected.price_impact)


@pytest.mark.parametrize(("slippage", "left"), [(0, 149_548_509), (10_000, 0)])
async def test_slippage_takes_nothing_or_everything_at_its_ends(
    market: Market, slippage: int, left: int
) -> None:
    answer = await market.build(WRAPPED_SOL_MINT, USDC, SOL, slippageBps=slippage)
    assert int(answer["otherAmountThreshold"]) == left


async def test_the_swap_instruction_is_the_programs_and_only_the_taker_signs(
    market: Market,
) -> None:
    destination = str(Keypair().pubkey())
    for source, target in ((WRAPPED_SOL_MINT, USDC), (USDC, WRAPPED_SOL_MINT), (USDC, BONK)):
        answer = await market.build(
            source, target, SOL, destinationTokenAccount=destination, wrapAndUnwrapSol="false"
        )
        swap = instruction(answer["swapInstruction"])
        assert swap.program_id == MARKET_PROGRAM
        assert [str(meta.pubkey) for meta in swap.accounts if meta.is_signer] == [TAKER]
        named = [str(meta.pubkey) for meta in swap.accounts if meta.is_writable]
        own = get_associated_token_address(Pubkey.from_string(TAKER), Pubkey.from_string(source))
        assert named[:2] == [str(own), destination]
        # The output is not the taker's, so there is nothing to open, and nothing to close.
        assert answer["setupInstructions"] == []
        assert answer["cleanupInstruction"] is None


async def test_a_fresh_key_swaps_what_it_was_given_and_the_output_arrives_elsewhere(
    market: Market,
) -> None:
    chain, pocket = market.chain, Keypair()
    wallet = chain.payer.pubkey()
    await market.trade(WRAPPED_SOL_MINT, USDC, SOL)
    held = await market.units(wallet, USDC)
    answer = await market.build(
        WRAPPED_SOL_MINT,
        USDC,
        SOL,
        taker=str(pocket.pubkey()),
        destinationTokenAccount=str(get_associated_token_address(wallet, USDC_POOL.mint)),
    )
    # The wallet pays what the taker has no money for; only the swap is the pocket's.
    setup = [instruction(each) for each in answer["setupInstructions"]]
    assert len(setup) == 3
    own = [
        create_idempotent_associated_token_account(
            wallet, pocket.pubkey(), Pubkey.from_string(WRAPPED_SOL_MINT)
        ),
        Instruction(
            setup[1].program_id,
            setup[1].data,
            [AccountMeta(wallet, True, True), setup[1].accounts[1]],
        ),
        setup[2],
    ]
    cleanup = instruction(answer["cleanupInstruction"])
    await chain.do(*own, instruction(answer["swapInstruction"]), cleanup, signers=[pocket])
    assert await market.units(wallet, USDC) == held + int(answer["outAmount"])


async def test_sol_buys_tokens_and_tokens_buy_sol_and_each_other(market: Market) -> None:
    chain, user = market.chain, market.chain.payer.pubkey()
    before = await chain.balance(user)

    usdc = await market.trade(WRAPPED_SOL_MINT, USDC, 2 * SOL)
    assert await market.units(user, USDC) == usdc
    # One signature, and the rent of the new token account.
    assert await chain.balance(user) == before - 2 * SOL - RENT - FEE

    held = await chain.balance(user)
    sol = await market.trade(USDC, WRAPPED_SOL_MINT, 100_000_000)
    assert await chain.balance(user) == held + sol - FEE
    assert await market.units(user, USDC) == usdc - 100_000_000

    bonk = await market.trade(USDC, BONK, 50_000_000)
    assert await market.units(user, BONK) == bonk
    assert await market.units(user, USDC) == usdc - 150_000_000


async def test_wrapped_sol_stays_wrapped_where_that_is_asked_for(market: Market) -> None:
    chain, user = market.chain, market.chain.payer.pubkey()
    await market.trade(WRAPPED_SOL_MINT, USDC, SOL)
    answer = await market.build(
        USDC, WRAPPED_SOL_MINT, 1_000_000, taker=str(user), wrapAndUnwrapSol="false"
    )
    await chain.do(*whole(answer))
    assert await market.units(user, WRAPPED_SOL_MINT) == int(answer["outAmount"])


async def test_a_price_that_moved_beyond_the_slippage_fails_on_chain(market: Market) -> None:
    chain, user = market.chain, market.chain.payer.pubkey()
    answer = await market.build(WRAPPED_SOL_MINT, USDC, SOL, taker=str(user))
    # Somebody buys 0.6% of the pool between the answer and the swap.
    await market.trade(WRAPPED_SOL_MINT, USDC, 600 * SOL)
    held = await market.units(user, USDC)
    error = await chain.refused(await chain.signed(whole(answer)))
    assert "custom program error: 0x1771" in error.message
    assert await market.units(user, USDC) == held


async def test_within_the_slippage_the_market_of_then_is_paid(market: Market) -> None:
    chain, user = market.chain, market.chain.payer.pubkey()
    answer = await market.build(WRAPPED_SOL_MINT, USDC, SOL, taker=str(user), slippageBps=200)
    await market.trade(WRAPPED_SOL_MINT, USDC, 600 * SOL)
    now = int((await market.build(WRAPPED_SOL_MINT, USDC, SOL))["outAmount"])
    held = await market.units(user, USDC)
    await chain.do(*whole(answer))
    assert await market.units(user, USDC) == held + now < held + int(answer["outAmount"])


async def test_the_reserves_product_grows_with_every_settled_trade(market: Market) -> None:
    await market.trade(WRAPPED_SOL_MINT, USDC, 500 * SOL)
    await market.trade(USDC, WRAPPED_SOL_MINT, 60_000_000_000)
    sol, units = [
        int((await market.chain.value("getTokenAccountBalance", str(vault)))["amount"])
        for vault in (USDC_POOL.sol_vault, USDC_POOL.mint_vault)
    ]
    assert sol * units > USDC_POOL.sol * USDC_POOL.units


@pytest.mark.parametrize(("hops", "needed"), [(1, 9), (2, 12)])
async def test_a_route_of_more_accounts_than_asked_for_is_not_offered(
    market: Market, hops: int, needed: int
) -> None:
    source = WRAPPED_SOL_MINT if hops == 1 else BONK
    query = {"inputMint": source, "maxAccounts": needed}
    assert (await market.ask(**query)).status_code == 200
    response = await market.ask(**query | {"maxAccounts": needed - 1})
    text = f"no route of at most {needed - 1} accounts"
    refused(response, "COULD_NOT_FIND_ANY_ROUTE", text)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"slippageBps": "10001"}, "slippageBps must be an integer from 0"),
    ({"slippageBps": "half"}, "slippageBps must be an integer from 0"),
    ({"maxAccounts": "0"}, "maxAccounts must be an integer from 1 to 64"),
    ({"maxAccounts": "65"}, "maxAccounts must be an integer from 1 to 64"),
    ({"wrapAndUnwrapSol": "1"}, "wrapAndUnwrapSol must be true or false"),
    ({"taker": None}, "taker must be a base58 address"),
    ({"taker": "me"}, "taker must be a base58 address"),
    ({"destinationTokenAccount": ""}, "destinationTokenAccount must be a base58 address"),
    ({"amount": ["1", "2"]}, "amount is there twice"),
    ({"payer": TAKER}, "does not serve payer"),
    (
        {"nativeDestinationAccount": TAKER},
        "does not serve nativeDestinationAccount",
    ),
    ({"platformFeeBps": "5"}, "does not serve platformFeeBps"),
    ({"mode": "fast"}, "does not serve mode"),
    ({"swapMode": "ExactIn"}, "does not serve swapMode"),
    ({"userPublicKey": TAKER}, "does not serve userPublicKey"),
    ({"inputMint": None}, "inputMint must be a base58 address"),
    ({"inputMint": "SOL"}, "inputMint must be a base58 address"),
]


async def test_a_swap_that_cannot_be_built_says_why(market: Market) -> None:
    for amount in (None, "0", "-1", "1.5", str(2**64), "٣"):
        text = "amount must be an integer from 1 to"
        refused(await market.ask(amount=amount), "INVALID_REQUEST", text)
    for query, text in REFUSED:
        refused(await market.ask(**query), "INVALID_REQUEST", text)
    for name, mint in (("inputMint", TAKER), ("outputMint", "1" * 32)):
        text = f"{name} is not tradable here: {mint}"
        refused(await market.ask(**{name: mint}), "TOKEN_NOT_TRADABLE", text)
    same = await market.ask(outputMint=WRAPPED_SOL_MINT)
    text = "inputMint and outputMint are the same"
    refused(same, "CIRCULAR_ARBITRAGE_IS_DISABLED", text)
    little = await market.ask(amount="1")
    refused(little, "ROUTE_PLAN_DOES_NOT_CONSUME_ALL_THE_AMOUNT", "amount is too small")


async def test_a_ledger_without_the_market_has_no_route() -> None:
    async with open_market(venue=venue_app, genesis=None) as market:
        refused(await market.ask(), "COULD_NOT_FIND_ANY_ROUTE", "this ledger has no demo market")


async def test_other_calls_are_told_those_there_are(market: Market) -> None:
    known = "known: GET /swap/v2/build"
    for call in (("POST", "/swap/v2/build"), ("GET", "/swap/v2/quote"), ("GET", "/swap/v1/swap")):
        refused(await market.http.request(*call), "NOT_FOUND", known, 404)


async def test_a_ledger_that_fails_is_the_venues_failure_not_its_crash() -> None:
    async def broken(_method: str, _params: Sequence[Any]) -> Any:
        raise RpcError(-32603, "disk full")

    transport = httpx.ASGITransport(venue_app(broken))
    async with httpx.AsyncClient(transport=transport, base_url="http://localnet") as client:
        query = {"inputMint": USDC, "outputMint": BONK, "amount": "1", "taker": TAKER}
        answer = await client.get("/swap/v2/build", params=query)
    assert (answer.status_code, answer.json()["errorCode"]) == (500, "INTERNAL")


async def test_the_program_and_its_pools_outlive_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "ledger.db", StillClock()
    options = LocalnetOptions(clock=clock, ticker=False, genesis=genesis_accounts)
    sold = []
    for _ in range(2):
        node = await Localnet.open(path, options)
        try:
            chain = await Chain.with_payer(node, clock)
            transport = httpx.ASGITransport(venue_app(node.call))
            async with httpx.AsyncClient(transport=transport, base_url="http://venue") as http:
                sold.append(await Market(chain, http).trade(WRAPPED_SOL_MINT, USDC, SOL))
        finally:
            await node.close()
    assert sold[1] == trade(SOL, USDC_POOL.sol + SOL, USDC_POOL.units - sold[0]).received
