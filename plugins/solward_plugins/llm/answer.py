"""A vendor's answer from litellm, converted to Solward's types."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from solward import Completion, ToolCall, Usage


def completion_of(response: Any, usage: Usage | None) -> Completion:
    """Text and tool calls in their order; an answer without any is `Completion(None)`."""
    message = message_of(response)
    calls = getattr(message, "tool_calls", None) or ()
    return Completion(
        _text(message),
        tuple(_call(call.function) for call in calls if getattr(call, "function", None)),
        usage,
    )


def message_of(response: Any) -> Any:
    """The message of a whole answer, None without one."""
    return _first(response, "message")


def piece_of(chunk: Any) -> str | None:
    """The text a streamed chunk adds."""
    return _text(_first(chunk, "delta"))


def finish_reason(response: Any) -> str | None:
    """Why the answer ended, in litellm's words; None of a chunk that does not end it."""
    reason = _first(response, "finish_reason")
    return reason if isinstance(reason, str) else None


def _first(response: Any, part: str) -> Any:
    choices = getattr(response, "choices", None) or (None,)
    return getattr(choices[0], part, None)


def _text(message: Any) -> str | None:
    content = getattr(message, "content", None)
    return content if isinstance(content, str) and content else None


def _call(function: Any) -> ToolCall:
    return ToolCall(str(getattr(function, "name", None) or ""), _arguments(function.arguments))


def _arguments(sent: Any) -> Any:
    """The JSON value with exact numbers; text that is no JSON stays text, and the agent's act phase
    refuses it."""
    if not isinstance(sent, str) or not sent:
        return sent
    try:
        return json.loads(sent, parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return sent


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
