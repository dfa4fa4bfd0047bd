"""Serving the application until a stop is requested."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from solward.service.service import Solward
from solward_server.app import create_app
from solward_server.http_server import serve_http

SECOND_SIGNAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where the API listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The server's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def health(self) -> str:
        """The health address."""
        return f"{self.url}/api/v1/health"


async def serve(
    service: Solward,
    listening: socket.socket,
    stop: asyncio.Event,
    *,
    ready: Callable[[Address], None] = lambda _address: None,
) -> None:
    """Serve until `stop` is set; requests that are running then have 10 s to end.

    Raises:
        ConfigError: the settings are unsafe to serve with.
    """
    service.settings.check_serving()
    host, port = listening.getsockname()[:2]
    app = create_app(service)

    async def stopping() -> None:
        await stop.wait()
        # Event streams never end by themselves, and the stop must not wait for them.
        service.events.close()

    server = asyncio.create_task(serve_http(app, listening, stopping))
    # The socket listens already: connections from now on are accepted.
    ready(Address(str(host), int(port)))
    try:
        await server
    finally:
        service.events.close()


@contextlib.asynccontextmanager
async def stop_on_signals() -> AsyncIterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set; a second signal, later, ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def restore_default_handlers() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def request_stop() -> None:
        if not stop.is_set():
            stop.set()
            # Supervisors signal a process and then its group: that is one request to stop, not two.
            loop.call_later(SECOND_SIGNAL_S, restore_default_handlers)

    for number in numbers:
        # Windows event loops have no signal handlers; there Ctrl-C cancels the runner.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, request_stop)
    yield stop
