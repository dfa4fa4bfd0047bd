"""JSON-RPC 2.0: what is a request, and what each kind of answer looks like."""

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from solward_localnet.jsonrpc import RpcError, answer


async def call(method: str, params: Sequence[Any]) -> Any:
    """`echo` gives its parameters back, `refuse` is refused, anything else breaks."""
    if method == "echo":
        return list(params)
    if method == "refuse":
        raise RpcError(-32002, "refused", {"logs": ["why"]})
    raise ZeroDivisionError("a secret of the inside")


async def ask(request: Any) -> Any:
    response = await answer(json.dumps(request), call)
    return None if response is None else json.loads(response)


@pytest.mark.parametrize("request_id", [1, 0, -3, "abc", 1.5, None, "\ud800"])
async def test_a_result_is_answered_under_the_request_s_id(request_id: Any) -> None:
    request = {"jsonrpc": "2.0", "id": request_id, "method": "echo", "params": [1, "x"]}
    assert await ask(request) == {"jsonrpc": "2.0", "result": [1, "x"], "id": request_id}


@pytest.mark.parametrize("extra", [{}, {"params": None}])
async def test_params_may_be_missing(extra: dict[str, Any]) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "echo", **extra}
    assert (await ask(request))["result"] == []


async def test_an_error_carries_its_code_text_and_data() -> None:
    assert await ask({"jsonrpc": "2.0", "id": 1, "method": "refuse"}) == {
        "jsonrpc": "2.0",
        "error": {"code": -32002, "message": "refused", "data": {"logs": ["why"]}},
        "id": 1,
    }


async def test_an_unexpected_exception_is_logged_and_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        answered = await ask({"jsonrpc": "2.0", "id": 1, "method": "break"})
    assert answered["error"] == {"code": -32603, "message": "Internal error"}
    assert "a secret of the inside" in caplog.text


@pytest.mark.parametrize("method", ["echo", "refuse", "break"])
async def test_a_notification_is_executed_and_not_answered(method: str) -> None:
    assert await ask({"jsonrpc": "2.0", "method": method}) is None


@pytest.mark.parametrize("body", ["", "{", "[1,", "NaN", '{"id": Infinity}', "[" * 40_000, b"\xff"])
async def test_what_is_not_json_is_a_parse_error(body: str | bytes) -> None:
    response = await answer(body, call)
    assert response is not None
    assert json.loads(response) == {
        "jsonrpc": "2.0",
        "error": {"code": -32700, "message": "Parse error"},
        "id": None,
    }


@pytest.mark.parametrize(
    ("request_body", "code", "message", "answered_id"),
    [
        ([], -32600, "Invalid request", None),
        (1, -32600, "Invalid request", None),
        ({"jsonrpc": "2.0", "id": 1}, -32600, "Invalid request", 1),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600, "Invalid request", 1),
        ({"jsonrpc": "2.0", "id": {}, "method": "echo"}, -32600, "Invalid request", None),
        ({"jsonrpc": "2.0", "id": True, "method": "echo"}, -32600, "Invalid request", None),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": "x"},
            -32600,
            "Invalid request",
            1,
        ),
        (
            {"id": 1, "method": "echo"},
            -32600,
            "Unsupported JSON-RPC protocol version",
            1,
        ),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"a": 1}},
            -32602,
            "Invalid params: invalid type: map, expected a list of parameters.",
            1,
        ),
    ],
)
async def test_a_malformed_request_is_refused(
    request_body: Any, code: int, message: str, answered_id: Any
) -> None:
    assert await ask(request_body) == {
        "jsonrpc": "2.0",
        "error": {"code": code, "message": message},
        "id": answered_id,
    }


async def test_a_batch_is_answered_in_its_order_without_its_notifications() -> None:
    batch: list[Any] = [
        {"jsonrpc": "2.0", "id": 2, "method": "echo", "params": [2]},
        {"jsonrpc": "2.0", "method": "echo"},
        7,
        {"jsonrpc": "2.0", "id": 1, "method": "refuse"},
    ]
    answers = await ask(batch)
    assert [item["id"] for item in answers] == [2, None, 1]
    assert answers[0]["result"] == [2]
    assert answers[1]["error"]["code"] == -32600
    assert answers[2]["error"]["code"] == -32002


async def test_a_batch_of_notifications_has_no_answer() -> None:
    assert await ask([{"jsonrpc": "2.0", "method": "echo"}] * 2) is None


async def test_the_requests_of_a_batch_run_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def meet(_method: str, _params: Sequence[Any]) -> Any:
        async with asyncio.timeout(5):
            return await both.wait() >= 0

    batch = [{"jsonrpc": "2.0", "id": number, "method": "meet"} for number in (1, 2)]
    response = await answer(json.dumps(batch), meet)
    assert response is not None
    assert [item["result"] for item in json.loads(response)] == [True, True]
