"""The sockets that this machine's servers listen on, for commands that have not loaded a server."""

from __future__ import annotations

import errno
import socket
import sys

from solward.serving.bounds import Bounds
from solward.types.errors import ConfigError

BACKLOG = 1024
MAX_CONNECTIONS = Bounds().connections
# Enough for a process's connections, those to nodes and databases, and plugins' pipes.
OPEN_FILES = 8 * MAX_CONNECTIONS


def listen(
    host: str, port: int, *, variables: tuple[str, str] = ("--port", "API_PORT")
) -> socket.socket:
    """Bind the port and return its socket, before anything slow is opened; 0 is a free port.

    Args:
        variables: the option and the setting that choose another port, for the error.

    Raises:
        ConfigError: the port is taken, or the host is no address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"Port {port} on {host} is in use; choose another with {' or '.join(variables)}"
        else:
            text = f"Cannot listen on {host} port {port}: {error.strerror or error}"
        raise ConfigError(text) from None
    listening.setblocking(False)
    return listening


def connections_allowed() -> int:
    """Raise the limit of open files, and return how many connections the process may keep open:
    `MAX_CONNECTIONS`, or a quarter of the files that it may open."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = OPEN_FILES if hard == unlimited else min(hard, OPEN_FILES)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MAX_CONNECTIONS if soft == unlimited else min(MAX_CONNECTIONS, soft // 4)
