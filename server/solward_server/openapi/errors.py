"""Error responses of the document, and the texts that many routes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from solward.credentials.rates import ALL, TooManyRequests
from solward.resources.schema import JSON, examples, media, ref
from solward.support.webhook_signature import SIGNATURE
from solward.types.errors import (
    RETRY_HEADER,
    RULE_HEADER,
    TRANSACTION_HEADER,
    AgentNotFound,
    IdempotencyInFlight,
    IdempotencyMismatch,
    WalletNotFound,
)
from solward.types.roles import Role
from solward_server.http.auth import ADMIN_REQUIRED, KEY_INVALID, KEY_REQUIRED, RoleNeeded
from solward_server.http.body import NUL_IN_PATH
from solward_server.http.credential_lookups import CROWDED
from solward_server.http.errors import HTTP_TEXTS, INTERNAL_ERROR

NO_WALLET = str(WalletNotFound())
NO_AGENT = str(AgentNotFound())
IN_FLIGHT = str(IdempotencyInFlight())
MISMATCH = str(IdempotencyMismatch())
TOO_MANY = str(TooManyRequests(limit=2, retry_after=60))
TOO_MANY_AT_ALL = str(TooManyRequests(600, 7, ALL))
ROLE_NEEDED = str(RoleNeeded(Role.POLICY, "ana", Role.READ))
BLOCKED = (
    "Transaction blocked by guardrail max_per_tx: 5 SOL is more than the 2 SOL allowed per "
    "transaction (limit of the wallet)"
)
FAILED = "The transaction would fail: insufficient balance (999995000 lamports, 1500000000 needed)"

_MEANINGS = {
    400: "A field is missing or wrong; the text names it.",
    401: "The credential is missing, not known, or not enough.",
    403: "What this key, or a credential of this role, may not do.",
    404: "Not known, or not for this key.",
    408: "The request body took too long to arrive.",
    409: "The first request with this Idempotency-Key still runs, or what is meant has changed.",
    413: "The request body is larger than 64 KiB; of a policy 1 MiB, of a payment 2 MiB.",
    415: "The request body is compressed, or encoded otherwise.",
    422: "The Idempotency-Key was used with another body.",
    429: "Too many requests, or no room in a budget.",
    500: "The text says what failed; `Internal error` is a bug, with its traceback in the log.",
}
_RETRY_AFTER = {
    "description": "Seconds to wait.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
_OF_A_TRANSACTION = {
    TRANSACTION_HEADER: {
        "description": "The record of the transaction that was blocked or failed.",
        "schema": {"type": "string", "format": "uuid"},
    },
    RULE_HEADER: {
        "description": "The guardrail that blocked it, URL-encoded.",
        "schema": {"type": "string"},
    },
    RETRY_HEADER: {
        "description": "Seconds after which `rate_limit` lets another one pass.",
        "schema": {"type": "integer", "minimum": 1},
    },
}
_WWW_AUTHENTICATE = {
    "description": "The scheme.",
    "required": True,
    "schema": {"type": "string", "enum": ["Bearer", SIGNATURE]},
}
# `components/responses`: name -> status and texts.
_SHARED: dict[str, tuple[int, tuple[str, ...]]] = {
    "BadPath": (400, (NUL_IN_PATH,)),
    "KeyRequired": (401, (KEY_REQUIRED, KEY_INVALID)),
    "AdminRequired": (401, (ADMIN_REQUIRED,)),
    "RoleNeeded": (403, (ROLE_NEEDED,)),
    "NoWallet": (404, (NO_WALLET,)),
    "NoAgent": (404, (NO_AGENT,)),
    "TooSlow": (408, (HTTP_TEXTS[408],)),
    "InFlight": (409, (IN_FLIGHT,)),
    "TooLarge": (413, (HTTP_TEXTS[413],)),
    "Encoded": (415, (HTTP_TEXTS[415],)),
    "OtherBody": (422, (MISMATCH,)),
    "Crowded": (429, (CROWDED,)),
    "TooMany": (429, (TOO_MANY_AT_ALL, CROWDED)),
    "TooManyOfAKey": (429, (TOO_MANY, TOO_MANY_AT_ALL, CROWDED)),
    "Bug": (500, (INTERNAL_ERROR,)),
    "Refused": (500, (BLOCKED, FAILED, INTERNAL_ERROR)),
}


def error_response(status: int, texts: Sequence[str]) -> dict[str, Any]:
    """An error's response with an example of each text; a reference where it is shared."""
    for name, shared in _SHARED.items():
        if shared == (status, tuple(texts)):
            return {"$ref": f"#/components/responses/{name}"}
    return _response(status, texts)


def shared_responses() -> dict[str, dict[str, Any]]:
    """`components/responses`."""
    return {name: _response(*shared) for name, shared in _SHARED.items()}


def _response(status: int, texts: Sequence[str]) -> dict[str, Any]:
    named = {f"text{place}": {"error": text} for place, text in enumerate(dict.fromkeys(texts), 1)}
    response: dict[str, Any] = {
        "description": _MEANINGS[status],
        "content": {JSON: media(ref("Error"), examples(**named))},
    }
    if status == 401:
        return response | {"headers": {"WWW-Authenticate": _WWW_AUTHENTICATE}}
    if status == 429 or IN_FLIGHT in texts:
        # A token budget has no known moment at which it has room again.
        always = {IN_FLIGHT, TOO_MANY, TOO_MANY_AT_ALL, CROWDED} >= set(texts)
        return response | {"headers": {RETRY_HEADER: _RETRY_AFTER | {"required": always}}}
    if BLOCKED in texts:
        return response | {"headers": _OF_A_TRANSACTION}
    return response
