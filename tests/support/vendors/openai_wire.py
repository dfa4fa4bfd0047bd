"""OpenAI's Chat Completions, as xAI speaks it too.

Sources: platform.openai.com/docs/api-reference/chat/object and .../chat-streaming, and the types of
the `openai` package; xAI's error body, `code` and `error` as two strings, from the answers quoted
in github.com/openai/codex/issues/1352.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.vendors.wire import (
    Answer,
    CapturedRequest,
    Tool,
    Vendor,
    event,
    masked,
    pieces,
    raw,
    text_of,
    tokens,
)

CREATED = 1_795_000_000

ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def capture(
    vendor: Vendor, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
) -> CapturedRequest:
    """The request in common terms."""
    messages = body.get("messages", [])
    texts = [(message["role"], text_of(message.get("content"))) for message in messages]
    return CapturedRequest(
        vendor=vendor,
        path=path,
        headers=headers,
        body=body,
        model=body.get("model", ""),
        key=headers.get("authorization", "").removeprefix("Bearer ").strip(),
        stream=body.get("stream") is True,
        system="\n".join(text for role, text in texts if role in ("system", "developer")),
        turns=tuple(turn for turn in texts if turn[0] not in ("system", "developer")),
        tools=tuple(
            Tool(
                tool["function"]["name"],
                tool["function"].get("description", ""),
                tool["function"].get("parameters", {}),
            )
            for tool in body.get("tools") or ()
        ),
    )


def problem(request: CapturedRequest) -> str | None:
    """Why the vendor would refuse the request with a 400, if it would."""
    if not request.model:
        return "you must provide a model parameter"
    if not request.body.get("messages"):
        return "Missing required parameter: 'messages'."
    if request.body.get("tool_choice") is not None and not request.tools:
        return "Invalid value for 'tool_choice': 'tool_choice' is only allowed with 'tools'."
    return None


def error(request: CapturedRequest, answer: Answer) -> dict[str, Any]:
    """The error body."""
    kind, code = ERRORS.get(answer.status, ("server_error", None))
    message = answer.message
    if not message and answer.status == 401:
        message = f"Incorrect API key provided: {masked(request.key)}."
    message = message or f"The request failed with status {answer.status}."
    if request.vendor == "grok":
        return {"code": code or kind, "error": message}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def complete(request: CapturedRequest, answer: Answer, serial: int) -> dict[str, Any]:
    """A ChatCompletion."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text,
        "refusal": answer.refused,
    }
    if answer.calls:
        message["tool_calls"] = _tool_calls(answer, serial)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {
        **_head(request, serial, "chat.completion"),
        "choices": [] if answer.fault == "empty" else [choice],
        "usage": _usage(request, answer),
    }


def frames(request: CapturedRequest, answer: Answer, serial: int) -> list[bytes]:
    """The server-sent events of a streamed ChatCompletion."""
    head = _head(request, serial, "chat.completion.chunk")
    with_usage = (request.body.get("stream_options") or {}).get("include_usage") is True
    if with_usage:
        head["usage"] = None
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": piece} for piece in pieces(answer.text or "")]
    deltas += [{"refusal": piece} for piece in pieces(answer.refused or "")]
    for index, call in enumerate(_tool_calls(answer, serial)):
        named = call["function"] | {"arguments": ""}
        deltas.append({"tool_calls": [{"index": index, **call, "function": named}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in pieces(call["function"]["arguments"])
        ]
    chunks: list[dict[str, Any]] = []
    if answer.fault == "empty":
        chunks.append({**head, "choices": []})
    else:
        chunks += [{**head, "choices": [_delta(delta, None)]} for delta in deltas]
        chunks.append({**head, "choices": [_delta({}, _finish(answer))]})
    if with_usage:
        chunks.append({**head, "choices": [], "usage": _usage(request, answer)})
    return [*map(event, chunks), b"data: [DONE]\n\n"]


def _head(request: CapturedRequest, serial: int, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{serial:029d}",
        "object": kind,
        "created": CREATED + serial,
        "model": request.model,
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
    }


def _delta(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _finish(answer: Answer) -> str:
    if answer.refusal == "content_filter":
        return answer.refusal
    return "tool_calls" if answer.calls else "stop"


def _tool_calls(answer: Answer, serial: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{serial:020d}{index:04d}",
            "type": "function",
            "function": {"name": call.name, "arguments": raw(call)},
        }
        for index, call in enumerate(answer.calls)
    ]


def _usage(request: CapturedRequest, answer: Answer) -> dict[str, Any]:
    asked, said = tokens(request, answer)
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": answer.cached[1], "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
