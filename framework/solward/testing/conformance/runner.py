"""Checks of whole targets: find the plugins, open a stand, run the checks of each."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from solward.support.extras import needs

with needs("solward.testing.conformance", "test"):
    from structlog.testing import capture_logs

from solward.hosts.declarations import terms
from solward.plugins.folders import layout
from solward.plugins.folders.install import install
from solward.plugins.folders.layout import Installed
from solward.testing.canaries import Canaries
from solward.testing.conformance.cases import Cases, of_project
from solward.testing.conformance.declared import manifest_finding
from solward.testing.conformance.guardrails import guardrail_findings
from solward.testing.conformance.loading import Subject, loaded
from solward.testing.conformance.observed_run import Case
from solward.testing.conformance.payments import PaymentCases, payment_findings
from solward.testing.conformance.providers import provider_findings
from solward.testing.conformance.report import Finding, Outcome, Report
from solward.testing.conformance.skills import skill_findings
from solward.testing.conformance.venues import VenueCases, venue_findings
from solward.testing.stand import Stand, open_stand
from solward.testing.targets import (
    KINDS,
    Target,
    entry_point_of,
    folder,
    installed_entry_points,
)
from solward.types.errors import FolderError, InvalidRequest
from solward.types.manifest import Terms
from solward.types.plugin_problems import ProblemCode

T = TypeVar("T")

# How long cancelled tasks of a plugin have before their loop is closed.
_CANCEL_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, and how it went.

    Attributes:
        own: the distribution whose wheels were checked, unpacked; None for what stands in a
            project's folder or in the environment.
        digest: of what was unpacked (`layout.tree_digest`); empty without.
    """

    reports: list[Report]
    own: Installed | None = None
    digest: str = ""


def check_target(
    target: str,
    *,
    in_process: bool = False,
    home: Callable[[], Path | None] = lambda: None,
    cases: Sequence[Cases] = (),
) -> Checked:
    """See `conformance.check_path_or_name`.

    Args:
        cases: of its plugins, beside those of a project's folder.
        home: asked for where the environment has no such name.
    """
    path = Path(target)
    if path.is_dir():
        cases = [*cases, *of_project(path.resolve())]
        with folder(path.resolve()) as found:
            return Checked(run(_check_all(loaded(found, in_process=in_process), cases)))
    if path.suffix == ".whl" and path.is_file():
        if in_process:
            raise _needs_host(target)
        with tempfile.TemporaryDirectory(prefix="solward-check-") as made:
            one = install(Path(made), target, accept=lambda _proposal: True, declare=_declared)
            return _checked_own(Path(made), one, cases)
    installed = installed_entry_points(target)
    if installed:
        return Checked(run(_check_all(loaded(installed, in_process=in_process), cases)))
    place = home()
    own = None if place is None else layout.read(place, layout.canonical(target))
    if own is None or place is None:
        raise InvalidRequest(
            f"target: {target!r} is neither a project's folder nor a wheel, nor an installed"
            " plugin's or distribution's name"
        )
    if in_process:
        raise _needs_host(target)
    return _checked_own(place, own, cases)


def _checked_own(home: Path, one: Installed, cases: Sequence[Cases]) -> Checked:
    """The check of unpacked wheels, which are the same bytes before and after it.

    Raises:
        FolderError: they are not.
    """
    digest = layout.tree_digest(one.folder)
    reports = run(_check_all(loaded(own=(home, one)), cases))
    if layout.tree_digest(one.folder) != digest:
        raise FolderError(f"{one.folder} changed while it was checked")
    return Checked(reports, one, digest)


def _needs_host(target: str) -> InvalidRequest:
    return InvalidRequest(
        f"target: only plugin hosts import from {target}; check the project's folder in process"
    )


def _declared(new: Installed) -> Mapping[str, Terms]:
    """All that its plugins need: what is checked here is accepted by nobody else."""
    try:
        return terms(new, (new.name,))
    except FolderError:
        return {}  # as its check will say


@asynccontextmanager
async def open_conformance() -> AsyncIterator[Stand]:
    """A stand with canaries as its secrets, in the environment too."""
    canaries = Canaries()
    async with contextlib.AsyncExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="solward-check-"))
        stack.enter_context(capture_logs())
        stack.enter_context(canaries.in_environment())
        yield await stack.enter_async_context(
            open_stand(Path(home), canaries=canaries, **dict[str, Any](canaries.settings))
        )


async def check(
    plugin: object,
    stand: Stand | None = None,
    *,
    kind: str | None = None,
    in_process: bool = False,
    **given: Any,
) -> Report:
    """The report of one plugin, on `stand` or one opened for it.

    Args:
        given: what the check of its kind takes (`check_skill` and so on).

    Raises:
        InvalidRequest: there is no such plugin, it is of another kind, or a plugin host cannot
            import it.
    """
    entry_point = entry_point_of(plugin)
    name, found = entry_point.name, KINDS[entry_point.group]
    if kind not in (None, found):
        raise InvalidRequest(f"target: {name!r} is a {found}, not a {kind}")
    async with loaded([entry_point], in_process=in_process) as [subject]:
        return await check_subject(subject, stand, **given)


async def check_subject(
    subject: Subject,
    stand: Stand | None = None,
    *,
    cases: Sequence[Case] = (),
    settings: Mapping[str, Any] = MappingProxyType({}),
    address: str | None = None,
    refused: Sequence[Any] = (),
    allowed: Sequence[Any] = (),
    held: Sequence[Any] = (),
    venue_cases: VenueCases | None = None,
    payment_cases: PaymentCases | None = None,
) -> Report:
    """The report of a plugin that is loaded."""
    target, watch = subject.target, subject.watch
    tiered = subject.host is not None
    findings = [_contract(target)]
    if subject.host is not None:
        findings.append(subject.host)
    if target.problem is not None:
        return _report(target, findings)
    if target.kind == "skill":
        async with contextlib.AsyncExitStack() as stack:
            if stand is None:
                stand = await stack.enter_async_context(open_conformance())
            findings += await skill_findings(
                target.loaded, watch, stand, cases, settings=settings, tiered=tiered
            )
    elif target.kind == "provider":
        findings += await provider_findings(target.loaded, watch, address, tiered=tiered)
    elif target.kind == "guardrail":
        findings += await guardrail_findings(
            target.loaded, watch, refused, allowed, held, tiered=tiered
        )
    elif target.kind == "payment":
        payments = payment_cases or PaymentCases()
        findings += await payment_findings(target.loaded, payments, tiered=tiered)
    else:
        findings += await venue_findings(target.loaded, venue_cases or VenueCases(), tiered=tiered)
    if tiered:
        findings += _beside(subject)
    return _report(target, findings)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run on a new loop to the end, even where a plugin's task ignores its cancellation."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_CANCEL_WAIT_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _check_all(
    loading: AbstractAsyncContextManager[list[Subject]], cases: Sequence[Cases]
) -> list[Report]:
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(capture_logs())
        subjects = await stack.enter_async_context(loading)
        stand = None
        if any(each.target.kind == "skill" and each.target.problem is None for each in subjects):
            stand = await stack.enter_async_context(open_conformance())
        given = _given(subjects, cases)
        return [
            await check_subject(each, stand, **given.get((each.target.kind, each.target.name), {}))
            for each in subjects
        ]


def _given(
    subjects: Sequence[Subject], cases: Sequence[Cases]
) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Cases as `check_subject` takes them, by the plugin's kind and name.

    Raises:
        InvalidRequest: they are of a plugin that is not checked.
    """
    targets = {(each.target.kind, each.target.name) for each in subjects}
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for each in cases:
        target = (each.kind, each.plugin)
        if target not in targets:
            raise InvalidRequest(
                f"plugin: the cases are of the {each.kind} {each.plugin!r}, which is not checked"
            )
        if each.kind == "skill":
            found[target] = {"settings": each.settings}
        elif each.kind == "provider":
            found[target] = {"address": each.address}
        elif each.kind == "venue":
            found[target] = {"venue_cases": VenueCases(None, each.requests, each.pools)}
        else:
            found[target] = {
                "payment_cases": PaymentCases(each.answers, each.receipts, each.expected)
            }
    return found


def _beside(subject: Subject) -> list[Finding]:
    """What the higher tiers ask of every kind."""
    target = subject.target
    spec = getattr(target.loaded, "spec", None)
    asked = subject.watch.asked(target.name)
    found = [manifest_finding(spec, asked, stores=subject.watch.stores), subject.wheels]
    if target.kind != "skill":
        found.append(Finding("money", Outcome.OK, "moves none"))
    return found


def _contract(target: Target) -> Finding:
    problem = target.problem
    if problem is None:
        return Finding("contract", Outcome.OK, "loads as the service loads it")
    name = "schema" if problem.code is ProblemCode.BAD_SCHEMA else "contract"
    return Finding(name, Outcome.FAILED, f"{problem.code}: {problem.detail}")


def _report(target: Target, findings: Sequence[Finding]) -> Report:
    return Report(target.name, target.kind, target.distribution, target.version, tuple(findings))
