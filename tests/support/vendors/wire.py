"""What the four vendors' wire protocols have in common: a request as captured, an answer to give.

A script and a scenario speak in these terms; openai_wire, anthropic_wire and gemini_wire put them
in their vendor's JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Vendor = Literal["openai", "grok", "anthropic", "gemini"]

Fault = Literal["empty", "drip", "reset", "garbage"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's definition; `parameters` is its JSON Schema as the vendor received it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CapturedRequest:
    """One request as it came in, its prompt and tools named alike for every vendor.

    `headers` have lower-case names and hold the key, as `key` does. `system` and `user` are the
    texts of their turns, joined by a newline; `turns` has every (role, text) in order, roles being
    `user`, `assistant` and, with OpenAI's protocol only, `tool`.
    """

    vendor: Vendor
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str
    key: str
    stream: bool
    system: str
    turns: tuple[tuple[str, str], ...]
    tools: tuple[Tool, ...]

    @property
    def user(self) -> str:
        """What the user's turns say."""
        return "\n".join(text for role, text in self.turns if role == "user")

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools offered, in order."""
        return tuple(tool.name for tool in self.tools)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` as a string is text that is no JSON.

    OpenAI and xAI send it raw, and so does a stream of Anthropic's; whole, Anthropic's input is
    that string. Gemini has no such text: it ends with MALFORMED_FUNCTION_CALL and no content.
    """

    name: str
    arguments: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model, or the machine before it, answers.

    A `status` other than 200 is the vendor's error with `message`. `fault` breaks the answer:
    `empty` has no choices or no content, `drip` sends single bytes for ever, `reset` breaks the
    connection mid-body, `garbage` is HTML with status 200. `usage` is (input, output) tokens;
    unset, a length / 4. `cached` are the tokens of the input that were (written to the vendor's
    cache, read from it); only Anthropic's protocol counts written ones.

    `refusal` is the vendor's word for why nobody answers, such as Gemini's `SAFETY`, and `refused`
    the sentences that go with it; `text` is then what came before. OpenAI's and xAI's word
    `content_filter` ends an answer; with any other word the model itself refuses. Gemini's
    `prompt:` before a word says that the prompt was blocked.
    """

    text: str | None = None
    calls: tuple[Call, ...] = ()
    status: int = 200
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault | None = None
    usage: tuple[int, int] | None = None
    delay_s: float = 0.0
    refusal: str | None = None
    refused: str | None = None
    cached: tuple[int, int] = (0, 0)


def tokens(request: CapturedRequest, answer: Answer) -> tuple[int, int]:
    """(input, output) tokens to bill, at least 1 each."""
    if answer.usage is not None:
        return answer.usage
    asked = len(request.system) + sum(len(text) for _, text in request.turns)
    said = len(answer.text or "") + sum(len(raw(call)) for call in answer.calls)
    return max(1, asked // 4), max(1, said // 4)


def raw(call: Call) -> str:
    """The arguments as the text a model produced."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def pieces(text: str, count: int = 3) -> list[str]:
    """The text in at most `count` parts, as a stream brings it."""
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def text_of(content: Any) -> str:
    """The text in a message's content, given as a string or as parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if isinstance(part.get("text"), str))


def masked(key: str) -> str:
    """A key as vendors repeat it in an error: its first two and its last two characters."""
    return f"{key[:2]}***{key[-2:]}" if len(key) > 4 else "***"


def event(data: Any, name: str | None = None, end: str = "\n\n") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}{end}".encode()
