"""JSON-RPC 2.0 over any transport: requests, batches and notifications, with Agave's texts."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from solward_localnet.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    RpcError,
    invalid_params,
)

Call = Callable[[str, Sequence[Any]], Awaitable[Any]]
"""Executes one method with its positional parameters; raises `RpcError`."""

_log = logging.getLogger(__name__)

_NO_ID = object()


async def answer(body: str | bytes, call: Call) -> str | None:
    """The response text for a request body; None where nothing is to be answered.

    The requests of a batch run concurrently and are answered in their order. An exception that is
    no `RpcError` is logged and answered as -32603 without its text.
    """
    try:
        request = _DECODER.decode(body if isinstance(body, str) else body.decode())
    except (ValueError, RecursionError):
        return encode(_failure(None, RpcError(PARSE_ERROR, "Parse error")))
    if not isinstance(request, list):
        single = await _answer_one(request, call)
        return None if single is None else encode(single)
    if not request:
        return encode(_failure(None, RpcError(INVALID_REQUEST, "Invalid request")))
    answers = await asyncio.gather(*(_answer_one(item, call) for item in request))
    responses = [response for response in answers if response is not None]
    return encode(responses) if responses else None


def encode(value: Any) -> str:
    """`value` as compact JSON in ASCII."""
    return _ENCODER.encode(value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` and `json.dumps` make them anew for what is not their default.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _failure(request_id: Any, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": error.to_json(), "id": request_id}


async def _answer_one(request: Any, call: Call) -> dict[str, Any] | None:
    request_id = request.get("id", _NO_ID) if isinstance(request, dict) else None
    if request_id is not _NO_ID and not _is_id(request_id):
        request_id = None
        request = None
    shown_id = None if request_id is _NO_ID else request_id
    try:
        method, params = _check(request)
    except RpcError as error:
        return _failure(shown_id, error)
    try:
        result = await call(method, params)
    except RpcError as error:
        response = _failure(shown_id, error)
    except Exception:
        _log.exception("method %s failed", method)
        response = _failure(shown_id, RpcError(INTERNAL_ERROR, "Internal error"))
    else:
        response = {"jsonrpc": "2.0", "result": result, "id": shown_id}
    return None if request_id is _NO_ID else response


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def _check(request: Any) -> tuple[str, Sequence[Any]]:
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
