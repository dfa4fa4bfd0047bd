"""JSON-RPC errors of the localnet, with the codes and the texts of Agave's RPC service."""

from collections.abc import Iterable
from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
PREFLIGHT_FAILURE = -32002
SIGNATURE_VERIFICATION_FAILURE = -32003
BLOCK_NOT_AVAILABLE = -32004
UNSUPPORTED_TRANSACTION_VERSION = -32015
MIN_CONTEXT_SLOT_NOT_REACHED = -32016


class RpcError(Exception):
    """A JSON-RPC error object: what a client receives in the `error` member.

    `code` is the JSON-RPC or Solana server error code, `message` the text shown to people, `data`
    any JSON value that goes with it (a failed preflight carries its simulation there), or None.
    """

    def __init__(self, code: int, message: str, data: Any | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> dict[str, Any]:
        """The error object as the wire carries it; `data` is left out where there is none."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            body["data"] = self.data
        return body


class LedgerLocked(Exception):
    """Another process has this ledger file open."""


class LedgerMismatch(Exception):
    """The ledger file cannot be opened by this version, or is not a ledger of the localnet."""


def invalid_params(message: str) -> RpcError:
    """The error for a parameter that cannot be used; `message` names it and what was expected."""
    return RpcError(INVALID_PARAMS, message)


def check_variant(given: object, expected: Iterable[str]) -> None:
    """Refuse a word that is not one of those expected, in serde's words for it."""
    names = tuple(expected)
    if given not in names:
        listed = ", ".join(f"`{name}`" for name in names)
        raise invalid_params(
            f"Invalid params: unknown variant `{given}`, expected one of {listed}."
        )
