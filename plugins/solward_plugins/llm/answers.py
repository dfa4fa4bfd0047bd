"""A vendor's answer, read by Solward's strict parser before litellm reads it.

`VendorTransport` is used by every HTTP client of litellm. It sends a request once, follows no
redirect, removes the tool calls from a whole answer, and passes only known text on to litellm,
whose own JSON parser rounds numbers and uses the last value of a repeated key.

Refusals: if the vendor or its model refuses to answer a prompt, a field of the answer says so:

| vendor | where it says so |
|---|---|
| OpenAI, xAI | `message.refusal`, in a stream `delta.refusal`; `finish_reason` `content_filter` |
| OpenAI's Responses | a part of type `refusal` |
| Anthropic | `stop_reason` `refusal`, with `stop_details` `category` and `explanation` |
| Gemini | `promptFeedback.blockReason`; a candidate's `finishReason`, such as `SAFETY` |
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from decimal import Decimal
from typing import Any, Final

import httpx

from solward import InvalidRequest, ToolCall, read_json, write_json

_FILTERED: Final = "content_filter"
_WORD = re.compile(r"[a-z][a-z_]{2,59}")
# Maximum characters of an error's text from a plugin host.
_MOST: Final = 2_000
# The words of Anthropic, OpenAI's Responses, Gemini and Chat Completions, in this order.
_CUT_OFF: Final = ("max_tokens", "incomplete", "MAX_TOKENS", "length")
_COMPLETE: Final = ("message_stop", "response.completed", "response.incomplete")
_COUNT: Final = re.compile(r"\w*(tokens|TokenCount)")
_MOST_COUNTED: Final = 10**15
_NO_USAGE: Final = (
    *("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens"),
    *("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
)
# These headers describe the body as the vendor sent it, which is then rewritten.
_DROPPED: Final = frozenset({"content-encoding", "content-length", "transfer-encoding", "location"})


class AnswerWatch:
    """Reads one request's answer, and records the parts that litellm does not keep.

    Attributes:
        asked: the number of requests that the vendor may bill, including repetitions.
        status: the HTTP status; None before an answer came.
        whole: the answer; empty for a stream or an error.
        words: the vendor's words for its error, the most exact first; None without an error.
        number: the status code that an error in an answer names.
        problem: the reason why the answer cannot be read.
        calls: the tool calls of a whole answer. A call in an unknown form comes last, without an
            object as its arguments, so that it is refused by its name and not run.
        skipped: the types of parts that are neither text nor calls.
        has_ended: whether the vendor reported the stream's end.
        is_cut_off: whether the vendor reports that the answer reached its maximum length; litellm
            reports for some of these that they ended with a tool call.
        is_miscounted: whether the usage cannot be summed, so that the reservation stays counted.
    """

    def __init__(self, *, is_stream: bool, asked: int = 1) -> None:
        self.is_stream = is_stream
        self.asked = asked
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.whole: dict[str, Any] = {}
        self.words: tuple[str, ...] | None = None
        self.number: int | None = None
        self.problem: str | None = None
        self.calls: list[ToolCall] = []
        self.skipped: set[str] = set()
        self.has_ended = False
        self.is_cut_off = False
        self.is_miscounted = False
        self._unknown_calls: list[ToolCall] = []
        self._is_refused = False
        self._reason: str | None = None
        self._refusal_text = ""

    @property
    def is_answer(self) -> bool:
        """True if the vendor answered, and may bill the answer."""
        return self.status is not None and httpx.codes.is_success(self.status)

    def rewrite_answer(self, data: bytes) -> bytes:
        """Return a whole answer, or a piece of an answer, in the form for litellm.

        Raises:
            httpx.DecodingError: it cannot be read, or is an error; `problem` or `words` says why.
        """
        answer, problem = None, "it is not JSON, repeats a key, or has more than 64 levels"
        with suppress(InvalidRequest):
            answer = read_json(data, "answer", len(data), any_value=True)
            problem = "it is not in the vendor's format"
        self._record_error(answer)
        if not self.is_answer:
            return data
        if not isinstance(answer, dict):
            self.problem = problem
        elif not self.is_stream:
            self.whole = dict(answer)
        if self.problem is not None or self.words is not None:
            raise httpx.DecodingError(self.problem or "The vendor reports an error")
        assert answer is not None
        self._record_refusal(answer)
        self._trim_answer(answer)
        return write_json(answer, ascii_only=True).encode()

    def refusal(self, finish_reason: object) -> tuple[str, str] | None:
        """Return the vendor's reason for a refusal and the text it sent, or None if it answered.

        Args:
            finish_reason: as litellm gives it.
        """
        filtered = finish_reason == _FILTERED
        if not filtered and not self._is_refused:
            return None
        return self._reason or (_FILTERED if filtered else "refusal"), self._refusal_text[:_MOST]

    def _record_error(self, answer: object) -> None:
        """Record an error that a status, an answer or a piece of an answer reports."""
        fields = _mapping(answer)
        inner = _mapping(fields.get("response")) or fields
        error = fields.get("error") or inner.get("error")
        if not error and inner.get("status") != "failed" and fields.get("type") != "error":
            if self.is_answer:
                return
            error = fields
        named = _mapping(error or fields)
        words = [named.get("code"), named.get("type"), named.get("status")]
        self.words = tuple(
            word.lower()
            for word in words
            if isinstance(word, str) and _WORD.fullmatch(word.lower())
        )
        if isinstance(number := named.get("code"), int):
            self.number = number

    def _record_refusal(self, answer: Mapping[str, Any]) -> None:
        """Record a refusal, and the end of a stream."""
        ended = _mapping(answer.get("delta")) if "delta" in answer else answer
        if ended.get("stop_reason") == "refusal":
            details = _mapping(ended.get("stop_details"))
            self._is_refused = True
            self._record_reason(details.get("category"))
            self._record_refusal_text(details.get("explanation"))
        # Gemini reports a refusal of a prompt and of an answer in different places.
        reasons = [each.get("finishReason") for each in _mappings(answer.get("candidates"))]
        reasons.append(_mapping(answer.get("promptFeedback")).get("blockReason"))
        for reason in reasons:
            self._record_reason(reason)
        choices = _mappings(answer.get("choices"))
        for choice in choices:
            for name in ("message", "delta"):
                self._record_refusal_text(_mapping(choice.get(name)).get("refusal"))
        if answer.get("type") == "response.refusal.delta":
            self._record_refusal_text(answer.get("delta"))
        ends = [ended.get("stop_reason"), *(each.get("finish_reason") for each in choices)]
        said = [each for each in (*reasons, *ends) if isinstance(each, str) and each]
        self.has_ended |= bool(said) or answer.get("type") in _COMPLETE
        self.is_cut_off = any(each in _CUT_OFF for each in (*said, answer.get("status")))

    def _trim_answer(self, answer: dict[str, Any]) -> None:
        """Remove from an answer the tool calls, and the parts that litellm does not read."""
        # Anthropic's streams begin with a message, OpenAI's of Responses end with one.
        for holder in (answer, answer.get("message"), answer.get("response")):
            if isinstance(holder, dict):
                self._fix_usage(holder)
        for name in ("choices", "candidates"):
            if isinstance(found := answer.get(name), list):
                answer[name] = found[:1]
        for choice in _mappings(answer.get("choices")):
            for name in ("message", "delta"):
                if isinstance(message := choice.get(name), dict):
                    self._fix_message(message)
        for candidate in _mappings(answer.get("candidates")):
            content = candidate.get("content")
            if isinstance(content, dict) and isinstance(parts := content.get("parts"), list):
                content["parts"] = list(self._text_parts(parts))
        if isinstance(blocks := answer.get("content"), list):
            answer["content"] = list(self._text_parts(blocks))
        if isinstance(items := answer.get("output"), list):
            parts = [part for item in items for part in _parts_of(item)]
            texts = [each["text"] for each in self._text_parts(parts)] or [""]
            message = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
            blank = {"type": "output_text", "annotations": []}
            content = [{**blank, "text": text} for text in texts]
            answer["output"] = [{**message, "content": content}]
        self.calls += self._unknown_calls

    def _fix_usage(self, answer: dict[str, Any]) -> None:
        name = "usageMetadata" if "candidates" in answer else "usage"
        # litellm reads nothing of Anthropic, and no whole answer of Gemini, without one.
        is_due = not self.is_stream or answer.get("type") in ("message", "message_delta")
        usage = answer.get(name)
        if (usage is not None or is_due) and not _is_countable(usage):
            answer[name] = dict.fromkeys(_NO_USAGE, 0)
            self.whole.pop(name, None)
            self.is_miscounted = True

    def _fix_message(self, message: dict[str, Any]) -> None:
        """Rewrite a message of Chat Completions, or a piece of one, in the form litellm reads."""
        content = message.get("content")
        if not isinstance(content, str | None):
            parts = content if isinstance(content, list) else [{"type": type(content).__name__}]
            message["content"] = "".join(part["text"] for part in self._text_parts(parts)) or None
        calls = message.pop("tool_calls", None)
        for each in calls if isinstance(calls, list) else [] if calls is None else [calls]:
            self._record_call(each, _mapping(each).get("function"), "arguments")
        if (legacy := message.pop("function_call", None)) is not None:
            self._record_call(legacy, legacy, "arguments")

    def _text_parts(self, parts: Iterable[Any]) -> Iterable[dict[str, Any]]:
        """Yield the parts that are text; record calls and unknown parts."""
        for part in parts:
            fields = {"type": "text", "text": part} if isinstance(part, str) else _mapping(part)
            kind = fields.get("type", "text" if "text" in fields else None)
            if kind == "refusal":
                self._record_refusal_text(fields.get("refusal"))
            elif kind in ("tool_use", "function_call"):
                self._record_call(part, fields, "input" if kind == "tool_use" else "arguments")
            elif "functionCall" in fields:
                self._record_call(part, fields["functionCall"], "args")
            elif kind == "custom_tool_call":
                self._record_call(part, None, "input")
            elif kind in ("text", "output_text") and isinstance(fields.get("text"), str):
                if not fields.get("thought"):
                    yield dict(fields)
            elif kind not in ("thinking", "redacted_thinking", "reasoning"):
                name = str(kind) if _WORD.fullmatch(str(kind)) else "another type"
                self.skipped.add(f"{name} in an unknown form" if "text" in fields else name)

    def _record_call(self, sent: object, function: object, arguments: str) -> None:
        if self.is_stream:
            # From a stream litellm gets only the text.
            return
        fields = _mapping(function)
        name = fields.get("name")
        if isinstance(name, str):
            self.calls.append(ToolCall(name, _parse_arguments(fields.get(arguments))))
            return
        kinds = (_mapping(_mapping(sent).get("custom")).get("name"), _mapping(sent).get("name"))
        found = next((each for each in kinds if isinstance(each, str)), "a call in no known form")
        self._unknown_calls.append(ToolCall(found, write_json(write_json(sent, ascii_only=True))))

    def _record_reason(self, reason: object) -> None:
        word = reason.lower() if isinstance(reason, str) else ""
        if _WORD.fullmatch(word):
            self._reason = word

    def _record_refusal_text(self, said: object) -> None:
        if isinstance(said, str) and said:
            self._is_refused = True
            self._refusal_text = (self._refusal_text + said)[:_MOST]


current_watch: ContextVar[AnswerWatch] = ContextVar("current_watch")


class VendorTransport(httpx.AsyncBaseTransport):
    """Makes a request once and reads its answer for the `current_watch`."""

    def __init__(self, ssl_context: ssl.SSLContext | None = None, **_: object) -> None:
        # In a host the service keeps connections; a loop that ends elsewhere leaves none open.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._inner = httpx.AsyncHTTPTransport(verify=ssl_context or True, limits=limits)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`."""
        watch = current_watch.get()
        try:
            answer = await self._inner.handle_async_request(request)
            watch.status, watch.headers = answer.status_code, answer.headers
            head = [each for each in answer.headers.multi_items() if each[0] not in _DROPPED]
            if watch.is_stream and watch.is_answer:
                return httpx.Response(watch.status, headers=head, stream=_Events(answer, watch))
            try:
                body = await answer.aread()
            finally:
                await answer.aclose()
        except (httpx.RemoteProtocolError, httpx.ConnectError) as error:
            # litellm would repeat the request for these.
            raise httpx.NetworkError(str(error), request=request) from error
        return httpx.Response(watch.status, headers=head, content=watch.rewrite_answer(body))

    async def aclose(self) -> None:
        """See `httpx.AsyncBaseTransport`."""
        await self._inner.aclose()


class _Events(httpx.AsyncByteStream):
    """A stream of server-sent events, each read whole, and written in one line."""

    def __init__(self, answer: httpx.Response, watch: AnswerWatch) -> None:
        self._answer = answer
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        event: list[bytes] = []
        async for line in _lines(self._answer.aiter_bytes()):
            if line.startswith(b"data:"):
                event.append(line.removeprefix(b"data:").removeprefix(b" "))
            elif event and not line:
                yield self._line(b"\n".join(event))
                event = []
        if event:
            yield self._line(b"\n".join(event))

    def _line(self, data: bytes) -> bytes:
        return b"data: %s\n\n" % (data if data == b"[DONE]" else self._watch.rewrite_answer(data))

    async def aclose(self) -> None:
        await self._answer.aclose()


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    held: list[bytes] = []
    async for chunk in chunks:
        held.append(chunk)
        if b"\n" in chunk:
            *lines, rest = b"".join(held).replace(b"\r\n", b"\n").split(b"\n")
            held = [rest]
            for line in lines:
                yield line.removeprefix(b"\xef\xbb\xbf")
    yield b"".join(held)


def joined(text: str) -> str:
    """Join each pair of surrogates to one character, even if the pair came in two parts."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _parse_arguments(sent: Any) -> Any:
    """Return the JSON value with exact numbers; unreadable text stays text, which agents refuse."""
    text = sent if isinstance(sent, str) or sent is None else write_json(sent, ascii_only=True)
    if not text:
        return text
    try:
        return read_json(text, "arguments")
    except InvalidRequest:
        return text


def _is_countable(usage: object) -> bool:
    """Return whether litellm adds up a usage correctly."""
    return isinstance(usage, Mapping) and all(map(_is_valid_count, usage, usage.values()))


def _is_valid_count(name: str, value: Any) -> bool:
    if value is None:
        return name not in _NO_USAGE
    if _COUNT.fullmatch(name):
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        return is_number and 0 <= value <= _MOST_COUNTED and value % 1 == 0
    if isinstance(value, list):
        return all(map(_is_countable, value))
    return _is_countable(value) if isinstance(value, Mapping) else "etails" not in name


def _parts_of(item: object) -> list[Any]:
    """Return the parts of a message of OpenAI's Responses; any other item is its own only part."""
    fields = _mapping(item)
    content = fields.get("content")
    return content if fields.get("type") == "message" and isinstance(content, list) else [item]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
