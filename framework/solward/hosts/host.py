"""The service's side of one plugin host: its calls, its end, and its restarts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import structlog

from solward.hosts.forking import ForkedHost, Zygote, ZygoteEnded, end_process
from solward.hosts.inside.main import EXIT_UNCONFINED
from solward.hosts.wire.channel import Channel, Handler
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.frames import ChannelClosed, HostileFrame, Log
from solward.hosts.wire.methods import PING, START, Method
from solward.hosts.wire.values import Unreadable
from solward.telemetry.scrub import scrub_start, scrub_text
from solward.types.errors import ProviderError, SkillError, SolwardError

ENDED: Final = "plugin_host_ended"
"""The host ended while the call ran, or could not be started."""
DISABLED: Final = "plugin_host_disabled"
"""The tenant is disabled, so its host is not started again."""
STORAGE_FULL: Final = "plugin_storage_full"
"""The host's storage or its disk is too full for the host to be started."""
BAD_OUTCOME: Final = "bad_outcome"
"""The plugin returned a value that is not valid for its hook."""
UNCONFINED: Final = "confinement_unavailable"
"""This machine cannot confine the host, and no setting lets it run unconfined."""

STOPPED: Final = "it was stopped"
"""The reason given to callers of a host that ended with the service."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_CLOCK: Final = os.sysconf("SC_CLK_TCK")
# The share of a processor that a host may always use.
_IDLE_SHARE: Final = 0.1
_STATUS_S: Final = 0.5
_TICKS: Final = 10
_MINUTE_S: Final = 60.0
_MAX_LINE: Final = 2000
_LEVELS: Final = ("debug", "info", "warning", "error")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """The program of a host, and its limits.

    Attributes:
        name: the distribution's canonical name, or the tenant's; shown to people.
        tenant: `module:function` that makes its handlers in the host (`inside.tenants`).
        folder: the distribution's own folder, put at the end of its `sys.path`.
        modules: the tenant's modules, as entry points name them; they can be imported even if they
            are outside the folders of installed libraries.
        scratch: a folder that it may write to.
        scratch_bytes: limit of the size of all that is in `scratch`.
        scratch_files: limit of the number of files and folders in `scratch`.
        memory_bytes: limit of address space, much of which is shared or never used.
        resident_bytes: limit of memory in use.
        threads: limit of threads; the kernel's own would count all processes of the user.
        options: texts for the tenant.
        urgent: whether payments wait for it, so that its nice value stays 0.
        start_s: seconds within which it must have imported its plugins.
    """

    name: str
    tenant: str
    folder: str | None = None
    modules: tuple[str, ...] = ()
    scratch: str | None = None
    scratch_bytes: int = 0
    scratch_files: int = 1000
    memory_bytes: int = 1 << 30
    resident_bytes: int = 512 << 20
    threads: int = 128
    open_files: int = 64
    file_bytes: int = 16 << 20
    options: Mapping[str, str] = field(default_factory=dict)
    urgent: bool = False
    start_s: float = 30.0


@dataclass(frozen=True, slots=True)
class SupervisionLimits:
    """Limits at which a host is ended or its log is cut, in seconds unless stated.

    Attributes:
        answer_s: time without an answer to a ping, while a call runs.
        grace_s: time without an answer to a ping, after a call that took too long.
        stop_s: time that a host gets to end by itself.
        idle_cpu_s: processor time without a running call, beyond a tenth of one processor.
        crashes: number of ends within `crash_window_s` that disable the tenant.
        watch_s: time between two checks of memory, processor and scratch.
        lines_a_minute: maximum number of lines of its log that are written in a minute.
        noisy_lines: lines of its log in a minute at which it is noisy, which is a fault.
        flood_lines: lines of its log in a minute at which it is ended.
        free_bytes: bytes that the disk of a host's scratch folder must have free.
        nice: nice value of each host and of their session, 0 to 19; urgent hosts have 0.
    """

    answer_s: float = 5.0
    grace_s: float = 2.0
    stop_s: float = 0.5
    idle_cpu_s: float = 10.0
    crashes: int = 3
    crash_window_s: float = 60.0
    watch_s: float = 1.0
    lines_a_minute: int = 50
    noisy_lines: int = 150
    flood_lines: int = 10_000
    free_bytes: int = 256 << 20
    nice: int = 10


class Fault(StrEnum):
    """A reason for which a tenant is disabled; each is also the name of a `ProblemCode`."""

    CRASHES = "crashes"
    """The tenant's host ended too often."""
    DECLARATION_CHANGED = "declaration_changed"
    """A later process of the host declared something other than its first process."""


@dataclass(frozen=True, slots=True)
class DisabledTenant:
    """A tenant that is not started again, and the reason in words."""

    fault: Fault
    reason: str


class HostProcess:
    """One process of a host, from its fork to its end."""

    def __init__(
        self, zygote: Zygote, forked: ForkedHost, channel: Channel, *, confined: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        self.pid = forked.pid
        self.channel = channel
        self.confined = confined
        self.ended: asyncio.Future[str] = loop.create_future()
        """Future of the reason for the end; the process may live a moment longer."""
        self.gone: asyncio.Future[None] = loop.create_future()
        """Future that is done when the process is gone."""
        self.blameless = False
        """Whether the process ended through no fault of its tenant."""
        self.started = False
        """Whether the tenant has started; until then its imports may block the event loop."""
        self._zygote = zygote
        self._forked = forked
        self._calls = 0
        self._called = False
        self._ping: asyncio.Task[None] | None = None
        self._unanswered_s = 0.0
        self._cpu_s: float | None = None
        self._idle_cpu_s = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()
        loop.add_reader(forked.pidfd, self._on_gone)
        channel.closed.add_done_callback(self._on_closed)

    @property
    def usable(self) -> bool:
        """True while calls can begin."""
        return not (self.ended.done() or self.gone.done() or self.channel.closed.done())

    @property
    def busy(self) -> bool:
        """True while a call runs."""
        return self._calls > 0

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Count a call as running inside the block."""
        self._calls += 1
        self._called = True
        try:
            yield
        finally:
            self._calls -= 1

    def kill(self, reason: str, *, blameless: bool = False) -> None:
        """End the process at once; `reason` is for people and models."""
        self._set_reason(reason, blameless=blameless)
        self._kill_process()
        self.channel.end(ConnectionAbortedError(reason))

    async def stop(self, grace_s: float, reason: str = STOPPED) -> None:
        """End the process and wait until it is gone; it gets `grace_s` seconds to end by itself."""
        self._set_reason(reason, blameless=True)
        await self.channel.close()
        await asyncio.wait([self.gone], timeout=grace_s)
        self._kill_process()
        await asyncio.shield(self.gone)

    async def reason(self) -> str:
        """Wait until the reason of the process's end is known, and return it."""
        return await asyncio.shield(self.ended)

    def check_answer(self, within_s: float) -> None:
        """End the process if it does not answer a ping within so many seconds."""
        self._keep_task(asyncio.create_task(self._require_answer(within_s)))

    def check_usage(self, config: HostConfig, limits: SupervisionLimits) -> None:
        """End the process if it uses too much memory, threads or processor, or answers no ping."""
        try:
            with open(f"/proc/{self.pid}/statm") as file:
                resident = int(file.read().split()[1]) * _PAGE
            with open(f"/proc/{self.pid}/stat") as file:
                # The name, which ends at the last parenthesis, may contain anything.
                fields = file.read().rpartition(")")[2].split()
            cpu_s = (int(fields[11]) + int(fields[12])) / _CLOCK
            threads = int(fields[17])
        except (OSError, IndexError, ValueError):
            return  # the process is gone
        idle = self._cpu_s is not None and not self._called and self.started
        used_s = cpu_s - (self._cpu_s or 0.0) if idle else 0.0
        self._idle_cpu_s = max(0.0, self._idle_cpu_s + used_s - _IDLE_SHARE * limits.watch_s)
        self._cpu_s, self._called = cpu_s, self._calls > 0
        if resident > config.resident_bytes:
            self.kill(f"it used more than {config.resident_bytes >> 20} MiB of memory")
        elif threads > config.threads:
            self.kill(f"it ran more than {config.threads} threads")
        elif self._idle_cpu_s > limits.idle_cpu_s:
            self.kill("it kept a processor busy while no call ran")
        elif not self.started:
            return
        elif self.channel.unanswered_s > limits.answer_s:
            self.kill(f"a call kept running for {limits.answer_s:g} s after it was cancelled")
        elif self._ping is not None and not self._ping.done():
            # Counted per check, so that a pause of the service itself does not count.
            self._unanswered_s += limits.watch_s
            if self._calls and self._unanswered_s >= limits.answer_s:
                self.kill(f"it did not answer for {limits.answer_s:g} s")
        elif self._calls:
            self._unanswered_s = 0.0
            self._ping = asyncio.create_task(self._send_ping())

    async def _require_answer(self, within_s: float) -> None:
        ping = asyncio.create_task(self._send_ping())
        for _ in range(_TICKS):
            # Many short waits: a single one would end too early if the service itself paused.
            done, _ = await asyncio.wait({ping}, timeout=within_s / _TICKS)
            if done:
                return
        ping.cancel()
        self.kill(f"it did not answer for {within_s:g} s after a call that took too long")

    async def _send_ping(self) -> None:
        # `_on_closed` handles a closed channel.
        with contextlib.suppress(ChannelClosed):
            await self.channel.call(PING)

    def _on_closed(self, closed: asyncio.Future[BaseException | None]) -> None:
        error = closed.result()
        if isinstance(error, HostileFrame):
            self._set_reason(f"it broke the channel's protocol: {error}")
        if error is not None:
            # Without a channel the process is useless, and may still run.
            self._kill_process()

    def _set_reason(self, reason: str, *, blameless: bool = False) -> None:
        if not self.ended.done():
            self.blameless = blameless
            self.ended.set_result(reason)

    def _kill_process(self) -> None:
        if not self.gone.done():
            end_process(self._forked.pidfd)

    def _on_gone(self) -> None:
        self.gone.set_result(None)
        asyncio.get_running_loop().remove_reader(self._forked.pidfd)
        os.close(self._forked.pidfd)
        self._keep_task(asyncio.create_task(self._complete_end()))

    async def _complete_end(self) -> None:
        await asyncio.wait([self._forked.status], timeout=_STATUS_S)
        if self._zygote.ended:
            self._set_reason("the zygote ended", blameless=True)
        self._set_reason(self._exit_reason())
        if self._ping is not None:
            self._ping.cancel()
        await self.channel.close()

    def _exit_reason(self) -> str:
        status = self._forked.status.result() if self._forked.status.done() else None
        if status is None:
            return "it ended"
        code = os.waitstatus_to_exitcode(status)
        if code == EXIT_UNCONFINED:
            return "it could not be confined"
        if code == -signal.SIGKILL:
            return "it closed its channel or was killed"
        return (
            f"it ended with status {code}"
            if code >= 0
            else f"{signal.Signals(-code).name} ended it"
        )

    def _keep_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Host:
    """A tenant's host, which runs one process at a time. A call starts the process if none runs.
    Create hosts through `Hosts`."""

    def __init__(
        self,
        config: HostConfig,
        handlers: Mapping[str, Handler],
        *,
        launch: Callable[[Host], Awaitable[HostProcess]],
        limits: SupervisionLimits,
        on_fault: Callable[[Host], None],
    ) -> None:
        self.config = config
        self.handlers = handlers
        self.disabled: DisabledTenant | None = None
        """Why the tenant is not started again; None if it may be."""
        self.noisy = False
        """Whether the host has written `noisy_lines` to its log within a minute."""
        self.crashes = 0
        """Number of times that the process has ended by its own fault."""
        self._launch = launch
        self._limits = limits
        self._on_fault = on_fault
        self._process: HostProcess | None = None
        self._starting: asyncio.Task[HostProcess] | None = None
        self._ends: deque[float] = deque(maxlen=limits.crashes)
        self._closed: str | None = None
        self._expected: tuple[Method, bytes] | None = None
        self._minute = 0.0
        self._lines = 0

    @property
    def name(self) -> str:
        """The name in its configuration."""
        return self.config.name

    @property
    def pid(self) -> int | None:
        """The number of its process; None if none runs."""
        process = self.process
        return None if process is None else process.pid

    @property
    def process(self) -> HostProcess | None:
        """The running process; None if none runs."""
        return self._process if self._process is not None and self._process.usable else None

    @property
    def confined(self) -> bool | None:
        """True if its last process is confined; None if there was none."""
        return None if self._process is None else self._process.confined

    async def start(self) -> None:
        """Start the process if it does not run.

        Raises:
            SkillError: `plugin_host_ended` if it cannot start, `plugin_host_disabled`, or
                `confinement_unavailable`.
        """
        await self._ensure_running()

    async def call(
        self,
        method: Method,
        request: Mapping[str, Any] = MappingProxyType({}),
        *,
        cap: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Call a method of the tenant.

        Args:
            request: the arguments by name.
            cap: the capability for the host's own requests on behalf of this call.
            timeout_s: limit of the call, without the start of the host.

        Raises:
            TimeoutError: after `timeout_s`; the host is told to stop, and ended if it is stuck.
            SkillError: as `start`; or `bad_outcome` if the answer is not valid, which ends the
                host. A provider's method raises `ProviderError` instead, retryable if the host may
                run again. All other errors are those of the method.
        """
        async with self._process_for(method) as process:
            return await process.channel.call(method, request, cap=cap, timeout_s=timeout_s)

    async def stream(
        self, method: Method, request: Mapping[str, Any], *, cap: bytes | None = None
    ) -> AsyncGenerator[Any, None]:
        """Call a method that answers in pieces; closing the generator cancels the call.

        Raises:
            SkillError: as `call`.
        """
        async with self._process_for(method) as process:
            stream = process.channel.stream(method, request, cap=cap)
            async with contextlib.aclosing(stream) as pieces:
                async for piece in pieces:
                    yield piece

    @contextlib.asynccontextmanager
    async def _process_for(self, method: Method) -> AsyncIterator[HostProcess]:
        """Yield the process for one call, started if it does not run."""
        try:
            process = await self._ensure_running()
        except SkillError as error:
            raise _host_error(method, error.code, str(error)) from None
        with process.call():
            try:
                yield process
            except TimeoutError:
                process.check_answer(self._limits.grace_s)
                raise
            except Unreadable:
                text = "The plugin's answer is not valid for its hook"
                raise _host_error(method, BAD_OUTCOME, text, may_cost=True) from None
            except ChannelClosed:
                text = f"Plugin host of {self.name} ended during the call: {await process.reason()}"
                raise _host_error(method, ENDED, text, may_cost=True) from None

    @property
    def busy(self) -> bool:
        """True while a call runs or waits for a start."""
        process = self.process
        return self._starting is not None or (process is not None and process.busy)

    def expect_answer(self, method: Method, answer: Any) -> None:
        """Require exactly this answer to the method from every later process, before the process
        serves a call; any other answer disables the tenant."""
        self._expected = (method, method.answers.write(answer))

    def enable(self) -> None:
        """Let a disabled tenant start again, and forget its faults."""
        self.disabled = None
        self.noisy = False
        self._ends.clear()

    async def close(self, reason: str = STOPPED) -> None:
        """End the process and its calls for good.

        Args:
            reason: text for the callers.
        """
        self._closed = reason
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        process = self._process
        if process is not None:
            await process.stop(self._limits.stop_s, reason)

    def log(self, line: Log) -> None:
        """Write a line of the host's log, scrubbed and shortened; drop it if there are too many."""
        now = asyncio.get_running_loop().time()
        if now - self._minute >= _MINUTE_S:
            self._minute, self._lines = now, 0
        self._lines += 1
        most = self._limits.lines_a_minute
        if self._lines > most:
            if self._lines == most + 1:
                _log.warning("plugin_host_log_limited", host=self.name, most=most)
            if self._lines == self._limits.noisy_lines and not self.noisy:
                self.noisy = True
                self._on_fault(self)
            if self._lines == self._limits.flood_lines and self._process is not None:
                self._process.kill("it flooded the log")
            return
        text = " ".join([line.event, *(f"{name}={value}" for name, value in line.fields.items())])
        write = getattr(_log, line.level if line.level in _LEVELS else "info")
        write("plugin_host_log", host=self.name, text=scrub_start(text, _MAX_LINE))

    async def _ensure_running(self) -> HostProcess:
        if self._closed is not None:
            raise self._closed_error()
        if self.disabled is not None:
            text = f"Plugin host of {self.name} is disabled: {self.disabled.reason}"
            raise SkillError(DISABLED, text)
        if self._starting is None:
            if self._process is not None and self._process.usable:
                return self._process
            self._starting = asyncio.create_task(self._start_process())
            self._starting.add_done_callback(self._on_started)
        try:
            # All callers wait for one start, which goes on if the first of them is cancelled.
            return await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._closed is not None:
                raise self._closed_error() from None
            raise

    def _closed_error(self) -> SkillError:
        return SkillError(ENDED, f"Plugin host of {self.name} does not run: {self._closed}")

    async def _start_process(self) -> HostProcess:
        try:
            process = self._process = await self._launch(self)
        except (ZygoteEnded, OSError) as error:
            text = f"Plugin host of {self.name} could not be started: {error}"
            raise SkillError(ENDED, text) from None
        process.ended.add_done_callback(lambda _: self._on_ended(process))
        try:
            with process.call():
                await process.channel.call(START, timeout_s=self.config.start_s)
                same = await self._has_expected_answer(process)
        except TimeoutError:
            process.kill(f"it had not started after {self.config.start_s:g} s")
        except (ChannelClosed, Unreadable):
            pass
        except (SolwardError, HostBug) as error:
            process.kill(f"its tenant could not start: {scrub_text(str(error))[:_MAX_LINE]}")
        except asyncio.CancelledError:
            process.kill(STOPPED, blameless=True)
            raise
        else:
            if same:
                process.started = True
                return process
            reason = "after a restart, it declared something other than what was loaded"
            process.kill(reason, blameless=True)
            self._disable(DisabledTenant(Fault.DECLARATION_CHANGED, reason))
        reason = await process.reason()
        code = ENDED if self.disabled is None else DISABLED
        raise SkillError(code, f"Plugin host of {self.name} could not be started: {reason}")

    async def _has_expected_answer(self, process: HostProcess) -> bool:
        if self._expected is None:
            return True
        method, expected = self._expected
        answer = await process.channel.call(method, timeout_s=self.config.start_s)
        # Compared as text, because 1, 1.0 and true are equal in Python.
        return method.answers.write(answer) == expected

    def _on_started(self, starting: asyncio.Task[HostProcess]) -> None:
        self._starting = None
        if not starting.cancelled():
            starting.exception()  # every caller got it; otherwise asyncio logs it

    def _on_ended(self, process: HostProcess) -> None:
        if process.blameless or self._closed is not None:
            return
        now, reason = asyncio.get_running_loop().time(), process.ended.result()
        _log.warning("plugin_host_ended", host=self.name, reason=reason)
        self._ends.append(now)
        self.crashes += 1
        most, window_s = self._limits.crashes, self._limits.crash_window_s
        if self.disabled is None and len(self._ends) == most and now - self._ends[0] < window_s:
            text = f"it ended {most} times within {window_s:g} s, the last time because {reason}"
            self._disable(DisabledTenant(Fault.CRASHES, text))

    def _disable(self, disabled: DisabledTenant) -> None:
        self.disabled = disabled
        _log.error("plugin_host_disabled", host=self.name, reason=disabled.reason)
        self._on_fault(self)


def _host_error(method: Method, code: str, text: str, *, may_cost: bool = False) -> SolwardError:
    if method.name.startswith("provider."):
        return ProviderError(text, retryable=code == ENDED, may_cost=may_cost)
    return SkillError(code, text)
