"""A client of each vendor that shares no code with the server: it asks, and reads what was said."""

from __future__ import annotations

import json
from typing import Any

import httpx
from tests.support.vendors.wire import Vendor

VENDORS: tuple[Vendor, ...] = ("openai", "grok", "anthropic", "gemini")

SCHEMA = {"type": "object", "properties": {"reason": {"type": "string"}}}

TOOL = {"name": "wait", "description": "Do nothing."}


def body_of(vendor: Vendor, stream: bool, tools: bool = True) -> dict[str, Any]:
    """A request in the vendor's JSON: one system text, two user turns around one of the model."""
    said = [("user", "first"), ("assistant", "between"), ("user", "second")]
    if vendor == "gemini":
        turns = [
            {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
            for role, text in said
        ]
        body: dict[str, Any] = {
            "systemInstruction": {"parts": [{"text": "be"}, {"text": "brief"}]},
            "contents": turns,
        }
        offered: Any = [{"functionDeclarations": [{**TOOL, "parameters": SCHEMA}]}]
    elif vendor == "anthropic":
        body = {
            "model": "m-1",
            "max_tokens": 100,
            "system": [{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}],
            "messages": [
                {"role": role, "content": [{"type": "text", "text": text}]} for role, text in said
            ],
            "stream": stream,
        }
        offered = [{**TOOL, "input_schema": SCHEMA}]
    else:
        body = {
            "model": "m-1",
            "messages": [
                {"role": "system", "content": "be\nbrief"},
                *({"role": role, "content": text} for role, text in said),
            ],
            "stream": stream,
        }
        offered = [{"type": "function", "function": {**TOOL, "parameters": SCHEMA}}]
    return body | ({"tools": offered} if tools else {})


def address_of(vendor: Vendor, bases: dict[str, str], stream: bool) -> str:
    """Where the vendor's own client would send it, its base given as configured."""
    if vendor == "gemini":
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{bases['GEMINI_API_BASE']}/models/m-1:{method}"
    if vendor == "anthropic":
        return f"{bases['ANTHROPIC_API_BASE']}/v1/messages"
    base = bases["OPENAI_BASE_URL" if vendor == "openai" else "XAI_API_BASE"]
    return f"{base}/chat/completions"


def headers_of(vendor: Vendor, key: str) -> dict[str, str]:
    """The key where the vendor wants it."""
    if vendor == "anthropic":
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}
    if vendor == "gemini":
        return {"x-goog-api-key": key}
    return {"Authorization": f"Bearer {key}"}


def client() -> httpx.AsyncClient:
    """Without the certificates, whose loading takes longer than a test."""
    return httpx.AsyncClient(timeout=10, verify=False)


async def ask(
    bases: dict[str, str],
    vendor: Vendor,
    key: str = "key",
    *,
    stream: bool = False,
    tools: bool = True,
) -> httpx.Response:
    """One request on a connection of its own."""
    async with client() as asking:
        return await asking.post(
            address_of(vendor, bases, stream),
            headers=headers_of(vendor, key),
            json=body_of(vendor, stream, tools),
        )


def events_of(text: str) -> list[tuple[str | None, str]]:
    """(event name, data) of a stream of server-sent events, read as the HTML standard says."""
    events: list[tuple[str | None, str]] = []
    for block in text.replace("\r\n", "\n").removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        events.append((fields.get("event"), fields["data"]))
    return events


def read(vendor: Vendor, response: httpx.Response, stream: bool) -> tuple[str, list[Any]]:
    """(text, [(tool, arguments as the wire has them)]) of an answer."""
    if not stream:
        return _read_whole(vendor, response.json())
    chunks = [json.loads(data) for _, data in events_of(response.text) if data != "[DONE]"]
    if vendor == "anthropic":
        return _read_anthropic_stream(chunks)
    if vendor == "gemini":
        read_chunks = [_read_whole(vendor, chunk) for chunk in chunks]
        return "".join(text for text, _ in read_chunks), [c for _, cs in read_chunks for c in cs]
    return _read_openai_stream(chunks)


def _read_whole(vendor: Vendor, body: dict[str, Any]) -> tuple[str, list[Any]]:
    if vendor == "anthropic":
        text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
        uses = [block for block in body["content"] if block["type"] == "tool_use"]
        return text, [(use["name"], use["input"]) for use in uses]
    if vendor == "gemini":
        parts = body["candidates"][0]["content"].get("parts", [])
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        text = "".join(part.get("text", "") for part in parts)
        return text, [(call["name"], call["args"]) for call in calls]
    if not body["choices"]:
        return "", []
    message = body["choices"][0]["message"]
    functions = [call["function"] for call in message.get("tool_calls", [])]
    return message["content"] or "", [(f["name"], _parsed(f["arguments"])) for f in functions]


def _read_openai_stream(chunks: list[dict[str, Any]]) -> tuple[str, list[Any]]:
    text, calls = "", dict[int, tuple[str, str]]()
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        text += choice["delta"].get("content") or ""
        for call in choice["delta"].get("tool_calls", []):
            name, written = calls.get(call["index"], (call["function"].get("name"), ""))
            calls[call["index"]] = (name, written + call["function"]["arguments"])
    return text, [(name, _parsed(written)) for _, (name, written) in sorted(calls.items())]


def _read_anthropic_stream(chunks: list[dict[str, Any]]) -> tuple[str, list[Any]]:
    text, calls = "", dict[int, tuple[str, str]]()
    for chunk in chunks:
        block = chunk.get("content_block", {})
        if block.get("type") == "tool_use":
            calls[chunk["index"]] = (block["name"], "")
        delta = chunk.get("delta", {})
        text += delta.get("text", "")
        if "partial_json" in delta:
            name, written = calls[chunk["index"]]
            calls[chunk["index"]] = (name, written + delta["partial_json"])
    return text, [(name, _parsed(written)) for _, (name, written) in sorted(calls.items())]


def _parsed(written: str) -> Any:
    try:
        return json.loads(written)
    except json.JSONDecodeError:
        return written
