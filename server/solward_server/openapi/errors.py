"""How requests are refused: one form for every error, and the texts that many routes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from solward_server.http.auth import ADMIN_REQUIRED, KEY_INVALID, KEY_REQUIRED
from solward_server.openapi.media import JSON, media, several
from solward_server.openapi.schema import ref

NOT_JSON = "The request body must be valid JSON"
LARGE = "The request body must not be larger than 64 KiB"
SLOW = "The request body took too long to arrive"
BUG = "Internal error"
NO_WALLET = "Wallet not found"
NO_AGENT = "Agent not found"
IN_FLIGHT = "A request with this Idempotency-Key is still in progress"
MISMATCH = "Idempotency-Key was already used with a different request body"
TOO_MANY = (
    "Rate limit exceeded: this API key may make 2 transaction requests a minute; retry in 60 s"
)
BLOCKED = (
    "Transaction blocked by guardrail max_per_tx: 5 SOL is more than the 2 SOL allowed per "
    "transaction (limit of the wallet)"
)
FAILED = "The transaction would fail: insufficient balance (999995000 lamports, 1500000000 needed)"

_MEANINGS = {
    400: "A field is missing or wrong; the text names it.",
    401: "The credential is missing, not known, or not enough.",
    403: "What a key that is confined to one wallet may not do.",
    404: "Not known, or not for this key.",
    408: "The request body took too long to arrive.",
    409: "The first request with this Idempotency-Key still runs.",
    413: "The request body is larger than 64 KiB.",
    422: "The Idempotency-Key was used with another body.",
    429: "Too many requests, or no room in a budget.",
    500: "The text says what failed; `Internal error` is a bug, with its traceback in the log.",
}
_RETRY_AFTER = {
    "description": "Seconds to wait.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
_WWW_AUTHENTICATE = {
    "description": "The scheme.",
    "required": True,
    "schema": {"type": "string", "const": "Bearer"},
}
# The answers of `components/responses`, by name: status and texts.
_SHARED: dict[str, tuple[int, tuple[str, ...]]] = {
    "KeyRequired": (401, (KEY_REQUIRED, KEY_INVALID)),
    "AdminRequired": (401, (ADMIN_REQUIRED,)),
    "NoWallet": (404, (NO_WALLET,)),
    "NoAgent": (404, (NO_AGENT,)),
    "TooSlow": (408, (SLOW,)),
    "InFlight": (409, (IN_FLIGHT,)),
    "TooLarge": (413, (LARGE,)),
    "OtherBody": (422, (MISMATCH,)),
    "TooMany": (429, (TOO_MANY,)),
    "Bug": (500, (BUG,)),
    "Refused": (500, (BLOCKED, FAILED, BUG)),
}


def failure(status: int, texts: Sequence[str]) -> dict[str, Any]:
    """An error's response, with an example of each text; a reference where it is shared."""
    for name, known in _SHARED.items():
        if known == (status, tuple(texts)):
            return {"$ref": f"#/components/responses/{name}"}
    return _failure(status, texts)


def shared_failures() -> dict[str, dict[str, Any]]:
    """`components/responses`."""
    return {name: _failure(*known) for name, known in _SHARED.items()}


def _failure(status: int, texts: Sequence[str]) -> dict[str, Any]:
    named = {f"text{place}": {"error": text} for place, text in enumerate(dict.fromkeys(texts), 1)}
    made: dict[str, Any] = {
        "description": _MEANINGS[status],
        "content": {JSON: media(ref("Error"), several(**named))},
    }
    if status == 401:
        return made | {"headers": {"WWW-Authenticate": _WWW_AUTHENTICATE}}
    # A budget of tokens has no moment at which there is room again.
    if status == 409 or TOO_MANY in texts:
        return made | {"headers": {"Retry-After": _RETRY_AFTER}}
    return made
