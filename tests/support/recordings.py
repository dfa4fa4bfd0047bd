"""Answers from a recording of `solward doctor --record`, and fails where it has none.

A request is that of an exchange if method, path, query and JSON body are equal, but for the id of a
JSON-RPC call and for addresses: where the recording has one of `placeholder`, any address fits, the
same one everywhere in the exchange, and the answer names it in place of the placeholder. The host
is not compared: a recording does not have the real one.

    async with replaying(RECORDINGS / "rpc.json") as url:           # any client, any process
        ...
    httpx.AsyncClient(transport=ReplayTransport(RECORDINGS / "jupiter.json"), base_url="https://x")
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import jsonschema
from aiohttp import web
from tests.support.http import served

from solward.support import jsontext
from solward.support.base58 import b58decode, b58encode, is_address
from solward_cli.doctor.recording import decoded_base64, placeholder

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"

# More than any recording has.
_PLACEHOLDERS = {placeholder(number): b58decode(placeholder(number)) for number in range(64)}

Bound = dict[str, str]
"""Placeholder -> the address that a request had in its place."""


class UnrecordedRequest(AssertionError):
    """A request that the recording does not have."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes


@dataclass(slots=True)
class Replay:
    """The exchanges of a file. Of equal requests each gets its own answer in order, further ones
    the last.

    Attributes:
        unrecorded: requests that it had no answer for.
        left: exchanges that nobody asked for yet.
    """

    exchanges: Sequence[Mapping[str, Any]]
    unrecorded: list[str] = field(default_factory=list)
    left: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = list(range(len(self.exchanges)))

    @classmethod
    def of(cls, file: Path) -> Replay:
        return cls(jsontext.loads(file.read_bytes()))

    def answer(self, method: str, url: str, content: bytes) -> Answer:
        """Raises `UnrecordedRequest`."""
        body: Any = None
        if content:
            try:
                body = jsontext.loads(content)
            except ValueError:
                body = content.decode()
        found: tuple[int, Bound] | None = None
        for number, exchange in enumerate(self.exchanges):
            bound = _matched(exchange["request"], method, url, body)
            if bound is not None:
                found = number, bound
                if number in self.left:
                    break
        if found is None:
            asked = f"{method} {url} {body}"
            self.unrecorded.append(asked)
            raise UnrecordedRequest(f"not in the recording: {asked}")
        number, bound = found
        if number in self.left:
            self.left.remove(number)
        return _rendered(self.exchanges[number]["response"], bound, body)


def _matched(recorded: Mapping[str, Any], method: str, url: str, body: Any) -> Bound | None:
    was, now = urlsplit(recorded["url"]), urlsplit(url)
    if recorded["method"] != method or (was.path or "/") != (now.path or "/"):
        return None
    bound: Bound = {}
    asked, given = (sorted(parse_qsl(each.query, keep_blank_values=True)) for each in (was, now))
    same = _same([list(each) for each in asked], [list(each) for each in given], bound)
    return (
        bound if same and _same(_without_id(recorded["body"]), _without_id(body), bound) else None
    )


def _without_id(body: Any) -> Any:
    if isinstance(body, Mapping) and "jsonrpc" in body:
        return {name: value for name, value in body.items() if name != "id"}
    return body


def _same(was: Any, now: Any, bound: Bound) -> bool:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        return was.keys() == now.keys() and all(_same(was[key], now[key], bound) for key in was)
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(
            _same(one, other, bound) for one, other in zip(was, now, strict=True)
        )
    if isinstance(was, str) and isinstance(now, str):
        return _same_text(was, now, bound)
    return type(was) is type(now) and bool(was == now)


def _same_text(was: str, now: str, bound: Bound) -> bool:
    if was in _PLACEHOLDERS:
        return is_address(now) and bound.setdefault(was, now) == now
    raw, other = decoded_base64(was), decoded_base64(now)
    if raw is None or other is None or len(raw) != len(other):
        return was == now
    for name, held in _PLACEHOLDERS.items():
        at = raw.find(held)
        while at >= 0:
            address = b58encode(other[at : at + len(held)])
            if bound.setdefault(name, address) != address:
                return False
            at = raw.find(held, at + 1)
    return _with_bound(raw, bound) == other


def _with_bound(raw: bytes, bound: Bound) -> bytes:
    for name, address in bound.items():
        raw = raw.replace(_PLACEHOLDERS[name], b58decode(address))
    return raw


def _rendered(recorded: Mapping[str, Any], bound: Bound, asked: Any) -> Answer:
    body = _named(recorded["body"], bound)
    if isinstance(body, dict) and isinstance(asked, Mapping) and "jsonrpc" in asked:
        body["id"] = asked.get("id")
    if body is None:
        content = b""
    elif isinstance(body, str):
        content = body.encode()
    else:
        content = jsontext.dumps(body).encode()
    return Answer(recorded["status"], dict(recorded["headers"]), content)


def _named(value: Any, bound: Bound) -> Any:
    if isinstance(value, Mapping):
        return {_named(name, bound): _named(item, bound) for name, item in value.items()}
    if isinstance(value, list):
        return [_named(item, bound) for item in value]
    if not isinstance(value, str):
        return value
    for name, address in bound.items():
        value = value.replace(name, address)
    raw = decoded_base64(value)
    if raw is None:
        return value
    changed = _with_bound(raw, bound)
    return value if changed == raw else base64.b64encode(changed).decode()


class ReplayTransport(httpx.AsyncBaseTransport):
    """A recording as the transport of an HTTP client in this process."""

    def __init__(self, file: Path) -> None:
        self.replay = Replay.of(file)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        found = self.replay.answer(request.method, str(request.url), await request.aread())
        return httpx.Response(found.status, headers=found.headers, content=found.content)


@asynccontextmanager
async def replaying(file: Path) -> AsyncIterator[str]:
    """A recording as a server on loopback; a request that it does not have fails the block."""
    replay = Replay.of(file)

    async def handle(asked: web.Request) -> web.Response:
        try:
            found = replay.answer(asked.method, asked.path_qs, await asked.read())
        except UnrecordedRequest as error:
            return web.Response(status=501, text=str(error))
        return web.Response(status=found.status, headers=found.headers, body=found.content)

    async with served(handle) as url:
        yield url
        if replay.unrecorded:
            raise UnrecordedRequest("; ".join(replay.unrecorded)[:2_000])


# The Jupiter Swap API by its official documents: what each call takes and gives. It is stated by
# hand: recordings and the localnet's market are both held against it.

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
# Amounts: digits, as text.
UNITS: Schema = {"type": "string", "pattern": "^[0-9]+$"}
ADDRESS: Schema = {"type": "string", "pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$"}
BASE64: Schema = {"type": "string", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}


def whole(least: int = 0, most: int | None = None) -> Schema:
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object of these fields and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


INSTRUCTION = record(
    {
        "programId": ADDRESS,
        "accounts": listed(record({"pubkey": ADDRESS, "isWritable": FLAG, "isSigner": FLAG})),
        "data": BASE64,
    }
)
_HOP = record(
    {"ammKey": ADDRESS, "inputMint": ADDRESS, "outputMint": ADDRESS, "inAmount": UNITS,
     "outAmount": UNITS},
    {"label": TEXT, "feeAmount": nullable(TEXT), "feeMint": nullable(TEXT)},
)  # fmt: skip
_STEP = record({"swapInfo": _HOP}, {"percent": nullable(NUMBER), "bps": NUMBER, "usdValue": NUMBER})
_FEE = record({}, {"amount": TEXT, "feeBps": NUMBER, "feeMint": TEXT})
_OFFER = {
    "inputMint": ADDRESS,
    "outputMint": ADDRESS,
    "inAmount": UNITS,
    "outAmount": UNITS,
    "otherAmountThreshold": UNITS,
    "swapMode": one_of("ExactIn", "ExactOut"),
    "slippageBps": whole(0, 10_000),
    "priceImpactPct": TEXT,
    "routePlan": listed(_STEP),
}
QUOTE_RESPONSE = record(
    _OFFER,
    {"platformFee": nullable(_FEE), "contextSlot": whole(), "timeTaken": NUMBER,
     "mostReliableAmmsQuoteReport": nullable({"type": "object"})},
)  # fmt: skip
_PARTS = {
    "computeBudgetInstructions": listed(INSTRUCTION),
    "setupInstructions": listed(INSTRUCTION),
    "swapInstruction": INSTRUCTION,
    "otherInstructions": listed(INSTRUCTION),
}
_TIME = record({"secs_since_epoch": NUMBER, "nanos_since_epoch": NUMBER})
_PRIORITY: Schema = {
    "anyOf": [
        whole(),
        record(
            {
                "priorityLevelWithMaxLamports": record(
                    {"priorityLevel": one_of("medium", "high", "veryHigh"), "maxLamports": whole()},
                    {"global": FLAG},
                )
            }
        ),
        record({"jitoTipLamports": whole()}),
        record({"jitoTipLamportsWithPayer": record({"lamports": whole(), "payer": TEXT})}),
    ]
}


@dataclass(frozen=True)
class Endpoint:
    """A call: its parameters (a query's are text of these types), and its body of status 200."""

    required: Mapping[str, Schema]
    optional: Mapping[str, Schema]
    answer: Schema

    @property
    def parameters(self) -> Mapping[str, Schema]:
        return {**self.required, **self.optional}


_SOLD = {"inputMint": ADDRESS, "outputMint": ADDRESS, "amount": whole(1, 2**64 - 1)}
_SWAP_FIELDS = {
    "payer": ADDRESS,
    "wrapAndUnwrapSol": FLAG,
    "useSharedAccounts": FLAG,
    "feeAccount": ADDRESS,
    "trackingAccount": ADDRESS,
    "prioritizationFeeLamports": _PRIORITY,
    "asLegacyTransaction": FLAG,
    "destinationTokenAccount": ADDRESS,
    "nativeDestinationAccount": ADDRESS,
    "dynamicComputeUnitLimit": FLAG,
    "skipUserAccountsRpcCalls": FLAG,
    "dynamicSlippage": FLAG,
    "computeUnitPriceMicroLamports": whole(),
    "blockhashSlotsToExpiry": whole(0, 255),
}
_SWAP_REQUIRED = {"userPublicKey": ADDRESS, "quoteResponse": {"type": "object"}}

API: Mapping[tuple[str, str], Endpoint] = {
    ("GET", "/swap/v1/quote"): Endpoint(
        _SOLD,
        {
            "slippageBps": whole(0, 10_000),
            "swapMode": one_of("ExactIn", "ExactOut"),
            "dexes": TEXT,
            "excludeDexes": TEXT,
            "restrictIntermediateTokens": FLAG,
            "onlyDirectRoutes": FLAG,
            "asLegacyTransaction": FLAG,
            "platformFeeBps": whole(),
            "maxAccounts": whole(1),
            "instructionVersion": one_of("V1", "V2"),
            "dynamicSlippage": FLAG,
            "forJitoBundle": FLAG,
        },
        QUOTE_RESPONSE,
    ),
    ("POST", "/swap/v1/swap"): Endpoint(
        _SWAP_REQUIRED,
        _SWAP_FIELDS,
        record(
            {"swapTransaction": BASE64, "lastValidBlockHeight": whole()},
            {"prioritizationFeeLamports": whole()},
        ),
    ),
    ("POST", "/swap/v1/swap-instructions"): Endpoint(
        _SWAP_REQUIRED,
        _SWAP_FIELDS,
        record(
            {**_PARTS, "addressLookupTableAddresses": listed(ADDRESS)},
            {"cleanupInstruction": nullable(INSTRUCTION)},
        ),
    ),
    ("GET", "/swap/v2/build"): Endpoint(
        {**_SOLD, "taker": ADDRESS},
        {
            "slippageBps": {"anyOf": [one_of("rtse"), whole(0, 10_000)]},
            "mode": one_of("fast"),
            "dexes": TEXT,
            "excludeDexes": TEXT,
            "platformFeeBps": whole(0, 10_000),
            "feeAccount": ADDRESS,
            "maxAccounts": whole(1, 64),
            "payer": ADDRESS,
            "wrapAndUnwrapSol": FLAG,
            "destinationTokenAccount": ADDRESS,
            "nativeDestinationAccount": ADDRESS,
            "blockhashSlotsToExpiry": whole(1, 300),
            "tipAmount": UNITS,
            "computeUnitPricePercentile": {
                "anyOf": [one_of("medium", "high", "veryHigh"), whole(0, 10_000)]
            },
            "forJitoBundle": FLAG,
        },
        record(
            {
                **_OFFER,
                **_PARTS,
                "cleanupInstruction": nullable(INSTRUCTION),
                "tipInstruction": nullable(INSTRUCTION),
                "addressesByLookupTableAddress": nullable(
                    {"type": "object", "additionalProperties": listed(ADDRESS)}
                ),
                "blockhashWithMetadata": record(
                    {
                        "blockhash": listed(whole(0, 255)) | {"minItems": 32, "maxItems": 32},
                        "lastValidBlockHeight": whole(),
                    },
                    {"fetchedAt": _TIME},
                ),
            }
        ),
    ),
    ("GET", "/swap/v2/order"): Endpoint(
        _SOLD,
        {
            "taker": ADDRESS,
            "receiver": ADDRESS,
            "swapMode": one_of("ExactIn"),
            "slippageBps": whole(0, 10_000),
            "referralAccount": ADDRESS,
            "referralFee": whole(50, 255),
            "payer": ADDRESS,
            "priorityFeeLamports": whole(),
            "jitoTipLamports": whole(),
            "broadcastFeeType": one_of("maxCap", "exactFee"),
            "excludeRouters": {
                "type": "string",
                "pattern": "^(metis|jupiterz|dflow|okx)(,(metis|jupiterz|dflow|okx))*$",
            },
            "excludeDexes": TEXT,
        },
        record(
            {
                **_OFFER,
                "mode": one_of("ultra", "manual"),
                "router": one_of("metis", "jupiterz", "dflow", "okx"),
                "transaction": nullable(BASE64),
                "requestId": TEXT,
            },
            {
                "inUsdValue": NUMBER,
                "outUsdValue": NUMBER,
                "swapUsdValue": NUMBER,
                "priceImpact": NUMBER,
                "referralAccount": TEXT,
                "feeMint": TEXT,
                "feeBps": NUMBER,
                "platformFee": _FEE,
                "signatureFeeLamports": NUMBER,
                "signatureFeePayer": nullable(ADDRESS),
                "prioritizationFeeLamports": NUMBER,
                "prioritizationFeePayer": nullable(ADDRESS),
                "rentFeeLamports": NUMBER,
                "rentFeePayer": nullable(ADDRESS),
                "swapType": one_of("aggregator", "rfq", "aggregator+rfq", "dflow", "okx"),
                "lastValidBlockHeight": UNITS,
                "gasless": FLAG,
                "totalTime": NUMBER,
                "taker": nullable(ADDRESS),
                "quoteId": TEXT,
                "maker": TEXT,
                "expireAt": TEXT,
                "errorCode": NUMBER,
                "errorMessage": TEXT,
                "error": TEXT,
            },
        ),
    ),
    ("POST", "/swap/v2/execute"): Endpoint(
        {"signedTransaction": BASE64, "requestId": TEXT},
        {"lastValidBlockHeight": UNITS},
        record(
            {"status": one_of("Success", "Failed"), "code": whole(-10_000), "signature": TEXT},
            {
                "slot": UNITS,
                "error": TEXT,
                "totalInputAmount": UNITS,
                "totalOutputAmount": UNITS,
                "inputAmountResult": UNITS,
                "outputAmountResult": UNITS,
                "swapEvents": listed(
                    record(
                        {"inputMint": ADDRESS, "inputAmount": UNITS, "outputMint": ADDRESS,
                         "outputAmount": UNITS}
                    )
                ),
            },
        ),
    ),
}  # fmt: skip


def check_answer(method: str, path: str, body: Any) -> None:
    """Raise `jsonschema.ValidationError` where a body of status 200 is not as documented."""
    jsonschema.validate(body, API[method, path].answer)


def check_request(method: str, path: str, query: Mapping[str, str], body: Any) -> None:
    """Raise `jsonschema.ValidationError` where a request is not as documented."""
    endpoint = API[method, path]
    given = body if method == "POST" else {name: _typed(text) for name, text in query.items()}
    schema = {**record(endpoint.required, endpoint.optional)}
    if method == "POST":
        assert not query
    jsonschema.validate(given, schema)


def _typed(text: str) -> Any:
    """What a query's text stands for, where it is a number or a truth."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdecimal() else text
