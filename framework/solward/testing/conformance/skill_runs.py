"""Observed runs of a skill, with their parameters read, requests, texts, tasks and records; and
checks with runs that are cancelled while they wait, or that run at once on different wallets."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from solward.database import plugin_entries
from solward.hosts.host import DISABLED, ENDED
from solward.hosts.wire.methods import ObservedCall
from solward.plugins import LoadedSkill, run_skill
from solward.plugins.folders.layout import canonical
from solward.plugins.interceptors import GRACE_S
from solward.testing.conformance.report import Finding, Outcome, finding
from solward.testing.conformance.watch import CapabilityUse, Gate, ObservedRun, Watch
from solward.testing.stand import Stand, TestWallet
from solward.types.errors import SkillError
from solward.types.record import TransactionRecord
from solward.types.skill import Effects

Case = Mapping[str, Any] | Callable[[TestWallet], Any]

_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class WatchedSkill:
    """A loaded skill, the watch that observes it, and its settings."""

    loaded: LoadedSkill
    watch: Watch
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # Number of calls by wallet; the observer numbers them too, where the skill runs.
    _calls: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def observed(self, run: Run) -> ObservedCall:
        """Return what was observed so far in the skill's own code during a run."""
        seen = await self.watch.observed(run.wallet.id, run.number)
        if seen.executed:
            self._calls[run.wallet.id] = run.number + 1
        return seen

    def new_run(self, wallet: TestWallet, params: Any) -> Run:
        """Return a new run on a wallet that has no other run in progress."""
        return Run(self, wallet, params, self._calls[wallet.id])


@dataclass(slots=True, eq=False)
class Run:
    """The observations of one run.

    Attributes:
        number: number among the wallet's calls, from 0.
        outcome: the skill's text; None if the skill raised an error.
        error: the exception that the caller got.
        seen: the observed call of the skill's own code, independent of the caller's result.
        asked: the run's requests to the service.
        records: records stored for its wallet during the run.
        unrecorded: signatures of its wallet on the ledger without a record.
    """

    skill: WatchedSkill
    wallet: TestWallet
    params: Any
    number: int
    outcome: str | None = None
    error: BaseException | None = None
    seen: ObservedCall = field(default_factory=ObservedCall)
    asked: list[CapabilityUse] = field(default_factory=list)
    records: list[TransactionRecord] = field(default_factory=list)
    unrecorded: list[str] = field(default_factory=list)
    seconds: float = 0.0

    async def update_seen(self) -> ObservedCall:
        """Update `seen` from the observed skill, and return it."""
        self.seen = await self.skill.observed(self)
        return self.seen

    @property
    def requested(self) -> list[str]:
        """The operations that the run requested in money calls."""
        return [each.operation for each in self.asked if each.operation]

    @property
    def texts(self) -> list[str]:
        """All texts that the skill returned, or raised as errors."""
        texts = [self.outcome] if isinstance(self.outcome, str) else []
        if self.error is not None:
            texts += [str(self.error), repr(self.error)]
        return texts if self.seen.raised is None else [*texts, self.seen.raised.shown]

    @property
    def crashed(self) -> bool:
        """True if the skill raised an error that is not deliberate, or ended its host."""
        raised = self.seen.raised
        if raised is not None and not (raised.deliberate or raised.cancelled):
            return True
        return isinstance(self.error, SkillError) and self.error.code in (ENDED, DISABLED)

    @property
    def trouble(self) -> str:
        """The error and its place, for the plugin's author."""
        raised = self.seen.raised
        if raised is not None and (raised.place or self.error is None):
            return f"{raised.type}{' at ' if raised.place else ''}{raised.place}: {raised.text}"
        return f"{type(self.error).__name__}: {self.error}" if self.error is not None else ""


async def observe_run(
    skill: WatchedSkill, wallet: TestWallet, params: object, *, gate: Gate | None = None
) -> Run:
    """Run a skill as the service does and return the run; raise only `CancelledError`."""
    known = {record.id for record in await wallet.records()}
    before = set(await _list_signatures(wallet))
    run = await run_once(skill, wallet, params, gate=gate)
    records = await wallet.records()
    run.records = [record for record in records if record.id not in known]
    recorded = {record.signature for record in records}
    after = await _list_signatures(wallet)
    run.unrecorded = [each for each in after if each not in before and each not in recorded]
    return run


async def run_once(
    skill: WatchedSkill, wallet: TestWallet, params: object, *, gate: Gate | None = None
) -> Run:
    """Run a skill like `observe_run`, without reading the wallet's records and the ledger."""
    run = skill.new_run(wallet, params)
    started = time.monotonic()
    try:
        run.outcome = await start(run, gate=gate)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        run.error = error
    run.seconds = time.monotonic() - started
    await run.update_seen()
    return run


async def start(run: Run, *, gate: Gate | None = None) -> str:
    """Run the skill and return its outcome; raises the errors of `run_skill`."""
    skill = run.skill.loaded
    own = run.wallet.context(skill, settings=run.skill.settings)
    context = run.skill.watch.context(run, own, gate)
    return await run_skill(skill, run.params, context, emit=lambda _name, _data: None)


async def _list_signatures(wallet: TestWallet) -> list[str]:
    found = await wallet.stand.localnet.call("getSignaturesForAddress", [wallet.address])
    return [str(each["signature"]) for each in found]


async def prepare_case(case: Case, wallet: TestWallet) -> dict[str, Any]:
    """Prepare a case on this wallet and return its parameters."""
    params = case(wallet) if callable(case) else case
    if inspect.isawaitable(params):
        params = await params
    return dict(params)


@dataclass(slots=True)
class Subject:
    """A skill under test.

    Attributes:
        generated: whether its only case was generated from its schema, with perhaps unknown names.
        made_up: names of its secret settings whose values were generated.
        unset: error text of a call if a required setting is missing; otherwise empty.
        logged: log lines since the checks began.
        good: cases that ran to an outcome, each with its run.
        runs: every run so far.
    """

    watched: WatchedSkill
    stand: Stand
    cases: Sequence[Case]
    generated: bool = False
    made_up: Sequence[str] = ()
    unset: str = ""
    logged: Sequence[Mapping[str, Any]] = ()
    good: list[tuple[Case, Run]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @property
    def skill(self) -> LoadedSkill:
        """The loaded skill."""
        return self.watched.loaded

    async def wallet(self) -> TestWallet:
        """Return a new wallet with a name of its own."""
        return await self.stand.wallet(f"conformance-{next(_numbers)}-wallet")

    async def run(self, case: Case) -> Run:
        """Run a case on a new wallet and return the run."""
        wallet = await self.wallet()
        run = await observe_run(self.watched, wallet, await prepare_case(case, wallet))
        self.runs.append(run)
        return run


# Numbers of calls on the context that pass before the one in which the skill is cancelled.
CANCELLED_AFTER = (0, 1, 2)
# A skill that does not reach that call is cancelled after this many seconds.
UNGATED_S = 0.3
# Seconds between two observations, because tasks may need a moment to end.
LOOKS_S = 0.01
TASKS_LOOKS = 10
AT_ONCE = 3
ALL_ARRIVED_S = 2.0


class BlockingGate:
    """A gate that lets `passes` calls through, and blocks every later call for ever."""

    def __init__(self, passes: int) -> None:
        self.reached = asyncio.Event()
        self._passes = passes

    async def enter(self, run: ObservedRun) -> None:
        """See `Gate.enter`."""
        self._passes -= 1
        if self._passes < 0:
            self.reached.set()
            await asyncio.Event().wait()


class StartingGate:
    """A gate that blocks each run's first call until all runs have arrived; then runs alternate."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._all_arrived = asyncio.Event()
        self._arrived: set[str] = set()

    def arrive(self, wallet: TestWallet) -> None:
        """Count the run on a wallet as arrived; also called when a run ends."""
        self._arrived.add(wallet.id)
        if len(self._arrived) == self._runs:
            self._all_arrived.set()

    async def enter(self, run: ObservedRun) -> None:
        """See `Gate.enter`."""
        self.arrive(run.wallet)
        # A run that waits for something else first must not block the others for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALL_ARRIVED_S):
                await self._all_arrived.wait()
        await asyncio.sleep(0)


async def check_cancellation(subject: Subject, case: Case) -> Finding:
    """Check that the skill, cancelled at any point, ends at once and leaves no task behind."""
    places = 0
    for passes in CANCELLED_AFTER:
        wallet = await subject.wallet()
        run = subject.watched.new_run(wallet, await prepare_case(case, wallet))
        cancelled_at = await _cancel_at_gate(run, BlockingGate(passes))
        subject.runs.append(run)
        trouble = "" if cancelled_at is None else await _ending_fault(run, cancelled_at + GRACE_S)
        if trouble:
            await subject.watched.watch.restart()
            return Finding("timeout", Outcome.FAILED, trouble)
        if cancelled_at is None:
            break
        places += 1
    if not places:
        return Finding("timeout", Outcome.OK, "ended before it could be cancelled")
    return Finding("timeout", Outcome.OK, f"cancelled at {places} places, it ended at once")


async def _cancel_at_gate(run: Run, gate: BlockingGate) -> float | None:
    """Cancel a run when the gate blocks it, and return the time; None if the run ended before."""
    task = asyncio.ensure_future(start(run, gate=gate))
    blocked = asyncio.ensure_future(gate.reached.wait())
    await asyncio.wait({task, blocked}, timeout=UNGATED_S, return_when=asyncio.FIRST_COMPLETED)
    blocked.cancel()
    if task.done():
        if not task.cancelled() and task.exception() is None:
            run.outcome = task.result()
        await run.update_seen()
        return None
    cancelled_at = asyncio.get_running_loop().time()
    task.cancel()
    await asyncio.wait({task}, timeout=2 * GRACE_S)
    return cancelled_at


async def _ending_fault(run: Run, until: float) -> str:
    """Return the fault in how a cancelled run ended; empty if there is none.

    Args:
        until: time of the loop's clock at which it must have ended.
    """
    loop = asyncio.get_running_loop()
    seen = await run.update_seen()
    while seen.executed and not seen.ended and loop.time() < until:
        await asyncio.sleep(LOOKS_S)
        seen = await run.update_seen()
    for _ in range(TASKS_LOOKS):
        if not seen.tasks:
            break
        await asyncio.sleep(LOOKS_S)
        seen = await run.update_seen()
    if seen.executed and not seen.ended:
        return f"still runs {GRACE_S:g} s after it was cancelled"
    # If it was not cancelled, it ended before, which is fine.
    if seen.cancelled and seen.returned:
        return "continues after its cancellation: do not suppress CancelledError"
    if seen.cancelled and seen.raised is not None and not seen.raised.cancelled:
        return f"turns its cancellation into {seen.raised.type}"
    return f"leaves a task running: {seen.tasks[0]:.160}" if seen.tasks else ""


async def check_concurrency(subject: Subject) -> Finding:
    """Check that runs on different wallets at once have the same results as runs alone."""
    gate, skill, good = StartingGate(AT_ONCE), subject.watched, subject.good

    async def one(wallet: TestWallet, params: object) -> Run:
        try:
            return await observe_run(skill, wallet, params, gate=gate)
        finally:
            gate.arrive(wallet)

    cases = [good[at % len(good)] for at in range(AT_ONCE)]
    wallets = [await subject.wallet() for _ in cases]
    params = [
        await prepare_case(case, wallet) for (case, _), wallet in zip(cases, wallets, strict=True)
    ]
    together = await asyncio.gather(*map(one, wallets, params))
    subject.runs += together
    trouble: list[str] = []
    for run, (_, alone) in zip(together, cases, strict=True):
        others = [other for other in wallets if other is not run.wallet]
        trouble += _shared_state_faults(run, alone, others)
        if skill.loaded.spec.effects is Effects.READ and not trouble:
            trouble += await _outcome_faults(skill, run)
    return finding("concurrency", trouble, f"{AT_ONCE} runs at once, each with its own result")


def _shared_state_faults(run: Run, alone: Run, others: Sequence[TestWallet]) -> list[str]:
    if run.error is not None:
        return [f"fails while other runs are active: {run.trouble}"]
    outcome = run.outcome or ""
    for other in others:
        if any(word in outcome for word in (other.address, other.id, other.name)):
            return [f"the outcome on {run.wallet.name} names {other.name}: state is shared"]
    made = [(record.type, record.status) for record in run.records]
    expected = [(record.type, record.status) for record in alone.records]
    if made != expected:
        return [f"transactions: {len(expected)} when run alone, {len(made)} beside other runs"]
    return []


async def _outcome_faults(skill: WatchedSkill, run: Run) -> list[str]:
    """Return a fault if a reading skill's run had another outcome than two equal runs alone. Before
    each run alone, the skill's stored entries are deleted."""
    await _delete_entries(skill, run.wallet)
    first = await observe_run(skill, run.wallet, run.params)
    await _delete_entries(skill, run.wallet)
    second = await observe_run(skill, run.wallet, run.params)
    if first.outcome == second.outcome != run.outcome:
        return [f"its outcome on {run.wallet.name} differs while other runs are active"]
    return []


async def _delete_entries(skill: WatchedSkill, wallet: TestWallet) -> None:
    async with wallet.stand.service.database.write() as connection:
        await plugin_entries.clear(connection, canonical(skill.loaded.distribution), wallet.id)
