"""The checks of a skill, each on wallets of its own."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from structlog.testing import capture_logs

from solward.plugins import LoadedSkill
from solward.testing.canaries import setting_secret
from solward.testing.conformance import samples
from solward.testing.conformance.blocking import BLOCKED_S
from solward.testing.conformance.cancellation import check_cancellation, check_concurrency
from solward.testing.conformance.dialects import check_dialects
from solward.testing.conformance.money import check_money
from solward.testing.conformance.observed_run import (
    Case,
    Run,
    WatchedSkill,
    observe_run,
    prepared,
    run_once,
)
from solward.testing.conformance.parameter_paths import declared_paths, present_paths
from solward.testing.conformance.report import GIVEN_IN, Finding, Outcome, joined
from solward.testing.conformance.watch import Held, Watch
from solward.testing.conformance.wording import errors_finding
from solward.testing.stand import Stand, TestWallet, checked_settings
from solward.types.errors import InvalidRequest, SkillError
from solward.types.provider import ToolDefinition
from solward.types.record import TransactionStatus
from solward.types.skill import Effects

# Longer outcomes crowd out the rest of a model's memory.
MAX_OUTCOME = 8_000
MOST_EDGES = 10
# Why a host was ended that held up its event loop for too long.
NO_ANSWER = "it did not answer"
NO_BASE = "no example ran, so there is nothing to start from"
_GIVE_SETTINGS = f"give it as `settings` of a test, or in {GIVEN_IN}"

_numbers = itertools.count(1)


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


async def skill_findings(
    skill: LoadedSkill,
    watch: Watch,
    stand: Stand,
    cases: Sequence[Case] = (),
    *,
    settings: Mapping[str, Any] = MappingProxyType({}),
    tiered: bool = False,
) -> list[Finding]:
    """Every check of a loaded skill, in a fixed order.

    Args:
        settings: what is set for it; secrets that are not among them are made up.
        tiered: those of the higher tiers too.

    Raises:
        InvalidRequest: it declares no such setting, or the value does not fit.
    """
    given = checked_settings(skill, settings)
    made_up = [] if skill.settings is None else sorted(skill.settings.secrets - given.keys())
    unset = ""
    if skill.settings is not None:
        given |= {name: setting_secret(*skill.settings.length_of(name)) for name in made_up}
        for name in skill.settings.secrets:
            stand.canaries.setting(name, given[name])
        try:
            skill.settings.complete(skill.spec.name, given)
        except SkillError as error:
            unset = str(error)
    subject, unsampled = _subject(WatchedSkill(skill, watch, given), stand, cases)
    subject.made_up, subject.unset = made_up, unset
    # What a host logs is scrubbed of what the service was told to hide, which these are not.
    with capture_logs() as subject.logged:
        async with watch.blocking() as held:
            findings = await _checked(subject, unsampled)
            beside = await _beside(subject, findings) if tiered else []
    findings += [_blocking(subject, held), *beside]
    return [replace(each, detail=stand.canaries.hidden(each.detail)) for each in findings]


async def _beside(subject: Subject, findings: Sequence[Finding]) -> list[Finding]:
    """What the higher tiers ask for."""
    errors = [
        run.error
        for run in subject.runs
        if run.error is not None and run.seen.raised is not None and run.seen.raised.deliberate
    ]
    return [errors_finding(errors), await _money(subject, findings)]


async def _money(subject: Subject, findings: Sequence[Finding]) -> Finding:
    if subject.skill.spec.effects is Effects.READ:
        return Finding("money", Outcome.OK, "moves none")
    if any(each.outcome is Outcome.FAILED for each in findings):
        return Finding("money", Outcome.SKIPPED, "first mend what fails")
    cases = [case for case, _ in subject.good]
    return await check_money(subject.watched, subject.wallet, cases)


async def _checked(subject: Subject, unsampled: samples.Unsampled | None) -> list[Finding]:
    skill = subject.skill
    findings = [_described(skill)]
    findings.append(await _examples(subject, unsampled))
    params = [run.params for _, run in subject.good]
    findings.append(
        check_dialects(
            ToolDefinition(skill.spec.name, skill.spec.description, skill.spec.parameters),
            [*params, *skill.spec.examples],
        )
    )
    checks: list[Callable[[Subject], Awaitable[Finding]]] = [
        _parameters_used,
        _bad_parameters,
        _edge_parameters,
        _effects,
        _timeout,
        _concurrency,
        _outcome,
        _secrets,
    ]
    for check in checks:
        findings.append(await check(subject))
    return findings


def _subject(
    watched: WatchedSkill, stand: Stand, cases: Sequence[Case]
) -> tuple[Subject, samples.Unsampled | None]:
    spec = watched.loaded.spec
    known: list[Case] = [*cases, *spec.examples]
    if known:
        return Subject(watched, stand, known), None
    try:
        made: Mapping[str, Any] = samples.sample(spec.parameters)
    except samples.Unsampled as error:
        return Subject(watched, stand, ()), error
    return Subject(watched, stand, [made], generated=True), None


def _described(skill: LoadedSkill) -> Finding:
    fields = skill.spec.parameters.get("properties", {})
    bare = [name for name, field in fields.items() if not field.get("description")]
    if bare:
        detail = f"no description, so a model has to guess: {', '.join(bare)}"
        return Finding("schema", Outcome.WARNING, detail)
    return Finding("schema", Outcome.OK, f"{len(fields)} parameters, closed")


async def _examples(subject: Subject, unsampled: samples.Unsampled | None) -> Finding:
    if unsampled is not None:
        return Finding("examples", Outcome.SKIPPED, str(unsampled))
    if subject.unset:
        return Finding("examples", Outcome.SKIPPED, f"{subject.unset}; {_GIVE_SETTINGS}")
    trouble: list[str] = []
    crashed = False
    for at, case in enumerate(subject.cases):
        try:
            run = await subject.run(case)
        except Exception as error:
            # Only a case's preparation runs outside the observed run.
            trouble.append(f"case {at} could not be prepared: {type(error).__name__}: {error}")
            continue
        crashed = crashed or run.crashed
        if run.error is None and isinstance(run.outcome, str):
            subject.good.append((case, run))
        else:
            trouble.append(f"case {at}: {run.trouble}")
    how = "made up from the schema; declare `examples`" if subject.generated else ""
    if not trouble:
        return Finding("examples", Outcome.OK, how or f"{len(subject.good)} ran")
    if subject.generated and not crashed:
        detail = f"parameters {how}, were refused: {joined(trouble)}"
        return Finding("examples", Outcome.SKIPPED, detail)
    if subject.made_up and not crashed:
        names = ", ".join(subject.made_up)
        detail = f"with {names} made up: {joined(trouble)}; {_GIVE_SETTINGS}"
        return Finding("examples", Outcome.SKIPPED, detail)
    return Finding("examples", Outcome.FAILED, joined(trouble))


async def _parameters_used(subject: Subject) -> Finding:
    declared = list(declared_paths(subject.skill.spec.parameters))
    if not subject.good:
        return Finding("parameters_used", Outcome.SKIPPED, NO_BASE)
    read = set().union(*(run.seen.read for _, run in subject.good))
    present = set().union(*(present_paths(run.params) for _, run in subject.good))
    defaulted = {name for name, schema in declared if "default" in schema}
    unread = [name for name, _ in declared if name not in read]
    dead = [name for name in unread if name in present | defaulted]
    if dead:
        return Finding("parameters_used", Outcome.FAILED, f"never looked at: {', '.join(dead)}")
    if unread:
        detail = f"no example gives {', '.join(unread)}, and none was looked at"
        return Finding("parameters_used", Outcome.WARNING, detail)
    return Finding("parameters_used", Outcome.OK)


async def _bad_parameters(subject: Subject) -> Finding:
    schema = subject.skill.spec.parameters
    base = await _base(subject)
    if base is None:
        return Finding("bad_parameters", Outcome.SKIPPED, NO_BASE)
    wallet, params = base
    trouble = []
    wrongs = samples.bad(schema, params)
    for what, wrong in wrongs:
        run = await run_once(subject.watched, wallet, wrong)
        subject.runs.append(run)
        if run.seen.executed or not isinstance(run.error, InvalidRequest):
            trouble.append(f"{what} is accepted")
    if trouble:
        return Finding("bad_parameters", Outcome.FAILED, joined(trouble))
    return Finding("bad_parameters", Outcome.OK, f"{len(wrongs)} refused before it ran")


async def _edge_parameters(subject: Subject) -> Finding:
    if not subject.good:
        return Finding("edge_parameters", Outcome.SKIPPED, NO_BASE)
    case = subject.good[0][0]
    trouble, count = [], 0
    wallet = await subject.wallet()
    params = await prepared(case, wallet)
    for what, odd in samples.edges(subject.skill.spec.parameters, params, MOST_EDGES):
        count += 1
        run = await observe_run(subject.watched, wallet, odd)
        subject.runs.append(run)
        if run.crashed:
            trouble.append(f"{what}: {run.trouble}")
    if trouble:
        return Finding("edge_parameters", Outcome.FAILED, joined(trouble))
    return Finding("edge_parameters", Outcome.OK, f"{count} answered or refused in words")


async def _effects(subject: Subject) -> Finding:
    runs = subject.runs
    stray = [run for run in runs if run.unrecorded]
    if stray:
        detail = f"the ledger has transactions that no record has: {stray[0].unrecorded[0]}"
        return Finding("effects", Outcome.FAILED, detail)
    if subject.skill.spec.effects is Effects.READ:
        if any(run.requested or run.records for run in runs):
            return Finding("effects", Outcome.FAILED, "declares READ and asks for a transaction")
        return Finding("effects", Outcome.OK, "reads only")
    landed = [
        record.type
        for _, run in subject.good
        for record in run.records
        if record.status is TransactionStatus.CONFIRMED
    ]
    if not subject.good:
        return Finding("effects", Outcome.SKIPPED, NO_BASE)
    if not any(run.requested for _, run in subject.good):
        detail = "declares SPEND and never asks for a transaction; READ would do"
        return Finding("effects", Outcome.WARNING, detail)
    if not landed:
        return Finding("effects", Outcome.WARNING, "no transaction of an example landed")
    return Finding("effects", Outcome.OK, f"lands {', '.join(sorted(set(landed)))}")


async def _timeout(subject: Subject) -> Finding:
    if not subject.good:
        return Finding("timeout", Outcome.SKIPPED, NO_BASE)
    case = subject.good[0][0]
    slow = [each for _, each in subject.good if each.seconds > subject.skill.spec.timeout_s / 2]
    if slow:
        detail = f"an example took {slow[0].seconds:.1f} of {subject.skill.spec.timeout_s:g} s"
        return Finding("timeout", Outcome.WARNING, detail)
    left = [task for _, each in subject.good for task in (await each.look()).tasks]
    if left:
        return Finding("timeout", Outcome.FAILED, f"leaves a task running: {left[0]:.160}")
    return await check_cancellation(subject.watched, subject.wallet, case, subject.runs)


async def _concurrency(subject: Subject) -> Finding:
    if not subject.good:
        return Finding("concurrency", Outcome.SKIPPED, NO_BASE)
    return await check_concurrency(subject.watched, subject.wallet, subject.good, subject.runs)


async def _outcome(subject: Subject) -> Finding:
    trouble = []
    returned = [run for run in subject.runs if run.seen.returned]
    for run in returned:
        if not isinstance(run.outcome, str):
            if getattr(run.error, "code", None) == "bad_outcome":
                trouble.append("is no text")
        elif not run.outcome.strip():
            trouble.append("is empty")
        elif len(run.outcome) > MAX_OUTCOME:
            trouble.append(f"has {len(run.outcome)} characters; at most {MAX_OUTCOME}")
        elif any(ord(each) < 32 and each not in "\n\t" for each in run.outcome):
            trouble.append("has control characters")
    if trouble:
        return Finding("outcome", Outcome.FAILED, f"the outcome {joined(trouble)}")
    if not returned:
        return Finding("outcome", Outcome.SKIPPED, NO_BASE)
    return Finding("outcome", Outcome.OK)


async def _secrets(subject: Subject) -> Finding:
    leaked = {
        secret
        for run in subject.runs
        for text in run.texts
        for secret in subject.stand.canaries.found_in(text)
    }
    if leaked:
        return Finding("secrets", Outcome.FAILED, f"tells {joined(sorted(leaked))}")
    logged = {
        secret for entry in subject.logged for secret in subject.stand.canaries.found_in(str(entry))
    }
    if logged:
        return Finding("secrets", Outcome.FAILED, f"logs {joined(sorted(logged))}")
    return Finding("secrets", Outcome.OK, f"none in the texts of {len(subject.runs)} runs")


def _blocking(subject: Subject, held: Held) -> Finding:
    ended = [run.trouble for run in subject.runs if run.crashed and NO_ANSWER in run.trouble]
    if held.seconds < BLOCKED_S and not ended:
        return Finding("blocking", Outcome.OK)
    detail = f"held up the event loop for {held.seconds:.1f} s at {held.where}"
    detail = ended[0] if ended else detail
    return Finding("blocking", Outcome.FAILED, f"{detail}; await, or use asyncio.to_thread")


async def _base(subject: Subject) -> tuple[TestWallet, dict[str, Any]] | None:
    """A wallet and parameters for it; of a case that did not run where none did."""
    wallet = await subject.wallet()
    if subject.good:
        return wallet, await prepared(subject.good[0][0], wallet)
    if subject.unset:
        return None  # no call reaches its schema
    for case in subject.cases:
        if not callable(case):
            return wallet, dict(case)
    return None
