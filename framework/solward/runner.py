"""The runner that starts agents' cycles and schedules' runs in this process when they are due."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Generic, Protocol, TypeVar

from solward.context import AgentView
from solward.support.tasks import end
from solward.vault.money.request import Actor

# The longest wait before the runner looks for due runs again, because the clock may be set.
LONGEST_WAIT_S = 30.0

T = TypeVar("T")


class RunSkill(Protocol):
    """A function that runs a skill on a wallet, such as `SkillRuns.run`."""

    def __call__(
        self,
        name: str,
        params: Mapping[str, Any],
        wallet_id: str,
        actor: Actor,
        agent: AgentView | None = None,
    ) -> Awaitable[str]:
        """Run the skill and return its text, or raise the error of the skill or the engine."""
        ...


def no_hook(key: str, phase: object) -> None:
    """Do nothing: the default hook for the phases of a run."""


def next_due_ms(due_ms: int, pause_ms: int, now_ms: int) -> int:
    """Return the first multiple of `pause_ms` after `due_ms` that lies after `now_ms`.

    The time counts from when a run was due, not from when it ran, so that delays do not add up.
    Times that passed during the run are skipped.
    """
    pauses = max(1, (now_ms - due_ms) // pause_ms + 1)
    return due_ms + pauses * pause_ms


class Runner(Generic[T]):
    """Starts a run for each key when it is due, never two runs for one key at once.

    Args:
        name: names the runs in logs and tasks.
        concurrency: the maximum number of simultaneous runs; the others wait in order of due time.
        close_wait_s: the seconds in which runs must end before `close` cancels them.
    """

    def __init__(self, name: str, concurrency: int, close_wait_s: float = 0.0) -> None:
        self._name = name
        self._concurrency = concurrency
        self._close_wait_s = close_wait_s
        self._running: dict[str, asyncio.Task[T]] = {}
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    async def start_due_runs(self) -> float:
        """Start the runs that are due, and return the seconds until the next call."""
        raise NotImplementedError

    async def try_start_due_runs(self) -> float:
        """Call `start_due_runs` and log its errors; only a cancellation is raised."""
        return await self.start_due_runs()

    def start(self) -> None:
        """Start the task that looks for due runs."""
        if self._loop is None:
            # The context is empty, so that the request that calls `start` does not appear in the
            # logs and traces of all later runs.
            self._loop = asyncio.create_task(
                self._run_loop(), name=self._name, context=contextvars.Context()
            )

    def wake(self) -> None:
        """Make the runner look for due runs now."""
        self._wake.set()

    async def wait_until_idle(self) -> None:
        """Wait until no run is active in this process."""
        while self._running:
            await asyncio.wait(set(self._running.values()))

    async def close(self) -> None:
        """Stop starting runs, and cancel those that do not end within `close_wait_s`."""
        if self._loop is not None:
            await end([self._loop])
        tasks = set(self._running.values())
        if tasks and self._close_wait_s:
            _done, tasks = await asyncio.wait(tasks, timeout=self._close_wait_s)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def _free_runs(self) -> int:
        return self._concurrency - len(self._running)

    def _start_task(self, key: str, run: Coroutine[Any, Any, T]) -> None:
        task = asyncio.create_task(run, name=f"{self._name} {key}")
        self._running[key] = task
        task.add_done_callback(functools.partial(self._handle_end, key))

    def _handle_end(self, key: str, task: asyncio.Task[T]) -> None:
        """Remove the ended run of `key`, and look for due runs again."""
        del self._running[key]
        self.wake()

    async def _run_loop(self) -> None:
        while True:
            self._wake.clear()
            wait_s = await self.try_start_due_runs()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
