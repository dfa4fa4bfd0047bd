"""HTTP requests to the service, server-sent events, and the base class of the client's parts."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import shlex
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import httpx

from solward.client.arguments import (
    PREFIX,
    authorization,
    base_url,
    idempotency_key,
    refuse_floats,
    request_fields,
    segment,
)
from solward.client.errors import (
    ApiError,
    BadAnswer,
    ClientError,
    Conflict,
    Held,
    Refused,
    ServerError,
    Unreachable,
    make_error,
)
from solward.resources.declare import Call
from solward.support import jsontext
from solward.support.tls import tls_context
from solward.types.errors import API_HEADER, InvalidRequest

T = TypeVar("T")
E = TypeVar("E", bound=ClientError)
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])

# An unreachable service is reported within a second; a connection lost during a payment is retried
# for as long as a restart takes.
_PAUSES_S = (0.1, 0.3, 0.6)
_PAUSES_AFTER_SENT_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0)
_CONNECT_S = 5.0
_SHOWN = 200
_EVENT_STREAM = "text/event-stream"

# Errors that occur before any byte of the request was sent.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# Errors of a request that HTTP cannot send: another try would fail too.
_UNSENDABLE = (httpx.LocalProtocolError, httpx.UnsupportedProtocol)

# Only these characters end a line; `str.splitlines` would also cut texts at U+2028 or U+0085.
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, str]
    content: bytes | None
    headers: Mapping[str, str]


class Http:
    """The HTTP connection to one service with one token."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self.url = base_url(url)
        self.timeout_s = timeout_s
        self._token = token
        # No proxies from the environment: they would receive the token.
        self._client = httpx.AsyncClient(
            base_url=self.url + PREFIX,
            headers=authorization(token),
            transport=transport,
            # A transport that the caller passes has its own TLS settings.
            verify=tls_context(trust_env=False) if transport is None else True,
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Send a GET request and return the answer; repeat the request if the connection breaks."""
        request = _request("GET", path, query or {})
        response, _ = await self._response(request, self.timeout_s)
        return self._answer(response)

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request that changes something; it is never retried."""
        request = _request(method, path, query or {}, body)
        try:
            response = await self._client.send(self._to_httpx(request, timeout_s or self.timeout_s))
        except httpx.RequestError as error:
            self._raise_unreachable(error)
        return self._answer(response)

    async def pay(
        self,
        kind: Callable[[Any], T],
        path: str,
        body: Mapping[str, Any],
        key: str | None,
        *,
        dry_run: bool = False,
    ) -> T:
        """Send a request that moves money; its Idempotency-Key keeps retries from moving it again.

        Args:
            kind: converts the answer's JSON to the result.

        Raises:
            Refused: the service blocked the transaction, or the transaction failed.
            Held: a person must approve the transaction first.
            Unreachable: no answer came.
            BadAnswer, ServerError: the answer is not from the service.
            Conflict: the first request with the key did not end within the timeout.

        If the transaction may have been made in spite of the error, the error has the key.
        """
        if dry_run:
            trial = _request("POST", path, {"dryRun": "true"}, body)
            response, _ = await self._response(trial, self.timeout_s)
            return self.read(kind, self._answer(response))
        key = idempotency_key(key)
        request = _request("POST", path, {}, body, {"Idempotency-Key": key})
        deadline = time.monotonic() + self.timeout_s
        sent = False
        while True:
            try:
                left = deadline - time.monotonic()
                response, sent = await self._response(request, left, key, sent=sent)
                return self.read(kind, self._answer(response, key, sent=sent), key)
            except _InFlight as waiting:
                sent = True
                pause = waiting.pause_s
                if time.monotonic() + pause >= deadline:
                    told = Conflict(409, waiting.message + _unknown_result(key))
                    raise _with_key(told, key) from None
                await asyncio.sleep(pause)

    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        silence_s: float,
    ) -> AsyncGenerator[ServerSentEvent, None]:
        """Yield server-sent events; raises `Unreachable` after `silence_s` without a byte."""
        accept = {"Accept": _EVENT_STREAM} | dict(headers or {})
        request = _request(method, path, query or {}, body, accept)
        async with self._stream(request, silence_s) as response:
            if not response.headers.get("Content-Type", "").startswith(_EVENT_STREAM):
                self._bad_answer(response, "no stream of events")
            events = EventParser()
            async for chunk in response.aiter_bytes():
                for event in events.feed(chunk):
                    yield event

    async def download(self, path: str, query: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield a file in pieces as they arrive; raises `Unreachable` if it ends too early."""
        request = _request("GET", path, query)
        async with self._stream(request, self.timeout_s) as response:
            async for piece in response.aiter_bytes():
                yield piece

    @asynccontextmanager
    async def _stream(self, request: _Request, silence_s: float) -> AsyncIterator[httpx.Response]:
        """Yield an answer of status 200 without its body; raise an error for any other answer."""
        try:
            response = await self._client.send(self._to_httpx(request, silence_s), stream=True)
            try:
                if response.status_code != 200:
                    await response.aread()
                    self._answer(response)
                yield response
            finally:
                await response.aclose()
        except httpx.RequestError as error:
            self._raise_unreachable(error)

    def read(self, kind: Callable[[Any], T], raw: Any, key: str | None = None) -> T:
        """Return an answer as a model; raise `BadAnswer` with a money call's `key` if it fails."""
        try:
            return kind(raw)
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            text = (
                f"{self.url} sent an answer that this client cannot read "
                f"({type(error).__name__}: {_shorten(str(error))}){_unknown_result(key)}"
            )
            raise _with_key(BadAnswer(text), key) from None

    def read_list(self, kind: Callable[[Any], T], raw: Any, field: str) -> tuple[T, ...]:
        """Return the list in one field of an answer."""
        return self.read(lambda body: tuple(map(kind, body[field])), raw)

    async def _response(
        self, request: _Request, within_s: float, key: str | None = None, *, sent: bool = False
    ) -> tuple[httpx.Response, bool]:
        """Return the answer, and whether an earlier try may have reached the service."""
        deadline = time.monotonic() + within_s
        tries = 0
        while True:
            left = max(0.1, deadline - time.monotonic())
            try:
                return await self._client.send(self._to_httpx(request, left)), sent
            except httpx.RequestError as error:
                sent = sent or not isinstance(error, _NOT_SENT + _UNSENDABLE)
                pauses = _PAUSES_AFTER_SENT_S if sent and key is not None else _PAUSES_S
                over = tries >= len(pauses) or time.monotonic() + pauses[tries] >= deadline
                if over or isinstance(error, _UNSENDABLE):
                    self._raise_unreachable(error, key if sent else None)
            await asyncio.sleep(pauses[tries])
            tries += 1

    def _to_httpx(self, request: _Request, timeout_s: float) -> httpx.Request:
        return self._client.build_request(
            request.method,
            request.path,
            params=request.query,
            content=request.content,
            headers=request.headers,
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
        )

    def _answer(
        self, response: httpx.Response, key: str | None = None, *, sent: bool = False
    ) -> Any:
        """Return the JSON of an answer.

        Args:
            key: the Idempotency-Key of a money call.
            sent: whether an earlier try may have made the transaction, even if this one is refused.
        """
        status = response.status_code
        try:
            body = read_answer(response.content)
        except ValueError:
            body = None
        # A gateway may answer in the service's form without knowing the result of a money call.
        is_own = key is None or API_HEADER in response.headers
        if status in (200, 202) and not is_own:
            self._bad_answer(response, f"no {API_HEADER} header", key)
        if status == 202:
            raise _with_key(self.read(Held, body, key), key)
        if status == 200:
            if body is None:
                self._bad_answer(response, "no valid JSON", key)
            return body
        said = body.get("error") if isinstance(body, dict) else None
        text = f"{self.url} answered with status {status}"
        if isinstance(said, str):
            text = said.replace(self._token, "[redacted]") if len(self._token) >= 8 else said
        elif status < 500:
            self._bad_answer(response, "no error text", key)
        is_judged = isinstance(said, str) and key is not None and is_own
        error = make_error(status, text, response.headers, is_judged)
        if status == 409 and key is not None and error.retry_after_s is not None:
            raise _InFlight(text, error.retry_after_s)
        # Not a refusal of the service but a gateway's, which may have lost the answer.
        is_foreign = not is_own or type(error) in (ApiError, ServerError)
        if is_foreign or (sent and not isinstance(error, Refused)):
            error = make_error(status, text + _unknown_result(key), response.headers, is_judged)
            raise _with_key(error, key)
        raise error

    def _bad_answer(self, response: httpx.Response, found: str, key: str | None = None) -> NoReturn:
        text = (
            f"{self.url} did not answer as a Solward service does "
            f"(status {response.status_code}, {found}){_unknown_result(key)}"
        )
        raise _with_key(BadAnswer(text), key) from None

    def _raise_unreachable(self, error: httpx.RequestError, key: str | None = None) -> NoReturn:
        if isinstance(error, _UNSENDABLE) and key is None:
            raise InvalidRequest(
                f"HTTP cannot send the request ({type(error).__name__}); nothing was sent"
            ) from None
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            text = (
                f"No Solward service answers at {self.url}: start it with `solward up`, "
                "or set SOLWARD_API_URL"
            )
        else:
            text = f"{self.url} did not answer ({type(error).__name__})"
        raise _with_key(Unreachable(text + _unknown_result(key)), key) from None


class _InFlight(Exception):
    def __init__(self, message: str, pause_s: float) -> None:
        super().__init__(message)
        self.message = message
        self.pause_s = pause_s


def read_answer(text: str | bytes) -> Any:
    """Return the JSON that the service answered; raises `ValueError`.

    A gateway may have written the answer, so it is not trusted. It may contain a value of a
    request, which adds the request's depth to its own and may have NUL.
    """
    return jsontext.read(text, has_nul=True, deepest=2 * jsontext.MAX_DEPTH)


def _unknown_result(key: str | None) -> str:
    """Return the text that ends the error of a money call whose result is not known."""
    if key is None:
        return ""
    return (
        "; whether the transaction was made is not known. The same call with the "
        f"idempotency key {shlex.quote(key)} returns its result, and pays at most once"
    )


def _with_key(error: E, key: str | None) -> E:
    error.idempotency_key = key
    return error


def _request(
    method: str,
    path: str,
    query: Mapping[str, Any],
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> _Request:
    sent = dict(headers or {})
    content = None
    if body is not None:
        refuse_floats(body, "")
        sent["Content-Type"] = "application/json"
        try:
            content = jsontext.dumps(dict(body)).encode()
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"The request cannot be written as JSON: {error}") from None
    parameters = {name: _as_text(value) for name, value in query.items() if value not in (None, [])}
    return _Request(method, path, parameters, content, sent)


def _as_text(value: Any) -> str:
    """Return a value as the text of a query parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event; `id` is None if it has no id."""

    id: str | None
    event: str
    data: str


class EventParser:
    """Parses a stream of server-sent events (WHATWG's format) from chunks of any size.

    Comments are skipped, and so is an incomplete event at the end.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, list[str]] = {}

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events completed by these bytes."""
        text = self._rest + chunk
        # A carriage return at a chunk's end may be the first half of a line end.
        pending = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text.removesuffix(pending))
        self._rest = rest + pending
        completed = (self._feed_line(line.decode("utf-8", "replace")) for line in lines)
        return [event for event in completed if event is not None]

    def _feed_line(self, line: str) -> ServerSentEvent | None:
        if line:
            name, _, value = line.partition(":")
            self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return ServerSentEvent(
            id=fields["id"][-1] if "id" in fields else None,
            event=fields["event"][-1] if "event" in fields else "message",
            data="\n".join(fields["data"]),
        )


class RequestMaker:
    """The base of the client's classes whose methods are declared API calls."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def _ask(self, call: Call[Any], *parts: str, **given: Any) -> Any:
        """Send a declared call and return its answer: a model, a tuple of models, or JSON.

        Args:
            parts: the variable parts of the call's path, in order.
            given: the fields of its request.
        """
        kind: Any = dict if call.answer is None or call.is_raw else call.answer.of
        named = zip(call.parts, parts, strict=True)
        path = call.path.format(**{name: segment(part, name) for name, part in named})
        fields = None
        key = given.pop("idempotency_key") if call.takes_key else None
        if call.takes_json:
            fields = dict(given["fields"])
        elif call.request is not None:
            fields = request_fields(call.request, **given)
        if call.takes_key:
            return await self._http.pay(kind, path, fields or {}, key)
        if call.method == "GET":
            answer = await self._http.get(path, fields)
        elif call.body is not None:
            answer = await self._http.send(call.method, path, fields)
        else:
            answer = await self._http.send(call.method, path, query=fields)
        if call.listed:
            return self._http.read_list(kind, answer, call.listed)
        if call.short is not None:
            made = self._http.read(lambda raw: str(raw["id"]), answer)
            answer = await self._http.get(f"{path}/{made}")
        return self._http.read(kind, answer)


def asks(call: Call[Any]) -> Callable[[F], F]:
    """Return a decorator that makes the method of a declared call from a signature and a docstring.

    The signature names the parts of the call's path and the fields of its request. So
    `@asks(REVOKE_KEY)` over `async def revoke(self, key_id: str) -> Revoked` makes
    `return await self._ask(REVOKE_KEY, key_id)`.
    """

    def made(method: F) -> F:
        signature = inspect.signature(method)

        @functools.wraps(method)
        async def ask(*given: Any, **named: Any) -> Any:
            bound = signature.bind(*given, **named)
            bound.apply_defaults()
            (_, asking), *values = bound.arguments.items()
            parts = [value for name, value in values if name in call.parts]
            fields = {name: value for name, value in values if name not in call.parts}
            return await asking._ask(call, *parts, **fields)

        return ask  # type: ignore[return-value]

    return made
