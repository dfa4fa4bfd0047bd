"""The documented fields of the Jupiter Swap API's calls, and its transactions."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import parse_qsl

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from tests.market_venue import BPS, MAX_ACCOUNTS, U64_MAX, Call, invalid

MAX_UNITS = 1_400_000
_MICRO = 10**6

_U64_DIGITS = 20
MAX_PRIORITY_LAMPORTS = 10**9
ROUTERS = ("metis", "jupiterz", "dflow", "okx")
# Official labels of how much to pay for priority.
_LEVELS = ("medium", "high", "veryHigh")

Kind = Literal["address", "integer", "text", "flag", "choice", "names", "object", "priority"]


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


def as_text(transaction: VersionedTransaction) -> str:
    """As the API carries it."""
    return base64.b64encode(bytes(transaction)).decode("ascii")


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
