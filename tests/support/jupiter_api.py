"""The Jupiter Swap API, stated by hand from its official documents: what each call takes and gives.

Nothing of the product is used here: recordings and the localnet's market are both held against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema

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
