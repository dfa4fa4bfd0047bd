"""One run of a skill, watched: what it read, asked for, said, and left behind."""

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

from solward.context import SkillContext
from solward.errors import SolwardError
from solward.record import TransactionRecord
from solward.registry import LoadedSkill, run_skill
from solward.testing.conformance.parameters import Reading
from solward.testing.stand import TestWallet
from solward.vault.transactions.request import Actor

_current: contextvars.ContextVar[Run | None] = contextvars.ContextVar("run", default=None)


@dataclass(slots=True, eq=False)
class Run:
    """What one run did.

    Attributes:
        outcome: its text, None when it raised.
        error: what the caller of the skill was told.
        raised: what the skill's own code raised, whatever the caller was told.
        executed: whether any of its code ran.
        ended: whether its code came to an end.
        answered: whether it returned, be it after it was cancelled.
        read: paths of the parameters it looked at.
        asked: how often it asked for a transaction.
        records: what was stored of its wallet meanwhile.
        unrecorded: signatures on the ledger of its wallet that no record has.
        tasks: tasks made by its code or by libraries it calls, not by Solward.
    """

    wallet: TestWallet
    params: Any
    outcome: str | None = None
    error: BaseException | None = None
    raised: BaseException | None = None
    executed: bool = False
    ended: bool = False
    answered: bool = False
    read: set[str] = field(default_factory=set)
    asked: int = 0
    records: list[TransactionRecord] = field(default_factory=list)
    unrecorded: list[str] = field(default_factory=list)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def texts(self) -> list[str]:
        """Everything it said to anybody."""
        said = [self.outcome] if isinstance(self.outcome, str) else []
        for error in (self.error, self.raised):
            if error is not None:
                said += [str(error), repr(error)]
        return said

    @property
    def crashed(self) -> bool:
        """Whether it raised what no skill should raise."""
        return self.raised is not None and not isinstance(
            self.raised, SolwardError | asyncio.CancelledError
        )

    @property
    def trouble(self) -> str:
        """What went wrong, for the plugin's author."""
        error = self.raised if self.crashed else (self.error or self.raised)
        where = _place(error) if self.crashed else ""
        return f"{type(error).__name__}{where}: {error}" if error is not None else ""


class Gate(Protocol):
    """Stands before every call a skill makes on its context."""

    async def enter(self, run: Run) -> None:
        """Wait as long as the call shall wait."""
        ...


async def watch(
    skill: LoadedSkill, wallet: TestWallet, params: object, *, gate: Gate | None = None
) -> Run:
    """Run a skill as the service does and tell all about it; raises only `CancelledError`."""
    known = {record.id for record in await wallet.records()}
    before = set(await _signatures(wallet))
    run = await tried(skill, wallet, params, gate=gate)
    records = await wallet.records()
    run.records = [record for record in records if record.id not in known]
    recorded = {record.signature for record in records}
    after = await _signatures(wallet)
    run.unrecorded = [each for each in after if each not in before and each not in recorded]
    return run


async def tried(
    skill: LoadedSkill, wallet: TestWallet, params: object, *, gate: Gate | None = None
) -> Run:
    """As `watch`, without a look at the wallet's records and the ledger."""
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
    """The run itself; raises what the skill's caller gets."""

    async def call(params: Mapping[str, Any], context: SkillContext) -> Any:
        token = _current.set(run)
        run.executed = True
        try:
            answer = await skill.call(params=Reading(params, run.read), context=context)
            run.answered = True
            return answer
        except BaseException as error:
            run.raised = error
            raise
        finally:
            run.ended = True
            _current.reset(token)

    context = _Watched(run, run.wallet.context(skill), gate)
    with task_making():
        return await run_skill(
            replace(skill, call=call), run.params, context, emit=lambda _name, _data: None
        )


def calls_plugin(code: CodeType) -> bool:
    """Whether a frame of this code is where `start` hands over to the plugin."""
    return code.co_qualname == "start.<locals>.call" and code.co_filename == __file__


class _Watched(SkillContext):
    """The same capability; counts what is asked of it, and lets the gate hold it up."""

    __slots__ = ("_run",)

    def __init__(self, run: Run, context: SkillContext, gate: Gate | None) -> None:
        for slot in SkillContext.__slots__:
            setattr(self, slot, getattr(context, slot))
        self._run = run
        if gate is not None:
            self.ledger = cast(Any, _Gated(self.ledger, gate, run))
            self.http = cast(Any, _Gated(self.http, gate, run))
            self._operations = cast(Any, _Gated(self._operations, gate, run))

    def _next(self) -> Actor:
        self._run.asked += 1
        return super()._next()


class _Gated:
    """Any object, whose async methods wait at a gate first."""

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
def task_making() -> Iterator[None]:
    """While entered, tasks made inside a watched run are noted in it."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        run = _current.get()
        if run is not None and not _made_by_solward():
            run.tasks.append(task)
        return task

    if getattr(before, "noting", False):
        # Runs beside each other share one.
        yield
        return
    make.noting = True  # type: ignore[attr-defined]  # marks the function as this one
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
    """A case's parameters on this wallet, its preparation done."""
    given = case(wallet) if callable(case) else case
    if inspect.isawaitable(given):
        given = await given
    return dict(given)
