"""The Jupiter Swap API, versions 1 and 2, over the localnet's market, whose `build` it has.

The calls, parameters and fields of the official documentation (developers.jup.ag); what the market
does not serve of them is refused, as is what is not documented.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx
from aiohttp import web
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from tests import swap_api_fields as fields
from tests.market_venue import (
    DEFAULT_SLIPPAGE_BPS,
    LABEL,
    Call,
    Receive,
    Route,
    Scope,
    Send,
    Swap,
    Taking,
    VenueError,
    accounts_of,
    application,
    as_json,
    at_least,
    build,
    compose,
    find_route,
    invalid,
    offer,
    pool_hop,
)
from tests.support.http import served
from tests.swap_api_fields import (
    MAX_UNITS,
    as_text,
    budget,
    priority_fee,
    read_body,
    read_offer,
    read_query,
    transaction,
)

from solward.solana.tokens import TOKEN_ACCOUNT_BYTES
from solward_localnet.jsonrpc import RpcError
from solward_localnet.market import MARKET_PROGRAM
from solward_localnet.node import Localnet

Answer = tuple[int, dict[str, Any]]

_MAX_BODY_BYTES = 50 * 1024
# Orders that may still be executed; the oldest are forgotten first.
_MOST_ORDERS = 1_000
_SIGNATURE_FEE = 5_000

# `errorCode` of an order that has a price and no transaction, by the official documentation.
INSUFFICIENT_FUNDS = 1
INSUFFICIENT_SOL = 2
# `code` of an execution, by the official documentation.
MISSING_ORDER, INVALID_TRANSACTION, INVALID_MESSAGE = -1, -2, -3
FAILED_TO_LAND, NOT_FULLY_SIGNED = -1000, -1003


@dataclass(frozen=True, slots=True)
class _Order:
    """What was answered to `/order`, to be executed."""

    message: bytes
    route: Route


def venue_app(call: Call) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI application; `call` is `Localnet.call`."""
    return application(_Venue(call).answer)


class _Venue:
    """The calls by method and path."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._orders: OrderedDict[str, _Order] = OrderedDict()
        # What is read of a request, and who answers it.
        self._calls: Mapping[tuple[str, str], tuple[fields.Fields, Any]] = {
            ("GET", "/swap/v2/order"): (fields.ORDER, self._order),
            ("POST", "/swap/v2/execute"): (fields.EXECUTE, self._execute),
            ("GET", "/swap/v1/quote"): (fields.QUOTE, self._quote),
            ("POST", "/swap/v1/swap"): (fields.SWAP, self._swap),
            ("POST", "/swap/v1/swap-instructions"): (fields.SWAP, self._swap_instructions),
            ("GET", "/swap/v1/program-id-to-label"): ({}, self._labels),
        }

    async def answer(self, scope: Scope, receive: Receive) -> Answer:
        """A request's status and body.

        Raises:
            VenueError: it is refused.
            RpcError: the ledger did not answer.
        """
        named = (scope["method"], scope["path"])
        if named == ("GET", "/swap/v2/build"):
            return 200, await build(self._call, scope["query_string"].decode("latin-1"))
        if named not in self._calls:
            known = ", ".join(" ".join(each) for each in self._calls)
            raise VenueError("NOT_FOUND", f"unknown path; known: {known}", 404)
        documented, handler = self._calls[named]
        query = scope["query_string"].decode("latin-1")
        if scope["method"] == "GET":
            return cast(Answer, await handler(read_query(query, documented)))
        read_query(query, {})
        return cast(Answer, await handler(read_body(await _body(receive), documented)))

    # Version 2.

    async def _order(self, asked: Mapping[str, Any]) -> Answer:
        began = time.monotonic()
        if "metis" in asked.get("excludeRouters", ()):
            raise VenueError("COULD_NOT_FIND_ANY_ROUTE", "the market has no router but metis")
        route = await self._route(asked)
        taker: Pubkey | None = asked.get("taker")
        slippage = asked.get("slippageBps", DEFAULT_SLIPPAGE_BPS)
        lamports = asked.get("priorityFeeLamports", 0)
        answer: dict[str, Any] = {
            # Any other parameter than those of a plain order makes it a manual one.
            "mode": "ultra" if set(asked) <= {*_PLAIN_ORDER} else "manual",
            **offer(route, slippage),
            # Signed the other way than version 1's: a loss is negative, and in percent.
            "priceImpact": -float(route.impact * 100),
            "priceImpactPct": f"{-route.impact:f}",
            "feeMint": str(route.target),
            "feeBps": 0,
            "platformFee": {"amount": "0", "feeBps": 0, "feeMint": str(route.target)},
            "signatureFeeLamports": _SIGNATURE_FEE if taker else 0,
            "signatureFeePayer": str(taker) if taker else None,
            "prioritizationFeeLamports": lamports,
            "prioritizationFeePayer": str(taker) if taker else None,
            "rentFeeLamports": 0,
            "rentFeePayer": str(taker) if taker else None,
            "swapType": "aggregator",
            "router": "metis",
            "transaction": None,
            "gasless": False,
            "requestId": str(uuid.uuid4()),
            "taker": str(taker) if taker else None,
        }
        if taker is not None:
            answer |= await self._ordered(answer["requestId"], route, taker, slippage, lamports)
        return 200, answer | {"totalTime": round((time.monotonic() - began) * 1000, 3)}

    async def _ordered(
        self, request: str, route: Route, taker: Pubkey, slippage: int, lamports: int
    ) -> dict[str, Any]:
        """The order's transaction, or why there is none: a taker must hold what it sells."""
        present = await self._present(route, taker)
        swap = compose(route, Taking(taker, present=present), at_least(route.received, slippage))
        opened = [each.program_id == ASSOCIATED_TOKEN_PROGRAM_ID for each in swap.setup]
        rent = sum(opened) * await self._call(
            "getMinimumBalanceForRentExemption", [TOKEN_ACCOUNT_BYTES]
        )
        missing = await self._missing(route, taker, rent + _SIGNATURE_FEE + lamports)
        if missing is not None:
            code, text = missing
            return {
                "transaction": "", "errorCode": code, "errorMessage": text, "error": text
            }  # fmt: skip
        made, height = await transaction(self._call, taker, [*budget(lamports), *_whole(swap)])
        self._orders[request] = _Order(bytes(to_bytes_versioned(made.message)), route)
        if len(self._orders) > _MOST_ORDERS:
            self._orders.popitem(last=False)
        return {
            "transaction": as_text(made),
            "lastValidBlockHeight": str(height),
            "rentFeeLamports": rent,
        }

    async def _missing(self, route: Route, taker: Pubkey, costs: int) -> tuple[int, str] | None:
        """What an order's taker lacks, as the API's code and text."""
        balance = (await self._call("getBalance", [str(taker)]))["value"]
        sells_sol = route.source == WRAPPED_SOL_MINT
        held = balance if sells_sol else await self._units(taker, route.source)
        if held < route.paid:
            return INSUFFICIENT_FUNDS, "Insufficient funds"
        if balance < costs + (route.paid if sells_sol else 0):
            return INSUFFICIENT_SOL, "Insufficient SOL for gas"
        return None

    async def _execute(self, asked: Mapping[str, Any]) -> Answer:
        order = self._orders.get(asked["requestId"])
        if order is None:
            return 400, {"error": "missing cached order", "code": MISSING_ORDER}
        try:
            wire = base64.b64decode(asked["signedTransaction"], validate=True)
            signed = VersionedTransaction.from_bytes(wire)
        except ValueError:
            return 400, {"error": "invalid signed transaction", "code": INVALID_TRANSACTION}
        if bytes(to_bytes_versioned(signed.message)) != order.message:
            return 400, {"error": "invalid message bytes", "code": INVALID_MESSAGE}
        if not all(signed.verify_with_results()):
            return 400, {"error": "transaction not fully signed", "code": NOT_FULLY_SIGNED}
        signature = str(signed.signatures[0])
        try:
            await self._call("sendTransaction", [as_text(signed), {"encoding": "base64"}])
            landed = await self._call(
                "getTransaction",
                [signature, {"commitment": "finalized", "maxSupportedTransactionVersion": 0}],
            )
        except RpcError as error:
            failed = {"status": "Failed", "code": FAILED_TO_LAND, "error": str(error)}
            return 200, failed | {"signature": signature}
        return 200, _executed(order.route, signature, landed)

    # Version 1.

    async def _quote(self, asked: Mapping[str, Any]) -> Answer:
        began = time.monotonic()
        route = await self._route(asked)
        return 200, {
            **offer(route, asked.get("slippageBps", DEFAULT_SLIPPAGE_BPS)),
            "platformFee": None,
            "contextSlot": route.slot,
            "timeTaken": time.monotonic() - began,
        }

    async def _swap(self, asked: Mapping[str, Any]) -> Answer:
        swap, limit, price = await self._composed(asked)
        made, height = await transaction(
            self._call,
            asked["userPublicKey"],
            [set_compute_unit_limit(limit), set_compute_unit_price(price), *_whole(swap)],
            legacy=asked.get("asLegacyTransaction", False),
        )
        return 200, {
            "swapTransaction": as_text(made),
            "lastValidBlockHeight": height,
            "prioritizationFeeLamports": priority_fee(price, limit),
        }

    async def _swap_instructions(self, asked: Mapping[str, Any]) -> Answer:
        swap, limit, price = await self._composed(asked)
        return 200, {
            "computeBudgetInstructions": [
                as_json(set_compute_unit_limit(limit)),
                as_json(set_compute_unit_price(price)),
            ],
            **swap.to_json(),
            "addressLookupTableAddresses": [],
        }

    async def _composed(self, asked: Mapping[str, Any]) -> tuple[Swap, int, int]:
        """A quote's swap, with its limit of compute units and their price.

        What counts of the quote is its `outAmount` and `slippageBps`: as documented, the minimum is
        computed of them, not taken from `otherAmountThreshold`.
        """
        if {"computeUnitPriceMicroLamports", "prioritizationFeeLamports"} <= set(asked):
            raise VenueError(
                "INVALID_COMPUTE_UNIT_PRICE_AND_PRIORITIZATION_FEE",
                "give computeUnitPriceMicroLamports or prioritizationFeeLamports, not both",
            )
        quoted = read_offer(asked["quoteResponse"])
        route = await find_route(
            self._call, quoted["inputMint"], quoted["outputMint"], quoted["inAmount"]
        )
        taker, wraps = asked["userPublicKey"], asked.get("wrapAndUnwrapSol", True)
        present: frozenset[Pubkey] = frozenset()
        if not asked.get("skipUserAccountsRpcCalls", False):
            present = await self._present(route, taker)
            if not wraps:
                self._check_wrapped(route, asked, present)
        taking = Taking(taker, wraps, asked.get("destinationTokenAccount"), present)
        swap = compose(route, taking, at_least(quoted["outAmount"], quoted["slippageBps"]))
        limit = MAX_UNITS
        if asked.get("dynamicComputeUnitLimit", False):
            limit = await self._used(taker, swap)
        price = asked.get("computeUnitPriceMicroLamports")
        if price is None:
            price = asked.get("prioritizationFeeLamports", 0) * 10**6 // limit
        return swap, limit, price

    @staticmethod
    def _check_wrapped(route: Route, asked: Mapping[str, Any], present: frozenset[Pubkey]) -> None:
        """As documented: the taker's account of wrapped SOL must exist where nothing wraps."""
        own = asked.get("destinationTokenAccount") is None
        uses = route.source == WRAPPED_SOL_MINT or (route.target == WRAPPED_SOL_MINT and own)
        account = get_associated_token_address(asked["userPublicKey"], WRAPPED_SOL_MINT)
        if uses and account not in present:
            raise invalid("wrapAndUnwrapSol false needs an account of wrapped SOL")

    async def _used(self, taker: Pubkey, swap: Swap) -> int:
        """The compute units of a swap with a tenth more; the most where it fails."""
        made, _ = await transaction(self._call, taker, _whole(swap))
        options = {"encoding": "base64", "sigVerify": False, "replaceRecentBlockhash": True}
        tried = (await self._call("simulateTransaction", [as_text(made), options]))["value"]
        units = tried.get("unitsConsumed")
        return MAX_UNITS if tried["err"] is not None or not units else int(units) * 11 // 10

    async def _labels(self, _asked: Mapping[str, Any]) -> Answer:
        return 200, {str(MARKET_PROGRAM): LABEL}

    # Of both.

    async def _route(self, asked: Mapping[str, Any]) -> Route:
        sold = asked["inputMint"], asked["outputMint"], asked["amount"]
        route = await find_route(self._call, *sold)
        dexes, excluded = asked.get("dexes", ()), asked.get("excludeDexes", ())
        if dexes and excluded:
            raise invalid("dexes and excludeDexes exclude each other")
        if asked.get("onlyDirectRoutes", False) and len(route.hops) > 1:
            raise VenueError("COULD_NOT_FIND_ANY_ROUTE", "no market trades these two directly")
        for hop in route.hops:
            named = {hop.label, LABEL}
            if named & set(excluded) or (dexes and not named & set(dexes)):
                raise VenueError("COULD_NOT_FIND_ANY_ROUTE", "no route over the markets allowed")
        most = asked.get("maxAccounts", fields.MAX_ACCOUNTS)
        if accounts_of(route) > most:
            raise VenueError("COULD_NOT_FIND_ANY_ROUTE", f"no route of at most {most} accounts")
        return route

    async def _present(self, route: Route, taker: Pubkey) -> frozenset[Pubkey]:
        """Those of the taker's own accounts of both tokens that exist."""
        own = [get_associated_token_address(taker, mint) for mint in (route.source, route.target)]
        asked = [[str(each) for each in own], {"encoding": "base64"}]
        found = (await self._call("getMultipleAccounts", asked))["value"]
        return frozenset(key for key, state in zip(own, found, strict=True) if state is not None)

    async def _units(self, owner: Pubkey, mint: Pubkey) -> int:
        account = str(get_associated_token_address(owner, mint))
        try:
            held = await self._call("getTokenAccountBalance", [account])
        except RpcError:
            return 0
        return int(held["value"]["amount"])


# Of an order that has no optional parameter.
_PLAIN_ORDER = ("inputMint", "outputMint", "amount", "taker")


def _whole(swap: Swap) -> list[Instruction]:
    """All of its instructions, in order."""
    return [*swap.setup, swap.swap, *([swap.cleanup] if swap.cleanup else [])]


def _executed(route: Route, signature: str, landed: Mapping[str, Any]) -> dict[str, Any]:
    """What landed, with the amounts that the pools' vaults show."""
    meta = landed["meta"]
    answer = {"signature": signature, "slot": str(landed["slot"])}
    if meta["err"] is not None:
        failed = {"status": "Failed", "code": FAILED_TO_LAND, "error": json.dumps(meta["err"])}
        return answer | failed
    paid, received = (_moved(landed, *each) for each in _ends(route))
    return answer | {
        "status": "Success",
        "code": 0,
        "totalInputAmount": str(paid),
        "totalOutputAmount": str(-received),
        "inputAmountResult": str(paid),
        "outputAmountResult": str(-received),
        "swapEvents": [
            {
                "inputMint": str(route.source),
                "inputAmount": str(paid),
                "outputMint": str(route.target),
                "outputAmount": str(-received),
            }
        ],
    }


def _ends(route: Route) -> Sequence[tuple[Pubkey, Pubkey]]:
    """The vault that was paid first and the one that paid last, each with its mint."""
    first, last = route.hops[0], route.hops[-1]
    _, paid, _ = pool_hop(first.pool, first.sells_sol)
    _, _, paying = pool_hop(last.pool, last.sells_sol)
    return (paid, route.source), (paying, route.target)


def _moved(landed: Mapping[str, Any], vault: Pubkey, mint: Pubkey) -> int:
    """How many units of `mint` a vault has more after a transaction."""
    keys = landed["transaction"]["message"]["accountKeys"]
    units = []
    for balances in (landed["meta"]["preTokenBalances"], landed["meta"]["postTokenBalances"]):
        units.append(
            sum(
                int(each["uiTokenAmount"]["amount"])
                for each in balances
                if (keys[each["accountIndex"]], each["mint"]) == (str(vault), str(mint))
            )
        )
    return units[1] - units[0]


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MAX_BODY_BYTES:
            raise VenueError("INVALID_REQUEST", "request body too large", 413)
        if not message.get("more_body", False):
            return bytes(body)


@asynccontextmanager
async def serving_swaps(localnet: Localnet) -> AsyncIterator[str]:
    """The address of the swap API over a localnet's market."""
    transport = httpx.ASGITransport(venue_app(localnet.call))
    async with httpx.AsyncClient(transport=transport, base_url="http://localnet") as client:

        async def handle(asked: web.Request) -> web.Response:
            answer = await client.request(asked.method, asked.path_qs, content=await asked.read())
            return web.Response(
                status=answer.status_code, body=answer.content, content_type="application/json"
            )

        async with served(handle) as url:
            yield url
