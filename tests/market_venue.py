"""`GET /swap/v2/build` of the Jupiter Swap API over the localnet's demo market.

It takes the parameters that a swap needs, with the names, fields and error codes of the official
documentation (developers.jup.ag), and refuses all others. Only the taker signs its instructions.
"""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address
from spl.token.constants import TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    sync_native,
)
from spl.token.models import CloseAccountParams, SyncNativeParams
from tests.market_source import FEE_BPS, SWAP

from solward.solana.tokens import token_account
from solward.types.ledger import Account
from solward_localnet.jsonrpc import RpcError
from solward_localnet.market import AUTHORITY, MARKET_PROGRAM, POOLS, Pool

Call = Callable[[str, Sequence[Any]], Awaitable[Any]]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

PREFIX = "/swap/"
LABEL = "Solward demo"
BPS = 10_000
MAX_ACCOUNTS = 64
DEFAULT_SLIPPAGE_BPS = 50
U64_MAX = 2**64 - 1


class VenueError(Exception):
    """A refusal in Jupiter's shape: `error` for people, `errorCode` for programs."""

    def __init__(self, code: str | int, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Hop:
    """One pool's part of a swap; `sells_sol` is its direction."""

    pool: Pool
    sells_sol: bool
    paid: int
    received: int
    impact: Decimal

    @property
    def label(self) -> str:
        """The name of the pool's market."""
        return f"{LABEL} {self.pool.symbol}"


@dataclass(frozen=True, slots=True)
class Route:
    """The pools from one mint to another, priced by what the vaults held at a slot."""

    source: Pubkey
    target: Pubkey
    hops: tuple[Hop, ...]
    slot: int

    @property
    def paid(self) -> int:
        """Units of `source`."""
        return self.hops[0].paid

    @property
    def received(self) -> int:
        """Units of `target`."""
        return self.hops[-1].received

    @property
    def impact(self) -> Decimal:
        """Fraction by which all hops together make the price worse, fees included."""
        remaining = Decimal(1)
        for hop in self.hops:
            remaining *= 1 - hop.impact
        return 1 - remaining


@dataclass(frozen=True, slots=True)
class Taking:
    """How a taker's swap is made.

    Attributes:
        wraps: SOL is wrapped before and unwrapped after it.
        destination: the account that receives; None: the taker's own, which is opened.
        present: accounts that need not be opened, because they exist.
    """

    taker: Pubkey
    wraps: bool = True
    destination: Pubkey | None = None
    present: Collection[Pubkey] = ()


@dataclass(frozen=True, slots=True)
class Swap:
    """A route as a taker's instructions.

    Attributes:
        setup: what the taker's own accounts need before it.
        cleanup: what they need after it.
    """

    setup: tuple[Instruction, ...]
    swap: Instruction
    cleanup: Instruction | None

    def to_json(self) -> dict[str, Any]:
        """As the API carries it."""
        return {
            "setupInstructions": [as_json(each) for each in self.setup],
            "swapInstruction": as_json(self.swap),
            "cleanupInstruction": None if self.cleanup is None else as_json(self.cleanup),
            "otherInstructions": [],
        }


def venue_app(call: Call) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI application; `call` is `Localnet.call`."""

    async def answer(scope: Scope, receive: Receive) -> tuple[int, dict[str, Any]]:
        if (scope["method"], scope["path"]) != ("GET", "/swap/v2/build"):
            raise VenueError("NOT_FOUND", "unknown path; known: GET /swap/v2/build", 404)
        return 200, await build(call, scope["query_string"].decode("latin-1"))

    return application(answer)


def application(
    answer: Callable[[Scope, Receive], Awaitable[tuple[int, dict[str, Any]]]],
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI application that gives what `answer` does, a status and JSON, or its refusal."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, body = await answer(scope, receive)
        except VenueError as error:
            status, body = error.status, {"error": str(error), "errorCode": error.code}
        except RpcError:
            status, body = 500, {"error": "the ledger did not answer", "errorCode": "INTERNAL"}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    return app


async def build(call: Call, query: str) -> dict[str, Any]:
    """A price, and the instructions of the swap.

    Raises:
        VenueError: a parameter is missing, wrong or unknown, or there is no such swap.
    """
    asked = _read(query)
    route = await find_route(call, asked["inputMint"], asked["outputMint"], asked["amount"])
    most = asked["maxAccounts"]
    if accounts_of(route) > most:
        raise VenueError("COULD_NOT_FIND_ANY_ROUTE", f"no route of at most {most} accounts")
    taking = Taking(asked["taker"], asked["wrapAndUnwrapSol"], asked["destinationTokenAccount"])
    slippage = asked["slippageBps"]
    latest = (await call("getLatestBlockhash", [{"commitment": "finalized"}]))["value"]
    return {
        **offer(route, slippage),
        "computeBudgetInstructions": [as_json(set_compute_unit_price(0))],
        **compose(route, taking, at_least(route.received, slippage)).to_json(),
        "tipInstruction": None,
        "addressesByLookupTableAddress": {},
        "blockhashWithMetadata": {
            "blockhash": list(bytes(Hash.from_string(latest["blockhash"]))),
            "lastValidBlockHeight": latest["lastValidBlockHeight"],
            "fetchedAt": {"secs_since_epoch": int(time.time()), "nanos_since_epoch": 0},
        },
    }


def _read(query: str) -> dict[str, Any]:
    """The parameters of a swap, with the defaults of those that are absent."""
    given: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise invalid(f"the localnet's market does not serve {name}")
        if name in given:
            raise invalid(f"{name} is there twice")
        given[name] = value
    found = {}
    for name, (read, expected, default) in _PARAMETERS.items():
        try:
            found[name] = (
                default if name not in given and default is not _REQUIRED else read(given[name])
            )
        except (KeyError, ValueError):
            raise invalid(f"{name} must be {expected}") from None
    return found


def _within(least: int, most: int) -> tuple[Callable[[str], int], str]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= len(str(U64_MAX))):
            raise ValueError
        if not least <= int(text) <= most:
            raise ValueError
        return int(text)

    return read, f"an integer from {least} to {most}"


_REQUIRED = object()
_ADDRESS = (Pubkey.from_string, "a base58 address")
# Parameter -> what reads its text, what that expects, and its default.
_PARAMETERS: Mapping[str, tuple[Callable[[str], Any], str, Any]] = {
    "inputMint": (*_ADDRESS, _REQUIRED),
    "outputMint": (*_ADDRESS, _REQUIRED),
    "amount": (*_within(1, U64_MAX), _REQUIRED),
    "slippageBps": (*_within(0, BPS), DEFAULT_SLIPPAGE_BPS),
    "taker": (*_ADDRESS, _REQUIRED),
    "destinationTokenAccount": (*_ADDRESS, None),
    "maxAccounts": (*_within(1, MAX_ACCOUNTS), MAX_ACCOUNTS),
    "wrapAndUnwrapSol": ({"true": True, "false": False}.__getitem__, "true or false", True),
}


def invalid(message: str) -> VenueError:
    """A request that is not as documented, or that the market does not serve."""
    return VenueError("INVALID_REQUEST", message)


async def find_route(call: Call, source: Pubkey, target: Pubkey, amount: int) -> Route:
    """One hop from or to SOL, two between tokens; raises `VenueError` where there is none."""
    steps = _steps(str(source), str(target))
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
    return Route(source, target, tuple(hops), int(answer["context"]["slot"]))


def accounts_of(route: Route) -> int:
    """How many accounts its instruction names, its program among them."""
    return len(_instruction(route, Taking(route.source), 0).accounts) + 1


def offer(route: Route, slippage_bps: int) -> dict[str, Any]:
    """What every quote of the API says."""
    return {
        "inputMint": str(route.source),
        "outputMint": str(route.target),
        "inAmount": str(route.paid),
        "outAmount": str(route.received),
        "otherAmountThreshold": str(at_least(route.received, slippage_bps)),
        "swapMode": "ExactIn",
        "slippageBps": slippage_bps,
        "priceImpactPct": f"{route.impact:f}",
        "routePlan": [_plan(hop) for hop in route.hops],
    }


def _plan(hop: Hop) -> dict[str, Any]:
    mints = [str(WRAPPED_SOL_MINT), str(hop.pool.mint)]
    source, target = mints if hop.sells_sol else reversed(mints)
    return {
        "swapInfo": {
            "ammKey": str(hop.pool.address),
            "label": hop.label,
            "inputMint": source,
            "outputMint": target,
            "inAmount": str(hop.paid),
            "outAmount": str(hop.received),
        },
        "percent": 100,
        "bps": BPS,
    }


def compose(route: Route, taking: Taking, least: int) -> Swap:
    """The instructions of a route that fails where it would give less than `least` units.

    SOL is wrapped only where it is sold or arrives in the taker's own account.
    """
    taker, source, target = taking.taker, route.source, route.target
    own = taking.destination is None
    native = get_associated_token_address(taker, WRAPPED_SOL_MINT)
    sells_sol, buys_sol = source == WRAPPED_SOL_MINT, target == WRAPPED_SOL_MINT and own
    setup: list[Instruction] = []
    if sells_sol and taking.wraps:
        setup += _opened(taking, WRAPPED_SOL_MINT)
        setup += [
            transfer(TransferParams(from_pubkey=taker, to_pubkey=native, lamports=route.paid)),
            sync_native(SyncNativeParams(program_id=TOKEN_PROGRAM_ID, account=native)),
        ]
    if own:
        setup += _opened(taking, target)
    cleanup = None
    if taking.wraps and (sells_sol or buys_sol):
        cleanup = close_account(
            CloseAccountParams(program_id=TOKEN_PROGRAM_ID, account=native, dest=taker, owner=taker)
        )
    return Swap(tuple(setup), _instruction(route, taking, least), cleanup)


def at_least(amount: int, slippage_bps: int) -> int:
    """What is left of `amount` after the slippage, rounded up: in the trader's favour."""
    return -(-amount * (BPS - slippage_bps) // BPS)


def as_json(instruction: Instruction) -> dict[str, Any]:
    """As the API carries it."""
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


def _opened(taking: Taking, mint: Pubkey) -> list[Instruction]:
    taker = taking.taker
    if get_associated_token_address(taker, mint) in taking.present:
        return []
    return [create_idempotent_associated_token_account(taker, taker, mint)]


def _instruction(route: Route, taking: Taking, least: int) -> Instruction:
    taker = taking.taker
    return swap_instruction(
        taker,
        get_associated_token_address(taker, route.source),
        taking.destination or get_associated_token_address(taker, route.target),
        [pool_hop(hop.pool, hop.sells_sol) for hop in route.hops],
        route.paid,
        least,
    )


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
    sol = str(WRAPPED_SOL_MINT)
    for mint, name in ((source, "inputMint"), (target, "outputMint")):
        if mint != sol and mint not in pools:
            raise VenueError("TOKEN_NOT_TRADABLE", f"{name} is not tradable here: {mint}")
    if source == target:
        raise VenueError("CIRCULAR_ARBITRAGE_IS_DISABLED", "inputMint and outputMint are the same")
    steps = [] if source == sol else [(pools[source], False)]
    return steps if target == sol else [*steps, (pools[target], True)]


@dataclass(frozen=True, slots=True)
class Trade:
    """What a trade of exactly `paid` units gives.

    Attributes:
        price_impact: fraction by which the price got worse, fee included.
    """

    paid: int
    received: int
    price_impact: Decimal


def trade(paid: int, reserve_in: int, reserve_out: int) -> Trade:
    """Constant product, rounded against the trader: reserve_in * reserve_out never falls."""
    effective = paid * (10_000 - FEE_BPS)
    received = effective * reserve_out // (reserve_in * 10_000 + effective)
    fair = Decimal(paid) * reserve_out / reserve_in
    impact = max(Decimal(0), 1 - Decimal(received) / fair) if fair else Decimal(0)
    return Trade(paid, received, impact.quantize(Decimal("0.000001")))


def swap_instruction(
    user: Pubkey,
    source: Pubkey,
    destination: Pubkey,
    hops: Sequence[tuple[Pubkey, Pubkey, Pubkey]],
    amount_in: int,
    minimum_out: int,
) -> Instruction:
    """The program's instruction; a hop is a pool, its vault that is paid, its vault that pays."""
    fixed = [
        AccountMeta(TOKEN_PROGRAM_ID, is_signer=False, is_writable=False),
        AccountMeta(user, is_signer=True, is_writable=False),
        AccountMeta(source, is_signer=False, is_writable=True),
        AccountMeta(destination, is_signer=False, is_writable=True),
        AccountMeta(AUTHORITY, is_signer=False, is_writable=False),
    ]
    pools = [
        AccountMeta(key, is_signer=False, is_writable=index > 0)
        for hop in hops
        for index, key in enumerate(hop)
    ]
    data = struct.pack("<BQQ", SWAP, amount_in, minimum_out)
    return Instruction(MARKET_PROGRAM, data, [*fixed, *pools])


def pool_hop(pool: Pool, sells_sol: bool) -> tuple[Pubkey, Pubkey, Pubkey]:
    """What the program's `swap` takes of a pool: itself, the vault paid, the vault paying."""
    paid, paying = pool.vaults if sells_sol else reversed(pool.vaults)
    return pool.address, paid, paying
