"""A plugin host, from the fork on: it confines itself, and only then meets its tenant's code."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import logging
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from typing import Any, NoReturn

from solward.hosts.confinement.confine import (
    Confinement,
    ConfinementUnavailable,
    confine,
    separate,
)
from solward.hosts.inside.kernel import (
    EXIT_UNCONFINED,
    SESSION,
    die_with,
    name_process,
    set_session_nice,
    set_turn,
)
from solward.hosts.inside.tenants import Setup, tenant_named
from solward.hosts.wire.channel import Channel, Incoming
from solward.hosts.wire.frames import TO_HOST
from solward.hosts.wire.methods import START
from solward.types.errors import SkillError

# Of what a tenant prints and logs; the service has limits of its own.
_LINES_A_MINUTE = 200
_MAX_LINE = 2000
# The kernel, out of memory, kills a host before the service.
_OOM_SCORE = "500"
# Loggers of libraries that write every request, with its address, at INFO.
_CHATTY = ("httpx", "httpcore")
_log = logging.getLogger("solward.host")


def run(channel: int, host: Mapping[str, Any], zygote: int) -> NoReturn:
    """Become the host that the service asked for, until it closes the channel."""
    die_with(zygote)
    name_process(f"host-{host['name']}")
    os.environ["HOME"] = os.environ["TMPDIR"] = host["scratch"] or "/nonexistent"
    sys.meta_path.append(_Modules(host["modules"]))
    os.nice(host["nice"])
    if not host["nice"]:
        # Not the zygote's.
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
        separate(limits)
        with contextlib.suppress(OSError), open(SESSION, "wb") as session:
            set_session_nice(session.fileno(), host["session_nice"])
    if not host["confined"]:
        _limit_only(limits)
    else:
        try:
            confine(limits)
        except ConfinementUnavailable:
            os._exit(EXIT_UNCONFINED)
    if host["folder"]:
        # Never `site.addsitedir`, which runs the lines of `.pth` files.
        sys.path.append(host["folder"])
    _new_loop().run_until_complete(_serve(socket.socket(fileno=channel), host))
    os._exit(os.EX_OK)


async def _serve(sock: socket.socket, host: Mapping[str, Any]) -> None:
    async def start(incoming: Incoming) -> None:
        setup = Setup(host["name"], host["folder"], host["scratch"], host["options"])
        try:
            incoming.channel.serve(tenant_named(host["tenant"])(setup))
        except Exception as error:
            _log.exception("the tenant could not start")
            # Beside its name the text, which travels of deliberate errors alone.
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


def _limit_only(limits: Confinement) -> None:
    """What of `confine` works everywhere."""
    separate(limits)
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


class _Modules:
    """Finds the tenant's modules that stand in folders of which nothing else may be read."""

    def __init__(self, modules: Mapping[str, Mapping[str, Any]]) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """As a finder of `sys.meta_path`."""
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
    """Send what the tenant prints and logs as `Log` frames."""
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

    sys.stdout = _Lines(lambda line: emit("info", line))
    sys.stderr = _Lines(lambda line: emit("warning", line))
    root = logging.getLogger()
    root.handlers[:] = [_Forward(emit)]
    root.setLevel(logging.INFO)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


class _Lines(io.TextIOBase):
    """A stream that passes on whole lines, and of an endless one its beginning."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._rest = ""

    def write(self, text: str, /) -> int:
        """As any text stream's."""
        *lines, rest = (self._rest + text[: _LINES_A_MINUTE * _MAX_LINE]).split("\n")
        self._rest = rest[:_MAX_LINE]
        for line in lines:
            if line.strip():
                self._emit(line)
        return len(text)

    def writable(self) -> bool:
        """It is."""
        return True


class _Forward(logging.Handler):
    """A logger's records, formatted."""

    def __init__(self, emit: Callable[[str, str], None]) -> None:
        super().__init__()
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        """As a handler."""
        try:
            text = f"{record.name}: {self.format(record)}"
        except Exception:
            # As `logging` has it: a call with wrong arguments disturbs nobody.
            text = f"{record.name}: {record.msg!r}"[:_MAX_LINE]
        self._emit(record.levelname.lower(), text)
