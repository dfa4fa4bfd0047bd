"""The jupiter venue by `order` and `v1`, and where `build` wants a taker with funds: what it asks,
and what it takes of answers. Every request is held against the API's own statement."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import httpx
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from tests.promises import promise
from tests.support.recordings import check_answer, check_request

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import InvalidRequest, LedgerUnavailable, SkillError
from solward.types.ledger import Account
from solward.types.venue import FUNDS_FIRST, Quote, QuoteRequest, VenueContext
from solward_plugins.venues import jupiter

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
TAKER, DESTINATION, PAYER, TABLE = (str(Keypair().pubkey()) for _ in range(4))
REQUEST = QuoteRequest(WRAPPED_SOL_MINT, USDC, 100_000_000, 50)
OFFER: dict[str, Any] = {
    "inputMint": WRAPPED_SOL_MINT,
    "outputMint": USDC,
    "inAmount": "100000000",
    "outAmount": "16198753",
    "otherAmountThreshold": "16117760",
    "swapMode": "ExactIn",
    "slippageBps": 50,
    "priceImpactPct": "0.0001",
    "routePlan": [],
}
SWAP = {
    "programId": "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4",
    "accounts": [
        {"pubkey": TAKER, "isSigner": True, "isWritable": False},
        {"pubkey": DESTINATION, "isSigner": False, "isWritable": True},
    ],
    "data": "u2T6zDHErxQ=",
}


def price(micro_lamports: int) -> dict[str, Any]:
    data = b"\x03" + micro_lamports.to_bytes(8, "little")
    program = "ComputeBudget111111111111111111111111111111"
    return {"programId": program, "accounts": [], "data": base64.b64encode(data).decode()}


PARTS: dict[str, Any] = {
    "computeBudgetInstructions": [price(20_000)],
    "setupInstructions": [],
    "swapInstruction": SWAP,
    "cleanupInstruction": None,
    "otherInstructions": [],
}
BUILD: dict[str, Any] = {
    **OFFER,
    **PARTS,
    "tipInstruction": SWAP,
    "addressesByLookupTableAddress": {},
    "blockhashWithMetadata": {"blockhash": [7] * 32, "lastValidBlockHeight": 9},
}
ORDER: dict[str, Any] = {
    **OFFER,
    "mode": "manual",
    "router": "metis",
    "priceImpact": -0.25,
    "priceImpactPct": "-0.0025",
    "transaction": None,
    "requestId": "0199",
    "taker": None,
}
NO_FUNDS = (400, {"error": "Insufficient funds"})


def wire(payer: str = TAKER) -> bytes:
    key = Pubkey.from_string(payer)
    message = MessageV0.try_compile(key, [], [], Hash.default())
    return bytes(VersionedTransaction.populate(message, [Signature.default()]))


@dataclass
class Api:
    """Answers calls by their path; whatever it is asked or answers is as documented."""

    api: str = "build"
    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    tables: dict[str, bytes] = field(default_factory=dict)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        method, path = request.method, request.url.path.removeprefix("/pro")
        query = dict(request.url.params)
        body = json.loads(request.content) if method == "POST" else None
        check_request(method, path, query, body)
        self.requests.append((path, query | (body or {})))
        answer = self.answers[path]
        status, given = answer(query) if callable(answer) else answer
        if status == 200:
            check_answer(method, path, given)
        return httpx.Response(status, json=given)

    async def accounts(self, addresses: Any) -> dict[str, Account | None]:
        return {
            each: Account(1, "table", self.tables[each]) if each in self.tables else None
            for each in addresses
        }

    async def do(self, ask: Callable[[VenueContext], Any]) -> Any:
        transport = httpx.MockTransport(self)
        address = "https://venue.example/pro"
        async with httpx.AsyncClient(transport=transport, base_url=address) as http:
            ledger: Any = self
            options = {"JUPITER_API": self.api}
            return await ask(VenueContext(http, ledger=ledger, options=options))

    async def quote(self) -> Quote:
        found: Quote = await self.do(lambda context: jupiter.venue_quote(REQUEST, context))
        return found

    async def instructions(self, quote: Quote, most: int | None = None) -> Any:
        return await self.do(
            lambda context: jupiter.venue_instructions(quote, TAKER, DESTINATION, most, context)
        )

    async def swap(self, quote: Quote) -> Any:
        return await self.do(lambda context: jupiter.venue_swap(quote, TAKER, context))


def order(**changed: Any) -> dict[str, tuple[int, Any]]:
    return {"/swap/v2/order": (200, ORDER | changed)}


# `order`


async def test_an_orders_price_is_asked_without_a_taker_and_of_no_maker() -> None:
    api = Api("order", order())
    assert await api.quote() == Quote(
        WRAPPED_SOL_MINT, USDC, 100_000_000, 16_198_753, 16_117_760, 50, Decimal("0.0025")
    )
    # Makers sign inside of `/execute`: an order of theirs lacks a signature here.
    assert api.requests == [
        (
            "/swap/v2/order",
            {
                "inputMint": WRAPPED_SOL_MINT,
                "outputMint": USDC,
                "amount": "100000000",
                "slippageBps": "50",
                "swapMode": "ExactIn",
                "excludeRouters": "jupiterz",
            },
        )
    ]


@pytest.mark.parametrize(
    ("changed", "impact"),
    [
        ({"priceImpact": -1.5}, "0.015"),
        ({"priceImpact": 0.5}, "-0.005"),
        ({"priceImpact": None, "priceImpactPct": "-0.002"}, "0.002"),
    ],
)
async def test_a_loss_is_negative_and_in_percent_in_an_order(
    changed: dict[str, Any], impact: str
) -> None:
    body = {name: each for name, each in (ORDER | changed).items() if each is not None}
    body |= {"transaction": None}
    assert (await Api("order", {"/swap/v2/order": (200, body)}).quote()).price_impact == Decimal(
        impact
    )


async def test_an_order_is_made_in_steps_without_another_request() -> None:
    api = Api("order", order())
    with pytest.raises(SkillError) as caught:
        await api.instructions(await api.quote())
    assert caught.value.code == FUNDS_FIRST
    assert len(api.requests) == 1


async def test_an_orders_transaction_is_for_a_taker_that_pays_itself() -> None:
    bytes_of = base64.b64encode(wire()).decode()
    api = Api("order", order(transaction=bytes_of, lastValidBlockHeight="77", taker=TAKER,
                             signatureFeePayer=TAKER))  # fmt: skip
    quote = await api.quote()
    made = await api.swap(quote)
    assert (made.wire, made.last_valid_block_height) == (wire(), 77)
    assert api.requests[1][1]["taker"] == TAKER
    assert not {"payer", "receiver", "referralAccount"} & set(api.requests[1][1])


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"transaction": "", "errorCode": 1}, InvalidRequest, "does not hold what it sells"),
        ({"transaction": "", "errorCode": 2}, InvalidRequest, "too little SOL for fee and rent"),
        ({"transaction": "", "errorCode": 3}, InvalidRequest, "too small for its fee"),
        (
            {"transaction": "", "errorCode": 2, "router": "jupiterz"},
            InvalidRequest,
            "lacks a token account",
        ),
        (
            {"transaction": "", "errorCode": 9, "errorMessage": "odd\nthing"},
            InvalidRequest,
            "made no transaction: odd thing",
        ),
        ({"transaction": None}, InvalidRequest, "made no transaction: no reason"),
        ({"signatureFeePayer": PAYER}, LedgerUnavailable, "has another signer"),
        (
            {"otherAmountThreshold": "16117759"},
            InvalidRequest,
            "now promises 16117759 units, but it quoted 16117760",
        ),
    ],
)
async def test_an_order_that_the_pocket_cannot_sign_is_told_why(
    changed: dict[str, Any], error: type[Exception], text: str
) -> None:
    whole = {"transaction": base64.b64encode(wire()).decode(), "lastValidBlockHeight": "7"}
    api = Api("order", order(**whole | changed))
    quote = await Api("order", order()).quote()
    with pytest.raises(error, match=text):
        await api.swap(quote)


@pytest.mark.parametrize("changed", [{"transaction": "!"}, {"router": None}, {"requestId": 1}])
async def test_an_order_of_another_shape_is_not_guessed_at(changed: dict[str, Any]) -> None:
    whole = {"transaction": base64.b64encode(wire()).decode()}
    api, quote = Api("order"), await Api("order", order()).quote()
    body = ORDER | whole | changed
    api.answers["/swap/v2/order"] = (200, {**body, "router": body["router"]})

    async def unchecked(context: VenueContext) -> Any:
        return await jupiter.venue_swap(quote, TAKER, context)

    transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=body))
    async with httpx.AsyncClient(transport=transport, base_url="https://venue.example") as http:
        with pytest.raises(LedgerUnavailable, match="unexpected shape"):
            await unchecked(VenueContext(http, options={"JUPITER_API": "order"}))


# `v1`

V1: dict[str, Any] = {
    "/swap/v1/quote": (200, OFFER | {"contextSlot": 7, "timeTaken": 0.5}),
    "/swap/v1/swap-instructions": (200, {**PARTS, "addressLookupTableAddresses": [TABLE]}),
    "/swap/v1/swap": (
        200,
        {"swapTransaction": base64.b64encode(wire()).decode(), "lastValidBlockHeight": 5},
    ),
}


def table(*held: str, state: bytes = (1).to_bytes(4, "little") + b"\xff" * 8) -> bytes:
    return state.ljust(56, b"\0") + b"".join(bytes(Pubkey.from_string(each)) for each in held)


async def test_version_1_passes_its_quote_back_unchanged() -> None:
    api = Api("v1", V1, tables={TABLE: table(PAYER, USDC)})
    quote = await api.quote()
    made = await api.instructions(quote)
    assert made.quote == quote
    assert [path for path, _ in api.requests] == ["/swap/v1/quote", "/swap/v1/swap-instructions"]
    assert api.requests[1][1] == {
        "userPublicKey": TAKER,
        "quoteResponse": V1["/swap/v1/quote"][1],
        "destinationTokenAccount": DESTINATION,
        "wrapAndUnwrapSol": False,
        "skipUserAccountsRpcCalls": True,
    }
    # It names its lookup tables, and the ledger says what they hold.
    assert made.tables == {TABLE: (PAYER, USDC)}


@pytest.mark.parametrize(
    "data",
    [None, b"", table(PAYER, state=bytes(12)), table(PAYER)[:11]],
    # The bytes are of a new key in each process, and workers must collect the same names.
    ids=["none", "empty", "inactive", "cut off"],
)
async def test_a_lookup_table_that_cannot_be_used_is_left_out(data: bytes | None) -> None:
    api = Api("v1", V1, tables={} if data is None else {TABLE: data})
    assert (await api.instructions(await api.quote())).tables == {}


async def test_version_1_quotes_again_for_a_shorter_route() -> None:
    api = Api("v1", V1)
    quote = await api.quote()
    await api.instructions(quote, 30)
    paths = [path for path, _ in api.requests]
    assert paths == ["/swap/v1/quote", "/swap/v1/quote", "/swap/v1/swap-instructions"]
    assert "maxAccounts" not in api.requests[0][1]
    assert api.requests[1][1]["maxAccounts"] == "30"


# A taker without funds


@pytest.mark.parametrize(
    "refusal",
    [
        {"error": "Insufficient funds"},
        {"error": "insufficient SOL for gas"},
        {"error": "Taker has insufficient token balance"},
        {"error": "not enough lamports"},
        {"error": "could not find account"},
        {"error": "token account 9xQ not found"},
        {"error": "custom program error: 0x1788"},
        {"errorCode": "INSUFFICIENT_FUNDS"},
    ],
)
@pytest.mark.parametrize("which", ["build", "v1"])
async def test_a_refusal_for_the_takers_balances_asks_for_funds_first(
    which: str, refusal: dict[str, Any]
) -> None:
    path = "/swap/v2/build" if which == "build" else "/swap/v1/swap-instructions"
    quote = await Api("v1", V1).quote()
    api = Api(which, {**V1, path: (400, refusal)})
    with pytest.raises(SkillError) as caught:
        await api.instructions(quote)
    assert caught.value.code == FUNDS_FIRST


@pytest.mark.parametrize(
    "refusal",
    [
        {"error": "insufficient liquidity"},
        {"error": "Could not find any route", "errorCode": "COULD_NOT_FIND_ANY_ROUTE"},
        {"error": "market account not found", "errorCode": "MARKET_NOT_FOUND"},
        {"error": "amount must be positive"},
        {},
    ],
)
async def test_another_refusal_asks_for_nothing(refusal: dict[str, Any]) -> None:
    quote = await Api("v1", V1).quote()
    with pytest.raises(InvalidRequest, match="The swap venue refused"):
        await Api("build", {"/swap/v2/build": (400, refusal)}).instructions(quote)


async def test_a_price_that_needs_funds_too_is_the_same_routers_without_a_taker() -> None:
    api = Api("build", {"/swap/v2/build": NO_FUNDS, **order()})
    quote = await api.quote()
    assert [path for path, _ in api.requests] == ["/swap/v2/build", "/swap/v2/order"]
    assert api.requests[1][1]["excludeRouters"] == "jupiterz,dflow,okx"
    assert "taker" not in api.requests[1][1]
    assert quote.out_amount == int(ORDER["outAmount"])


@promise("funded-taker-gains-nothing")
@pytest.mark.parametrize("which", ["build", "v1"])
async def test_a_refusal_of_funds_that_are_there_gets_no_whole_transaction(which: str) -> None:
    """It could do anything with them; an instruction is held to the minimum."""
    quote = await Api("v1", V1).quote()
    api = Api(which)
    with pytest.raises(InvalidRequest, match="refuses even a taker with the sold asset"):
        await api.swap(quote)
    assert api.requests == []
