"""Observation of a plugin's own code in the process that runs it, a plugin host or this one: its
calls, and whether it blocks the event loop, which all agents and requests share.

The kit's plugin hosts run `observed_handlers`, the service's own tenant with observation added. It
records the paths, in the schema, of the parameters that were read.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from types import CodeType
from typing import Any, Final

from solward.hosts.inside.main import Setup
from solward.hosts.inside.plugins import Plugins, handlers, import_plugins
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Handler, IncomingCall
from solward.hosts.wire.methods import ObservedCall, RaisedError
from solward.types.errors import SolwardError
from solward.types.guardrail import Hold

# Characters that are reported of one text, path or task.
_MOST = 200
_MOST_TEXT = 20_000
# Tasks that are kept for one call, so that a plugin cannot fill the memory.
_MOST_TASKS = 1_000

# People notice 0.1 s; the rest is a margin for busy machines.
BLOCKED_S = 0.5
_BEAT_S = 0.02
_SAMPLE_S = 0.05


@dataclass(slots=True, eq=False)
class _Call:
    """One call of a hook; see `ObservedCall`."""

    started: float = field(default_factory=time.perf_counter)
    ended: bool = False
    cancelled: bool = False
    returned: bool = False
    answer: str = ""
    odd: str = ""
    changed: bool = False
    raised: BaseException | None = None
    read: set[str] = field(default_factory=set)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    seconds: float = 0.0

    def end(self) -> None:
        with suppress(RuntimeError):  # a guardrail has no task
            task = asyncio.current_task()
            self.cancelled = task is not None and task.cancelling() > 0
        self.ended = True
        self.seconds = time.perf_counter() - self.started


_current: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("call", default=None)


# The attributes of a call that are reported unchanged.
_REPORTED = ("ended", "cancelled", "returned", "answer", "odd", "changed", "seconds")
# Functions that return the key of a call from its context, by hook.
_KEYS: Mapping[str, Callable[[Any], str]] = {
    "skill_execute": lambda context: str(context.wallet.id),
    "provider_complete": lambda context: context.base_url or "",
}


class Observer:
    """Records calls of hooks, by a skill's wallet id or a provider's address."""

    def __init__(self) -> None:
        self._calls: defaultdict[str, list[_Call]] = defaultdict(list)

    def observed(self, key: str, number: int) -> ObservedCall:
        """Return the current state of a call, an empty one for a call that never ran."""
        calls = self._calls[key]
        if number >= len(calls):
            return ObservedCall()
        call = calls[number]
        running = [repr(task)[:_MOST] for task in call.tasks if not task.done()]
        return ObservedCall(
            executed=True,
            **{name: getattr(call, name) for name in _REPORTED},
            raised=None if call.raised is None else _error_report(call.raised),
            read=tuple(sorted(path[:_MOST] for path in call.read)),
            tasks=tuple(running),
        )

    def observe_hook(self, hook: str, bound: Callable[..., Any]) -> Callable[..., Any]:
        """Return the hook, wrapped to record its calls if a check uses the records."""
        if hook == "guardrail_check":
            return self._observe_guardrail(bound)
        return self._observe_async(bound, _KEYS[hook]) if hook in _KEYS else bound

    def _begin_call(self, key: str) -> _Call:
        call = _Call()
        self._calls[key].append(call)
        return call

    def _observe_async(
        self, bound: Callable[..., Any], key_of: Callable[[Any], str]
    ) -> Callable[..., Any]:
        async def watched_call(context: Any, **given: Any) -> Any:
            call = self._begin_call(key_of(context))
            with _recording(call):
                if "params" in given:
                    given["params"] = RecordedParams(given["params"], call.read)
                answer = await bound(context=context, **given)
                call.returned, call.answer = True, type(answer).__name__
                return answer

        return watched_call

    def _observe_guardrail(self, bound: Callable[..., Any]) -> Callable[..., Any]:
        def watched_call(intent: Any, effects: Any) -> Any:
            call = self._begin_call("")
            before = copy.deepcopy((intent, effects))
            with _recording(call):
                answer = bound(intent=intent, effects=effects)
                call.returned, call.answer = True, type(answer).__name__
                reason = answer.reason if isinstance(answer, Hold) else answer
                if not isinstance(reason, str) and answer is not None:
                    call.odd = f"{answer!r:.80}"
                call.changed = before != (intent, effects)
                return answer

        return watched_call


def calls_plugin(code: CodeType) -> bool:
    """Return whether this code is that of an observer's wrapper around a hook."""
    return code.co_name == "watched_call" and code.co_filename == __file__


@contextmanager
def _recording(call: _Call) -> Iterator[None]:
    token = _current.set(call)
    try:
        yield
    except BaseException as error:
        call.raised = error
        raise
    finally:
        call.end()
        _current.reset(token)


@contextmanager
def recording_tasks() -> Iterator[None]:
    """Record the tasks that observed calls make inside the block."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        call = _current.get()
        if call is not None and len(call.tasks) < _MOST_TASKS and not _is_solward_task():
            call.tasks.append(task)
        return task

    if getattr(before, "sees_tasks", False):
        # A concurrent run has installed the factory already.
        yield
        return
    make.sees_tasks = True  # type: ignore[attr-defined]  # marks this function
    loop.set_task_factory(make)
    try:
        yield
    finally:
        loop.set_task_factory(before)


def _is_solward_task() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("asyncio"):
            return module.startswith("solward.")
        frame = frame.f_back
    return False


def _error_report(error: BaseException) -> RaisedError:
    cancelled = isinstance(error, asyncio.CancelledError)
    deliberate = isinstance(error, SolwardError)
    try:
        text = str(error)
        shown = f"{text}\n{error!r}"
    except Exception:
        text = shown = ""
    return RaisedError(
        type(error).__name__[:_MOST],
        _valid_text(text)[:_MOST_TEXT],
        "" if deliberate or cancelled else _code_place(error)[:_MOST],
        deliberate,
        cancelled,
        _valid_text(shown)[:_MOST_TEXT],
    )


def _valid_text(text: str) -> str:
    return str.__str__(text).encode("utf-8", "replace").decode()


# The folder of Solward's own code; an author's project may have any name.
_FRAMEWORK = f"{__file__.rpartition('/testing/')[0]}/"


def _code_place(error: BaseException) -> str:
    trace = error.__traceback__
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith((_FRAMEWORK, "<")):
            place = f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


class Watchdog:
    """A thread that measures how long a plugin blocks the event loop, by sampling the stack of the
    loop's thread.

    Attributes:
        blocked_s: longest time without the loop in which every sample found the plugin's own code.
        where: file and line of that code.

    Args:
        is_call: whether code belongs to the frame that calls the plugin; the frames below it are
            the plugin's, up to Solward's own modules.
    """

    def __init__(self, is_call: Callable[[CodeType], bool]) -> None:
        self.blocked_s = 0.0
        self.where = ""
        self._is_call = is_call
        self._beat = time.monotonic()
        self._ends = threading.Event()
        self._thread_id = threading.get_ident()
        self._thread = threading.Thread(target=self._sample_stack, name="watchdog", daemon=True)
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Watchdog:
        self._restart_timer()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.set()
        self._thread.join()
        if self._timer is not None:
            self._timer.cancel()

    def take_longest(self) -> tuple[float, str]:
        """Return the longest blocked time and its place in the code, and reset both."""
        seen = self.blocked_s, self.where
        self.blocked_s, self.where = 0.0, ""
        return seen

    def _restart_timer(self) -> None:
        self._beat = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._restart_timer)

    def _sample_stack(self) -> None:
        beat, since = self._beat, 0.0
        while not self._ends.wait(_SAMPLE_S):
            now, place = time.monotonic(), self._code_place()
            if self._beat != beat or not place:
                # The time counts from the first sample of the plugin's code.
                beat, since = self._beat, 0.0
            if place:
                since = since or now
                if now - since > self.blocked_s:
                    self.blocked_s, self.where = now - since, place

    def _code_place(self) -> str:
        """Return the file and line at which the plugin's code runs; empty if it does not run."""
        frame = sys._current_frames().get(self._thread_id)
        place = ""
        while frame is not None:
            if self._is_call(frame.f_code):
                return place
            if str(frame.f_globals.get("__name__", "")).startswith("solward."):
                return ""
            place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


class RecordedParams(dict[str, Any]):
    """Parameters that record the names that are read; a nested name is `outer.inner`."""

    def __init__(self, values: Mapping[str, Any], read: set[str], path: str = "") -> None:
        super().__init__(
            {name: _record_reads(value, read, f"{path}{name}") for name, value in values.items()}
        )
        self._read = read
        self._path = path

    def _record(self, *names: object) -> None:
        self._read.update(f"{self._path}{name}" for name in names)

    def __getitem__(self, name: str) -> Any:
        self._record(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """See `dict.get`."""
        self._record(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """See `dict.pop`."""
        self._record(name)
        return super().pop(name, *default)

    def __contains__(self, name: object) -> bool:
        self._record(name)
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._record(*super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        """See `dict.keys`; the call counts as reading all parameters."""
        self._record(*super().keys())
        return super().keys()

    def items(self) -> Any:
        """See `dict.items`."""
        self._record(*super().keys())
        return super().items()

    def values(self) -> Any:
        """See `dict.values`."""
        self._record(*super().keys())
        return super().values()

    def copy(self) -> dict[str, Any]:
        """Return a copy that also records reads."""
        return RecordedParams(dict(super().items()), self._read, self._path)


def _record_reads(value: Any, read: set[str], path: str) -> Any:
    if isinstance(value, Mapping):
        return RecordedParams(value, read, f"{path}.")
    return [_record_reads(each, read, path) for each in value] if isinstance(value, list) else value


def declared_paths(
    schema: Mapping[str, Any], path: str = ""
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the path and schema of every declared parameter; a nested path is `outer.inner`."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, each in schema.get("properties", {}).items():
        found.append((f"{path}{name}", each))
        found += declared_paths(each, f"{path}{name}.")
    items = schema.get("items")
    return found + (declared_paths(items, path) if isinstance(items, Mapping) else [])


def present_paths(value: Any, path: str = "") -> set[str]:
    """Return the path of every parameter in `value`."""
    if isinstance(value, Mapping):
        found = {f"{path}{name}" for name in value}
        return found.union(*(present_paths(each, f"{path}{name}.") for name, each in value.items()))
    if isinstance(value, list | tuple):
        return set().union(*(present_paths(each, path) for each in value))
    return set()


TENANT: Final = "solward.testing.conformance.observer:observed_handlers"


def observed_handlers(setup: Setup) -> Mapping[str, Handler]:
    """Import the plugins, and return their handlers and the handlers for observations."""
    tenant = import_plugins(setup, ObservedPlugins)
    return {
        **handlers(tenant),
        methods.KIT_OBSERVED.name: tenant.observed,
        methods.KIT_BLOCKED.name: tenant.blocked,
    }


class ObservedPlugins(Plugins):
    """Plugins whose hooks are observed for as long as the host runs."""

    def __init__(self, named: list[EntryPoint], storage: Path | None) -> None:
        super().__init__(named, storage)
        self._observer = Observer()
        self._watchdog = Watchdog(calls_plugin)
        self._stack = ExitStack()
        self._stack.enter_context(recording_tasks())
        self._stack.enter_context(self._watchdog)

    def _bound_hook(self, group: str, name: str, hook: str) -> Callable[..., Any]:
        return self._observer.observe_hook(hook, super()._bound_hook(group, name, hook))

    async def observed(self, incoming: IncomingCall) -> methods.ObservedCall:
        """Return the observation of one call."""
        return self._observer.observed(**incoming.request)

    async def blocked(self, _incoming: IncomingCall) -> tuple[float, str]:
        """Return how long the event loop was blocked since the last call, and where."""
        return self._watchdog.take_longest()
