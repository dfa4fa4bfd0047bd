"""Connections of the dashboard's uvicorn server within the bounds of the API's."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, cast

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from solward.serving.bounds import (
    CLOSE,
    FRAMINGS,
    App,
    Bounds,
    Connection,
    Connections,
    Receive,
    Request,
    Send,
)

_PART_BYTES = 4 * 1024
_MOST_BEHIND = 16


def bounded(app: App, bounds: Bounds) -> dict[str, Any]:
    """Returns `app` and `http` for the `uvicorn.Config` of one server.

    Connections that become WebSockets are no longer counted: their application knows them.
    """
    kept: list[Connections] = []

    def protocol(**arguments: Any) -> _Protocol:
        # The event loop runs once there is a connection.
        kept[:] = kept or [Connections(bounds)]
        return _Protocol(kept[0], AutoHTTPProtocol(**arguments))

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            called = _refuse if _is_doubtful(scope["headers"]) else app
            await Request(_CURRENT.get().begin(), receive, send).run(called, scope)
        else:
            await app(scope, receive, send)

    return {"app": answer, "http": protocol}


def _is_doubtful(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether two servers could read the request differently.

    Of a body with a length and chunks, a proxy may have read one and uvicorn the other; the rest
    would be a request of whoever comes next (RFC 9112, 6.3). A handshake of a WebSocket that
    uvicorn does not take as one is a request to it, and not to a proxy.
    """
    names = {name for name, _ in headers}
    upgrades = {value.lower() for name, value in headers if name == b"upgrade"}
    return names >= FRAMINGS or b"websocket" in upgrades


async def _refuse(_scope: Any, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 400, "headers": CLOSE})
    await send({"type": "http.response.body", "body": b""})


class _Protocol(asyncio.Protocol):
    """Passes what happens to a connection on to uvicorn's protocol, and notes it."""

    def __init__(self, kept: Connections, uvicorn: asyncio.Protocol) -> None:
        self._kept, self._uvicorn = kept, uvicorn
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is of no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._uvicorn.connection_made(transport)
        self._connection = Connection(self._kept, lambda _: self._transport.abort())

    def data_received(self, data: bytes) -> None:
        if not self._connection.running:
            self._connection.wait(self._kept.heads)
        self._head_bytes += len(data)
        _CURRENT.set(self)
        for begin in range(0, len(data), _PART_BYTES):
            self._uvicorn.data_received(data[begin : begin + _PART_BYTES])
            # Each request that came behind another costs kilobytes.
            if len(getattr(self._uvicorn, "pipeline", ())) > _MOST_BEHIND:
                self._connection.cut_off()
                return
        if self._transport.get_protocol() is not self:
            self._kept.remove(self._connection)
        else:
            # The application of a head that has come is called before this.
            asyncio.get_running_loop().call_soon(self._check_head)

    def begin(self) -> Connection:
        """Note that a head has come, whose application is called."""
        self._connection.begin()
        self._head_bytes = 0
        return self._connection

    def _check_head(self) -> None:
        if self._connection.running:
            self._head_bytes = 0
        elif self._head_bytes > self._kept.bounds.head_bytes:
            self._connection.cut_off()

    def pause_writing(self) -> None:
        self._kept.unread[self._connection] = self._kept.now()
        self._uvicorn.pause_writing()

    def resume_writing(self) -> None:
        self._kept.unread.pop(self._connection, None)
        self._uvicorn.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._kept.remove(self._connection)
        self._uvicorn.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._uvicorn.eof_received()


# uvicorn calls the application in the context in which it was given the request.
_CURRENT: ContextVar[_Protocol] = ContextVar("protocol")
