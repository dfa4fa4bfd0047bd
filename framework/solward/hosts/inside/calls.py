"""Requests of a running call to the service, from inside a plugin host.

A skill's context sends its money calls, reads and log lines to the service, which alone knows the
wallet. Each hook runs with its capability, and its requests carry that.

A host has no sockets. Once `install` has run, every `httpx.AsyncClient` of the process works
through the channel: `context.http`, a provider's own client, a library's.
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partialmethod
from pathlib import Path
from typing import Any, Final, NoReturn

import httpx

import solward.context.http
from solward.context import Lifetime, MoneyRequest, PocketRequest, SkillContext, TransactRequest
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Channel
from solward.hosts.wire.failures import HTTP_FAILURES, HostBug
from solward.hosts.wire.frames import PIECE, ChannelClosed
from solward.hosts.wire.methods import HTTP_REQUEST, BuiltTransaction, HttpHead, HttpRequest, Method
from solward.solana.token_list import TokenList
from solward.types.entries import Put
from solward.types.errors import InvalidRequest, SkillError, SolwardError
from solward.types.venue import Quote


def remote_context(
    call: CallInHost, asked: Mapping[str, Any], storage: Path | None
) -> tuple[SkillContext, RemoteCalls]:
    """Return the context of one call, and the object that makes the context's money calls."""
    calls = RemoteCalls(call)
    context = SkillContext(
        wallet=asked["wallet"],
        agent=asked["agent"],
        ledger=RemoteLedger(call),
        tokens=TokenList(asked["tokens"]),
        calls=calls,
        log=HostLog(call.channel, asked["name"]),
        secrets=asked["secrets"],
        settings=asked["settings"],
        storage=storage,
    )
    return context, calls


class RemoteCalls:
    """A `MoneyCalls` that sends each call over the channel.

    The service ignores the ordinals that this end passes: it numbers the calls in the order in
    which they arrive.
    """

    __slots__ = ("_builds", "_call", "_numbers", "lifetime")

    def __init__(self, call: CallInHost) -> None:
        self.lifetime = Lifetime()
        self._call = call
        self._numbers = itertools.count(1)
        self._builds: dict[int, Any] = {}

    async def money(self, asked: MoneyRequest, ordinal: int, remember: Sequence[Put] = ()) -> Any:
        """See `MoneyCalls.money`; the service calls back to run a pocket's `build` function."""
        if isinstance(asked, TransactRequest) and asked.wire is not None:
            if not isinstance(asked.wire, bytes | bytearray | memoryview):
                raise InvalidRequest("wire must be bytes")
            asked = replace(asked, wire=bytes(asked.wire))
        if not isinstance(asked, PocketRequest):
            return await self._ask(methods.MONEY[type(asked)], asked=asked, remember=remember)
        if not callable(asked.build):
            raise InvalidRequest("build must be an async function of the pocket's address")
        number = next(self._numbers)
        self._builds[number] = asked.build
        try:
            return await self._ask(methods.OP_POCKET, asked=asked, build=number, remember=remember)
        finally:
            del self._builds[number]

    async def quote(self, params: Mapping[str, Any]) -> Quote:
        """See `MoneyCalls.quote`."""
        quote: Quote = await self._ask(methods.OP_QUOTE, params=params)
        return quote

    async def keep(self, what: str, **asked: Any) -> Any:
        """See `StoreCalls.keep`."""
        return await self._ask(_KEPT[what], **asked)

    async def build(self, number: int, address: str) -> BuiltTransaction:
        """Run the build function of a pocket, and return what it made.

        Raises:
            InvalidRequest: if there is no such pocket, or the function returns something else.
        """
        self.lifetime.check()
        build = self._builds.get(number)
        if build is None:
            raise InvalidRequest("the call has no pocket with this number")
        with run_as_call(self._call):
            made = await build(address)
        if isinstance(made, bytes | bytearray | memoryview):
            return BuiltTransaction(wire=bytes(made))
        return BuiltTransaction(instructions=made)

    async def _ask(self, what: Method, /, **asked: Any) -> Any:
        self.lifetime.check()
        return await self._call.ask(what, asked)


_KEPT: Final = {method.name.partition(".")[2]: method for method in methods.KEPT}
_READS: Final = {method.name.partition(".")[2]: method for method in methods.LEDGER}


class RemoteLedger:
    """A `ReadLedger` whose methods the service answers over the channel, while the call runs."""

    __slots__ = ("_call",)

    def __init__(self, call: CallInHost) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        method = _READS.get(name)
        if method is None:
            raise AttributeError(name)

        async def read(*given: object, **named: object) -> Any:
            # `strict` refuses too many arguments, as a call of the method would.
            arguments = zip([*method.request][: len(given)], given, strict=True)
            return await self._call.ask(method, dict(arguments) | named)

        return read


class HostLog:
    """A logger with the methods of structlog that skills use: levels, `bind`, `exception`."""

    __slots__ = ("_channel", "_fields")

    def __init__(
        self, channel: Channel, skill: str, fields: Mapping[str, Any] | None = None
    ) -> None:
        self._channel = channel
        self._fields = {"skill": skill} if fields is None else dict(fields)

    def bind(self, **fields: Any) -> HostLog:
        """Return a logger with more fields."""
        return HostLog(self._channel, "", {**self._fields, **fields})

    def _log(self, level: str, event: object, *args: object, **fields: Any) -> None:
        text = str(event)
        if args:
            text = text % args
        every = {name: str(value) for name, value in {**self._fields, **fields}.items()}
        self._channel.log(level, text, every)

    debug = partialmethod(_log, "debug")
    info = msg = partialmethod(_log, "info")
    warning = warn = partialmethod(_log, "warning")
    error = critical = fatal = partialmethod(_log, "error")

    def exception(self, event: object, *args: object, **fields: Any) -> None:
        """Log at ERROR, with the traceback of the exception that is being handled."""
        self.error(event, *args, **{**fields, "exception": traceback.format_exc(limit=-5)})


@dataclass(frozen=True, slots=True)
class CallInHost:
    """A running call: its channel to the service, and its capability."""

    channel: Channel
    cap: bytes

    async def ask(self, method: Method, asked: Mapping[str, Any]) -> Any:
        """Make a request to the service on behalf of this call."""
        return await self.channel.call(method, asked, cap=self.cap)


_RUNNING: ContextVar[CallInHost] = ContextVar("running_call")


@contextmanager
def run_as_call(call: CallInHost) -> Iterator[None]:
    """Run the block, and tasks that it starts, as this call."""
    token = _RUNNING.set(call)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def current_cap() -> bytes | None:
    """Return the capability of the running call; None outside a hook, such as at import."""
    call = _RUNNING.get(None)
    return None if call is None else call.cap


class CurrentChannel:
    """A stand-in for the channel of the running call."""

    def stream(self, *given: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """See `Channel.stream`; may be used only while `current_cap` is not None."""
        return _RUNNING.get().channel.stream(*given, **options)


_NO_SOCKETS: Final = "The service makes the HTTP requests of a plugin host"


class RequestRefused(SkillError, httpx.TransportError):
    """A refusal of a request by the service; `code` says why.

    It is a `SkillError`, which ends the skill's call with the code, and also an error of httpx, so
    that code around httpx can handle it.
    """

    def __init__(self, code: str, message: str, request: httpx.Request | None = None) -> None:
        super().__init__(code, message)
        self._request = request


def install(channel: Channel, current_cap: Callable[[], bytes | None]) -> None:
    """Send every later HTTP request of this process through the service.

    Args:
        current_cap: returns the capability of the call of the running task, None outside one.
    """

    async def handle_async_request(
        _self: httpx.AsyncHTTPTransport, request: httpx.Request
    ) -> httpx.Response:
        return await _send_http(channel, current_cap(), request)

    async def enter(self: httpx.AsyncHTTPTransport) -> httpx.AsyncHTTPTransport:
        return self

    async def leave(_self: httpx.AsyncHTTPTransport, *_: object) -> None:
        return None

    # The transports' own constructors read the trusted certificates and make a pool of connections.
    _replace_members(
        httpx.AsyncHTTPTransport,
        __init__=_init_transport,
        handle_async_request=handle_async_request,
        aclose=leave,
        __aenter__=enter,
        __aexit__=leave,
    )
    _replace_members(
        httpx.HTTPTransport,
        __init__=_init_transport,
        handle_request=_refuse_sync_request,
        close=lambda _self: None,
        __enter__=lambda self: self,
        __exit__=lambda _self, *_: None,
    )
    # The service checks the certificates of every site.
    solward.context.http.certificates = lambda: True


def _replace_members(kind: type, **members: Any) -> None:
    for name, member in members.items():
        setattr(kind, name, member)


def _init_transport(_self: object, *_: object, **options: Any) -> None:
    for option in ("proxy", "uds", "cert"):
        if options.get(option) is not None:
            raise RequestRefused("bad_http_request", f"{_NO_SOCKETS} and does not support {option}")


def _refuse_sync_request(_self: httpx.HTTPTransport, request: httpx.Request) -> NoReturn:
    raise RequestRefused(
        "sync_http",
        f"{_NO_SOCKETS}, only asynchronously: use context.http or httpx.AsyncClient",
        request,
    )


async def _send_http(channel: Channel, cap: bytes | None, request: httpx.Request) -> httpx.Response:
    if cap is None:
        raise RequestRefused("call_ended", "HTTP requests need a running call", request)
    assert isinstance(request.stream, httpx.AsyncByteStream)
    url, timeouts = request.url, request.extensions.get("timeout", {})
    head = HttpRequest(
        method=request.method,
        # Without user, which httpx turns into a header, and fragment, which is not sent.
        url=b"".join((url.raw_scheme, b"://", url.netloc, url.raw_path)).decode("ascii"),
        headers=tuple(request.headers.raw),
        connect_s=timeouts.get("connect"),
        read_s=timeouts.get("read"),
        write_s=timeouts.get("write"),
    )
    pieces = channel.stream(HTTP_REQUEST, head, cap=cap, uploads=_upload_pieces(request.stream))
    try:
        with _httpx_errors(request):
            first = await anext(pieces, None)
        if not isinstance(first, HttpHead):
            raise httpx.RemoteProtocolError("The service sent no answer", request=request)
    except BaseException:
        await pieces.aclose()
        raise
    return httpx.Response(
        first.status,
        headers=list(first.headers),
        stream=_AnswerBody(pieces, request),
        extensions={"http_version": first.http_version, "reason_phrase": first.reason},
    )


async def _upload_pieces(stream: httpx.AsyncByteStream) -> AsyncIterator[bytes]:
    async for chunk in stream:
        for start in range(0, len(chunk), PIECE):
            yield chunk[start : start + PIECE]


class _AnswerBody(httpx.AsyncByteStream):
    """An answer's body as it was sent; httpx decodes it."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], request: httpx.Request) -> None:
        self._pieces = pieces
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _httpx_errors(self._request):
            async for piece in self._pieces:
                yield piece

    async def aclose(self) -> None:
        await self._pieces.aclose()


@contextlib.contextmanager
def _httpx_errors(request: httpx.Request) -> Any:
    """Convert the service's errors about a request to errors of httpx."""
    try:
        yield
    except SkillError as error:
        if error.code in HTTP_FAILURES:
            kind = getattr(httpx, HTTP_FAILURES[error.code][0])
            raise kind(str(error), request=request) from None
        raise RequestRefused(error.code, str(error), request) from None
    except InvalidRequest as error:
        raise RequestRefused("bad_http_request", str(error), request) from None
    except (SolwardError, HostBug, ChannelClosed):
        raise httpx.NetworkError("The service did not answer", request=request) from None
