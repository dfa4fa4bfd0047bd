"""Serving the application with hypercorn until a stop is requested."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import cast

from hypercorn.asyncio import serve as serve_asgi
from hypercorn.config import Config
from hypercorn.typing import Framework

from solward.service import Solward
from solward_server.app import create_app
from solward_server.listening import BACKLOG

# A transfer waits up to 45 s for its confirmation; its record is stored before it is sent, so a
# stop need not wait that long.
GRACEFUL_STOP_S = 10.0
SECOND_SIGNAL_S = 1.0
_KEEP_ALIVE_S = 75.0
_REQUESTS_PER_CONNECTION = 1_000_000


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
    config = hypercorn_config(listening)

    async def stopping() -> None:
        await stop.wait()
        # Event streams never end by themselves, and the stop must not wait for them.
        service.events.close()

    server = asyncio.create_task(
        serve_asgi(cast(Framework, app), config, shutdown_trigger=stopping, mode="asgi")
    )
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


def hypercorn_config(listening: socket.socket) -> Config:
    """The configuration of every HTTP server of Solward, on a socket that listens already."""
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.graceful_timeout = GRACEFUL_STOP_S
    config.keep_alive_timeout = _KEEP_ALIVE_S
    config.keep_alive_max_requests = _REQUESTS_PER_CONNECTION
    config.backlog = BACKLOG
    return config
