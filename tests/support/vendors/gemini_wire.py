"""Gemini's generateContent and streamGenerateContent.

Sources: ai.google.dev/api/generate-content (GenerateContentResponse, Candidate, FinishReason,
UsageMetadata), ai.google.dev/gemini-api/docs/troubleshooting (errors); the empty content of a
MALFORMED_FUNCTION_CALL as captured in github.com/vercel/ai/pull/5039.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.support.vendors.wire import Answer, CapturedRequest, Tool, event, pieces, text_of, tokens

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def capture(
    path: str, headers: Mapping[str, str], query: Mapping[str, str], body: Mapping[str, Any]
) -> CapturedRequest:
    """The request in common terms; the model and whether to stream are in the path."""
    model, _, method = path.rpartition("/models/")[2].partition(":")
    instruction = body.get("systemInstruction") or body.get("system_instruction") or {}
    declarations = [
        declaration
        for tool in body.get("tools") or ()
        for declaration in tool.get("functionDeclarations")
        or tool.get("function_declarations")
        or ()
    ]
    return CapturedRequest(
        vendor="gemini",
        path=path,
        headers=headers,
        body=body,
        model=model,
        key=headers.get("x-goog-api-key") or query.get("key", ""),
        stream=method == "streamGenerateContent",
        system=text_of(instruction.get("parts")),
        turns=tuple(
            (
                "assistant" if turn.get("role") == "model" else turn.get("role", "user"),
                text_of(turn.get("parts")),
            )
            for turn in body.get("contents", [])
        ),
        tools=tuple(
            Tool(
                declaration["name"],
                declaration.get("description", ""),
                declaration.get("parameters") or declaration.get("parametersJsonSchema") or {},
            )
            for declaration in declarations
        ),
    )


def problem(request: CapturedRequest) -> str | None:
    """Why the vendor would refuse the request with a 400, if it would."""
    if not request.body.get("contents"):
        return "* GenerateContentRequest.contents: contents is not specified\n"
    return None


def error(request: CapturedRequest, answer: Answer) -> dict[str, Any]:
    """The error body, with RetryInfo where there is a Retry-After."""
    messages = {401: "API key not valid. Please pass a valid API key."}
    message = answer.message or messages.get(answer.status)
    body: dict[str, Any] = {
        "code": answer.status,
        "message": message or f"The request failed with status {answer.status}.",
        "status": STATUSES.get(answer.status, "UNKNOWN"),
    }
    if "Retry-After" in answer.headers:
        body["details"] = [
            {
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": f"{answer.headers['Retry-After']}s",
            }
        ]
    return {"error": body}


def complete(request: CapturedRequest, answer: Answer, serial: int) -> dict[str, Any]:
    """A GenerateContentResponse."""
    if _blocked(answer):
        return _blocked_prompt(request, answer, serial)
    return {
        "candidates": [_candidate(_parts(answer), answer)],
        "usageMetadata": _usage(request, answer),
        **_tail(request, serial),
    }


def frames(request: CapturedRequest, answer: Answer, serial: int) -> list[bytes]:
    """The server-sent events of a streamed answer; the last has the finish reason."""
    return [event(chunk, end="\r\n\r\n") for chunk in _chunks(request, answer, serial)]


def array(request: CapturedRequest, answer: Answer, serial: int) -> list[bytes]:
    """The streamed answer without `alt=sse`: one JSON array, an element a time."""
    texts = [json.dumps(chunk) for chunk in _chunks(request, answer, serial)]
    return [f"{'[' if index == 0 else ','}{text}".encode() for index, text in enumerate(texts)] + [
        b"]"
    ]


def _blocked(answer: Answer) -> bool:
    return (answer.refusal or "").startswith("prompt:")


def _blocked_prompt(request: CapturedRequest, answer: Answer, serial: int) -> dict[str, Any]:
    """No candidates at all."""
    word = (answer.refusal or "").removeprefix("prompt:")
    usage = {"usageMetadata": _usage(request, answer)}
    return {"promptFeedback": {"blockReason": word}, **usage, **_tail(request, serial)}


def _chunks(request: CapturedRequest, answer: Answer, serial: int) -> list[dict[str, Any]]:
    if _blocked(answer):
        return [_blocked_prompt(request, answer, serial)]
    groups = [[{"text": piece}] for piece in pieces(answer.text or "")]
    groups += [[part] for part in _parts(answer) if "functionCall" in part]
    if answer.fault == "empty" or _malformed(answer) or not groups:
        groups = [[]]
    common = {"usageMetadata": _usage(request, answer), **_tail(request, serial)}
    open_ended = [
        {"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}], **common}
        for parts in groups[:-1]
    ]
    return [*open_ended, {"candidates": [_candidate(groups[-1], answer)], **common}]


def _candidate(parts: list[dict[str, Any]], answer: Answer) -> dict[str, Any]:
    if _malformed(answer):
        said = answer.calls[0].name
        return {
            "content": {},
            "finishReason": "MALFORMED_FUNCTION_CALL",
            "finishMessage": f"Malformed function call: print(default_api.{said}(",
            "index": 0,
        }
    content: dict[str, Any] = {"role": "model"}
    if parts and answer.fault != "empty":
        content["parts"] = parts
    return {"content": content, "finishReason": answer.refusal or "STOP", "index": 0}


def _malformed(answer: Answer) -> bool:
    return any(isinstance(call.arguments, str) for call in answer.calls)


def _parts(answer: Answer) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if answer.text is not None:
        parts.append({"text": answer.text})
    parts += [{"functionCall": {"name": c.name, "args": c.arguments}} for c in answer.calls]
    return parts


def _usage(request: CapturedRequest, answer: Answer) -> dict[str, Any]:
    asked, said = tokens(request, answer)
    cached = {"cachedContentTokenCount": answer.cached[1]} if answer.cached[1] else {}
    return {
        **cached,
        "promptTokenCount": asked,
        "candidatesTokenCount": said,
        "totalTokenCount": asked + said,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": asked}],
    }


def _tail(request: CapturedRequest, serial: int) -> dict[str, Any]:
    return {"modelVersion": request.model, "responseId": f"{serial:024d}"}
