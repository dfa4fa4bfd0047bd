"""The two calls of version 1 of the Jupiter Swap API, over makers that sign their side.

`GET /swap/v1/quote` and `POST /swap/v1/swap` (dev.jup.ag). The swap answers a transaction that
the pools have signed and only the user's signature is missing from, so it settles whole or not.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    transfer_checked,
)
from spl.token.models import TransferCheckedParams

from solward.solana.accounts import Account
from solward.solana.tokens import token_account
from solward_localnet.market import POOLS, Pool, trade
from solward_localnet.venue_errors import VenueError

Call = Callable[[str, Sequence[Any]], Awaitable[Any]]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]

U64_MAX = 2**64 - 1
_MAX_BODY = 65_536
_BPS = 10_000


@dataclass(frozen=True, slots=True)
class Leg:
    """One pool's part of a swap; `sells_sol` is its direction."""

    pool: Pool
    sells_sol: bool
    paid: int
    received: int


async def answer_v1(call: Call, scope: Scope, receive: Receive) -> dict[str, Any]:
    """The answer to a call of version 1; raises `VenueError`."""
    route = (scope["method"], scope["path"])
    if route == ("GET", "/swap/v1/quote"):
        query = parse_qs(scope["query_string"].decode("latin-1"))
        return await _quote(call, {name: values[-1] for name, values in query.items()})
    if route == ("POST", "/swap/v1/swap"):
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > _MAX_BODY:
                raise VenueError("INVALID_REQUEST", "the body is too large")
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            raise VenueError("INVALID_REQUEST", "the body is not JSON") from None
        return await _swap(call, parsed)
    raise VenueError(
        "NOT_FOUND", "unknown path; known: /swap/v1/quote, /swap/v1/swap, /swap/v2/build"
    )


async def _quote(call: Call, query: Mapping[str, str]) -> dict[str, Any]:
    source, target = query.get("inputMint", ""), query.get("outputMint", "")
    amount = _integer(query.get("amount"), "amount", 1, U64_MAX)
    slippage = _integer(query.get("slippageBps", "50"), "slippageBps", 0, _BPS)
    if query.get("swapMode", "ExactIn") != "ExactIn":
        raise VenueError("INVALID_REQUEST", "swapMode must be ExactIn")
    legs, context = await _route(call, source, target, amount)
    impact, received = _outcome(legs, context.impacts)
    return {
        "inputMint": source,
        "inAmount": str(amount),
        "outputMint": target,
        "outAmount": str(received),
        "otherAmountThreshold": str(_at_least(received, slippage)),
        "swapMode": "ExactIn",
        "slippageBps": slippage,
        "platformFee": None,
        "priceImpactPct": impact,
        "routePlan": [_plan(leg) for leg in legs],
        "contextSlot": context.slot,
    }


async def _swap(call: Call, body: Any) -> dict[str, Any]:
    if not isinstance(body, Mapping) or not isinstance(body.get("quoteResponse"), Mapping):
        raise VenueError("INVALID_REQUEST", "quoteResponse must be an object")
    quote = body["quoteResponse"]
    user = _address(body.get("userPublicKey"), "userPublicKey")
    if any(user == pool.maker.pubkey() for pool in POOLS):
        # A pool signs for its own side only; as the user it would pay the fee as well.
        raise VenueError("INVALID_REQUEST", "userPublicKey must not be a pool")
    source, target = quote.get("inputMint"), quote.get("outputMint")
    amount = _integer(quote.get("inAmount"), "inAmount", 1, U64_MAX)
    least = _integer(quote.get("otherAmountThreshold"), "otherAmountThreshold", 0, U64_MAX)
    legs, _context = await _route(call, source, target, amount)
    if legs[-1].received < least:
        raise VenueError(
            "SLIPPAGE_TOLERANCE_EXCEEDED",
            f"the market gives {legs[-1].received} now, less than {least}",
        )
    latest = (await call("getLatestBlockhash", [{"commitment": "confirmed"}]))["value"]
    message = MessageV0.try_compile(
        user, _instructions(user, legs), [], Hash.from_string(latest["blockhash"])
    )
    return {
        "swapTransaction": base64.b64encode(bytes(_signed(message, legs))).decode("ascii"),
        "lastValidBlockHeight": latest["lastValidBlockHeight"],
        "prioritizationFeeLamports": 0,
    }


@dataclass(frozen=True, slots=True)
class _Context:
    slot: int
    impacts: tuple[Any, ...]


async def _route(
    call: Call, source: object, target: object, amount: int
) -> tuple[list[Leg], _Context]:
    """One leg from or to SOL, two between tokens; each priced by what the pools hold now."""
    steps = _steps(str(source), str(target))
    addresses = [str(key) for pool, _ in steps for key in (pool.maker.pubkey(), pool.vault)]
    answer = await call("getMultipleAccounts", [addresses, {"encoding": "base64"}])
    legs, impacts, paid = [], [], amount
    for index, (pool, sells_sol) in enumerate(steps):
        maker, vault = answer["value"][2 * index : 2 * index + 2]
        if maker is None or vault is None:
            raise VenueError("COULD_NOT_FIND_ANY_ROUTE", "this ledger has no demo market")
        sol = int(maker["lamports"])
        data = base64.b64decode(vault["data"][0])
        token = token_account(Account(int(vault["lamports"]), str(vault["owner"]), data))
        units = token.amount if token else 0
        if units == 0:
            raise VenueError("COULD_NOT_FIND_ANY_ROUTE", "the demo market has been emptied")
        done = trade(paid, sol, units) if sells_sol else trade(paid, units, sol)
        if done.received < 1:
            raise VenueError("ROUTE_PLAN_DOES_NOT_CONSUME_ALL_THE_AMOUNT", "amount is too small")
        legs.append(Leg(pool, sells_sol, paid, done.received))
        impacts.append(done.price_impact)
        paid = done.received
    return legs, _Context(int(answer["context"]["slot"]), tuple(impacts))


def _steps(source: str, target: str) -> list[tuple[Pool, bool]]:
    pools = {str(pool.mint): pool for pool in POOLS}
    native = str(WRAPPED_SOL_MINT)
    for mint, name in ((source, "inputMint"), (target, "outputMint")):
        if mint != native and mint not in pools:
            raise VenueError("TOKEN_NOT_TRADABLE", f"{name} is not tradable here: {mint}")
    if source == target:
        raise VenueError("CIRCULAR_ARBITRAGE_IS_DISABLED", "inputMint and outputMint are the same")
    steps = [] if source == native else [(pools[source], False)]
    return steps if target == native else [*steps, (pools[target], True)]


def _instructions(user: Pubkey, legs: Sequence[Leg]) -> list[Instruction]:
    """The user pays the first pool, each pool the next, the last pool the user."""
    instructions: list[Instruction] = []
    payers = [user, *(leg.pool.maker.pubkey() for leg in legs)]
    takers = [*(leg.pool.maker.pubkey() for leg in legs), user]
    first, last = legs[0], legs[-1]
    if last.sells_sol:
        instructions.append(create_idempotent_associated_token_account(user, user, last.pool.mint))
    hops = [(first.pool, not first.sells_sol, first.paid)]
    hops += [(leg.pool, leg.sells_sol, leg.received) for leg in legs]
    for (pool, in_tokens, amount), payer, taker in zip(hops, payers, takers, strict=True):
        if in_tokens:
            instructions.append(_pay_tokens(pool, payer, taker, amount))
        else:
            params = TransferParams(from_pubkey=payer, to_pubkey=taker, lamports=amount)
            instructions.append(transfer(params))
    # Two equal swaps on one blockhash would have one signature, and the second would not land.
    instructions.append(Instruction(MEMO_PROGRAM_ID, secrets.token_hex(8).encode(), []))
    return instructions


def _pay_tokens(pool: Pool, payer: Pubkey, taker: Pubkey, amount: int) -> Instruction:
    return transfer_checked(
        TransferCheckedParams(
            program_id=TOKEN_PROGRAM_ID,
            source=get_associated_token_address(payer, pool.mint),
            mint=pool.mint,
            dest=get_associated_token_address(taker, pool.mint),
            owner=payer,
            amount=amount,
            decimals=pool.decimals,
        )
    )


def _signed(message: MessageV0, legs: Sequence[Leg]) -> VersionedTransaction:
    makers = {leg.pool.maker.pubkey(): leg.pool.maker for leg in legs}
    covered = bytes(to_bytes_versioned(message))
    signers = message.account_keys[: message.header.num_required_signatures]
    signatures = [
        makers[key].sign_message(covered) if key in makers else Signature.default()
        for key in signers
    ]
    return VersionedTransaction.populate(message, signatures)


def _outcome(legs: Sequence[Leg], impacts: Sequence[Any]) -> tuple[str, int]:
    remaining = 1
    for impact in impacts:
        remaining *= 1 - impact
    return f"{1 - remaining:f}", legs[-1].received


def _plan(leg: Leg) -> dict[str, Any]:
    mints = [str(WRAPPED_SOL_MINT), str(leg.pool.mint)]
    source, target = mints if leg.sells_sol else reversed(mints)
    return {
        "swapInfo": {
            "ammKey": str(leg.pool.maker.pubkey()),
            "label": f"Solward demo {leg.pool.symbol}",
            "inputMint": source,
            "outputMint": target,
            "inAmount": str(leg.paid),
            "outAmount": str(leg.received),
            "feeAmount": "0",
            "feeMint": source,
        },
        "percent": 100,
    }


def _at_least(amount: int, slippage_bps: int) -> int:
    """What is left of `amount` after the slippage, rounded up: in the trader's favour."""
    return -(-amount * (_BPS - slippage_bps) // _BPS)


def _integer(value: object, field: str, least: int, most: int) -> int:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text.isascii() and text.isdecimal() and len(text) <= 20 and least <= int(text) <= most:
        return int(text)
    raise VenueError("INVALID_REQUEST", f"{field} must be an integer from {least} to {most}")


def _address(value: object, field: str) -> Pubkey:
    try:
        return Pubkey.from_string(str(value))
    except ValueError:
        raise VenueError("INVALID_REQUEST", f"{field} must be a base58 address") from None
