"""Checks of whole targets: find the plugins, load them into plugin hosts or into this process, open
a stand, and run the checks of each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final, TypeVar

from solward.support.extras import needs

with needs("solward.testing.conformance", "test"):
    from structlog.testing import capture_logs

from solward.hosts.forking import ZygoteEnded
from solward.hosts.plugins import PluginHosts, declared_terms
from solward.hosts.supervisor import Hosts
from solward.plugins import LoadedSkill, open_registry
from solward.plugins.discovery import Candidate, candidate_of, folder_candidates
from solward.plugins.folders import layout
from solward.plugins.folders.install import install
from solward.plugins.folders.layout import InstalledDistribution, canonical
from solward.plugins.folders.storage import storage_folder
from solward.plugins.load import ThreadedRule
from solward.testing.canaries import Canaries, plugin_secret
from solward.testing.conformance.cases import Cases, read_project_cases
from solward.testing.conformance.guardrails import guardrail_findings
from solward.testing.conformance.observer import TENANT
from solward.testing.conformance.payments import payment_findings
from solward.testing.conformance.providers import provider_findings
from solward.testing.conformance.report import Finding, Outcome, Report, manifest_finding
from solward.testing.conformance.skills import skill_findings
from solward.testing.conformance.venues import venue_findings
from solward.testing.conformance.watch import HostWatch, ProcessWatch, Watch, WatchedCapabilities
from solward.testing.stand import Stand, open_stand
from solward.testing.targets import (
    Target,
    conflict,
    entry_point_of,
    installed_entry_points,
    load_target,
    loaded_of,
    project_entry_points,
)
from solward.types.errors import FolderError, InvalidRequest
from solward.types.manifest import KINDS, ProblemCode, Terms

T = TypeVar("T")

_FINDINGS: Mapping[str, Callable[..., Awaitable[list[Finding]]]] = {
    "skill": skill_findings,
    "provider": provider_findings,
    "guardrail": guardrail_findings,
    "venue": venue_findings,
    "payment": payment_findings,
}

# Seconds that cancelled tasks of a plugin get before their loop is closed.
_CANCEL_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class CheckedTarget:
    """The reports of a checked target.

    Attributes:
        own: the distribution of unpacked wheels; None for a project or the environment.
        digest: digest of the unpacked files (`layout.tree_digest`); empty if `own` is None.
    """

    reports: list[Report]
    own: InstalledDistribution | None = None
    digest: str = ""


def check_target(
    target: str,
    *,
    in_process: bool = False,
    home: Callable[[], Path | None] = lambda: None,
    cases: Sequence[Cases] = (),
) -> CheckedTarget:
    """Check the plugins of a target; see `conformance.check_path_or_name`.

    Args:
        cases: cases of its plugins, besides those in a project's folder.
        home: called if the environment has no such name.
    """
    path = Path(target)
    if path.is_dir():
        cases = [*cases, *read_project_cases(path.resolve())]
        with project_entry_points(path.resolve()) as found:
            return CheckedTarget(run(_check_all(load_plugins(found, in_process=in_process), cases)))
    if path.suffix == ".whl" and path.is_file():
        if in_process:
            raise _host_required(target)
        with tempfile.TemporaryDirectory(prefix="solward-check-") as made:
            one = install(Path(made), target, accept=lambda _proposal: True, declare=_read_terms)
            return _check_wheels(Path(made), one, cases)
    installed = installed_entry_points(target)
    if installed:
        return CheckedTarget(run(_check_all(load_plugins(installed, in_process=in_process), cases)))
    place = home()
    own = None if place is None else layout.read(place, layout.canonical(target))
    if own is None or place is None:
        raise InvalidRequest(
            f"target: {target!r} is neither a project's folder nor a wheel, nor an installed"
            " plugin's or distribution's name"
        )
    if in_process:
        raise _host_required(target)
    return _check_wheels(place, own, cases)


def _check_wheels(home: Path, one: InstalledDistribution, cases: Sequence[Cases]) -> CheckedTarget:
    """Check a distribution of unpacked wheels, and that the check does not change its files.

    Raises:
        FolderError: if they changed.
    """
    digest = layout.tree_digest(one.folder)
    reports = run(_check_all(load_plugins(own=(home, one)), cases))
    if layout.tree_digest(one.folder) != digest:
        raise FolderError(f"{one.folder} changed while it was checked")
    return CheckedTarget(reports, one, digest)


def _host_required(target: str) -> InvalidRequest:
    return InvalidRequest(
        f"target: only plugin hosts import {target}; to check in process, give a project's folder"
    )


def _read_terms(new: InstalledDistribution) -> Mapping[str, Terms]:
    """Return everything that its plugins' manifests declare, accepted for this check only."""
    try:
        return declared_terms(new, (new.name,))
    except FolderError:
        return {}  # its check reports the error


@asynccontextmanager
async def open_conformance() -> AsyncIterator[Stand]:
    """Yield a stand whose secrets are canaries, which are also set in the environment."""
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
    """Check one plugin on `stand`, or on a new stand, and return the report.

    Args:
        given: arguments for the check of its kind (`check_skill` and so on).

    Raises:
        InvalidRequest: if there is no such plugin of the kind, or a plugin host cannot import it.
    """
    entry_point = entry_point_of(plugin)
    name, found = entry_point.name, KINDS[entry_point.group]
    if kind not in (None, found):
        raise InvalidRequest(f"target: {name!r} is a {found}, not a {kind}")
    async with load_plugins([entry_point], in_process=in_process) as [subject]:
        return await check_subject(subject, stand, **given)


async def check_subject(
    subject: Subject,
    stand: Stand | None = None,
    **given: Any,
) -> Report:
    """Check a loaded plugin and return the report; `given` as in `check`."""
    target = subject.target
    tiered = subject.host is not None
    findings = [_contract_finding(target)]
    if subject.host is not None:
        findings.append(subject.host)
    if target.problem is not None:
        return _make_report(target, findings)
    async with contextlib.AsyncExitStack() as stack:
        if target.kind == "skill":
            given["stand"] = stand or await stack.enter_async_context(open_conformance())
        of_kind = _FINDINGS[target.kind]
        findings += await of_kind(target.loaded, subject.watch, tiered=tiered, **given)
    if tiered:
        findings += _higher_tier_findings(subject)
    return _make_report(target, findings)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end on a new event loop, even if a plugin's task ignores cancellation."""
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
        given = _case_arguments(subjects, cases)
        return [
            await check_subject(each, stand, **given.get((each.target.kind, each.target.name), {}))
            for each in subjects
        ]


def _case_arguments(
    subjects: Sequence[Subject], cases: Sequence[Cases]
) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Return the cases as arguments of `check_subject`, by the plugin's kind and name.

    Raises:
        InvalidRequest: if cases are for a plugin that is not checked.
    """
    targets = {(each.target.kind, each.target.name) for each in subjects}
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for each in cases:
        target = (each.kind, each.plugin)
        if target not in targets:
            raise InvalidRequest(
                f"plugin: the cases are for the {each.kind} {each.plugin!r}, which is not checked"
            )
        found[target] = each.given
    return found


def _higher_tier_findings(subject: Subject) -> list[Finding]:
    """Return the findings of the higher tiers' checks that apply to every kind."""
    target = subject.target
    spec = getattr(target.loaded, "spec", None)
    asked = subject.watch.requests_of(target.name)
    found = [manifest_finding(spec, asked, stores=subject.watch.has_stored_files), subject.wheels]
    if target.kind != "skill":
        found.append(Finding("money", Outcome.OK, "moves none"))
    return found


def _contract_finding(target: Target) -> Finding:
    problem = target.problem
    if problem is None:
        return Finding("contract", Outcome.OK, "loads as in the service")
    name = "schema" if problem.code is ProblemCode.BAD_SCHEMA else "contract"
    return Finding(name, Outcome.FAILED, f"{problem.code}: {problem.detail}")


def _make_report(target: Target, findings: Sequence[Finding]) -> Report:
    return Report(target.name, target.kind, target.distribution, target.version, tuple(findings))


# The note about checks that need a process of the plugin's own.
_UNCHECKED: Final = "limits by plugin host, confinement and manifest were not checked"


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin to check, and where it runs.

    Attributes:
        host: whether it runs in a plugin host, as in production; None for a built-in plugin, which
            runs in the service's own process.
        wheels: whether the hashes of all its code are known.
    """

    target: Target
    watch: Watch
    host: Finding | None
    wheels: Finding


@asynccontextmanager
async def load_plugins(
    entry_points: Sequence[EntryPoint] = (),
    *,
    own: tuple[Path, InstalledDistribution] | None = None,
    in_process: bool = False,
) -> AsyncIterator[list[Subject]]:
    """Yield the plugins of these entry points, in the order given, until the block ends.

    Args:
        own: a home, and a distribution in a folder of its own there, whose plugins to load instead.
        in_process: import them into this process, for debugging.

    Raises:
        InvalidRequest: if a plugin host cannot import such an object, or this process may not.
    """
    candidates = [candidate_of(each) for each in entry_points]
    if own is not None:
        candidates = folder_candidates(own[1])
    if in_process:
        where = f"in this process, for debugging: {_UNCHECKED}"
        with _load_in_process(candidates, where) as subjects:
            yield subjects
        return
    names = {canonical(each.distribution) for each in candidates}
    kept = tempfile.TemporaryDirectory(prefix="solward-check-")
    hosts = PluginHosts(
        lambda on_fault: Hosts(unconfined=names, on_fault=on_fault),
        tenant=TENANT,
        capabilities=WatchedCapabilities,
        secret=plugin_secret,
        home=Path(kept.name),
    )
    try:
        await hosts.import_candidates(())
        try:
            unconfined = await hosts.hosts.unavailable()
        except (OSError, ZygoteEnded) as error:
            if own is not None:
                raise InvalidRequest(
                    f"target: no plugin host starts here ({error}), and only a host imports a wheel"
                ) from None
            where = f"in this process, because no plugin host starts ({error}): {_UNCHECKED}"
            with _load_in_process(candidates, where) as subjects:
                yield subjects
            return
        home = None if own is None else own[0]
        yield await _load_into_hosts(candidates, hosts, home, unconfined, Path(kept.name))
    finally:
        await hosts.close()
        kept.cleanup()


async def _load_into_hosts(
    candidates: Sequence[Candidate],
    hosts: PluginHosts,
    home: Path | None,
    unconfined: str | None,
    kept: Path,
) -> list[Subject]:
    others = [each for each in candidates if not each.built_in]
    problems: dict[tuple[str, str], Any] = {}
    for each in others:
        if each.installed is None and not each.entry_point.value:
            raise InvalidRequest(
                f"target: {each.name!r} is an object of this process, and a plugin host imports by"
                " name: give 'module:object', or in_process=True"
            )
        found = conflict(each.entry_point)
        if found is not None:
            problems[each.group, each.name] = found
    registry = await open_registry(
        ("*",) if home is None else tuple({each.distribution for each in others}),
        hosts=hosts,
        demo=True,
        entry_points=[
            each.entry_point
            for each in others
            if each.installed is None and (each.group, each.name) not in problems
        ],
        home=home,
    )
    problems |= {(each.group, each.plugin): each for each in registry.problems}
    host = Finding("host", Outcome.OK, "in a plugin host, confined as in production")
    if unconfined is not None:
        detail = f"in a plugin host that this machine cannot confine ({unconfined})"
        host = Finding("host", Outcome.SKIPPED, f"{detail}: confinement was not checked")
    subjects = []
    for each in candidates:
        if each.built_in:
            subjects.append(replace(_load_here(each, ""), host=None))
            continue
        kind, problem = KINDS[each.group], problems.get((each.group, each.name))
        plugin = None if problem is not None else loaded_of(registry, kind, each.name)
        target = Target(each.name, kind, each.distribution, each.version, plugin, problem)
        tenant = hosts.host_of(each.group, each.name)
        watch = (
            ProcessWatch()
            if tenant is None
            else HostWatch(tenant, storage_folder(kept, canonical(each.distribution)))
        )
        subjects.append(Subject(target, watch, host, _wheels_finding(each.installed)))
    return subjects


@contextmanager
def _load_in_process(candidates: Sequence[Candidate], where: str) -> Iterator[list[Subject]]:
    """Yield plugins that run in this process, with their manifests' secrets in the environment."""
    subjects = [_load_here(each, where) for each in candidates]
    specs = [
        each.target.loaded.spec for each in subjects if isinstance(each.target.loaded, LoadedSkill)
    ]
    missing = {
        env for spec in specs for env in Terms.from_spec(spec).secrets() if env not in os.environ
    }
    os.environ.update({env: plugin_secret(env) for env in missing})
    try:
        yield subjects
    finally:
        for env in missing:
            os.environ.pop(env, None)


def _load_here(candidate: Candidate, where: str) -> Subject:
    """Load a plugin into this process and observe its hooks."""
    target, watch = load_target(candidate.entry_point), ProcessWatch()
    observe = watch.observer.observe_hook
    plugin = target.loaded
    if target.kind == "guardrail" and plugin is not None:
        function = plugin.function
        rule = observe("guardrail_check", lambda intent, effects: function(intent, effects))
        plugin = ThreadedRule(lambda intent, effects: rule(intent=intent, effects=effects))
    elif plugin is not None:
        calls = {hook: observe(hook, call) for hook, call in plugin.calls.items()}
        plugin = replace(plugin, calls=calls)
    host = Finding("host", Outcome.SKIPPED, where)
    return Subject(replace(target, loaded=plugin), watch, host, _wheels_finding(None))


def _wheels_finding(own: InstalledDistribution | None) -> Finding:
    if own is None:
        detail = "checked from files that may change; give its wheel instead"
        return Finding("wheels", Outcome.SKIPPED, detail)
    if own.left_out:
        return Finding("wheels", Outcome.WARNING, f"has files that are left out: {own.left_out[0]}")
    return Finding("wheels", Outcome.OK, f"{len(own.wheels)} with their SHA-256")
