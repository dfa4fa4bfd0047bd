"""A local server that fails every request in one way, whatever the vendor's protocol."""

from __future__ import annotations

import asyncio
import contextlib
import socket


def response(status: str, kind: str, body: str) -> bytes:
    """A whole HTTP response that ends the connection."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


UNAUTHORIZED = response(
    "401 Unauthorized", "application/json", '{"error": {"message": "invalid key"}}'
)
GARBAGE = response("200 OK", "text/html", "<html>Welcome!</html>")


class FakeVendor:
    """Answers every request with one response; with None, never.

    Attributes:
        requested: set by the first request.
    """

    def __init__(self, response: bytes | None) -> None:
        self.requested = asyncio.Event()
        self.address = ""
        self._response = response
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> FakeVendor:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.close()
        # Since 3.12.1 this waits for open connections too, which are closed above.
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                self.requested.set()
                if self._response is None:
                    await reader.read()
                else:
                    writer.write(self._response)
                    await writer.drain()
                    # Closing with the request's body unread would reset the connection.
                    while await asyncio.wait_for(reader.read(65_536), 1):
                        pass
        except TimeoutError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()


def refusing_address() -> str:
    """A local address that refuses connections."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
