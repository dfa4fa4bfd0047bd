"""A skill cancelled in the middle, and a skill run on several wallets at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from solward.registry import LoadedSkill
from solward.registry.chain import GRACE_S
from solward.skill import Effects
from solward.testing.conformance.observed_run import Case, Run, prepared, start, task_making, watch
from solward.testing.conformance.report import Finding, Outcome, joined
from solward.testing.stand import TestWallet

# Calls on the context let through before the skill is held up and cancelled.
HELD_AFTER = (0, 1, 2)
# How long a skill that makes no such call may take before it is cancelled where it is.
PATIENCE_S = 0.3
AT_ONCE = 3
MEET_S = 2.0

MakeWallet = Callable[[], Awaitable[TestWallet]]
Good = Sequence[tuple[Case, Run]]


class Hold:
    """Lets so many calls through and holds every later one for ever."""

    def __init__(self, passes: int) -> None:
        self.reached = asyncio.Event()
        self._passes = passes

    async def enter(self, run: Run) -> None:
        """See `Gate.enter`."""
        self._passes -= 1
        if self._passes < 0:
            self.reached.set()
            await asyncio.Event().wait()


class Meeting:
    """Lets nobody make the first call before everybody is there; after that all take turns."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._all_there = asyncio.Event()
        self._there: set[str] = set()

    def arrive(self, wallet: TestWallet) -> None:
        """Count the run on a wallet as there; one that ended will not come."""
        self._there.add(wallet.id)
        if len(self._there) == self._runs:
            self._all_there.set()

    async def enter(self, run: Run) -> None:
        """See `Gate.enter`."""
        self.arrive(run.wallet)
        # A run that waits for something else first must not hold up the others for ever.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_there.wait(), MEET_S)
        await asyncio.sleep(0)


async def check_cancellation(
    skill: LoadedSkill, make_wallet: MakeWallet, case: Case, runs: list[Run]
) -> Finding:
    """Cancelled wherever it waits, the skill ends at once and leaves no task."""
    middle = 0
    for passes in HELD_AFTER:
        wallet = await make_wallet()
        run = Run(wallet, await prepared(case, wallet))
        hold = Hold(passes)
        with task_making():
            cancelled = await _cancelled(skill, run, hold)
        runs.append(run)
        trouble = await _after(run) if cancelled else ""
        if trouble:
            return Finding("timeout", Outcome.FAILED, trouble)
        if not cancelled:
            break
        middle += 1
    if not middle:
        return Finding("timeout", Outcome.OK, "ends by itself before it could be cancelled")
    return Finding("timeout", Outcome.OK, f"cancelled at {middle} places, it ended at once")


async def _cancelled(skill: LoadedSkill, run: Run, hold: Hold) -> bool:
    """Run until it is held up, and cancel it there; False where it came to its end."""
    task = asyncio.ensure_future(start(skill, run, gate=hold))
    held = asyncio.ensure_future(hold.reached.wait())
    await asyncio.wait({task, held}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    held.cancel()
    if task.done():
        if not task.cancelled() and task.exception() is None:
            run.outcome = task.result()
        return False
    task.cancel()
    await asyncio.wait({task}, timeout=2 * GRACE_S)
    return True


async def _after(run: Run) -> str:
    """What is wrong with a cancelled run; empty when nothing is."""
    for _ in range(10):
        if run.ended and all(task.done() for task in run.tasks):
            break
        await asyncio.sleep(0.01)
    left = [task for task in run.tasks if not task.done()]
    for task in left:
        task.cancel()
    if not run.ended:
        return f"still runs {GRACE_S:g} s after it was cancelled"
    if run.answered:
        return "goes on after it is cancelled: let CancelledError pass"
    if run.raised is not None and not isinstance(run.raised, asyncio.CancelledError):
        return f"turns its cancellation into {type(run.raised).__name__}"
    return f"leaves a task running: {left[0]!r:.160}" if left else ""


async def check_concurrency(
    skill: LoadedSkill, make_wallet: MakeWallet, good: Good, runs: list[Run]
) -> Finding:
    """Runs on different wallets at once, each of them as if it were alone."""
    meeting = Meeting(AT_ONCE)

    async def one(wallet: TestWallet, params: object) -> Run:
        try:
            return await watch(skill, wallet, params, gate=meeting)
        finally:
            meeting.arrive(wallet)

    cases = [good[at % len(good)] for at in range(AT_ONCE)]
    wallets = [await make_wallet() for _ in cases]
    given = [await prepared(case, wallet) for (case, _), wallet in zip(cases, wallets, strict=True)]
    with task_making():
        together = await asyncio.gather(*map(one, wallets, given))
    runs += together
    trouble: list[str] = []
    for run, (_, alone) in zip(together, cases, strict=True):
        others = [other for other in wallets if other is not run.wallet]
        trouble += _mixed(run, alone, others)
        if skill.spec.effects is Effects.READ and not trouble:
            trouble += await _differs(skill, run)
    if trouble:
        return Finding("concurrency", Outcome.FAILED, joined(trouble))
    return Finding("concurrency", Outcome.OK, f"{AT_ONCE} at once, each its own")


def _mixed(run: Run, alone: Run, others: Sequence[TestWallet]) -> list[str]:
    if run.error is not None:
        return [f"fails beside others: {run.trouble}"]
    said = run.outcome or ""
    for other in others:
        if any(word in said for word in (other.address, other.id, other.name)):
            return [f"the outcome on {run.wallet.name} tells of {other.name}: state is shared"]
    did = [(record.type, record.status) for record in run.records]
    should = [(record.type, record.status) for record in alone.records]
    if did != should:
        return [f"beside others it made {len(did)} transactions on a wallet, alone {len(should)}"]
    return []


async def _differs(skill: LoadedSkill, run: Run) -> list[str]:
    """A reader tells the same alone, as long as it tells the same twice."""
    first = await watch(skill, run.wallet, run.params)
    second = await watch(skill, run.wallet, run.params)
    if first.outcome == second.outcome != run.outcome:
        return [f"on {run.wallet.name} it tells something else beside others than alone"]
    return []
