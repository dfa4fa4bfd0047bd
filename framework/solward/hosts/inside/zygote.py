"""The zygote: a small process with the hosts' imports done, from which plugin hosts are forked.

It has one thread, no event loop and no secret. The service starts it with an environment made from
nothing and a `SOCK_SEQPACKET` socket, on which each message is one packet of JSON:

    to the zygote     {"source": […], "libraries": […], "warm": […], "nice": n, "parent": pid}, once
                      {"id": n, "host": {…}}, with the host's end of its channel
                      {"nice": n, "pid": of a host with a nice value of its own, or null for that of
                      the zygote's session}, in place of what it has
    from the zygote   {"ready": pid, "unavailable": why confinement is not, or null}, once
                      {"id": n, "pid": pid}, with a pidfd; or {"id": n, "error": text}
                      {"ended": pid, "status": as of os.waitpid}
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from solward.hosts.confinement import probe_confinement
from solward.hosts.inside.main import (
    LONG_TURN_NS,
    MAX_PACKET,
    SESSION,
    die_with_parent,
    name_process,
    run,
    set_session_nice,
    set_turn,
)
from solward.support.extras import UNUSED, hide_modules


class _ForkedChild(NamedTuple):
    """A host, and the open file of its session's nice value. `session` is None if the host is in
    the zygote's session, or if the kernel has no such file."""

    pid: int
    session: int | None


def main(control: socket.socket, first: dict[str, Any]) -> NoReturn:
    """Serve requests to fork until the service is gone; `first` is the first message."""
    die_with_parent(first["parent"])
    # If the parent ignores SIGCHLD, this process inherits that, and the status of hosts is lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    name_process("solward-zygote")
    _set_nice(first["nice"], None, ())
    set_turn(LONG_TURN_NS)
    # Every host would inherit these modules.
    with hide_modules(*UNUSED):
        for module in first["warm"]:
            _import_library(module)
    # Hosts may not read this folder.
    sys.path[:] = [
        each for each in sys.path if each in first["libraries"] or each not in first["source"]
    ]
    me, checked = os.getpid(), probe_confinement()
    gc.collect()
    # The hosts' garbage collectors skip all present objects, so that their memory stays shared.
    gc.freeze()
    reason = None if checked.available else checked.reason
    _send(control, {"ready": me, "unavailable": reason})
    children: dict[int, _ForkedChild] = {}  # by pidfd
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in children:
                child = children.pop(descriptor)
                _, status = os.waitpid(child.pid, 0)
                poll.unregister(descriptor)
                os.close(descriptor)
                if child.session is not None:
                    os.close(child.session)
                _send(control, {"ended": child.pid, "status": status})
                continue
            data, descriptors, _, _ = socket.recv_fds(control, MAX_PACKET, 1)
            if not data:
                os._exit(0)
            request = json.loads(data)
            if "nice" in request:
                _set_nice(request["nice"], request["pid"], children.values())
                continue
            [channel] = descriptors
            try:
                child = _fork_host(channel, request["host"], me)
            except OSError as error:
                _send(control, {"id": request["id"], "error": str(error)})
            else:
                pidfd = os.pidfd_open(child.pid)
                children[pidfd] = child
                poll.register(pidfd, select.POLLIN)
                _send(control, {"id": request["id"], "pid": child.pid}, [pidfd])
            os.close(channel)


def _fork_host(channel: int, host: dict[str, Any], zygote: int) -> _ForkedChild:
    """Start a host. The file of its session's nice value is opened before it confines itself,
    because only root can open it afterwards.

    Raises:
        OSError: if no process could be made.
    """
    opened, go = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.read(opened, 1)
            try:
                run(channel, host, zygote)
            finally:
                # The zygote's loop must never run in a host, whatever was raised.
                os._exit(os.EX_SOFTWARE)
        session = None
        if host["session_nice"] is not None:
            with contextlib.suppress(OSError):
                session = os.open(f"/proc/{pid}/autogroup", os.O_WRONLY | os.O_CLOEXEC)
        return _ForkedChild(pid, session)
    finally:
        os.close(opened)
        os.close(go)


def _set_nice(nice: int, pid: int | None, children: Iterable[_ForkedChild]) -> None:
    """Set the nice value of a host's own session, or of the zygote's with all other hosts."""
    if pid is None:
        with contextlib.suppress(OSError), open(SESSION, "wb") as own:
            set_session_nice(own.fileno(), nice)
        return
    for child in children:
        if child.pid == pid and child.session is not None:
            set_session_nice(child.session, nice)


def _import_library(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        # The library is optional, such as uvloop; a missing part of an installed one is an error.
        if error.name != module:
            raise


def _send(control: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    try:
        socket.send_fds(control, [json.dumps(message).encode()], descriptors)
    except OSError:
        # The service is gone.
        os._exit(0)
