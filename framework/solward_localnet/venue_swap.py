"""Routes over the demo market's pools, and the instructions and transactions of a swap."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import parse_qsl

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    sync_native,
)
from spl.token.models import CloseAccountParams, SyncNativeParams

from solward.solana.tokens import token_account
from solward.types.ledger import Account
from solward_localnet.market import POOLS, Pool, trade
from solward_localnet.market_program import swap_instruction

Call = Callable[[str, Sequence[Any]], Awaitable[Any]]

LABEL = "Solward demo"
MAX_UNITS = 1_400_000
_MICRO = 10**6

U64_MAX = 2**64 - 1
_U64_DIGITS = 20
BPS = 10_000
MAX_ACCOUNTS = 64
MAX_PRIORITY_LAMPORTS = 10**9
ROUTERS = ("metis", "jupiterz", "dflow", "okx")
# Official labels of how much to pay for priority.
_LEVELS = ("medium", "high", "veryHigh")

Kind = Literal["address", "integer", "text", "flag", "choice", "names", "object", "priority"]


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
        """The name of the pool's market, as `dexes` has it."""
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
class Swap:
    """A route as a taker's instructions.

    Attributes:
        setup: what the taker's own accounts need before it.
        cleanup: what they need after it.
    """

    setup: tuple[Instruction, ...]
    swap: Instruction
    cleanup: Instruction | None

    @property
    def instructions(self) -> list[Instruction]:
        """All, in order."""
        return [*self.setup, self.swap, *([self.cleanup] if self.cleanup else [])]


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


async def find_route(
    call: Call,
    source: Pubkey,
    target: Pubkey,
    amount: int,
    *,
    dexes: Sequence[str] = (),
    excluded: Sequence[str] = (),
    direct: bool = False,
    max_accounts: int = MAX_ACCOUNTS,
) -> Route:
    """One hop from or to SOL, two between tokens.

    Args:
        dexes: labels; every market of the route must have one of them. Empty allows all.
        excluded: labels that no market of the route may have.
        direct: one hop only.
        max_accounts: most accounts of the swap instruction, its program among them.

    Raises:
        VenueError: there is none.
    """
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
    if dexes and excluded:
        raise invalid("dexes and excludeDexes exclude each other")
    if direct and len(hops) > 1:
        raise VenueError("COULD_NOT_FIND_ANY_ROUTE", "no market trades these two directly")
    for hop in hops:
        named = {hop.label, LABEL}
        if named & set(excluded) or (dexes and not named & set(dexes)):
            raise VenueError("COULD_NOT_FIND_ANY_ROUTE", "no route over the markets allowed")
    route = Route(source, target, tuple(hops), int(answer["context"]["slot"]))
    if len(_instruction(route, Taking(source), 0).accounts) + 1 > max_accounts:
        raise VenueError("COULD_NOT_FIND_ANY_ROUTE", f"no route of at most {max_accounts} accounts")
    return route


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


async def transaction(
    call: Call, payer: Pubkey, instructions: Sequence[Instruction], *, legacy: bool = False
) -> tuple[VersionedTransaction, int]:
    """Unsigned, on the newest blockhash, with the last block height at which it is valid."""
    latest = (await call("getLatestBlockhash", [{"commitment": "finalized"}]))["value"]
    blockhash = Hash.from_string(latest["blockhash"])
    message = (
        Message.new_with_blockhash(list(instructions), payer, blockhash)
        if legacy
        else MessageV0.try_compile(payer, list(instructions), [], blockhash)
    )
    unsigned = [Signature.default()] * message.header.num_required_signatures
    return VersionedTransaction.populate(message, unsigned), int(latest["lastValidBlockHeight"])


def budget(lamports: int, units: int = MAX_UNITS) -> tuple[Instruction, Instruction]:
    """A limit of compute units, and the price at which they cost at most `lamports`."""
    return set_compute_unit_limit(units), set_compute_unit_price(lamports * _MICRO // units)


def priority_fee(price: int, units: int) -> int:
    """The lamports that `units` cost at `price` micro-lamports each, rounded up."""
    return -(-price * units // _MICRO)


def at_least(amount: int, slippage_bps: int) -> int:
    """What is left of `amount` after the slippage, rounded up: in the trader's favour."""
    return -(-amount * (BPS - slippage_bps) // BPS)


def as_text(transaction: VersionedTransaction) -> str:
    """As the API carries it."""
    return base64.b64encode(bytes(transaction)).decode("ascii")


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
        [hop.pool.hop(hop.sells_sol) for hop in route.hops],
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


class VenueError(Exception):
    """A refusal in Jupiter's shape: `error` for people, `errorCode` for programs."""

    def __init__(self, code: str | int, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Field:
    """A documented parameter or field.

    Attributes:
        least, most: of an `integer`.
        choices: of a `choice`; of `names`, empty where any name may be given.
        served: whether the market does what it says.
        unserved: single values of it that the market does not serve.
        repeated: may be there several times in a query, as an array.
    """

    kind: Kind
    required: bool = False
    least: int = 0
    most: int = U64_MAX
    choices: tuple[str, ...] = ()
    served: bool = True
    unserved: tuple[Any, ...] = ()
    repeated: bool = False


Fields = Mapping[str, Field]

_ADDRESS = Field("address")
_FLAG = Field("flag")
_NAMES = Field("names")
_SLIPPAGE = Field("integer", most=BPS, unserved=("rtse",))
_UNSERVED = Field("text", served=False)
_SOLD: Fields = {
    "inputMint": Field("address", required=True),
    "outputMint": Field("address", required=True),
    "amount": Field("integer", required=True, least=1),
    "slippageBps": _SLIPPAGE,
}

BUILD: Fields = {
    **_SOLD,
    "taker": Field("address", required=True),
    "mode": _UNSERVED,
    "dexes": _NAMES,
    "excludeDexes": _NAMES,
    "platformFeeBps": _UNSERVED,
    "feeAccount": _UNSERVED,
    "maxAccounts": Field("integer", least=1, most=MAX_ACCOUNTS),
    "payer": _UNSERVED,
    "wrapAndUnwrapSol": _FLAG,
    "destinationTokenAccount": _ADDRESS,
    "nativeDestinationAccount": _UNSERVED,
    "blockhashSlotsToExpiry": _UNSERVED,
    "tipAmount": _UNSERVED,
    "computeUnitPricePercentile": _UNSERVED,
    "forJitoBundle": _FLAG,
}

ORDER: Fields = {
    **_SOLD,
    "slippageBps": Field("integer", most=BPS),
    "taker": _ADDRESS,
    "receiver": _UNSERVED,
    "swapMode": Field("choice", choices=("ExactIn",)),
    "referralAccount": _UNSERVED,
    "referralFee": _UNSERVED,
    "payer": _UNSERVED,
    "priorityFeeLamports": Field("integer", most=MAX_PRIORITY_LAMPORTS),
    "jitoTipLamports": _UNSERVED,
    "broadcastFeeType": Field("choice", choices=("maxCap", "exactFee")),
    "excludeRouters": Field("names", choices=ROUTERS),
    "excludeDexes": _NAMES,
}

EXECUTE: Fields = {
    "signedTransaction": Field("text", required=True),
    "requestId": Field("text", required=True),
    "lastValidBlockHeight": Field("text"),
}

QUOTE: Fields = {
    **_SOLD,
    "slippageBps": Field("integer", most=BPS),
    "swapMode": Field("choice", choices=("ExactIn", "ExactOut"), unserved=("ExactOut",)),
    "dexes": Field("names", repeated=True),
    "excludeDexes": Field("names", repeated=True),
    "restrictIntermediateTokens": _FLAG,
    "onlyDirectRoutes": _FLAG,
    "asLegacyTransaction": _FLAG,
    "platformFeeBps": _UNSERVED,
    "maxAccounts": Field("integer", least=1, most=MAX_ACCOUNTS),
    "instructionVersion": Field("choice", choices=("V1", "V2")),
    "dynamicSlippage": _FLAG,
    "forJitoBundle": _FLAG,
}

SWAP: Fields = {
    "userPublicKey": Field("address", required=True),
    "quoteResponse": Field("object", required=True),
    "payer": _UNSERVED,
    "wrapAndUnwrapSol": _FLAG,
    # No route of the market has an account between its two tokens, shared or not.
    "useSharedAccounts": _FLAG,
    "feeAccount": _UNSERVED,
    "trackingAccount": _UNSERVED,
    "prioritizationFeeLamports": Field("priority"),
    "asLegacyTransaction": _FLAG,
    "destinationTokenAccount": _ADDRESS,
    "nativeDestinationAccount": _UNSERVED,
    "dynamicComputeUnitLimit": _FLAG,
    "skipUserAccountsRpcCalls": _FLAG,
    "dynamicSlippage": Field("flag", unserved=(True,)),
    "computeUnitPriceMicroLamports": Field("integer"),
    "blockhashSlotsToExpiry": _UNSERVED,
}

# What a quote must have to be swapped; its other fields are passed back and not read.
OFFERED: Fields = {
    "inputMint": Field("address", required=True),
    "outputMint": Field("address", required=True),
    "inAmount": Field("integer", required=True, least=1),
    "outAmount": Field("integer", required=True, least=1),
    "otherAmountThreshold": Field("integer", required=True),
    "swapMode": replace(QUOTE["swapMode"], required=True),
    "slippageBps": Field("integer", required=True, most=BPS),
}


def read_query(text: str, fields: Fields) -> dict[str, Any]:
    """A query's values, checked; absent ones are absent.

    Raises:
        VenueError: naming the parameter.
    """
    given: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        field = _known(name, fields, "parameter")
        if name in given and not field.repeated:
            raise invalid(f"{name} is there twice")
        given[name] = f"{given[name]},{value}" if name in given else value
    return _read({name: _typed(value, fields[name]) for name, value in given.items()}, fields)


def read_body(body: bytes, fields: Fields) -> dict[str, Any]:
    """A JSON body's values, checked; absent ones are absent.

    Raises:
        VenueError: naming the field.
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise invalid("the body must be JSON") from None
    if not isinstance(given, dict):
        raise invalid("the body must be an object")
    for name in given:
        _known(name, fields, "field")
    return _read(given, fields)


def read_offer(quote: Mapping[str, Any]) -> dict[str, Any]:
    """What a `quoteResponse` says of its swap; amounts are text there, as they were answered.

    Raises:
        VenueError: naming the field.
    """
    if not isinstance(quote.get("routePlan"), list):
        raise invalid("quoteResponse.routePlan must be a list")
    given = {name: quote[name] for name in OFFERED if name in quote}
    for name in ("inAmount", "outAmount", "otherAmountThreshold"):
        # Amounts are text in a quote, and nothing else.
        given[name] = _typed(given[name], OFFERED[name]) if _is_text(given.get(name)) else None
    return _read(given, OFFERED, "quoteResponse.")


def invalid(message: str) -> VenueError:
    """A request that is not as documented, or that the market does not serve."""
    return VenueError("INVALID_REQUEST", message)


def _known(name: str, fields: Fields, what: str) -> Field:
    if name not in fields:
        raise invalid(f"there is no {what} {name}")
    if not fields[name].served:
        raise invalid(f"the localnet's market does not serve {name}")
    return fields[name]


def _typed(text: str, field: Field) -> Any:
    """A query's text as the value it stands for; the text itself where it stands for none."""
    if field.kind == "flag":
        return {"true": True, "false": False}.get(text, text)
    digits = text.isascii() and text.isdecimal() and len(text) <= _U64_DIGITS
    return int(text) if field.kind == "integer" and digits else text


def _read(given: Mapping[str, Any], fields: Fields, prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in given and not field.required:
            continue
        value = given.get(name)
        if any(type(value) is type(each) and value == each for each in field.unserved):
            raise invalid(f"the localnet's market does not serve {prefix}{name}={value}")
        values[name] = _READ[field.kind](value, field)
        if values[name] is None:
            raise invalid(f"{prefix}{name} {_expected(field)}")
    return values


def _expected(field: Field) -> str:
    return {
        "address": "must be a base58 address",
        "integer": f"must be an integer from {field.least} to {field.most}",
        "text": "must be text",
        "flag": "must be true or false",
        "choice": f"must be one of {', '.join(field.choices)}",
        "names": "must be names separated by commas"
        + (f", of {', '.join(field.choices)}" if field.choices else ""),
        "object": "must be an object",
        "priority": "must be lamports, or priorityLevelWithMaxLamports with priorityLevel and"
        " maxLamports",
    }[field.kind]


def _address(given: Any, _field: Field) -> Pubkey | None:
    try:
        return Pubkey.from_string(given)
    except (TypeError, ValueError):
        return None


def _integer(given: Any, field: Field) -> int | None:
    return given if type(given) is int and field.least <= given <= field.most else None


def _is_text(given: Any) -> bool:
    return isinstance(given, str)


def _names(given: str, field: Field) -> tuple[str, ...] | None:
    names = tuple(given.split(","))
    if not all(names) or (field.choices and not set(names) <= set(field.choices)):
        return None
    return names


def _priority(given: Any, _field: Field) -> int | None:
    """The lamports to pay; nobody competes on a localnet, so a level costs nothing."""
    if type(given) is int:
        return given if 0 <= given <= MAX_PRIORITY_LAMPORTS else None
    if not (isinstance(given, dict) and set(given) == {"priorityLevelWithMaxLamports"}):
        return None
    level = given["priorityLevelWithMaxLamports"]
    if not isinstance(level, dict) or not {"priorityLevel", "maxLamports"} <= set(level):
        return None
    typed = type(level["maxLamports"]) is int and type(level.get("global", False)) is bool
    known = set(level) <= {"priorityLevel", "maxLamports", "global"}
    return 0 if typed and known and level["priorityLevel"] in _LEVELS else None


_READ: Mapping[Kind, Any] = {
    "address": _address,
    "integer": _integer,
    "text": lambda given, _field: given if isinstance(given, str) else None,
    "flag": lambda given, _field: given if type(given) is bool else None,
    "choice": lambda given, field: given if given in field.choices else None,
    "names": _names,
    "object": lambda given, _field: given if isinstance(given, dict) else None,
    "priority": _priority,
}
