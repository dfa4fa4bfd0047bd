"""The kit's observation of a plugin, in its plugin host or in this process."""

from __future__ import annotations

import base64
import functools
import inspect
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import httpx

from solward.context import MoneyRequest, SkillContext, Store
from solward.hosts.capabilities import Capabilities, RunningCall, TenantHost, asset_names
from solward.hosts.egress import Egress
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Handler, IncomingCall
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.methods import ObservedCall
from solward.plugins.folders.storage import stored_files
from solward.testing.canaries import STAND_IN
from solward.testing.conformance.observer import Observer, Watchdog, calls_plugin, recording_tasks
from solward.testing.stand import TestWallet
from solward.types.entries import Remember
from solward.types.errors import SkillError, SolwardError

_MONEY: dict[str, Callable[[Any], str]] = {
    methods.OP_PERFORM.name: lambda asked: str(asked.operation),
    methods.OP_TRANSACT.name: lambda _asked: "transact",
    methods.OP_POCKET.name: lambda _asked: "pocket",
    methods.OP_PAY.name: lambda _asked: "pay",
}


@dataclass(slots=True)
class CapabilityUse:
    """One request of a plugin to its service.

    Attributes:
        operation: operation of a money call, `transact`, `pocket` or `pay`; otherwise empty.
        url: URL of an HTTP request, paid or not; otherwise empty.
        assets: mints and symbols of the assets that were to leave the wallet.
        carries: whether the request carried a secret.
        refused: code of the refusal; empty if there was none.
    """

    operation: str = ""
    url: str = ""
    assets: tuple[str, ...] = ()
    carries: bool = False
    refused: str = ""


class ObservedRun(Protocol):
    """A run of a skill."""

    wallet: TestWallet
    asked: list[CapabilityUse]


class Gate(Protocol):
    """A gate that delays the calls of a skill on its context."""

    async def enter(self, run: ObservedRun) -> None:
        """Wait until the call may start."""
        ...


@dataclass(slots=True)
class BlockedTime:
    """The longest time for which a plugin blocked its event loop, and where."""

    seconds: float = 0.0
    where: str = ""


class Watch(Protocol):
    """The checks' interface to the process in which a plugin runs."""

    async def observed(self, key: str, number: int) -> ObservedCall:
        """Return the observation of one call of a hook; see `Observer.observed`."""

    def blocking(self) -> Any:
        """Return an async context manager whose `BlockedTime` is filled when the block ends."""

    def context(self, run: ObservedRun, context: SkillContext, gate: Gate | None) -> SkillContext:
        """Return a skill's context that records the run's requests and delays them at the gate."""

    def requests_of(self, plugin: str) -> tuple[CapabilityUse, ...] | None:
        """Return all requests of a plugin so far; None if they are not observed."""

    @property
    def has_stored_files(self) -> bool:
        """True if the plugin's distribution has stored a file."""

    async def restart(self) -> None:
        """Stop the plugin's code if it still runs."""


class _RunContext(SkillContext):
    """A skill's context with its run and gate."""

    __slots__ = ("gate", "run")

    def __init__(self, run: ObservedRun, context: SkillContext, gate: Gate | None) -> None:
        for slot in SkillContext.__slots__:
            setattr(self, slot, getattr(context, slot))
        self.run = run
        self.gate = gate


class HostWatch:
    """A watch of a plugin in its host; the plugin's requests are observed in the service."""

    def __init__(self, tenant: TenantHost, storage: Path | None) -> None:
        self._tenant = tenant
        self._storage = storage

    @property
    def has_stored_files(self) -> bool:
        """See `Watch`."""
        return self._storage is not None and any(stored_files(self._storage))

    async def observed(self, key: str, number: int) -> ObservedCall:
        """See `Watch`; empty if the host ended."""
        asked = {"key": key, "number": number}
        try:
            seen: ObservedCall = await self._tenant.host.call(methods.KIT_OBSERVED, asked)
        except SolwardError:
            return ObservedCall()
        return seen

    @asynccontextmanager
    async def blocking(self) -> AsyncIterator[BlockedTime]:
        """See `Watch`."""
        held = BlockedTime()
        await self._read_blocked_time()
        yield held
        held.seconds, held.where = await self._read_blocked_time()

    async def _read_blocked_time(self) -> tuple[float, str]:
        try:
            blocked: tuple[float, str] = await self._tenant.host.call(methods.KIT_BLOCKED)
        except SolwardError:
            return 0.0, ""
        return blocked

    def context(self, run: ObservedRun, context: SkillContext, gate: Gate | None) -> SkillContext:
        """See `Watch`."""
        return _RunContext(run, context, gate)

    def requests_of(self, plugin: str) -> tuple[CapabilityUse, ...]:
        """See `Watch`."""
        return tuple(cast(WatchedCapabilities, self._tenant.capabilities).asked[plugin])

    async def restart(self) -> None:
        """See `Watch`; the next call starts another process."""
        process = self._tenant.host.process
        if process is not None:
            await process.stop(0.0)


class WatchedCapabilities(Capabilities):
    """Capabilities that record the requests made for each plugin."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: defaultdict[str, list[CapabilityUse]] = defaultdict(list)

    def handlers(self, egress: Egress) -> dict[str, Handler]:
        """See `Capabilities.handlers`; each request is recorded and waits at the run's gate."""
        return {
            name: self._watch_stream(handler)
            if name == methods.HTTP_REQUEST.name
            else self._watch_request(name, handler)
            for name, handler in super().handlers(egress).items()
        }

    def _watch_request(self, name: str, handler: Any) -> Handler:
        async def watched(incoming: IncomingCall) -> Any:
            operation = _MONEY.get(name)
            asked = CapabilityUse("" if operation is None else operation(incoming.raw.asked))
            if name == methods.OP_PAY.name:
                asked.url = incoming.raw.asked.url
            await self._record_request(incoming, asked)
            with _recording_refusal(asked):
                return await handler(incoming)

        return watched

    def _watch_stream(self, handler: Any) -> Handler:
        async def watched(incoming: IncomingCall) -> AsyncGenerator[Any, None]:
            request = incoming.request
            texts = [request.url.encode(), *(_decode_basic(value) for _, value in request.headers)]
            carries = any(STAND_IN.encode() in text for text in texts)
            asked = CapabilityUse(url=request.url, carries=carries)
            await self._record_request(incoming, asked)
            with _recording_refusal(asked):
                async with aclosing(handler(incoming)) as pieces:
                    async for piece in pieces:
                        yield piece

        return watched

    async def _spend(
        self, incoming: IncomingCall, call: RunningCall, asked: Any, assets: Collection[object]
    ) -> Any:
        assert call.context is not None
        names = [name for each in assets for name in asset_names(each, call.context.tokens)]
        self.asked[call.plugin].append(CapabilityUse(assets=tuple(names)))
        return await super()._spend(incoming, call, asked, assets)

    async def _record_request(self, incoming: IncomingCall, asked: CapabilityUse) -> None:
        try:
            call = self.running_call(incoming.cap)
        except SkillError:
            return  # its handler reports the error
        self.asked[call.plugin].append(asked)
        if isinstance(call.context, _RunContext):
            run: ObservedRun = call.context.run
            run.asked.append(asked)
            if call.context.gate is not None:
                await call.context.gate.enter(run)


@contextmanager
def _recording_refusal(asked: CapabilityUse) -> Iterator[None]:
    try:
        yield
    except SkillError as error:
        asked.refused = error.code
        raise


def _decode_basic(value: bytes) -> bytes:
    """Return a header's value, with `Basic` credentials decoded."""
    scheme, _, rest = value.partition(b" ")
    if scheme.lower() != b"basic":
        return value
    try:
        return base64.b64decode(rest)
    except ValueError:
        return value


class ProcessWatch:
    """A watch of a plugin in this process."""

    def __init__(self) -> None:
        self.observer = Observer()

    @property
    def has_stored_files(self) -> bool:
        """False, because files are not observed here; see `Watch`."""
        return False

    async def observed(self, key: str, number: int) -> ObservedCall:
        """See `Watch`."""
        return self.observer.observed(key, number)

    @asynccontextmanager
    async def blocking(self) -> AsyncIterator[BlockedTime]:
        """See `Watch`."""
        held = BlockedTime()
        with recording_tasks(), Watchdog(calls_plugin) as watchdog:
            yield held
        held.seconds, held.where = watchdog.take_longest()

    def context(self, run: ObservedRun, context: SkillContext, gate: Gate | None) -> SkillContext:
        """See `Watch`."""
        return _ProcessContext(run, context, gate)

    def requests_of(self, plugin: str) -> None:
        """See `Watch`."""

    async def restart(self) -> None:
        """See `Watch`; nothing is ended by force here."""


class _ProcessContext(_RunContext):
    """A `_RunContext` that records and delays its own calls, because no host makes them here."""

    __slots__ = ()

    def __init__(self, run: ObservedRun, context: SkillContext, gate: Gate | None) -> None:
        super().__init__(run, context, gate)
        if gate is not None:
            self._ledger = cast(Any, _GatedObject(self._ledger, gate, run))
            self._calls = cast(Any, _GatedObject(self._calls, gate, run))
            self._store = Store(self._calls)

    @property
    def http(self) -> httpx.AsyncClient:
        """The usual HTTP client, whose requests wait at the gate."""
        client = super().http
        return client if self.gate is None else cast(Any, _GatedObject(client, self.gate, self.run))

    async def _money(self, asked: MoneyRequest, remember: Remember) -> Any:
        name = _MONEY[methods.MONEY[type(asked)].name](asked)
        self.run.asked.append(CapabilityUse(name))
        return await super()._money(asked, remember)


class _GatedObject:
    """An object whose async methods wait at a gate first."""

    def __init__(self, behind: Any, gate: Gate, run: ObservedRun) -> None:
        self._behind, self._gate, self._run = behind, gate, run

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if not inspect.iscoroutinefunction(found):
            return found

        @functools.wraps(found)
        async def gated(*args: Any, **kwargs: Any) -> Any:
            await self._gate.enter(self._run)
            return await found(*args, **kwargs)

        return gated


def name_of(error: BaseException) -> str:
    """Return the type name of a plugin's error, raised in its host or in this process."""
    return error.type_name if isinstance(error, HostBug) else type(error).__name__


def error_text(error: BaseException) -> str:
    """Return the text of a plugin's error; for an unexpected error in a host, only its type."""
    return name_of(error) if isinstance(error, HostBug) else f"{name_of(error)}: {error}"
