"""The zygote as the service sees it: started without its environment, asked to fork."""

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
# Nothing of the service's own. One arena for all threads: each would reserve 64 MiB of a host's
# address space, which is limited.
_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "MALLOC_ARENA_MAX": "1"}
# What hosts import, done once before the fork; those that are not installed are left out.
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
# In whose folders hosts may read all: those of an installation, and where these are.
_LIBRARY_FOLDERS = ("site-packages", "dist-packages")
_LIBRARIES = ("httpx", "jsonschema", "msgspec", "pluggy", "solders", "uvloop")

# It imports the libraries of every host first, which took a busy machine more than 20 s.
_READY_S = 60.0
_START_S = 20.0
_LAST_WORDS = 2000
_log = structlog.get_logger(__name__)


class ZygoteEnded(Exception):
    """The zygote could not start, or ended; the text says why as far as known."""


@dataclass(frozen=True, slots=True)
class Forked:
    """A new host process.

    Attributes:
        pidfd: names the process for good, also when its number is another's; the caller closes it.
        status: becomes the process's status as of `os.waitpid`, or None where nobody knows it.
    """

    pid: int
    pidfd: int
    status: asyncio.Future[int | None]


class Zygote:
    """A running zygote. All methods belong to one event loop, which must run in a thread that lives
    as long as the zygote: the kernel ends the zygote with the thread that started it."""

    def __init__(self, nice: int) -> None:
        """Start the process; takes a few milliseconds and waits for nothing.

        Args:
            nice: of it and its hosts as one, where the kernel schedules sessions as groups.

        Raises:
            OSError: it cannot be started.
        """
        if sys.platform != "linux":
            raise OSError(errno.ENOSYS, f"plugin hosts need Linux; this is {sys.platform}")
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
            # Before the process exists: one that ends at once would not be there to send to.
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
        self._asked: dict[int, asyncio.Future[Forked]] = {}
        self._children: dict[int, asyncio.Future[int | None]] = {}
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._sending = asyncio.Lock()
        self._loop.add_reader(self._control.fileno(), self._receive)
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it is gone, and with it all its hosts."""
        return self._gone.done() or self._process.poll() is not None

    async def unavailable(self) -> str | None:
        """Why confinement is not available on this machine; None where it is.

        Raises:
            ZygoteEnded: it did not become ready.
        """
        try:
            async with asyncio.timeout(_READY_S):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            self.kill()
            raise ZygoteEnded(f"the zygote was not ready after {_READY_S:g} s") from None

    async def fork(self, host: Mapping[str, Any], channel: socket.socket) -> Forked:
        """Have a host forked that gets `channel`, which the caller closes.

        Raises:
            ZygoteEnded: the zygote is gone, or could not fork.
        """
        await self.unavailable()
        number = next(self._numbers)
        packet = json.dumps({"id": number, "host": host}).encode()
        if len(packet) > MAX_PACKET:
            raise ZygoteEnded("the host's configuration is too large")
        answer: asyncio.Future[Forked] = self._loop.create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(_START_S):
                await self._send(packet, channel)
                await asyncio.wait([answer])
                return answer.result()
        except BaseException as error:
            # A host that nobody takes ends: now, or when it is there.
            if not answer.cancel() and answer.exception() is None:
                end_process(answer.result().pidfd)
                os.close(answer.result().pidfd)
            if isinstance(error, TimeoutError):
                self.kill()
                text = f"the zygote did not answer for {_START_S:g} s"
                raise ZygoteEnded(text) from None
            raise

    async def close(self, grace_s: float) -> None:
        """End the zygote and wait until it is gone; the kernel ends the hosts that are left."""
        if self._gone.done():
            return
        self._control.shutdown(socket.SHUT_WR)
        await asyncio.wait([self._gone], timeout=grace_s)
        self.kill()
        await self._gone

    def stand_back(self, nice: int, pid: int | None = None) -> None:
        """Change `nice` of it and its hosts as one, but for those that have a value of their own,
        or of the host `pid`, which has; where it is gone, or busy, nothing changes."""
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"nice": nice, "pid": pid}).encode())

    def kill(self) -> None:
        """End the zygote at once."""
        if not self._gone.done():
            end_process(self._pidfd)

    async def _send(self, packet: bytes, channel: socket.socket) -> None:
        async with self._sending:
            while not self._gone.done():
                try:
                    socket.send_fds(self._control, [packet], [channel.fileno()])
                except BlockingIOError:
                    await self._writable()
                except OSError:
                    # It is gone, which `_reap` will say to all who wait.
                    return
                else:
                    return
            raise ZygoteEnded("the zygote ended")

    async def _writable(self) -> None:
        writable = self._loop.create_future()
        self._loop.add_writer(self._control.fileno(), _settle, writable, None)
        try:
            await asyncio.wait([writable, self._gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not self._gone.done():
                self._loop.remove_writer(self._control.fileno())

    def _receive(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 1)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                # What remains is `_reap`'s; of a zygote that closed its socket, too.
                self._loop.remove_reader(self._control.fileno())
                self.kill()
                return
            message = json.loads(data)
            if "ready" in message:
                _settle(self._ready, message["unavailable"])
            elif "ended" in message:
                _settle(self._children.pop(message["ended"]), message["status"])
            else:
                self._answered(message, descriptors)

    def _answered(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        answer = self._asked.pop(message["id"])
        if "error" in message:
            if not answer.done():
                answer.set_exception(ZygoteEnded(f"no host could be forked: {message['error']}"))
            return
        [pidfd] = descriptors
        status: asyncio.Future[int | None] = self._loop.create_future()
        self._children[message["pid"]] = status
        if answer.done():
            # Whoever asked waits no longer.
            end_process(pidfd)
            os.close(pidfd)
        else:
            answer.set_result(Forked(message["pid"], pidfd, status))

    def _reap(self) -> None:
        """The process is gone."""
        self._loop.remove_reader(self._pidfd)
        self._receive()
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
                # Read here, because perhaps nobody waits.
                waiting.exception()
        for child in self._children.values():
            _settle(child, None)
        self._asked.clear()
        self._children.clear()
        self._control.close()
        os.close(self._words)
        os.close(self._pidfd)


class SharedZygote:
    """The zygote of several `Hosts`, started when one of them first needs it, and again after its
    end. Closed by whoever made it, after all of them.

    What hosts of one are forked from, those of the other are too: it has imported libraries that
    all may read, and of a host it knows where its modules stand and what it may read and write.
    """

    def __init__(self, nice: int) -> None:
        """
        Args:
            nice: as of `Zygote`.
        """
        self._nice = nice
        self._zygote: Zygote | None = None

    @property
    def zygote(self) -> Zygote | None:
        """The process, running or not; None before the first was needed."""
        return self._zygote

    def running(self) -> Zygote:
        """Return the process, started where it does not run; nothing is waited for.

        Raises:
            OSError: it cannot be started.
        """
        if self._zygote is None or self._zygote.ended:
            if self._zygote is not None:
                _log.error("plugin_zygote_ended", pid=self._zygote.pid)
            self._zygote = Zygote(self._nice)
        return self._zygote

    async def close(self, grace_s: float = 0.5) -> None:
        """End it, and wait until it is gone."""
        if self._zygote is not None:
            await self._zygote.close(grace_s)


def end_process(pidfd: int) -> None:
    """Kill the process of this descriptor, at once; nothing where it is gone."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def library_paths() -> tuple[str, ...]:
    """Folders of installed libraries, which hosts may read as a whole: they hold code and what came
    with it."""
    named = [each for each in sys.path if os.path.basename(each) in _LIBRARY_FOLDERS]
    used = [os.path.dirname(place) for library in _LIBRARIES for place in package_folders(library)]
    return tuple(dict.fromkeys(filter(os.path.isdir, map(os.path.abspath, (*named, *used)))))


def source_paths() -> tuple[str, ...]:
    """Where this very Solward stands: a folder of libraries, or that of an editable installation,
    of which hosts may read Solward alone."""
    return tuple(map(os.path.dirname, package_folders("solward")))


def modules_of(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Where top-level modules stand that are in no folder of libraries, such as those of an
    editable installation; runs no code of theirs. Names that are not found are left out.

    Returns:
        For each: `origin`, its file or None, and `folders`, which are None where it is no package.
    """
    found: dict[str, dict[str, Any]] = {}
    libraries = library_paths()
    for name in {name.partition(".")[0] for name in names}:
        places = package_folders(name)
        if not places or any(os.path.dirname(place) in libraries for place in places):
            continue
        spec = _spec(name)
        folders = spec is not None and spec.submodule_search_locations is not None
        origin = (
            os.path.abspath(spec.origin) if spec and spec.has_location and spec.origin else None
        )
        found[name] = {"origin": origin, "folders": places if folders else None}
    return found


def package_folders(module: str) -> list[str]:
    """Return the folders of a top-level package, or the file of a module."""
    spec = _spec(module)
    if spec is None:
        return []
    places = spec.submodule_search_locations
    if places is None:
        places = [spec.origin] if spec.has_location and spec.origin else []
    return list(map(os.path.abspath, places))


def _spec(module: str) -> ModuleSpec | None:
    # Not `importlib.util.find_spec`, which believes what stands in `sys.modules`.
    for finder in sys.meta_path:
        with contextlib.suppress(ImportError, ValueError):
            spec: ModuleSpec | None = finder.find_spec(module, None)
            if spec is not None:
                return spec
    return None
