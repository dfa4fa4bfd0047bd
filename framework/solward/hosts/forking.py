"""The service's side of the zygote: a process that forks hosts, started without the service's
environment."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from typing import Any

import structlog

from solward.hosts.inside.main import MAX_PACKET

# `-I -S` keeps out PYTHON* variables, the working directory and every `.pth` file.
_FLAGS = ("-I", "-S", "-X", "utf8")
_BOOTSTRAP = """\
import json, socket, sys
control = socket.socket(fileno=int(sys.argv[1]))
first = json.loads(control.recv(65536))
sys.path += [*first["source"], *first["libraries"]]
from solward.hosts.inside.zygote import main
main(control, first)
"""
# Nothing comes from the service's environment. All threads share one arena, because each arena
# reserves 64 MiB of a host's limited address space.
_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "MALLOC_ARENA_MAX": "1"}
# Modules that hosts import, imported once before the fork; missing ones are skipped.
_WARM = (
    "asyncio",
    "decimal",
    "httpcore",
    "httpx",
    "logging",
    "msgspec",
    "pluggy",
    "solders.pubkey",
    "solders.transaction",
    "uvloop",
    "solward",
    "solward.context",
    "solward.hookspecs",
    "solward.hosts.inside.plugins",
    "solward.hosts.wire.methods",
    "solward.hosts.wire.values",
)
# Names of folders of libraries, which hosts may read as a whole.
_LIBRARY_FOLDERS = ("site-packages", "dist-packages")
_LIBRARIES = ("httpx", "jsonschema", "msgspec", "pluggy", "solders", "uvloop")

# The zygote first imports the libraries of all hosts, which took more than 20 s on a busy machine.
_READY_S = 60.0
_START_S = 20.0
_LAST_WORDS = 2000
_log = structlog.get_logger(__name__)


class ZygoteEnded(Exception):
    """The zygote could not start, or it ended; the error gives the reason if known."""


@dataclass(frozen=True, slots=True)
class ForkedHost:
    """A new host process.

    Attributes:
        pidfd: descriptor of the process, valid even if its number is reused; the caller closes it.
        status: future of the process's status, as of `os.waitpid`; None if nobody knows it.
    """

    pid: int
    pidfd: int
    status: asyncio.Future[int | None]


class Zygote:
    """A process that forks hosts. Use all methods in one event loop, whose thread must live as long
    as the zygote: the kernel ends the zygote when the thread that started it ends."""

    def __init__(self, nice: int) -> None:
        """Start the process without waiting for it; takes a few milliseconds.

        Args:
            nice: nice value of the zygote with its hosts, if sessions are scheduled as groups.

        Raises:
            OSError: if it cannot be started.
        """
        if sys.platform != "linux":
            raise OSError(errno.ENOSYS, f"plugin hosts need Linux, not {sys.platform}")
        self._loop = asyncio.get_running_loop()
        first = {
            "source": source_paths(),
            "libraries": library_paths(),
            "warm": _WARM,
            "nice": nice,
            "parent": os.getpid(),
        }
        self._words = os.memfd_create("solward-zygote")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        try:
            # Sent before the process exists: sending to one that ended at once would fail.
            self._control.send(json.dumps(first).encode())
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                [sys.executable, *_FLAGS, "-c", _BOOTSTRAP, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                env=_ENVIRONMENT,
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError:
            self._control.close()
            os.close(self._words)
            raise
        finally:
            theirs.close()
        self._pidfd = os.pidfd_open(self._process.pid)
        self._ready: asyncio.Future[str | None] = self._loop.create_future()
        self._numbers = iter(range(1, 1 << 62))
        self._asked: dict[int, asyncio.Future[ForkedHost]] = {}
        self._children: dict[int, asyncio.Future[int | None]] = {}
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._sending = asyncio.Lock()
        self._loop.add_reader(self._control.fileno(), self._receive_messages)
        self._loop.add_reader(self._pidfd, self._on_zygote_end)

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """True once the zygote, and with it all its hosts, is gone."""
        return self._gone.done() or self._process.poll() is not None

    async def unavailable(self) -> str | None:
        """Return the reason why this machine cannot confine hosts; None if it can.

        Raises:
            ZygoteEnded: if it does not become ready.
        """
        try:
            async with asyncio.timeout(_READY_S):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            self.kill()
            raise ZygoteEnded(f"the zygote was not ready after {_READY_S:g} s") from None

    async def fork(self, host: Mapping[str, Any], channel: socket.socket) -> ForkedHost:
        """Start a host, forked from the zygote, that gets `channel`; the caller closes `channel`.

        Raises:
            ZygoteEnded: if the zygote is gone, or could not fork.
        """
        await self.unavailable()
        number = next(self._numbers)
        packet = json.dumps({"id": number, "host": host}).encode()
        if len(packet) > MAX_PACKET:
            raise ZygoteEnded("the host's configuration is too large")
        answer: asyncio.Future[ForkedHost] = self._loop.create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(_START_S):
                await self._send_packet(packet, channel)
                await asyncio.wait([answer])
                return answer.result()
        except BaseException as error:
            # Nobody takes the host any more, so it must end: now, or once it is forked.
            if not answer.cancel() and answer.exception() is None:
                end_process(answer.result().pidfd)
                os.close(answer.result().pidfd)
            if isinstance(error, TimeoutError):
                self.kill()
                text = f"the zygote did not answer for {_START_S:g} s"
                raise ZygoteEnded(text) from None
            raise

    async def close(self, grace_s: float) -> None:
        """End the zygote and wait until it is gone; the kernel ends the remaining hosts."""
        if self._gone.done():
            return
        self._control.shutdown(socket.SHUT_WR)
        await asyncio.wait([self._gone], timeout=grace_s)
        self.kill()
        await self._gone

    def set_nice(self, nice: int, pid: int | None = None) -> None:
        """Change the nice value of the host `pid`, or of the zygote and all hosts that have no
        nice value of their own. Nothing changes if the process is gone or busy."""
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"nice": nice, "pid": pid}).encode())

    def kill(self) -> None:
        """End the zygote at once."""
        if not self._gone.done():
            end_process(self._pidfd)

    async def _send_packet(self, packet: bytes, channel: socket.socket) -> None:
        async with self._sending:
            while not self._gone.done():
                try:
                    socket.send_fds(self._control, [packet], [channel.fileno()])
                except BlockingIOError:
                    await self._wait_writable()
                except OSError:
                    # The zygote is gone; `_on_zygote_end` tells everybody who waits.
                    return
                else:
                    return
            raise ZygoteEnded("the zygote ended")

    async def _wait_writable(self) -> None:
        writable = self._loop.create_future()
        self._loop.add_writer(self._control.fileno(), _set_result, writable, None)
        try:
            await asyncio.wait([writable, self._gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not self._gone.done():
                self._loop.remove_writer(self._control.fileno())

    def _receive_messages(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 1)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                # `_on_zygote_end` does the rest, also for a zygote that only closed its socket.
                self._loop.remove_reader(self._control.fileno())
                self.kill()
                return
            message = json.loads(data)
            if "ready" in message:
                _set_result(self._ready, message["unavailable"])
            elif "ended" in message:
                _set_result(self._children.pop(message["ended"]), message["status"])
            else:
                self._on_fork_answer(message, descriptors)

    def _on_fork_answer(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        answer = self._asked.pop(message["id"])
        if "error" in message:
            if not answer.done():
                answer.set_exception(ZygoteEnded(f"no host could be forked: {message['error']}"))
            return
        [pidfd] = descriptors
        status: asyncio.Future[int | None] = self._loop.create_future()
        self._children[message["pid"]] = status
        if answer.done():
            # Nobody waits for this host any more.
            end_process(pidfd)
            os.close(pidfd)
        else:
            answer.set_result(ForkedHost(message["pid"], pidfd, status))

    def _on_zygote_end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._receive_messages()
        self._loop.remove_reader(self._control.fileno())
        self._loop.remove_writer(self._control.fileno())
        status = self._process.wait()
        self._gone.set_result(None)
        said = os.pread(self._words, 1 << 20, 0).decode(errors="replace").strip()[-_LAST_WORDS:]
        error = ZygoteEnded(f"the zygote ended with status {status}{': ' if said else ''}{said}")
        waiters: list[asyncio.Future[Any]] = [self._ready, *self._asked.values()]
        for waiting in waiters:
            if not waiting.done():
                waiting.set_exception(error)
                # Read here, so that asyncio does not log it if nobody waits.
                waiting.exception()
        for child in self._children.values():
            _set_result(child, None)
        self._asked.clear()
        self._children.clear()
        self._control.close()
        os.close(self._words)
        os.close(self._pidfd)


class SharedZygote:
    """A zygote that several `Hosts` share, started when first needed, and again after it ends.
    Its creator closes it after all these `Hosts`.

    Sharing is safe: the zygote has only imported libraries that all may read, and it knows of a
    host only where its modules are and what it may read and write.
    """

    def __init__(self, nice: int) -> None:
        """Make a shared zygote without starting it.

        Args:
            nice: see `Zygote`.
        """
        self._nice = nice
        self._zygote: Zygote | None = None

    @property
    def zygote(self) -> Zygote | None:
        """The zygote, running or not; None before it was first needed."""
        return self._zygote

    def ensure_running(self) -> Zygote:
        """Return a running zygote, started if necessary; does not wait until it is ready.

        Raises:
            OSError: if it cannot be started.
        """
        if self._zygote is None or self._zygote.ended:
            if self._zygote is not None:
                _log.error("plugin_zygote_ended", pid=self._zygote.pid)
            self._zygote = Zygote(self._nice)
        return self._zygote

    async def close(self, grace_s: float = 0.5) -> None:
        """End the zygote, and wait until it is gone."""
        if self._zygote is not None:
            await self._zygote.close(grace_s)


def end_process(pidfd: int) -> None:
    """Kill the process of this descriptor at once; do nothing if it is gone."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _set_result(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def library_paths() -> tuple[str, ...]:
    """Return the folders of installed libraries, which hosts may read as a whole."""
    named = [each for each in sys.path if os.path.basename(each) in _LIBRARY_FOLDERS]
    used = [os.path.dirname(place) for library in _LIBRARIES for place in package_folders(library)]
    return tuple(dict.fromkeys(filter(os.path.isdir, map(os.path.abspath, (*named, *used)))))


def source_paths() -> tuple[str, ...]:
    """Return the folder that contains this Solward. Unless it is a folder of libraries, hosts may
    read only Solward in it."""
    return tuple(map(os.path.dirname, package_folders("solward")))


def module_places(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the places of top-level modules outside the folders of libraries, such as those of an
    editable installation. The modules are not imported; names that are not found are left out.

    Returns:
        By name: `origin`, its file or None, and `folders`, which are None if it is no package.
    """
    found: dict[str, dict[str, Any]] = {}
    libraries = library_paths()
    for name in {name.partition(".")[0] for name in names}:
        places = package_folders(name)
        if not places or any(os.path.dirname(place) in libraries for place in places):
            continue
        spec = _find_spec(name)
        folders = spec is not None and spec.submodule_search_locations is not None
        origin = (
            os.path.abspath(spec.origin) if spec and spec.has_location and spec.origin else None
        )
        found[name] = {"origin": origin, "folders": places if folders else None}
    return found


def package_folders(module: str) -> list[str]:
    """Return the folders of a top-level package, or the file of a module."""
    spec = _find_spec(module)
    if spec is None:
        return []
    places = spec.submodule_search_locations
    if places is None:
        places = [spec.origin] if spec.has_location and spec.origin else []
    return list(map(os.path.abspath, places))


def _find_spec(module: str) -> ModuleSpec | None:
    # `importlib.util.find_spec` would trust `sys.modules`.
    for finder in sys.meta_path:
        with contextlib.suppress(ImportError, ValueError):
            spec: ModuleSpec | None = finder.find_spec(module, None)
            if spec is not None:
                return spec
    return None
