"""The localnet's swap venue: `GET /swap/v2/build` of the Jupiter Swap API over the demo market.

The parameters and fields of the official documentation (developers.jup.ag, "Build Transaction");
what the market does not serve of them is refused, as is what is not documented. The answer's
instructions are of the market's program, and only the taker signs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    get_associated_token_address,
    sync_native,
)
from spl.token.models import CloseAccountParams, SyncNativeParams

from solward.solana.accounts import Account
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import token_account
from solward_localnet.errors import RpcError
from solward_localnet.market import POOLS, Pool, trade
from solward_localnet.market_program import swap_instruction

Call = Callable[[str, Sequence[Any]], Awaitable[Any]]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

PREFIX = "/swap/"
_BUILD = "/swap/v2/build"
U64_MAX = 2**64 - 1
_BPS = 10_000
_MAX_ACCOUNTS = 64
_NATIVE_MINT = Pubkey.from_string(WRAPPED_SOL_MINT)

_SERVED = frozenset(
    {
        "inputMint",
        "outputMint",
        "amount",
        "taker",
        "slippageBps",
        "maxAccounts",
        "wrapAndUnwrapSol",
        "destinationTokenAccount",
    }
)
_DOCUMENTED = _SERVED | {
    "mode",
    "dexes",
    "excludeDexes",
    "platformFeeBps",
    "feeAccount",
    "payer",
    "nativeDestinationAccount",
    "blockhashSlotsToExpiry",
}


class VenueError(Exception):
    """A refusal in Jupiter's shape: `error` for people, `errorCode` for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Hop:
    """One pool's part of a swap; `sells_sol` is its direction."""

    pool: Pool
    sells_sol: bool
    paid: int
    received: int
    impact: Decimal


def venue_app(call: Call) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI application; `call` is `Localnet.call`."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            status, body = 200, await _answer(call, scope)
        except VenueError as error:
            status, body = 400, {"error": str(error), "errorCode": error.code}
        except RpcError:
            status, body = 500, {"error": "the ledger did not answer", "errorCode": "INTERNAL"}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    return app


async def _answer(call: Call, scope: Scope) -> dict[str, Any]:
    if (scope["method"], scope["path"]) != ("GET", _BUILD):
        raise VenueError("NOT_FOUND", f"unknown path; known: GET {_BUILD}")
    return await _build(call, _query(scope["query_string"].decode("latin-1")))


def _query(text: str) -> Mapping[str, str]:
    query: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in query:
            raise _invalid(f"{name} is there twice")
        if name not in _DOCUMENTED:
            raise _invalid(f"there is no parameter {name}")
        if name not in _SERVED:
            raise _invalid(f"the localnet's market does not serve {name}")
        query[name] = value
    return query


async def _build(call: Call, query: Mapping[str, str]) -> dict[str, Any]:
    source, target = query.get("inputMint", ""), query.get("outputMint", "")
    amount = _integer(query, "amount", 1, U64_MAX)
    slippage = _integer(query, "slippageBps", 0, _BPS, "50")
    most = _integer(query, "maxAccounts", 1, _MAX_ACCOUNTS, str(_MAX_ACCOUNTS))
    taker = _address(query.get("taker"), "taker")
    wraps = _flag(query, "wrapAndUnwrapSol")
    destination = query.get("destinationTokenAccount")
    hops = await _route(call, source, target, amount)
    received = hops[-1].received
    least = _at_least(received, slippage)
    swap = swap_instruction(
        taker,
        get_associated_token_address(taker, Pubkey.from_string(source)),
        get_associated_token_address(taker, Pubkey.from_string(target))
        if destination is None
        else _address(destination, "destinationTokenAccount"),
        [hop.pool.hop(hop.sells_sol) for hop in hops],
        amount,
        least,
    )
    if len(swap.accounts) + 1 > most:
        raise VenueError("COULD_NOT_FIND_ANY_ROUTE", f"no route of at most {most} accounts")
    setup, cleanup = _around(taker, source, target, amount, wraps, destination is None)
    latest = (await call("getLatestBlockhash", [{"commitment": "confirmed"}]))["value"]
    return {
        "inputMint": source,
        "outputMint": target,
        "inAmount": str(amount),
        "outAmount": str(received),
        "otherAmountThreshold": str(least),
        "swapMode": "ExactIn",
        "slippageBps": slippage,
        "priceImpactPct": _impact(hops),
        "routePlan": [_plan(hop) for hop in hops],
        "computeBudgetInstructions": [_instruction(set_compute_unit_price(0))],
        "setupInstructions": [_instruction(each) for each in setup],
        "swapInstruction": _instruction(swap),
        "cleanupInstruction": None if cleanup is None else _instruction(cleanup),
        "otherInstructions": [],
        "tipInstruction": None,
        "addressesByLookupTableAddress": {},
        "blockhashWithMetadata": {
            "blockhash": list(bytes(Hash.from_string(latest["blockhash"]))),
            "lastValidBlockHeight": latest["lastValidBlockHeight"],
        },
    }


async def _route(call: Call, source: str, target: str, amount: int) -> list[Hop]:
    """One hop from or to SOL, two between tokens; each priced by what the vaults hold now."""
    steps = _steps(source, target)
    addresses = [str(key) for pool, _ in steps for key in pool.vaults]
    answer = await call("getMultipleAccounts", [addresses, {"encoding": "base64"}])
    hops: list[Hop] = []
    paid = amount
    for index, (pool, sells_sol) in enumerate(steps):
        sol, units = map(_held, answer["value"][2 * index : 2 * index + 2])
        if not sol or not units:
            raise VenueError("COULD_NOT_FIND_ANY_ROUTE", "this ledger has no demo market")
        done = trade(paid, sol, units) if sells_sol else trade(paid, units, sol)
        if done.received < 1:
            raise VenueError("ROUTE_PLAN_DOES_NOT_CONSUME_ALL_THE_AMOUNT", "amount is too small")
        hops.append(Hop(pool, sells_sol, paid, done.received, done.price_impact))
        paid = done.received
    return hops


def _held(account: Mapping[str, Any] | None) -> int:
    """The units in a token account as the RPC answers it, 0 where there is none."""
    if account is None:
        return 0
    data = base64.b64decode(account["data"][0])
    token = token_account(Account(int(account["lamports"]), str(account["owner"]), data))
    return token.amount if token else 0


def _steps(source: str, target: str) -> list[tuple[Pool, bool]]:
    """The pools from one mint to another, each with whether it is sold SOL."""
    pools = {str(pool.mint): pool for pool in POOLS}
    for mint, name in ((source, "inputMint"), (target, "outputMint")):
        if mint != WRAPPED_SOL_MINT and mint not in pools:
            raise VenueError("TOKEN_NOT_TRADABLE", f"{name} is not tradable here: {mint}")
    if source == target:
        raise VenueError("CIRCULAR_ARBITRAGE_IS_DISABLED", "inputMint and outputMint are the same")
    steps = [] if source == WRAPPED_SOL_MINT else [(pools[source], False)]
    return steps if target == WRAPPED_SOL_MINT else [*steps, (pools[target], True)]


def _around(
    taker: Pubkey, source: str, target: str, amount: int, wraps: bool, to_taker: bool
) -> tuple[list[Instruction], Instruction | None]:
    """What the taker's own accounts need before the swap, and after it.

    SOL is wrapped only where it is sold or arrives in the taker's own account.
    """
    setup: list[Instruction] = []
    native = get_associated_token_address(taker, _NATIVE_MINT)
    sells_sol, buys_sol = source == WRAPPED_SOL_MINT, target == WRAPPED_SOL_MINT and to_taker
    if sells_sol and wraps:
        setup += [
            create_idempotent_associated_token_account(taker, taker, _NATIVE_MINT),
            transfer(TransferParams(from_pubkey=taker, to_pubkey=native, lamports=amount)),
            sync_native(SyncNativeParams(program_id=TOKEN_PROGRAM_ID, account=native)),
        ]
    if to_taker:
        mint = Pubkey.from_string(target)
        setup.append(create_idempotent_associated_token_account(taker, taker, mint))
    if not (wraps and (sells_sol or buys_sol)):
        return setup, None
    closing = CloseAccountParams(
        program_id=TOKEN_PROGRAM_ID, account=native, dest=taker, owner=taker
    )
    return setup, close_account(closing)


def _instruction(instruction: Instruction) -> dict[str, Any]:
    return {
        "programId": str(instruction.program_id),
        "accounts": [
            {
                "pubkey": str(meta.pubkey),
                "isWritable": meta.is_writable,
                "isSigner": meta.is_signer,
            }
            for meta in instruction.accounts
        ],
        "data": base64.b64encode(instruction.data).decode("ascii"),
    }


def _impact(hops: Sequence[Hop]) -> str:
    remaining = Decimal(1)
    for hop in hops:
        remaining *= 1 - hop.impact
    return f"{1 - remaining:f}"


def _plan(hop: Hop) -> dict[str, Any]:
    mints = [WRAPPED_SOL_MINT, str(hop.pool.mint)]
    source, target = mints if hop.sells_sol else reversed(mints)
    return {
        "swapInfo": {
            "ammKey": str(hop.pool.address),
            "label": f"Solward demo {hop.pool.symbol}",
            "inputMint": source,
            "outputMint": target,
            "inAmount": str(hop.paid),
            "outAmount": str(hop.received),
        },
        "percent": 100,
        "bps": _BPS,
    }


def _at_least(amount: int, slippage_bps: int) -> int:
    """What is left of `amount` after the slippage, rounded up: in the trader's favour."""
    return -(-amount * (_BPS - slippage_bps) // _BPS)


def _integer(query: Mapping[str, str], field: str, least: int, most: int, default: str = "") -> int:
    text = query.get(field, default)
    if text.isascii() and text.isdecimal() and len(text) <= 20 and least <= int(text) <= most:
        return int(text)
    raise _invalid(f"{field} must be an integer from {least} to {most}")


def _flag(query: Mapping[str, str], field: str) -> bool:
    text = query.get(field, "true")
    if text not in ("true", "false"):
        raise _invalid(f"{field} must be true or false")
    return text == "true"


def _address(text: str | None, field: str) -> Pubkey:
    try:
        return Pubkey.from_string(text or "")
    except ValueError:
        raise _invalid(f"{field} must be a base58 address") from None


def _invalid(message: str) -> VenueError:
    return VenueError("INVALID_REQUEST", message)
