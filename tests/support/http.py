"""HTTP servers on loopback that answer as a test says: in this event loop, or in a thread."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiohttp import web

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(
    handle: Handle | web.Application, port: int = 0, *, method: str = "*"
) -> AsyncIterator[str]:
    """The address of a server in this event loop, which answers every request by `handle`.

    Args:
        port: where it listens; a free one for 0.
        method: the only one that `handle` gets; every one by default.
    """
    app = handle
    if not isinstance(app, web.Application):
        app = web.Application(client_max_size=32 * 1024 * 1024)
        app.router.add_route(method, "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Handler(BaseHTTPRequestHandler):
    """Answers by `get` and `post`, which a test's own class defines; prints nothing."""

    protocol_version = "HTTP/1.1"

    def get(self) -> None:
        """Answer a GET."""
        self.reply(404)

    def post(self) -> None:
        """Answer a POST, as a GET unless it is defined."""
        self.get()

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def body(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(self, status: int, body: Any = b"", headers: Mapping[str, str] | None = None) -> None:
        """Answer with bytes, or with anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = {} if isinstance(body, bytes) else {"Content-Type": "application/json"}
        self.send_response(status)
        for name, value in (kind | dict(headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def served_in_thread(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server in a thread of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    # A request that is never answered must not hold up the end of a test.
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
