"""JSON-RPC 2.0 over any transport, with the errors and texts of Agave's RPC service: requests,
batches and notifications, the error object, and readers of a call's parameters."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from solana.rpc.commitment import Commitment
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.signature import Signature

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
        """Return the error object in its JSON form, without `data` if that is None."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            body["data"] = self.data
        return body


def invalid_params(message: str) -> RpcError:
    """Return the error for a bad parameter; `message` names it and what was expected."""
    return RpcError(INVALID_PARAMS, message)


def check_variant(given: object, expected: Iterable[str]) -> None:
    """Raise `RpcError` with serde's text if a word is not among the expected words."""
    names = tuple(expected)
    if given not in names:
        listed = ", ".join(f"`{name}`" for name in names)
        raise invalid_params(
            f"Invalid params: unknown variant `{given}`, expected one of {listed}."
        )


T = TypeVar("T")

Params = Sequence[Any]
Config = Mapping[str, Any]

_COMMITMENTS = tuple(Commitment)
_MISSING: Any = object()


def _describe(value: Any) -> str:
    # serde's words for what it found, as they stand in Agave's answers.
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f'string "{value}"'
    return "map" if isinstance(value, Mapping) else "sequence"


def wrong_type(value: Any, expected: str) -> RpcError:
    """Return the error for a value of the wrong JSON type; `expected` reads as in "a string"."""
    return invalid_params(f"Invalid params: invalid type: {_describe(value)}, expected {expected}.")


def _param_at(params: Params, index: int, default: Any) -> Any:
    if index < len(params):
        value = params[index]
        if value is not None or default is _MISSING:
            return value
    elif default is _MISSING:
        raise invalid_params(f"`params` should have at least {index + 1} argument(s)")
    return default


def string_at(params: Params, index: int) -> str:
    """Return the string at `index`."""
    return _checked_string(_param_at(params, index, _MISSING))


def _checked_string(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "a string")
    return value


def integer_at(params: Params, index: int, default: int | None = None) -> int:
    """Return the unsigned 64-bit integer at `index`; it is required if `default` is None."""
    value = _param_at(params, index, _MISSING if default is None else default)
    return check_integer(value)


def check_integer(value: Any) -> int:
    """Return `value` if it is an unsigned 64-bit integer, and raise `RpcError` if not."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(value, "u64")
    if not 0 <= value < 2**64:
        raise invalid_params(f"Invalid params: invalid value: integer `{value}`, expected u64.")
    return value


def list_at(params: Params, index: int) -> list[Any]:
    """Return the array at `index`."""
    value = _param_at(params, index, _MISSING)
    if not isinstance(value, list | tuple):
        raise wrong_type(value, "a sequence")
    return list(value)


def config_at(params: Params, index: int, slot: int | None = None) -> Config:
    """Return the configuration object at `index`, empty if it is absent. Its commitment is checked,
    and its `minContextSlot` is compared with the ledger's `slot`, if that is given."""
    value = _param_at(params, index, {})
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map")
    commitment(value)
    if slot is not None:
        check_context_slot(value, slot)
    return value


def commitment(config: Config) -> str:
    """Return the commitment of the call; `finalized` if it names none."""
    value = optional_string(config, "commitment")
    if value is None:
        return "finalized"
    check_variant(value, _COMMITMENTS)
    return value


def refuse_confirmed(params: Params) -> None:
    """Refuse the commitment `confirmed`, like a cluster that no longer supports it."""
    for each in params:
        if isinstance(each, Mapping) and "confirmed" in (
            each.get("commitment"),
            each.get("preflightCommitment"),
        ):
            check_variant("confirmed", ("processed", "finalized"))


def at_least_confirmed(config: Config) -> None:
    """Refuse `processed`, as Agave does for methods that read the history of transactions."""
    if commitment(config) == "processed":
        raise invalid_params("Method does not support commitment below `confirmed`")


def check_context_slot(config: Config, slot: int) -> None:
    """Refuse a call whose `minContextSlot` is in the future."""
    wanted = config.get("minContextSlot")
    if wanted is not None and check_integer(wanted) > slot:
        raise RpcError(
            MIN_CONTEXT_SLOT_NOT_REACHED,
            "Minimum context slot has not been reached",
            {"contextSlot": slot},
        )


def flag(config: Config, name: str) -> bool:
    """Return a boolean of the configuration; false if it is absent."""
    value = config.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise wrong_type(value, "a boolean")
    return value


def optional_string(config: Config, name: str) -> str | None:
    """Return a string of the configuration; None if it is absent."""
    value = config.get(name)
    return None if value is None else _checked_string(value)


def optional_integer(config: Config, name: str) -> int | None:
    """Return an unsigned integer of the configuration; None if it is absent."""
    value = config.get(name)
    return None if value is None else check_integer(value)


def optional_map(config: Config, name: str) -> Config | None:
    """Return an object of the configuration; None if it is absent."""
    value = config.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise wrong_type(value, "a map")
    return value


def parse_pubkey(text: Any) -> Pubkey:
    """Return the address that base58 `text` encodes."""
    return _decode_base58(Pubkey.from_string, text)


def pubkey_at(params: Params, index: int) -> Pubkey:
    """Return the address at `index`."""
    return parse_pubkey(string_at(params, index))


def parse_signature(text: Any) -> str:
    """Check a transaction signature, and return the base58 text under which it is stored."""
    return str(_decode_base58(Signature.from_string, text))


def parse_blockhash(text: Any) -> bytes:
    """Return the 32 bytes of a base58 blockhash."""
    return bytes(_decode_base58(Hash.from_string, text))


def _decode_base58(read: Callable[[str], T], text: Any) -> T:
    given = _checked_string(text)
    try:
        return read(given)
    except Exception as error:  # solders.ParseHashError has no place to be imported from
        kind = "WrongSize" if "wrong size" in str(error) else "Invalid"
        raise invalid_params(f"Invalid param: {kind}") from None


Call = Callable[[str, Sequence[Any]], Awaitable[Any]]
"""Executes one method with its positional parameters; raises `RpcError`."""

_log = logging.getLogger(__name__)

_NO_ID = object()


async def answer(body: str | bytes, call: Call) -> str | None:
    """Return the response text for a request body; None if the body needs no response.

    The requests of a batch run concurrently and are answered in their order. An exception that is
    no `RpcError` is logged and answered as -32603 without its text.
    """
    try:
        request = _DECODER.decode(body if isinstance(body, str) else body.decode())
    except (ValueError, RecursionError):
        return encode(_error_response(None, RpcError(PARSE_ERROR, "Parse error")))
    if not isinstance(request, list):
        single = await _answer_one(request, call)
        return None if single is None else encode(single)
    if not request:
        return encode(_error_response(None, RpcError(INVALID_REQUEST, "Invalid request")))
    answers = await asyncio.gather(*(_answer_one(item, call) for item in request))
    responses = [response for response in answers if response is not None]
    return encode(responses) if responses else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` and `json.dumps` make new ones at each call with special options.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""A function that encodes a value as compact ASCII JSON."""


def _error_response(request_id: Any, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": error.to_json(), "id": request_id}


async def _answer_one(request: Any, call: Call) -> dict[str, Any] | None:
    request_id = request.get("id", _NO_ID) if isinstance(request, dict) else None
    is_id = isinstance(request_id, str | int | float | None) and not isinstance(request_id, bool)
    if request_id is not _NO_ID and not is_id:
        request_id = None
        request = None
    shown_id = None if request_id is _NO_ID else request_id
    try:
        method, params = _checked_request(request)
    except RpcError as error:
        return _error_response(shown_id, error)
    try:
        result = await call(method, params)
    except RpcError as error:
        response = _error_response(shown_id, error)
    except Exception:
        _log.exception("method %s failed", method)
        response = _error_response(shown_id, RpcError(INTERNAL_ERROR, "Internal error"))
    else:
        response = {"jsonrpc": "2.0", "result": result, "id": shown_id}
    return None if request_id is _NO_ID else response


def _checked_request(request: Any) -> tuple[str, Sequence[Any]]:
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        raise RpcError(INVALID_REQUEST, "Invalid request")
    if request.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Unsupported JSON-RPC protocol version")
    params = request.get("params")
    if params is None:
        params = []
    if isinstance(params, dict):
        raise invalid_params("Invalid params: invalid type: map, expected a list of parameters.")
    if not isinstance(params, list):
        raise RpcError(INVALID_REQUEST, "Invalid request")
    return request["method"], params
