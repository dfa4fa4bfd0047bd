"""A plugin host, from the fork on: it confines itself before it imports its tenant's code.

The requests of zygote and hosts to the kernel, and names that they share with the service, come
first.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import importlib.util
import io
import logging
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from typing import Any, NoReturn

from solward.hosts.confinement import (
    Confinement,
    ConfinementUnavailable,
    confine,
    leave_group,
)
from solward.hosts.confinement.seccomp import call_number
from solward.hosts.wire.channel import Channel, Handler, IncomingCall
from solward.hosts.wire.frames import TO_HOST
from solward.hosts.wire.methods import START
from solward.types.errors import SkillError

EXIT_UNCONFINED = os.EX_CONFIG
"""The exit status of a host that could not confine itself."""
MAX_PACKET = 64 * 1024
"""Maximum size in bytes of a message between the service and the zygote."""
SESSION = "/proc/self/autogroup"
"""File with the nice value of this process's session (sched(7)); missing on some kernels."""

LONG_TURN_NS = 10_000_000
"""Longer than the scheduler's default turn, 0.7 to 2.8 ms (`base_slice_ns`), and too short for a
host to wait noticeably for the turn of another host."""

_TRIES = 5
_BETWEEN_S = 0.1
_SET_PDEATHSIG, _SET_NAME = 1, 15
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends; exit if that is no longer `parent`."""
    if _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        # The parent ended before the call above.
        os._exit(0)


def name_process(name: str) -> None:
    """Set the process's name in `ps` and `top`; the kernel keeps 15 bytes of it."""
    _libc.prctl(_SET_NAME, name.encode()[:15], 0, 0, 0)


def set_turn(ns: int) -> None:
    """Request scheduler turns of `ns` nanoseconds for this process and its forks; 0 is the default.

    A process that wakes up interrupts one with longer turns at once. Otherwise it may wait until
    the next tick of the clock, however low the other's priority is. Needs Linux 6.12
    (`sched_attr.sched_runtime`, PREEMPT_SHORT); older kernels ignore it.
    """
    call = call_number("sched_setattr")
    if call is not None:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, ns, 0, 0)
        # A failure is harmless: the host keeps the default.
        _libc.syscall(ctypes.c_long(call), 0, attributes, 0)


def set_session_nice(file: int, nice: int) -> None:
    """Set the nice value of a whole session.

    If sessions are scheduled as groups, a process's own nice value counts only within its group.

    Args:
        file: `SESSION` of one of its processes, opened to write.
        nice: 0 to 19.
    """
    for _ in range(_TRIES):
        try:
            os.write(file, str(nice).encode())
        except BlockingIOError:
            # The kernel accepts ten such changes a second from all processes together.
            time.sleep(_BETWEEN_S)
        except OSError:
            return  # the session is gone
        else:
            return


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration that a tenant gets from its host.

    Attributes:
        name: name of the host, such as the distribution's.
        folder: the distribution's own folder, on `sys.path`; None if it is installed with Solward.
        scratch: folder that it may write to; None if it has none.
        options: texts for the tenant.
    """

    name: str
    folder: str | None
    scratch: str | None
    options: Mapping[str, str]


Tenant = Callable[[Setup], Mapping[str, Handler]]
"""Returns the handlers by method name, inside the confined host and its running event loop."""


def import_tenant(place: str) -> Tenant:
    """Import and return the function of `module:function`. Only the host imports it, so that no
    process has another tenant's libraries."""
    module, _, function = place.partition(":")
    found: Tenant = getattr(importlib.import_module(module), function)
    return found


# Lines that a tenant may print and log; the service has its own limits too.
_LINES_A_MINUTE = 200
_MAX_LINE = 2000
# Makes the kernel kill a host before the service when memory runs out.
_OOM_SCORE = "500"
# Loggers that write every request with its address at INFO.
_CHATTY = ("httpx", "httpcore")
_log = logging.getLogger("solward.host")


def run(channel: int, host: Mapping[str, Any], zygote: int) -> NoReturn:
    """Run this process as the requested host until the service closes the channel."""
    die_with_parent(zygote)
    name_process(f"host-{host['name']}")
    os.environ["HOME"] = os.environ["TMPDIR"] = host["scratch"] or "/nonexistent"
    sys.meta_path.append(_ModuleFinder(host["modules"]))
    os.nice(host["nice"])
    if not host["nice"]:
        # Hosts do not keep the zygote's short turns.
        set_turn(0)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(_OOM_SCORE)
    limits = Confinement(
        read=tuple(host["read"]),
        write=(host["scratch"],) if host["scratch"] else (),
        keep_fds=(channel,),
        memory_bytes=host["memory_bytes"],
        open_files=host["open_files"],
        file_bytes=host["file_bytes"],
        own_session=host["own_session"],
    )
    if host["session_nice"] is not None:
        leave_group(limits)
        with contextlib.suppress(OSError), open(SESSION, "wb") as session:
            set_session_nice(session.fileno(), host["session_nice"])
    if not host["confined"]:
        _limit_resources(limits)
    else:
        try:
            confine(limits)
        except ConfinementUnavailable:
            os._exit(EXIT_UNCONFINED)
    if host["folder"]:
        # `site.addsitedir` would run lines of `.pth` files.
        sys.path.append(host["folder"])
    _new_loop().run_until_complete(_serve_channel(socket.socket(fileno=channel), host))
    os._exit(os.EX_OK)


async def _serve_channel(sock: socket.socket, host: Mapping[str, Any]) -> None:
    async def start(incoming: IncomingCall) -> None:
        setup = Setup(host["name"], host["folder"], host["scratch"], host["options"])
        try:
            incoming.channel.serve(import_tenant(host["tenant"])(setup))
        except Exception as error:
            _log.exception("the tenant could not start")
            # The text is added here, because only deliberate errors travel with their text.
            text = f"{type(error).__name__}: {error}"
            raise SkillError("plugin_host_start", text) from error

    def bug(method: str, error: BaseException) -> None:
        _log.error("%s failed", method, exc_info=error)

    channel = Channel(sock, {START.name: start}, receive_limit=TO_HOST, on_bug=bug)
    _forward_output(channel)
    await channel.closed


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _limit_resources(limits: Confinement) -> None:
    """Apply the parts of `confine` that work on every machine."""
    leave_group(limits)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    [kept] = limits.keep_fds
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    os.umask(0o077)
    for limit, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
    ):
        resource.setrlimit(limit, (most, most))


class _ModuleFinder:
    """An import finder for the tenant's modules outside the folders of libraries."""

    def __init__(self, modules: Mapping[str, Mapping[str, Any]]) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder.find_spec`."""
        found = self._modules.get(name)
        if found is None:
            return None
        if found["origin"] is None:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = list(found["folders"])
            return spec
        return importlib.util.spec_from_file_location(
            name, found["origin"], submodule_search_locations=found["folders"]
        )


def _forward_output(channel: Channel) -> None:
    """Send the tenant's output and log records as `Log` frames."""
    loop, loop_thread = asyncio.get_running_loop(), threading.get_ident()
    minute, lines = 0, 0

    def emit(level: str, text: str) -> None:
        nonlocal minute, lines
        now = int(time.monotonic() // 60)
        minute, lines = now, (lines + 1 if now == minute else 1)
        if lines > _LINES_A_MINUTE:
            return
        if threading.get_ident() == loop_thread:
            channel.log(level, text[:_MAX_LINE], {})
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(channel.log, level, text[:_MAX_LINE], {})

    sys.stdout = _LineStream(lambda line: emit("info", line))
    sys.stderr = _LineStream(lambda line: emit("warning", line))
    root = logging.getLogger()
    root.handlers[:] = [_ForwardingHandler(emit)]
    root.setLevel(logging.INFO)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


class _LineStream(io.TextIOBase):
    """A stream that passes on whole lines; a line that is too long is cut."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._rest = ""

    def write(self, text: str, /) -> int:
        """See `io.TextIOBase.write`."""
        *lines, rest = (self._rest + text[: _LINES_A_MINUTE * _MAX_LINE]).split("\n")
        self._rest = rest[:_MAX_LINE]
        for line in lines:
            if line.strip():
                self._emit(line)
        return len(text)

    def writable(self) -> bool:
        """See `io.IOBase.writable`."""
        return True


class _ForwardingHandler(logging.Handler):
    """A log handler that forwards formatted records."""

    def __init__(self, emit: Callable[[str, str], None]) -> None:
        super().__init__()
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        try:
            text = f"{record.name}: {self.format(record)}"
        except Exception:
            # A log call with wrong arguments must not fail the code that makes it.
            text = f"{record.name}: {record.msg!r}"[:_MAX_LINE]
        self._emit(record.levelname.lower(), text)
