"""The dashboard's process beside `solward up`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import structlog

from solward.support.child_processes import child_environment
from solward.types.errors import ConfigError

if TYPE_CHECKING:
    from solward.settings import Settings

_STOP_S = 5.0

_log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def dashboard_process(
    settings: Settings, api: socket.socket, port: int | None
) -> AsyncIterator[tuple[str | None, str | None]]:
    """The dashboard's process until the block ends: its address, or None and a notice why not.

    It ends with this process, even a killed one, because its standard input is closed then.

    Args:
        api: the service's listening socket.
        port: of the pages; None serves none.
    """
    from solward.settings.access import local_url
    from solward_dashboard.options import Options
    from solward_server.listening import listen

    if port is None:
        yield None, None
        return
    with contextlib.ExitStack() as stack:
        try:
            variables = ("--dashboard-port", "DASHBOARD_PORT")
            host = settings.dashboard_host
            listening = stack.enter_context(listen(host, port, variables=variables))
            # Checked here: nobody reads the child's output.
            options = Options.of(
                settings,
                host,
                listening.getsockname()[1],
                api_url=local_url(*api.getsockname()[:2]),
            )
        except ConfigError as error:
            yield None, f"The dashboard is not served. {error}"
            return
        process = _start(settings, options.api_url, listening)
    watching = asyncio.create_task(_log_exit(process))
    try:
        yield options.url, None
    finally:
        watching.cancel()
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.to_thread(process.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)


def _start(settings: Settings, api_url: str, listening: socket.socket) -> subprocess.Popen[bytes]:
    password = settings.dashboard_password
    environment = child_environment(
        values={
            "NEXT_PUBLIC_API_URL": api_url,
            "NEXT_PUBLIC_API_SECRET": settings.api_secret.get_secret_value(),
            "DASHBOARD_PASSWORD": password.get_secret_value() if password else "",
        },
    )
    command = ["dashboard", "--host", settings.dashboard_host, "--fd", str(listening.fileno())]
    return subprocess.Popen(  # noqa: S603 - our own program and arguments
        [sys.executable, "-m", "solward_cli", *command],
        stdin=subprocess.PIPE,
        pass_fds=(listening.fileno(),),
        env=environment,
        # Ctrl-C goes to the parent, which ends the child.
        start_new_session=True,
    )


async def _log_exit(process: subprocess.Popen[bytes]) -> None:
    code = await asyncio.to_thread(process.wait)
    # The service goes on: agents do not depend on the dashboard.
    _log.error(
        "dashboard_ended",
        code=code,
        detail="the service goes on; `solward dashboard` serves the pages again",
    )
