"""The service's plugin hosts: forked from a zygote, watched, and ended with the service."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any

import structlog

from solward.hosts.forking import (
    SharedZygote,
    Zygote,
    library_paths,
    module_places,
    package_folders,
)
from solward.hosts.host import (
    STOPPED,
    STORAGE_FULL,
    UNCONFINED,
    Host,
    HostConfig,
    HostProcess,
    SupervisionLimits,
)
from solward.hosts.wire.channel import Channel, Handler
from solward.hosts.wire.frames import FROM_HOST
from solward.support.tasks import end
from solward.types.errors import SkillError

_log = structlog.get_logger(__name__)


class Hosts:
    """All plugin hosts of a service. Use its methods in the event loop that opened it, whose thread
    must live as long: the kernel ends the hosts when that thread ends."""

    def __init__(
        self,
        *,
        unconfined: Collection[str] = (),
        on_fault: Callable[[Host], None] = lambda _host: None,
        limits: SupervisionLimits = SupervisionLimits(),  # noqa: B008 - frozen
        zygote: SharedZygote | None = None,
        apart: bool = False,
    ) -> None:
        """Create the object without starting a process.

        Args:
            unconfined: third parties that may run unconfined where confinement is unavailable.
            on_fault: called with a host whose tenant was disabled or has become noisy.
            zygote: a zygote shared with other `Hosts`; None for one that ends with these.
            apart: whether each host gets its own share of scarce processors; otherwise all hosts of
                the zygote have one share.
        """
        self._unconfined = frozenset(unconfined)
        self._on_fault = on_fault
        self._limits = limits
        self._hosts: list[Host] = []
        self._zygote = SharedZygote(limits.nice) if zygote is None else zygote
        self._own_zygote = zygote is None
        self._apart = apart
        self._watching: asyncio.Task[None] | None = None

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts that were added and not removed, running or not."""
        return tuple(self._hosts)

    @property
    def zygote(self) -> Zygote | None:
        """The process that the hosts are forked from; None before `open`."""
        return self._zygote.zygote

    async def open(self) -> None:
        """Start the zygote without waiting for it; if that fails, calls raise the reason."""
        try:
            self._zygote.ensure_running()
        except OSError as error:
            _log.warning("plugin_zygote_not_started", reason=str(error))
        self._watching = asyncio.create_task(self._watch_hosts())

    async def unavailable(self) -> str | None:
        """Return why this machine cannot confine hosts; None if it can.

        Raises:
            ZygoteEnded: if the zygote ends before it can tell.
            OSError: if it cannot be started.
        """
        return await self._zygote.ensure_running().unavailable()

    def add(self, config: HostConfig, handlers: Mapping[str, Handler]) -> Host:
        """Add a host, started by its first call, and return it.

        Args:
            handlers: handlers of its requests to the service, by method.
        """
        host = Host(
            config,
            handlers,
            launch=self._launch_process,
            limits=self._limits,
            on_fault=self._on_fault,
        )
        self._hosts.append(host)
        return host

    async def start(self, config: HostConfig, handlers: Mapping[str, Handler]) -> Host:
        """Add a host, start it at once, and return it.

        Raises:
            SkillError: as `Host.start`; the host is not added then.
        """
        host = self.add(config, handlers)
        try:
            await host.start()
        except BaseException:
            await self.remove(host)
            raise
        return host

    def set_nice(self, nice: int) -> None:
        """Set the nice value of each running host and of their session, except urgent hosts. Hosts
        that start later get the nice value of the limits."""
        zygote = self._zygote.zygote
        if zygote is not None and not self._apart:
            zygote.set_nice(nice)
        for host in self._hosts:
            if host.pid is not None and not host.config.urgent:
                # An ordinary user may raise a nice value but not lower it.
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, host.pid, nice)
                if zygote is not None and self._apart:
                    zygote.set_nice(nice, host.pid)

    async def remove(self, host: Host, reason: str = STOPPED) -> None:
        """End a host and forget it; its callers get `reason`."""
        self._hosts.remove(host)
        await host.close(reason)

    async def close(self) -> None:
        """End all hosts, their calls, and a zygote of their own; wait until all are gone."""
        if self._watching is not None:
            await end([self._watching])
        await asyncio.gather(*(host.close() for host in self._hosts))
        if self._own_zygote:
            await self._zygote.close(self._limits.stop_s)

    async def _launch_process(self, host: Host) -> HostProcess:
        zygote, config = self._zygote.ensure_running(), host.config
        reason = await zygote.unavailable()
        if reason is not None:
            if config.name not in self._unconfined:
                raise SkillError(
                    UNCONFINED,
                    f"{config.name} does not run: this machine cannot confine it ({reason}),"
                    " and SOLWARD_PLUGINS_UNCONFINED does not name it",
                )
            _log.warning("plugin_host_unconfined", host=config.name, reason=reason)
        if config.scratch and (problem := await asyncio.to_thread(self._storage_problem, config)):
            raise SkillError(
                STORAGE_FULL,
                f"{config.name} does not run: {problem}. Make room in {config.scratch}",
            )
        ours, theirs = socket.socketpair()
        try:
            # Finding the libraries reads the disk.
            described = await asyncio.to_thread(
                _fork_request, config, self._limits.nice, self._apart, confined=reason is None
            )
            forked = await zygote.fork(described, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        channel = Channel(ours, host.handlers, receive_limit=FROM_HOST, on_log=host.log)
        return HostProcess(zygote, forked, channel, confined=reason is None)

    async def _watch_hosts(self) -> None:
        while True:
            await asyncio.sleep(self._limits.watch_s)
            checked = await asyncio.gather(*map(self._check, self.hosts), return_exceptions=True)
            for error in checked:
                # An error with one host must not leave the others unwatched.
                if isinstance(error, Exception):
                    _log.error("plugin_host_not_checked", exc_info=error)

    async def _check(self, host: Host) -> None:
        process = host.process
        if process is None:
            return
        process.check_usage(host.config, self._limits)
        if host.config.scratch is None:
            return
        # In a thread, because a disk may be slow.
        if problem := await asyncio.to_thread(self._storage_problem, host.config):
            process.kill(problem)

    def _storage_problem(self, config: HostConfig) -> str | None:
        """Return the problem of the scratch folder or of its disk; None if there is none."""
        if problem := _scratch_problem(config):
            return problem
        # A deleted file that is still mapped takes room without a name until the process ends.
        if _free_bytes(config.scratch or "") < self._limits.free_bytes:
            return f"the disk of its storage has less than {self._limits.free_bytes} bytes free"
        return None


def _fork_request(config: HostConfig, nice: int, apart: bool, *, confined: bool) -> dict[str, Any]:
    modules = module_places(config.modules)
    own = [place for each in modules.values() for place in each["folders"] or [each["origin"]]]
    read = [*library_paths(), *package_folders("solward"), *own]
    if config.folder is not None:
        read.append(config.folder)
    return {
        **asdict(config),
        "modules": modules,
        "read": read,
        "confined": confined,
        "nice": 0 if config.urgent else nice,
        "own_session": config.urgent or apart,
        "session_nice": nice if apart and not config.urgent else None,
    }


def _free_bytes(folder: str) -> int:
    """Return the number of bytes that this user may still store on a folder's disk."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _scratch_problem(config: HostConfig) -> str | None:
    """Return the problem of the scratch folder; None if there is none. It stops at the limits."""
    size = count = 0
    folders = [config.scratch or ""]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    # The size counts for a file with holes, the blocks for a folder.
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # the file is gone
                    size += max(status.st_size, status.st_blocks * 512)
                    if size > config.scratch_bytes:
                        return f"it stored more than {config.scratch_bytes} bytes"
                    if count > config.scratch_files:
                        return f"it stored more than {config.scratch_files} files"
        except FileNotFoundError:
            continue  # the folder is gone
        except OSError as error:
            # The folder is too deep, or closed to its owner: its contents could have any size.
            return f"it stored a folder that cannot be read ({error.strerror})"
    return None
