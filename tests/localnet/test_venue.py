from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.instructions import transfer_checked
from spl.token.models import TransferCheckedParams
from tests.support.localnet_chain import FEE, SOL, Chain, StillClock

from solward.solana.programs import WRAPPED_SOL_MINT
from solward_localnet.errors import RpcError
from solward_localnet.market import POOLS, genesis_accounts, trade
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.venue import venue_app

USDC_POOL, BONK_POOL = POOLS
USDC, BONK = str(USDC_POOL.mint), str(BONK_POOL.mint)
RENT = 2_039_280

# The required fields of Jupiter's QuoteResponse, SwapInfo and SwapResponse (its OpenAPI file,
# `swap/v1`), with the types they have there.
QUOTE_FIELDS = {
    "inputMint": str,
    "inAmount": str,
    "outputMint": str,
    "outAmount": str,
    "otherAmountThreshold": str,
    "swapMode": str,
    "slippageBps": int,
    "priceImpactPct": str,
    "routePlan": list,
}
HOP_FIELDS = ("ammKey", "inputMint", "outputMint", "inAmount", "outAmount", "feeAmount", "feeMint")


class Market:
    """The venue's HTTP side over a localnet whose clock stands still."""

    def __init__(self, chain: Chain, http: httpx.AsyncClient) -> None:
        self.chain = chain
        self.http = http

    async def quote(self, source: str, target: str, amount: int, **more: Any) -> dict[str, Any]:
        response = await self.ask(inputMint=source, outputMint=target, amount=amount, **more)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def ask(self, **query: Any) -> httpx.Response:
        return await self.http.get("/swap/v1/quote", params=query)

    async def swap(self, quote: dict[str, Any], user: Pubkey | str) -> httpx.Response:
        body = {"quoteResponse": quote, "userPublicKey": str(user), "wrapAndUnwrapSol": True}
        return await self.http.post("/swap/v1/swap", json=body)

    async def transaction(self, quote: dict[str, Any], user: Pubkey) -> VersionedTransaction:
        response = await self.swap(quote, user)
        assert response.status_code == 200, response.text
        wire = base64.b64decode(response.json()["swapTransaction"])
        return VersionedTransaction.from_bytes(wire)

    async def trade(self, source: str, target: str, amount: int) -> int:
        """Settle a swap of the payer at the price it is quoted; what it was quoted."""
        payer = self.chain.payer
        quote = await self.quote(source, target, amount)
        transaction = await self.transaction(quote, payer.pubkey())
        await self.chain.post(sign(transaction, payer))
        self.chain.clock.slots(1)
        return int(quote["outAmount"])

    async def units(self, owner: Pubkey, mint: str) -> int:
        account = get_associated_token_address(owner, Pubkey.from_string(mint))
        held = await self.chain.value("getTokenAccountBalance", str(account))
        return int(held["amount"])


def sign(transaction: VersionedTransaction, user: Keypair) -> VersionedTransaction:
    own = user.sign_message(bytes(to_bytes_versioned(transaction.message)))
    return VersionedTransaction.populate(transaction.message, [own, *transaction.signatures[1:]])


@asynccontextmanager
async def open_market(**options: Any) -> AsyncIterator[Market]:
    clock = StillClock()
    opened = {"clock": clock, "ticker": False, "genesis": genesis_accounts, **options}
    node = await Localnet.open(None, LocalnetOptions(**opened))
    try:
        chain = await Chain.with_payer(node, clock)
        transport = httpx.ASGITransport(venue_app(node.call))
        async with httpx.AsyncClient(transport=transport, base_url="http://venue") as http:
            yield Market(chain, http)
    finally:
        await node.close()


@pytest.fixture
async def market() -> AsyncIterator[Market]:
    async with open_market() as opened:
        yield opened


def refused(response: httpx.Response, code: str, text: str) -> None:
    assert response.status_code == 400
    body = response.json()
    assert set(body) == {"error", "errorCode"}
    assert body["errorCode"] == code
    assert text in body["error"]


@pytest.mark.parametrize(
    ("source", "target", "hops"),
    [(WRAPPED_SOL_MINT, USDC, 1), (USDC, WRAPPED_SOL_MINT, 1), (USDC, BONK, 2)],
)
async def test_a_quote_has_every_field_jupiter_documents(
    market: Market, source: str, target: str, hops: int
) -> None:
    quote = await market.quote(source, target, 5_000_000, slippageBps=100)
    assert {name: type(quote[name]) for name in QUOTE_FIELDS} == QUOTE_FIELDS
    assert (quote["inputMint"], quote["outputMint"]) == (source, target)
    assert (quote["inAmount"], quote["slippageBps"]) == ("5000000", 100)
    assert quote["swapMode"] == "ExactIn"
    assert quote["platformFee"] is None
    assert isinstance(quote["contextSlot"], int)
    assert 0 < float(quote["priceImpactPct"]) < 0.01
    plan = [step["swapInfo"] for step in quote["routePlan"]]
    assert len(plan) == hops
    assert [step["percent"] for step in quote["routePlan"]] == [100] * hops
    assert all(type(hop[name]) is str for hop in plan for name in HOP_FIELDS)
    assert (plan[0]["inputMint"], plan[-1]["outputMint"]) == (source, target)
    assert (plan[0]["inAmount"], plan[-1]["outAmount"]) == ("5000000", quote["outAmount"])


async def test_a_quote_is_the_curve_over_what_the_pools_hold(market: Market) -> None:
    quote = await market.quote(WRAPPED_SOL_MINT, USDC, SOL)
    assert quote["outAmount"] == "149548509"
    # 0.5% is the default; rounded up, in the trader's favour, as Jupiter does.
    assert quote["otherAmountThreshold"] == str(-(-149_548_509 * 9_950 // 10_000)) == "148800767"
    back = await market.quote(USDC, WRAPPED_SOL_MINT, 150_000_000)
    assert int(back["outAmount"]) == trade(150_000_000, USDC_POOL.units, USDC_POOL.sol).received


async def test_tokens_are_exchanged_through_sol_with_both_prices_worse(market: Market) -> None:
    quote = await market.quote(USDC, BONK, 150_000_000)
    first = trade(150_000_000, USDC_POOL.units, USDC_POOL.sol)
    second = trade(first.received, BONK_POOL.sol, BONK_POOL.units)
    assert int(quote["outAmount"]) == second.received
    kept = (1 - first.price_impact) * (1 - second.price_impact)
    assert quote["priceImpactPct"] == f"{1 - kept:f}"
    hops = [step["swapInfo"] for step in quote["routePlan"]]
    assert hops[0]["outAmount"] == hops[1]["inAmount"] == str(first.received)
    assert hops[0]["outputMint"] == hops[1]["inputMint"] == WRAPPED_SOL_MINT


@pytest.mark.parametrize(("slippage", "left"), [(0, 149_548_509), (10_000, 0)])
async def test_slippage_takes_nothing_or_everything_at_its_ends(
    market: Market, slippage: int, left: int
) -> None:
    quote = await market.quote(WRAPPED_SOL_MINT, USDC, SOL, slippageBps=slippage)
    assert int(quote["otherAmountThreshold"]) == left


async def test_the_transaction_lacks_nothing_but_the_users_signature(market: Market) -> None:
    user = market.chain.payer.pubkey()
    for source, target, makers in [
        (WRAPPED_SOL_MINT, USDC, {USDC_POOL.maker.pubkey()}),
        (USDC, BONK, {USDC_POOL.maker.pubkey(), BONK_POOL.maker.pubkey()}),
    ]:
        quote = await market.quote(source, target, SOL)
        transaction = await market.transaction(quote, user)
        message = transaction.message
        signers = message.account_keys[: message.header.num_required_signatures]
        assert signers[0] == user
        assert set(signers[1:]) == makers
        assert transaction.signatures[0] == Signature.default()
        assert transaction.verify_with_results() == [False, *[True] * len(makers)]


async def test_the_swaps_answer_has_jupiters_fields(market: Market) -> None:
    quote = await market.quote(WRAPPED_SOL_MINT, USDC, SOL)
    answer = (await market.swap(quote, market.chain.payer.pubkey())).json()
    latest = await market.chain.value("getLatestBlockhash")
    assert answer["lastValidBlockHeight"] == latest["lastValidBlockHeight"]
    assert answer["prioritizationFeeLamports"] == 0
    transaction = VersionedTransaction.from_bytes(base64.b64decode(answer["swapTransaction"]))
    assert str(transaction.message.recent_blockhash) == latest["blockhash"]


async def test_sol_buys_tokens_and_tokens_buy_sol_and_each_other(market: Market) -> None:
    chain, user = market.chain, market.chain.payer.pubkey()
    maker = USDC_POOL.maker.pubkey()
    before = await chain.balance(user)

    usdc = await market.trade(WRAPPED_SOL_MINT, USDC, 2 * SOL)
    assert await market.units(user, USDC) == usdc
    # Two signatures, and the rent of the new token account.
    assert await chain.balance(user) == before - 2 * SOL - RENT - 2 * FEE
    assert await chain.balance(maker) == USDC_POOL.sol + 2 * SOL
    assert await market.units(maker, USDC) == USDC_POOL.units - usdc

    held = await chain.balance(user)
    sol = await market.trade(USDC, WRAPPED_SOL_MINT, 100_000_000)
    assert await chain.balance(user) == held + sol - 2 * FEE
    assert await market.units(user, USDC) == usdc - 100_000_000

    bonk = await market.trade(USDC, BONK, 50_000_000)
    assert await market.units(user, BONK) == bonk
    assert await market.units(user, USDC) == usdc - 150_000_000


async def test_the_reserves_product_grows_with_every_settled_trade(market: Market) -> None:
    await market.trade(WRAPPED_SOL_MINT, USDC, 500 * SOL)
    await market.trade(USDC, WRAPPED_SOL_MINT, 60_000_000_000)
    sol = await market.chain.balance(USDC_POOL.maker.pubkey())
    units = await market.units(USDC_POOL.maker.pubkey(), USDC)
    assert sol * units > USDC_POOL.sol * USDC_POOL.units


async def test_a_quote_without_its_slippage_left_is_refused(market: Market) -> None:
    quote = await market.quote(WRAPPED_SOL_MINT, USDC, SOL, slippageBps=50)
    # Somebody buys 0.6% of the pool between the quote and the swap.
    await market.trade(WRAPPED_SOL_MINT, USDC, 600 * SOL)
    response = await market.swap(quote, market.chain.payer.pubkey())
    now = (await market.quote(WRAPPED_SOL_MINT, USDC, SOL))["outAmount"]
    text = f"the market gives {now} now, less than {quote['otherAmountThreshold']}"
    refused(response, "SLIPPAGE_TOLERANCE_EXCEEDED", text)


async def test_within_the_slippage_the_market_of_now_is_paid(market: Market) -> None:
    quote = await market.quote(WRAPPED_SOL_MINT, USDC, SOL, slippageBps=200)
    await market.trade(WRAPPED_SOL_MINT, USDC, 600 * SOL)
    user = market.chain.payer
    held = await market.units(user.pubkey(), USDC)
    now = int((await market.quote(WRAPPED_SOL_MINT, USDC, SOL))["outAmount"])
    transaction = await market.transaction(quote, user.pubkey())
    await market.chain.post(sign(transaction, user))
    assert await market.units(user.pubkey(), USDC) == held + now < held + int(quote["outAmount"])


async def test_a_swap_the_user_cannot_pay_moves_nothing(market: Market) -> None:
    poor = Keypair()
    await market.chain.call("requestAirdrop", str(poor.pubkey()), SOL)
    quote = await market.quote(WRAPPED_SOL_MINT, USDC, SOL)
    transaction = await market.transaction(quote, poor.pubkey())
    error = await market.chain.refused(sign(transaction, poor))
    assert error.code == -32002
    assert await market.units(USDC_POOL.maker.pubkey(), USDC) == USDC_POOL.units
    assert await market.chain.balance(poor.pubkey()) == SOL


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ({"amount": None}, "INVALID_REQUEST", "amount must be an integer from 1 to"),
        ({"amount": "0"}, "INVALID_REQUEST", "amount must be an integer from 1 to"),
        ({"amount": "-1"}, "INVALID_REQUEST", "amount must be an integer from 1 to"),
        ({"amount": "1.5"}, "INVALID_REQUEST", "amount must be an integer from 1 to"),
        ({"amount": str(2**64)}, "INVALID_REQUEST", "amount must be an integer from 1 to"),
        ({"amount": "٣"}, "INVALID_REQUEST", "amount must be an integer from 1 to"),
        ({"slippageBps": "10001"}, "INVALID_REQUEST", "slippageBps must be an integer from 0"),
        ({"slippageBps": "half"}, "INVALID_REQUEST", "slippageBps must be an integer from 0"),
        ({"swapMode": "ExactOut"}, "INVALID_REQUEST", "swapMode must be ExactIn"),
        ({"inputMint": None}, "TOKEN_NOT_TRADABLE", "inputMint is not tradable here"),
        ({"inputMint": "SOL"}, "TOKEN_NOT_TRADABLE", "inputMint is not tradable here: SOL"),
        ({"outputMint": "1" * 32}, "TOKEN_NOT_TRADABLE", "outputMint is not tradable here: 111"),
        (
            {"outputMint": WRAPPED_SOL_MINT},
            "CIRCULAR_ARBITRAGE_IS_DISABLED",
            "inputMint and outputMint are the same",
        ),
        (
            {"amount": "1"},
            "ROUTE_PLAN_DOES_NOT_CONSUME_ALL_THE_AMOUNT",
            "amount is too small",
        ),
    ],
)
async def test_a_quote_that_cannot_be_given_says_why(
    market: Market, query: dict[str, Any], code: str, text: str
) -> None:
    good = {"inputMint": WRAPPED_SOL_MINT, "outputMint": USDC, "amount": str(SOL)}
    asked = {name: value for name, value in {**good, **query}.items() if value is not None}
    refused(await market.ask(**asked), code, text)


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"userPublicKey": "me"}, "INVALID_REQUEST", "userPublicKey must be a base58 address"),
        ({"userPublicKey": None}, "INVALID_REQUEST", "userPublicKey must be a base58 address"),
        (
            {"userPublicKey": str(BONK_POOL.maker.pubkey())},
            "INVALID_REQUEST",
            "userPublicKey must not be a pool",
        ),
        ({"quoteResponse": None}, "INVALID_REQUEST", "quoteResponse must be an object"),
        ({"inAmount": "1e9"}, "INVALID_REQUEST", "inAmount must be an integer from 1"),
        ({"inAmount": True}, "INVALID_REQUEST", "inAmount must be an integer from 1"),
        (
            {"otherAmountThreshold": None},
            "INVALID_REQUEST",
            "otherAmountThreshold must be an integer from 0",
        ),
        ({"inputMint": ["SOL"]}, "TOKEN_NOT_TRADABLE", "inputMint is not tradable here"),
        ({"otherAmountThreshold": "149548510"}, "SLIPPAGE_TOLERANCE_EXCEEDED", "149548509 now"),
    ],
)
async def test_a_swap_that_cannot_be_made_says_why(
    market: Market, change: dict[str, Any], code: str, text: str
) -> None:
    quote = await market.quote(WRAPPED_SOL_MINT, USDC, SOL)
    body: dict[str, Any] = {
        "quoteResponse": quote,
        "userPublicKey": str(market.chain.payer.pubkey()),
    }
    for name, value in change.items():
        (body if name in body else quote)[name] = value
    refused(await market.http.post("/swap/v1/swap", json=body), code, text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b"[" * 60_000, "the body is not JSON"),
        (b"[]", "quoteResponse must be an object"),
        (json.dumps({"fill": "x" * 65_536}).encode(), "the body is too large"),
    ],
)
async def test_a_body_that_is_no_swap_is_refused(market: Market, content: bytes, text: str) -> None:
    refused(await market.http.post("/swap/v1/swap", content=content), "INVALID_REQUEST", text)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/swap/v1/swap"), ("POST", "/swap/v1/quote"), ("POST", "/swap/v2/build")],
)
async def test_other_calls_are_told_the_two_there_are(
    market: Market, method: str, path: str
) -> None:
    response = await market.http.request(method, path)
    refused(response, "NOT_FOUND", "known: /swap/v1/quote, /swap/v1/swap")


async def test_a_ledger_without_the_market_has_no_route() -> None:
    async with open_market(genesis=None) as market:
        response = await market.ask(inputMint=WRAPPED_SOL_MINT, outputMint=USDC, amount=SOL)
        refused(response, "COULD_NOT_FIND_ANY_ROUTE", "this ledger has no demo market")


async def test_an_emptied_pool_has_no_route_instead_of_no_answer(market: Market) -> None:
    # The pools' seeds are public.
    chain, maker = market.chain, USDC_POOL.maker
    await market.trade(WRAPPED_SOL_MINT, USDC, SOL)
    held = await market.units(maker.pubkey(), USDC)
    user = get_associated_token_address(chain.payer.pubkey(), USDC_POOL.mint)
    await chain.do(take(maker.pubkey(), user, held), signers=[maker])
    response = await market.ask(inputMint=USDC, outputMint=WRAPPED_SOL_MINT, amount=SOL)
    refused(response, "COULD_NOT_FIND_ANY_ROUTE", "the demo market has been emptied")

    left = await chain.balance(maker.pubkey())
    params = TransferParams(
        from_pubkey=maker.pubkey(), to_pubkey=chain.payer.pubkey(), lamports=left
    )
    await chain.do(transfer(params), signers=[maker])
    response = await market.ask(inputMint=USDC, outputMint=WRAPPED_SOL_MINT, amount=SOL)
    refused(response, "COULD_NOT_FIND_ANY_ROUTE", "this ledger has no demo market")


def take(owner: Pubkey, to: Pubkey, units: int) -> Instruction:
    return transfer_checked(
        TransferCheckedParams(
            program_id=TOKEN_PROGRAM_ID,
            source=get_associated_token_address(owner, USDC_POOL.mint),
            mint=USDC_POOL.mint,
            dest=to,
            owner=owner,
            amount=units,
            decimals=USDC_POOL.decimals,
        )
    )


async def test_a_ledger_that_fails_is_the_venues_failure_not_its_crash() -> None:
    async def broken(_method: str, _params: Sequence[Any]) -> Any:
        raise RpcError(-32603, "disk full")

    transport = httpx.ASGITransport(venue_app(broken))
    async with httpx.AsyncClient(transport=transport, base_url="http://localnet") as client:
        query = {"inputMint": str(POOLS[0].mint), "outputMint": str(POOLS[1].mint), "amount": "1"}
        answer = await client.get("/swap/v1/quote", params=query)
    assert (answer.status_code, answer.json()["errorCode"]) == (500, "INTERNAL")
