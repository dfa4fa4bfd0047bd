"""httpx in a plugin host: the service makes each request, on behalf of the call that is running.

A host has no sockets. Once `install` has run, every `httpx.AsyncClient` of the process works
through the channel: `context.http`, a provider's own client, a library's.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final, NoReturn

import httpx

import solward.context.http
from solward.hosts.wire.channel import Channel
from solward.hosts.wire.failures import HTTP_FAILURES, HostBug
from solward.hosts.wire.frames import PIECE, ChannelClosed
from solward.hosts.wire.methods import HTTP_REQUEST, HttpBody, HttpPiece, HttpRequest
from solward.types.errors import InvalidRequest, SkillError, SolwardError

_NO_SOCKETS: Final = "A plugin host has no sockets: the service makes its requests"


class RequestRefused(SkillError, httpx.TransportError):
    """The service refused a request; `code` says why.

    Both what a skill raises to end its call with that code, and what code around httpx expects.
    """

    def __init__(self, code: str, message: str, request: httpx.Request | None = None) -> None:
        super().__init__(code, message)
        self._request = request


def install(channel: Channel, current_cap: Callable[[], bytes | None]) -> None:
    """Have the service make every request of this process from now on.

    Args:
        current_cap: the capability of the call that the running task belongs to, None outside one.
    """

    async def handle_async_request(
        _self: httpx.AsyncHTTPTransport, request: httpx.Request
    ) -> httpx.Response:
        return await _answer(channel, current_cap(), request)

    async def enter(self: httpx.AsyncHTTPTransport) -> httpx.AsyncHTTPTransport:
        return self

    async def leave(_self: httpx.AsyncHTTPTransport, *_: object) -> None:
        return None

    # The transports' own constructors read the trusted certificates and make a pool of connections.
    _replace(
        httpx.AsyncHTTPTransport,
        __init__=_new_transport,
        handle_async_request=handle_async_request,
        aclose=leave,
        __aenter__=enter,
        __aexit__=leave,
    )
    _replace(
        httpx.HTTPTransport,
        __init__=_new_transport,
        handle_request=_refuse_sync,
        close=lambda _self: None,
        __enter__=lambda self: self,
        __exit__=lambda _self, *_: None,
    )
    solward.context.http.certificates = _service_checks


def _replace(kind: type, **members: Any) -> None:
    for name, member in members.items():
        setattr(kind, name, member)


def _service_checks() -> bool:
    """Stands for certificates: the service checks those of every site."""
    return True


def _new_transport(_self: object, *_: object, **options: Any) -> None:
    for option in ("proxy", "uds", "cert"):
        if options.get(option) is not None:
            raise RequestRefused("bad_http_request", f"{_NO_SOCKETS}, and takes no {option}")


def _refuse_sync(_self: httpx.HTTPTransport, request: httpx.Request) -> NoReturn:
    raise RequestRefused(
        "sync_http",
        f"{_NO_SOCKETS}, asynchronously alone: use context.http or httpx.AsyncClient",
        request,
    )


async def _answer(channel: Channel, cap: bytes | None, request: httpx.Request) -> httpx.Response:
    if cap is None:
        raise RequestRefused("call_ended", "No call is running that this request is for", request)
    assert isinstance(request.stream, httpx.AsyncByteStream)
    url, timeouts = request.url, request.extensions.get("timeout", {})
    head = HttpRequest(
        method=request.method,
        # Without user and fragment, which httpx has turned into a header, or does not send.
        url=b"".join((url.raw_scheme, b"://", url.netloc, url.raw_path)).decode("ascii"),
        headers=tuple(request.headers.raw),
        connect_s=timeouts.get("connect"),
        read_s=timeouts.get("read"),
        write_s=timeouts.get("write"),
    )
    pieces = channel.stream(HTTP_REQUEST, head, cap=cap, uploads=_uploads(request.stream))
    try:
        with _failures(request):
            first = await anext(pieces, None)
        if first is None or first.head is None:
            raise httpx.RemoteProtocolError("There was no answer", request=request)
    except BaseException:
        await pieces.aclose()
        raise
    return httpx.Response(
        first.head.status,
        headers=list(first.head.headers),
        stream=_Body(pieces, request),
        extensions={
            "http_version": first.head.http_version,
            "reason_phrase": first.head.reason,
        },
    )


async def _uploads(stream: httpx.AsyncByteStream) -> AsyncIterator[HttpBody]:
    async for chunk in stream:
        for start in range(0, len(chunk), PIECE):
            yield HttpBody(chunk[start : start + PIECE])


class _Body(httpx.AsyncByteStream):
    """An answer's body as it was sent; httpx decodes it."""

    def __init__(self, pieces: AsyncGenerator[HttpPiece, None], request: httpx.Request) -> None:
        self._pieces = pieces
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _failures(self._request):
            async for piece in self._pieces:
                yield piece.data

    async def aclose(self) -> None:
        await self._pieces.aclose()


@contextlib.contextmanager
def _failures(request: httpx.Request) -> Any:
    """Turns what the service says of a request into what httpx raises."""
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
