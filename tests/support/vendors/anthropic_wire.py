"""Anthropic's Messages API.

Sources: platform.claude.com/docs/en/api/messages, /docs/en/build-with-claude/streaming and
/docs/en/api/errors; fields as in anthropic-sdk-python's types/message.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.vendors.wire import (
    Answer,
    Call,
    CapturedRequest,
    Tool,
    event,
    pieces,
    raw,
    text_of,
    tokens,
)

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def capture(path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> CapturedRequest:
    """The request in common terms."""
    return CapturedRequest(
        vendor="anthropic",
        path=path,
        headers=headers,
        body=body,
        model=body.get("model", ""),
        # As litellm sends it, and as the vendor's own SDK of release 2 does.
        key=headers.get("x-api-key")
        or headers.get("authorization", "").removeprefix("Bearer ").strip(),
        stream=body.get("stream") is True,
        system=text_of(body.get("system")),
        turns=tuple((turn["role"], text_of(turn["content"])) for turn in body.get("messages", [])),
        tools=tuple(
            Tool(tool["name"], tool.get("description", ""), tool.get("input_schema", {}))
            for tool in body.get("tools") or ()
        ),
    )


def problem(request: CapturedRequest) -> str | None:
    """Why the vendor would refuse the request with a 400, if it would."""
    if "anthropic-version" not in request.headers:
        return "anthropic-version: header is required"
    for name in ("model", "messages", "max_tokens"):
        if not request.body.get(name):
            return f"{name}: Field required"
    if any(role not in ("user", "assistant") for role, _ in request.turns):
        return "messages: Unexpected role. Use the top-level `system` parameter."
    return None


def error(request: CapturedRequest, answer: Answer) -> dict[str, Any]:
    """The error body; the vendor repeats no part of a key."""
    messages = {401: "invalid x-api-key", 529: "Overloaded", 500: "Internal server error"}
    message = answer.message or messages.get(answer.status)
    return {
        "type": "error",
        "error": {
            "type": ERRORS.get(answer.status, "api_error"),
            "message": message or f"The request failed with status {answer.status}.",
        },
        "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    }


def complete(request: CapturedRequest, answer: Answer, serial: int) -> dict[str, Any]:
    """A Message."""
    return {
        **_message(request, answer, serial),
        "content": _blocks(answer, serial),
        "stop_reason": _stop(answer),
        **_stop_details(answer),
    }


def frames(request: CapturedRequest, answer: Answer, serial: int) -> list[bytes]:
    """The server-sent events of a streamed Message."""
    message = _message(request, answer, serial)
    message["usage"] = message["usage"] | {"output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(_blocks(answer, serial)):
        blank: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
        start = block | blank
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        if index == 0:
            events.append({"type": "ping"})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta}
            for delta in _deltas(block)
        ]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": _stop(answer),
                "stop_sequence": None,
                **_stop_details(answer),
            },
            "usage": {"output_tokens": tokens(request, answer)[1]},
        }
    )
    events.append({"type": "message_stop"})
    return [event(data, data["type"]) for data in events]


def _message(request: CapturedRequest, answer: Answer, serial: int) -> dict[str, Any]:
    asked, said = tokens(request, answer)
    return {
        "id": f"msg_01{serial:022d}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            # Beside the cached ones, where other vendors' numbers include them.
            "input_tokens": asked - sum(answer.cached),
            "cache_creation_input_tokens": answer.cached[0],
            "cache_read_input_tokens": answer.cached[1],
            "output_tokens": said,
            "service_tier": "standard",
        },
    }


def _blocks(answer: Answer, serial: int) -> list[dict[str, Any]]:
    if answer.fault == "empty":
        return []
    blocks: list[dict[str, Any]] = []
    if answer.text is not None:
        blocks.append({"type": "text", "text": answer.text})
    for index, call in enumerate(answer.calls):
        use = {"type": "tool_use", "id": f"toolu_01{serial:018d}{index:04d}", "name": call.name}
        blocks.append({**use, "input": call.arguments})
    return blocks


def _deltas(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        return [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    written = raw(Call(block["name"], block["input"]))
    return [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(written)]]


def _stop_details(answer: Answer) -> dict[str, Any]:
    if answer.refusal is None:
        return {}
    details = {"type": "refusal", "category": answer.refusal, "explanation": answer.refused}
    return {"stop_details": details}


def _stop(answer: Answer) -> str:
    if answer.refusal is not None:
        return "refusal"
    return "tool_use" if answer.calls and answer.fault != "empty" else "end_turn"
