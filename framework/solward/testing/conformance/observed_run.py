"""One run of a skill, observed: parameters read, transactions requested, texts, tasks, records."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, Protocol, cast

import httpx

from solward.context import SkillContext
from solward.errors import SolwardError
from solward.record import TransactionRecord
from solward.registry import LoadedSkill, run_skill
from solward.testing.conformance.parameter_paths import RecordedParams
from solward.testing.stand import TestWallet

_current: contextvars.ContextVar[Run | None] = contextvars.ContextVar("run", default=None)


@dataclass(slots=True, eq=False)
class Run:
    """Everything one run did.

    Attributes:
        outcome: its text, None when it raised.
        error: the exception its caller got.
        raised: the exception of the skill's own code, whatever its caller got.
        executed: whether any of its code ran.
        ended: whether its code ended.
        returned: whether it returned, even after it was cancelled.
        read: paths of the parameters it read.
        requested: number of transactions it requested.
        records: records stored for its wallet meanwhile.
        unrecorded: signatures of its wallet on the ledger without a record.
        tasks: tasks made by its code or its libraries, not by Solward.
    """

    wallet: TestWallet
    params: Any
    outcome: str | None = None
    error: BaseException | None = None
    raised: BaseException | None = None
    executed: bool = False
    ended: bool = False
    returned: bool = False
    read: set[str] = field(default_factory=set)
    requested: int = 0
    records: list[TransactionRecord] = field(default_factory=list)
    unrecorded: list[str] = field(default_factory=list)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def texts(self) -> list[str]:
        """Every text it returned or raised."""
        texts = [self.outcome] if isinstance(self.outcome, str) else []
        for error in (self.error, self.raised):
            if error is not None:
                texts += [str(error), repr(error)]
        return texts

    @property
    def crashed(self) -> bool:
        """Whether it raised anything but a deliberate error."""
        return self.raised is not None and not isinstance(
            self.raised, SolwardError | asyncio.CancelledError
        )

    @property
    def trouble(self) -> str:
        """The error and its place, for the plugin's author."""
        error = self.raised if self.crashed else (self.error or self.raised)
        where = _place(error) if self.crashed else ""
        return f"{type(error).__name__}{where}: {error}" if error is not None else ""


class Gate(Protocol):
    """Delays the calls a skill makes on its context."""

    async def enter(self, run: Run) -> None:
        """Return once the call may start."""
        ...


async def observe_run(
    skill: LoadedSkill, wallet: TestWallet, params: object, *, gate: Gate | None = None
) -> Run:
    """Run a skill as the service does; raises only `CancelledError`."""
    known = {record.id for record in await wallet.records()}
    before = set(await _signatures(wallet))
    run = await run_once(skill, wallet, params, gate=gate)
    records = await wallet.records()
    run.records = [record for record in records if record.id not in known]
    recorded = {record.signature for record in records}
    after = await _signatures(wallet)
    run.unrecorded = [each for each in after if each not in before and each not in recorded]
    return run


async def run_once(
    skill: LoadedSkill, wallet: TestWallet, params: object, *, gate: Gate | None = None
) -> Run:
    """As `observe_run`, without reading the wallet's records and the ledger."""
    run = Run(wallet, params)
    started = time.monotonic()
    try:
        run.outcome = await start(skill, run, gate=gate)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        run.error = error
    run.seconds = time.monotonic() - started
    return run


async def start(skill: LoadedSkill, run: Run, *, gate: Gate | None = None) -> str:
    """The run itself; raises as `run_skill`."""

    async def call(params: Mapping[str, Any], context: SkillContext) -> Any:
        token = _current.set(run)
        run.executed = True
        try:
            outcome = await skill.call(params=RecordedParams(params, run.read), context=context)
            run.returned = True
            return outcome
        except BaseException as error:
            run.raised = error
            raise
        finally:
            run.ended = True
            _current.reset(token)

    context = _ObservedContext(run, run.wallet.context(skill), gate)
    with tasks_recorded():
        return await run_skill(
            replace(skill, call=call), run.params, context, emit=lambda _name, _data: None
        )


def calls_plugin(code: CodeType) -> bool:
    """Whether this is the code of the frame in which `start` calls the plugin."""
    return code.co_qualname == "start.<locals>.call" and code.co_filename == __file__


class _ObservedContext(SkillContext):
    """The same context; counts requested transactions, and its calls wait at the gate."""

    __slots__ = ("_gate", "_run")

    def __init__(self, run: Run, context: SkillContext, gate: Gate | None) -> None:
        for slot in SkillContext.__slots__:
            setattr(self, slot, getattr(context, slot))
        self._run = run
        self._gate = gate
        if gate is not None:
            self._ledger = cast(Any, _Gated(self._ledger, gate, run))
            self._calls = cast(Any, _Gated(self._calls, gate, run))

    @property
    def http(self) -> httpx.AsyncClient:
        """The same client; its calls wait at the gate."""
        client = super().http
        return client if self._gate is None else cast(Any, _Gated(client, self._gate, self._run))

    async def _perform(self, operation: str, params: Mapping[str, Any]) -> TransactionRecord:
        self._run.requested += 1
        return await super()._perform(operation, params)

    async def transact(self, **declared: Any) -> TransactionRecord:
        self._run.requested += 1
        return await super().transact(**declared)


class _Gated:
    """An object whose async methods wait at a gate first."""

    def __init__(self, behind: Any, gate: Gate, run: Run) -> None:
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


@contextmanager
def tasks_recorded() -> Iterator[None]:
    """Inside the block, tasks created by an observed run are added to it."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        run = _current.get()
        if run is not None and not _made_by_solward():
            run.tasks.append(task)
        return task

    if getattr(before, "records_tasks", False):
        # Concurrent runs share one factory.
        yield
        return
    make.records_tasks = True  # type: ignore[attr-defined]  # marks this function
    loop.set_task_factory(make)
    try:
        yield
    finally:
        loop.set_task_factory(before)


def _made_by_solward() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("asyncio"):
            return module.startswith("solward.")
        frame = frame.f_back
    return False


def _place(error: BaseException | None) -> str:
    trace = error.__traceback__ if error is not None else None
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/solward/" not in code.co_filename:
            place = f" at {code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


async def _signatures(wallet: TestWallet) -> list[str]:
    found = await wallet.stand.localnet.call("getSignaturesForAddress", [wallet.address])
    return [str(each["signature"]) for each in found]


Case = Mapping[str, Any] | Callable[[TestWallet], Any]


async def prepared(case: Case, wallet: TestWallet) -> dict[str, Any]:
    """Prepare a case on this wallet; returns its parameters."""
    params = case(wallet) if callable(case) else case
    if inspect.isawaitable(params):
        params = await params
    return dict(params)
