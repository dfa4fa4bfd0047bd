"""The calls of the localnet's market, held against the API's own statement of its fields."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.instructions import create_idempotent_associated_token_account
from tests.support.localnet import FEE, SOL, rent
from tests.support.market import BONK, TAKER, USDC, Market, instruction, open_market
from tests.support.recordings import API, check_answer, check_request

from solward.solana.programs import WRAPPED_SOL_MINT

V1, V2 = "/swap/v1", "/swap/v2"
QUOTE, ORDER, EXECUTE = ("GET", f"{V1}/quote"), ("GET", f"{V2}/order"), ("POST", f"{V2}/execute")
BUILD = ("GET", f"{V2}/build")
SWAP, INSTRUCTIONS = ("POST", f"{V1}/swap"), ("POST", f"{V1}/swap-instructions")
RENT = rent(165)
OTHER = str(Keypair().pubkey())

# A right value of every documented parameter, and a wrong one.
RIGHT: dict[str, Any] = {
    "amount": SOL, "slippageBps": 70, "swapMode": "ExactIn", "dexes": "Solward demo USDC",
    "excludeDexes": "Solward demo BONK", "maxAccounts": 30, "instructionVersion": "V2",
    "mode": "fast", "platformFeeBps": 5, "tipAmount": "1000000", "broadcastFeeType": "maxCap",
    "computeUnitPricePercentile": "high", "blockhashSlotsToExpiry": 100, "referralFee": 60,
    "priorityFeeLamports": 1_000, "jitoTipLamports": 1_000, "excludeRouters": "jupiterz,dflow",
    "computeUnitPriceMicroLamports": 10, "prioritizationFeeLamports": {
        "priorityLevelWithMaxLamports": {"priorityLevel": "high", "maxLamports": 9}},
    "lastValidBlockHeight": "9", "signedTransaction": "AAAA", "requestId": "none",
    "inputMint": WRAPPED_SOL_MINT, "outputMint": USDC,
}  # fmt: skip
WRONG: dict[str, list[Any]] = {
    "amount": [0, -1, "1.5", "a"], "slippageBps": [10_001, "half", -1], "swapMode": ["Exact"],
    "maxAccounts": [0, "few"], "instructionVersion": ["V3"], "broadcastFeeType": ["none"],
    "excludeRouters": ["jupiterz,raydium", ""], "dexes": [""], "excludeDexes": ["A,,B"],
    "priorityFeeLamports": ["much", -1],
    "computeUnitPriceMicroLamports": [-1, "10", 1.5, True],
    "prioritizationFeeLamports": [
        -1, {}, "auto",
        {"priorityLevelWithMaxLamports": {"priorityLevel": "all", "maxLamports": 1}},
        {"priorityLevelWithMaxLamports": {"priorityLevel": "high"}},
        {"priorityLevelWithMaxLamports": {"priorityLevel": "high", "maxLamports": 1, "more": 1}},
    ],
    "signedTransaction": [1], "requestId": [None], "lastValidBlockHeight": [7],
    "quoteResponse": ["quote", [], None],
}  # fmt: skip
ADDRESSES = [
    "inputMint", "outputMint", "taker", "destinationTokenAccount", "userPublicKey", "payer",
    "receiver", "feeAccount", "trackingAccount", "nativeDestinationAccount", "referralAccount",
]  # fmt: skip
# What the market does not do, and refuses instead of ignoring it.
UNSERVED = {
    QUOTE: {"platformFeeBps"},
    SWAP: {"payer", "feeAccount", "trackingAccount", "nativeDestinationAccount",
           "blockhashSlotsToExpiry"},
    BUILD: {"mode", "platformFeeBps", "feeAccount", "payer", "nativeDestinationAccount",
            "blockhashSlotsToExpiry", "tipAmount", "computeUnitPricePercentile", "dexes",
            "excludeDexes", "forJitoBundle"},
    ORDER: {"receiver", "referralAccount", "referralFee", "payer", "jitoTipLamports"},
    EXECUTE: set(),
}  # fmt: skip
UNSERVED[INSTRUCTIONS] = UNSERVED[SWAP]


@pytest.fixture
async def market() -> AsyncIterator[Market]:
    async with open_market() as opened:
        yield opened


async def send(market: Market, call: tuple[str, str], given: dict[str, Any]) -> httpx.Response:
    method, path = call
    if method == "POST":
        return await market.http.post(path, json=given)
    query = {
        name: str(each).lower() if isinstance(each, bool) else each for name, each in given.items()
    }
    return await market.http.get(path, params=query)


async def ask(market: Market, call: tuple[str, str], **given: Any) -> dict[str, Any]:
    """The answer to a call, which is as documented; so is what was sent."""
    response = await send(market, call, given)
    assert response.status_code == 200, response.text
    query = dict(response.request.url.params)
    check_request(*call, query, given if call[0] == "POST" else None)
    body: dict[str, Any] = response.json()
    check_answer(*call, body)
    return body


async def quoted(market: Market, source: str, target: str, amount: int, **more: Any) -> Any:
    given = {"inputMint": source, "outputMint": target, "amount": amount, **more}
    return await ask(market, QUOTE, **given)


async def required(market: Market, call: tuple[str, str]) -> dict[str, Any]:
    """A request of a call with what it must have and nothing else."""
    given = {name: RIGHT.get(name, TAKER) for name in API[call].required}
    if "quoteResponse" in given:
        given["quoteResponse"] = await quoted(market, WRAPPED_SOL_MINT, USDC, SOL)
    return given


def right(name: str, schema: Any) -> Any:
    if schema == {"type": "boolean"}:
        return "wrap" in name
    return RIGHT.get(name, OTHER)


@pytest.mark.parametrize("call", sorted(API), ids=" ".join)
async def test_every_documented_field_is_served_or_refused_by_name(
    market: Market, call: tuple[str, str]
) -> None:
    base = await required(market, call)
    refused = set()
    for name, schema in API[call].optional.items():
        response = await send(market, call, base | {name: right(name, schema)})
        if f"the localnet's market does not serve {name}" in response.text:
            assert response.status_code == 400
            refused.add(name)
        elif call != EXECUTE:
            assert response.status_code == 200, response.text
            check_answer(*call, response.json())
    assert refused == UNSERVED[call]


@pytest.mark.parametrize("call", sorted(API), ids=" ".join)
async def test_what_is_missing_wrong_or_unknown_is_refused_by_name(
    market: Market, call: tuple[str, str]
) -> None:
    base, served = await required(market, call), API[call].parameters.keys() - UNSERVED[call]

    async def refused(given: dict[str, Any], name: str) -> None:
        response = await send(market, call, given)
        assert (response.status_code, name in response.text) == (400, True), (given, response.text)

    for name in API[call].required:
        await refused({each: base[each] for each in base if each != name}, name)
    for name in sorted(served):
        schema = API[call].parameters[name]
        bad = ["nowhere", ""] if name in ADDRESSES else WRONG.get(name, [])
        if schema == {"type": "boolean"}:
            bad = ["1", "yes", ""] if call[0] == "GET" else ["true", 1, None]
        assert bad, name
        for value in bad:
            await refused(base | {name: value}, name)
    await refused(base | {"inputmint": USDC}, "inputmint")
    if call[0] == "GET":
        twice = [*base.items(), ("outputMint", USDC)]
        response = await market.http.get(call[1], params=twice)
        assert "outputMint is there twice" in response.text
    else:
        response = await market.http.post(f"{call[1]}?taker={TAKER}", json=base)
        assert "there is no parameter taker" in response.text
        for body in (b"", b"[]", b"null", b"{", b"\xff", b"[" * 10_000):
            assert (await market.http.post(call[1], content=body)).status_code == 400
        large = await market.http.post(call[1], content=b" " * 60_000)
        assert large.status_code == 413


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        (QUOTE, "swapMode", "ExactOut"),
        (SWAP, "dynamicSlippage", True),
    ],
)
async def test_a_documented_value_that_the_market_cannot_keep_is_refused(
    market: Market, call: tuple[str, str], name: str, value: Any
) -> None:
    response = await send(market, call, await required(market, call) | {name: value})
    assert f"the localnet's market does not serve {name}={value}" in response.text


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"inAmount": 1}, "quoteResponse.inAmount must be an integer"),
    ({"outAmount": None}, "quoteResponse.outAmount"),
    ({"slippageBps": "50"}, "quoteResponse.slippageBps"),
    ({"routePlan": None}, "quoteResponse.routePlan must be a list"),
    ({"swapMode": "ExactOut"}, "does not serve quoteResponse.swapMode=ExactOut"),
    ({"inputMint": "SOL"}, "quoteResponse.inputMint must be a base58 address"),
]


async def test_a_quote_that_was_changed_in_shape_is_not_swapped(market: Market) -> None:
    given = await required(market, SWAP)
    quote = given["quoteResponse"]
    for changed, text in CHANGED:
        response = await send(market, SWAP, given | {"quoteResponse": quote | changed})
        assert response.status_code == 400, changed
        assert text in response.text


async def test_fields_of_a_quote_that_are_not_documented_come_back_and_do_no_harm(
    market: Market,
) -> None:
    given = await required(market, SWAP)
    await ask(market, SWAP, **given | {"quoteResponse": given["quoteResponse"] | {"hidden": [1]}})


@pytest.mark.parametrize("dexes", ["Solward demo", "Solward demo BONK,Solward demo USDC"])
async def test_markets_are_chosen_by_their_labels(market: Market, dexes: str) -> None:
    await quoted(market, BONK, USDC, 10**9, dexes=dexes)
    base = {"inputMint": BONK, "outputMint": USDC, "amount": 10**9}
    for more in (
        {"dexes": "Raydium"},
        {"excludeDexes": "Solward demo USDC"},
        {"onlyDirectRoutes": True},
    ):
        response = await send(market, QUOTE, base | more)
        assert response.json()["errorCode"] == "COULD_NOT_FIND_ANY_ROUTE"
    both = await send(market, QUOTE, base | {"dexes": "A", "excludeDexes": "B"})
    assert "exclude each other" in both.text
    # Arrays of a query are names with commas, or the name several times.
    listed = [*base.items(), ("dexes", "Solward demo BONK"), ("dexes", "Solward demo USDC")]
    assert (await market.http.get(QUOTE[1], params=listed)).status_code == 200


def unsigned(answer: dict[str, Any], field: str = "swapTransaction") -> VersionedTransaction:
    return VersionedTransaction.from_bytes(base64.b64decode(answer[field]))


@pytest.mark.parametrize("legacy", [False, True])
async def test_a_quotes_transaction_lands_and_gives_what_was_quoted(
    market: Market, legacy: bool
) -> None:
    chain, user = market.chain, market.chain.payer
    before = await chain.balance(user.pubkey())
    quote = await quoted(market, WRAPPED_SOL_MINT, USDC, SOL, asLegacyTransaction=legacy)
    answer = await ask(
        market,
        SWAP,
        quoteResponse=quote,
        userPublicKey=str(user.pubkey()),
        asLegacyTransaction=legacy,
        dynamicComputeUnitLimit=True,
    )
    made = unsigned(answer)
    assert type(made.message) is (Message if legacy else MessageV0)
    await chain.post(VersionedTransaction(made.message, [user]))
    chain.clock.slots(1)
    assert await market.units(user.pubkey(), USDC) == int(quote["outAmount"])
    assert await chain.balance(user.pubkey()) == before - SOL - RENT - FEE


async def test_a_swaps_priority_is_paid_by_its_limit_of_units(market: Market) -> None:
    given = await required(market, SWAP)
    exact = await ask(market, SWAP, **given, computeUnitPriceMicroLamports=1_000_000)
    assert exact["prioritizationFeeLamports"] == 1_400_000
    fixed = await ask(market, SWAP, **given, prioritizationFeeLamports=70_000)
    assert fixed["prioritizationFeeLamports"] == 70_000
    both = given | {"computeUnitPriceMicroLamports": 1, "prioritizationFeeLamports": 1}
    refused = (await send(market, SWAP, both)).json()
    assert refused["errorCode"] == "INVALID_COMPUTE_UNIT_PRICE_AND_PRIORITIZATION_FEE"


async def test_a_given_account_receives_and_wrapped_sol_stays_wrapped(market: Market) -> None:
    chain, user = market.chain, market.chain.payer.pubkey()
    receiver = Keypair().pubkey()
    quote = await quoted(market, WRAPPED_SOL_MINT, USDC, SOL)
    usdc, sol = Pubkey.from_string(USDC), Pubkey.from_string(WRAPPED_SOL_MINT)
    opened = create_idempotent_associated_token_account(user, receiver, usdc)
    body = {"quoteResponse": quote, "userPublicKey": str(user)}
    sent = await ask(
        market, INSTRUCTIONS, **body, destinationTokenAccount=str(opened.accounts[1].pubkey)
    )
    await chain.do(opened, *parts(sent))
    assert await market.units(receiver, USDC) == int(quote["outAmount"])

    # As documented, its account must exist; nothing wraps or unwraps then.
    refused = await send(market, INSTRUCTIONS, body | {"wrapAndUnwrapSol": False})
    assert "needs an account of wrapped SOL" in refused.text
    chain.clock.slots(1)
    await chain.do(create_idempotent_associated_token_account(user, user, sol))
    held = await ask(market, INSTRUCTIONS, **body, wrapAndUnwrapSol=False)
    assert held["cleanupInstruction"] is None
    (only,) = held["setupInstructions"]
    assert str(instruction(only).accounts[3].pubkey) == USDC
    # Without looking, what may exist is made again.
    again = await ask(market, INSTRUCTIONS, **body, skipUserAccountsRpcCalls=True)
    assert len(again["setupInstructions"]) == 4


def parts(answer: dict[str, Any]) -> list[Any]:
    made = [*answer["computeBudgetInstructions"], *answer["setupInstructions"]]
    made += [answer["swapInstruction"]]
    made += [answer["cleanupInstruction"]] if answer["cleanupInstruction"] else []
    return [instruction(each) for each in made]


async def ordered(market: Market, taker: Pubkey | None, **more: Any) -> dict[str, Any]:
    named = {} if taker is None else {"taker": str(taker)}
    given = {"inputMint": WRAPPED_SOL_MINT, "outputMint": USDC, "amount": SOL, **named, **more}
    return await ask(market, ORDER, **given)


async def test_an_order_is_a_price_without_a_taker_and_a_transaction_for_a_funded_one(
    market: Market,
) -> None:
    user = market.chain.payer
    price = await ordered(market, None)
    assert (price["transaction"], price["taker"], price["mode"]) == (None, None, "ultra")
    # A loss is negative here, and in percent.
    assert -1 < price["priceImpact"] < 0
    assert price["priceImpact"] == pytest.approx(100 * float(price["priceImpactPct"]))
    order = await ordered(market, user.pubkey(), slippageBps=100)
    assert (order["mode"], order["signatureFeePayer"]) == ("manual", str(user.pubkey()))
    signed = VersionedTransaction(unsigned(order, "transaction").message, [user])
    body = {
        "signedTransaction": base64.b64encode(bytes(signed)).decode(),
        "requestId": order["requestId"],
    }
    done = await ask(market, EXECUTE, **body)
    assert (done["status"], done["code"]) == ("Success", 0)
    assert (done["totalInputAmount"], done["totalOutputAmount"]) == (str(SOL), order["outAmount"])
    assert await market.units(user.pubkey(), USDC) == int(order["outAmount"])


async def test_a_taker_without_funds_gets_a_price_and_the_documented_reason(
    market: Market,
) -> None:
    price = (await ordered(market, None))["outAmount"]
    enough = SOL + 2 * RENT + 5_000
    for lamports, code in ((0, 1), (SOL - 1, 1), (SOL + 5_000, 2), (enough, None)):
        taker = Keypair().pubkey()
        if lamports:
            await market.chain.call("requestAirdrop", str(taker), lamports)
        order = await ordered(market, taker)
        assert order["outAmount"] == price
        assert order.get("errorCode") == code, lamports
        assert (order["transaction"] == "") is (code is not None)


async def test_only_the_orders_own_signed_bytes_are_executed(market: Market) -> None:
    user = market.chain.payer
    order = await ordered(market, user.pubkey())
    other = await ordered(market, user.pubkey(), slippageBps=10)
    made = unsigned(order, "transaction")

    async def refused(wire: bytes, request: str) -> int:
        text = base64.b64encode(wire).decode()
        given = {"signedTransaction": text, "requestId": request}
        response = await send(market, EXECUTE, given)
        assert response.status_code == 400
        return int(response.json()["code"])

    signed = bytes(VersionedTransaction(made.message, [user]))
    assert await refused(signed, "unknown") == -1
    assert await refused(b"none", order["requestId"]) == -2
    assert await refused(signed, other["requestId"]) == -3
    assert await refused(bytes(made), order["requestId"]) == -1003


async def test_an_order_of_another_router_than_the_markets_has_no_route(market: Market) -> None:
    given = {"inputMint": WRAPPED_SOL_MINT, "outputMint": USDC, "amount": SOL}
    response = await send(market, ORDER, given | {"excludeRouters": "metis"})
    assert response.json()["errorCode"] == "COULD_NOT_FIND_ANY_ROUTE"


async def test_the_markets_program_has_a_label(market: Market) -> None:
    labels = (await market.http.get(f"{V1}/program-id-to-label")).json()
    assert list(labels.values()) == ["Solward demo"]
    assert json.dumps(labels)
