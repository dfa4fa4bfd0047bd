"""The zygote: a small process with the hosts' imports done, from which plugin hosts are forked.

It has one thread, no event loop and no secret. The service starts it with an environment made from
nothing and a `SOCK_SEQPACKET` socket, on which each message is one packet of JSON:

    to the zygote     {"source": […], "libraries": […], "warm": […], "nice": n, "parent": pid}, once
                      {"id": n, "host": {…}}, with the host's end of its channel
                      {"nice": n}, in place of what it has
    from the zygote   {"ready": pid, "unavailable": why confinement is not, or null}, once
                      {"id": n, "pid": pid}, with a pidfd; or {"id": n, "error": text}
                      {"ended": pid, "status": as of os.waitpid}
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from solward.hosts.confinement.confine import available
from solward.hosts.inside.kernel import MAX_PACKET, die_with, name_process
from solward.hosts.inside.main import run

_TRIES = 5
_BETWEEN_S = 0.1


def main(control: socket.socket, first: dict[str, Any]) -> NoReturn:
    """Serve requests to fork until the service is gone. `first` is the first message."""
    die_with(first["parent"])
    # A parent's way to ignore its children would be inherited, and their status be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    name_process("solward-zygote")
    _stand_back(first["nice"])
    for module in first["warm"]:
        _warm(module)
    # Hosts may not read it, so that they have no use for it.
    sys.path[:] = [
        each for each in sys.path if each in first["libraries"] or each not in first["source"]
    ]
    me, checked = os.getpid(), available()
    gc.collect()
    # The hosts' collectors leave alone what exists now, so that its memory stays shared.
    gc.freeze()
    reason = None if checked.available else checked.reason
    _send(control, {"ready": me, "unavailable": reason})
    children: dict[int, int] = {}  # pid by pidfd
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in children:
                _, status = os.waitpid(children[descriptor], 0)
                poll.unregister(descriptor)
                os.close(descriptor)
                _send(control, {"ended": children.pop(descriptor), "status": status})
                continue
            data, descriptors, _, _ = socket.recv_fds(control, MAX_PACKET, 1)
            if not data:
                os._exit(0)
            request = json.loads(data)
            if "nice" in request:
                _stand_back(request["nice"])
                continue
            [channel] = descriptors
            try:
                pid = os.fork()
            except OSError as error:
                _send(control, {"id": request["id"], "error": str(error)})
            else:
                if pid == 0:
                    _become_host(channel, request["host"], me)
                pidfd = os.pidfd_open(pid)
                children[pidfd] = pid
                poll.register(pidfd, select.POLLIN)
                _send(control, {"id": request["id"], "pid": pid}, [pidfd])
            os.close(channel)


def _become_host(channel: int, host: dict[str, Any], zygote: int) -> NoReturn:
    try:
        run(channel, host, zygote)
    finally:
        # Whatever happened: nothing of the zygote runs in a host.
        os._exit(os.EX_SOFTWARE)


def _stand_back(nice: int) -> None:
    """Have all hosts together get less of scarce processors than the service.

    Where sessions are scheduled as groups, a process's own nice value counts in its group alone.
    """
    for _ in range(_TRIES):
        try:
            with open("/proc/self/autogroup", "w") as group:
                group.write(str(nice))
        except BlockingIOError:
            # The kernel takes ten such changes a second, of all processes together.
            time.sleep(_BETWEEN_S)
        except OSError:
            return  # this kernel does not have it, where nice values count by themselves
        else:
            return


def _warm(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A library that is optional, such as uvloop; never a part of one that is there.
        if error.name != module:
            raise


def _send(control: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    try:
        socket.send_fds(control, [json.dumps(message).encode()], descriptors)
    except OSError:
        # The service is gone.
        os._exit(0)
