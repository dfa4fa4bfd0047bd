"""One run of a skill, observed: parameters read, what it asked for, texts, tasks, records."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from solward.hosts.host import DISABLED, ENDED
from solward.hosts.wire.methods import Observed
from solward.plugins import LoadedSkill, run_skill
from solward.testing.conformance.watch import CapabilityUse, Gate, Watch
from solward.testing.stand import Stand, TestWallet
from solward.types.errors import SkillError
from solward.types.record import TransactionRecord

Case = Mapping[str, Any] | Callable[[TestWallet], Any]

_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class WatchedSkill:
    """A loaded skill, where it is seen, and what is set for it."""

    loaded: LoadedSkill
    watch: Watch
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # By wallet: its calls are kept where it runs, in their order.
    _calls: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def observed(self, run: Run) -> Observed:
        """A run as its skill's code has it until now."""
        seen = await self.watch.observed(run.wallet.id, run.number)
        if seen.executed:
            self._calls[run.wallet.id] = run.number + 1
        return seen

    def begin(self, wallet: TestWallet, params: Any) -> Run:
        """A run on a wallet, which has no other at the time."""
        return Run(self, wallet, params, self._calls[wallet.id])


@dataclass(slots=True, eq=False)
class Run:
    """Everything one run did.

    Attributes:
        number: of the wallet's calls, from 0.
        outcome: its text, None when it raised.
        error: the exception its caller got.
        seen: what its own code did, whatever its caller got.
        asked: what it asked the service for.
        records: records stored for its wallet meanwhile.
        unrecorded: signatures of its wallet on the ledger without a record.
    """

    skill: WatchedSkill
    wallet: TestWallet
    params: Any
    number: int
    outcome: str | None = None
    error: BaseException | None = None
    seen: Observed = field(default_factory=Observed)
    asked: list[CapabilityUse] = field(default_factory=list)
    records: list[TransactionRecord] = field(default_factory=list)
    unrecorded: list[str] = field(default_factory=list)
    seconds: float = 0.0

    async def look(self) -> Observed:
        """See again what its code has done."""
        self.seen = await self.skill.observed(self)
        return self.seen

    @property
    def requested(self) -> list[str]:
        """The money calls that it asked for."""
        return [each.operation for each in self.asked if each.operation]

    @property
    def texts(self) -> list[str]:
        """Every text it returned or raised."""
        texts = [self.outcome] if isinstance(self.outcome, str) else []
        if self.error is not None:
            texts += [str(self.error), repr(self.error)]
        return texts if self.seen.raised is None else [*texts, self.seen.raised.shown]

    @property
    def crashed(self) -> bool:
        """Whether it raised anything but a deliberate error, or ended its host."""
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
    skill: WatchedSkill, wallet: TestWallet, params: object, *, gate: Gate | None = None
) -> Run:
    """As `observe_run`, without reading the wallet's records and the ledger."""
    run = skill.begin(wallet, params)
    started = time.monotonic()
    try:
        run.outcome = await start(run, gate=gate)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        run.error = error
    run.seconds = time.monotonic() - started
    await run.look()
    return run


async def start(run: Run, *, gate: Gate | None = None) -> str:
    """The run itself; raises as `run_skill`."""
    skill = run.skill.loaded
    own = run.wallet.context(skill, settings=run.skill.settings)
    context = run.skill.watch.context(run, own, gate)
    return await run_skill(skill, run.params, context, emit=lambda _name, _data: None)


async def _signatures(wallet: TestWallet) -> list[str]:
    found = await wallet.stand.localnet.call("getSignaturesForAddress", [wallet.address])
    return [str(each["signature"]) for each in found]


async def prepared(case: Case, wallet: TestWallet) -> dict[str, Any]:
    """Prepare a case on this wallet; returns its parameters."""
    params = case(wallet) if callable(case) else case
    if inspect.isawaitable(params):
        params = await params
    return dict(params)


@dataclass(slots=True)
class Subject:
    """A skill under test.

    Attributes:
        generated: its only case was generated from its schema, and may name what does not exist.
        made_up: names of its secret settings that nobody gave.
        unset: that a required setting is not set, in the words of the call that it ends; or empty.
        logged: what was logged since the checks began.
        good: cases that ran to an outcome, with the run.
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
        """As it is loaded."""
        return self.watched.loaded

    async def wallet(self) -> TestWallet:
        """A new wallet with a name of its own."""
        return await self.stand.wallet(f"conformance-{next(_numbers)}-wallet")

    async def run(self, case: Case) -> Run:
        """A case on a new wallet."""
        wallet = await self.wallet()
        run = await observe_run(self.watched, wallet, await prepared(case, wallet))
        self.runs.append(run)
        return run
