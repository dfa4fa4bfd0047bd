"""Serving the pages with uvicorn until a stop is requested."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import uvicorn
from fastapi import FastAPI
from nicegui import core, ui

from solward.serving.bounds import Bounds
from solward_dashboard import pages
from solward_dashboard.access import AccessGate, bind_sockets
from solward_dashboard.api import open_api
from solward_dashboard.connections import bounded
from solward_dashboard.options import Options

_RECONNECT_S = 60.0
BOUNDS = Bounds(body_s=30.0)
_ICON = Path(__file__).parent / "static" / "icon.svg"


def serve(
    options: Options,
    listening: socket.socket,
    *,
    ready: Callable[[str], None] = lambda _url: None,
    until_stdin_ends: bool = False,
) -> None:
    """Serve on a listening socket until SIGINT or SIGTERM.

    Args:
        ready: called with the address once requests are accepted.
        until_stdin_ends: stop as well when standard input ends, as it does with the process
            that holds its other end.
    """
    app = build(options)
    config = uvicorn.Config(
        **bounded(app, BOUNDS),
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    # uvicorn replaces these handlers, and calls them with the signal when it ends.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _stop(server))
    if until_stdin_ends:
        Thread(target=_stop_at_end_of_input, args=(server,), daemon=True).start()
    ready(options.url)
    server.run(sockets=[listening])


def _stop_at_end_of_input(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()
    _stop(server)


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


def build(options: Options) -> FastAPI:
    """The application: the pages behind `AccessGate`, loading nothing from another machine.

    Without a storage secret NiceGUI stores nothing of a visitor, neither on disk nor in a cookie.
    """
    app = FastAPI(openapi_url=None, lifespan=open_api(options))
    pages.register()
    ui.run_with(
        app,
        title="Solward",
        favicon=_ICON,
        # A page that reconnects in time keeps its state, half-typed forms included; its polls
        # pause meanwhile.
        reconnect_timeout=_RECONNECT_S,
        message_history_length=200,
        show_welcome_message=False,
        tailwind=False,
        unocss="mini",
        dark=None,
        # Of what the pages say, for screen readers.
        language="en-US",
    )
    app.add_middleware(AccessGate, options=options)
    # NiceGUI allows all origins on its socket by default.
    core.sio.eio.cors_allowed_origins = None
    bind_sockets(core.sio)
    return app
