"""Checks of whole targets: find the plugins, open a stand, run the checks of each."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from solward.extras import needs

with needs("solward.testing.conformance", "test"):
    from structlog.testing import capture_logs

from solward.errors import InvalidRequest
from solward.registry.problems import ProblemCode
from solward.testing.canaries import Canaries
from solward.testing.conformance.guardrails import guardrail_findings
from solward.testing.conformance.observed_run import Case
from solward.testing.conformance.providers import provider_findings
from solward.testing.conformance.report import Finding, Outcome, Report
from solward.testing.conformance.skills import skill_findings
from solward.testing.conformance.venues import venue_findings
from solward.testing.stand import Stand, open_stand
from solward.testing.targets import (
    Target,
    folder,
    installed_entry_points,
    load_target,
    target_of,
)

if TYPE_CHECKING:
    import httpx

    from solward.venue import QuoteRequest

T = TypeVar("T")

# How long cancelled tasks of a plugin have before their loop is closed.
_CANCEL_WAIT_S = 1.0


def reports_of(target: str) -> list[Report]:
    """See `conformance.check_path_or_name`."""
    path = Path(target)
    if path.is_dir():
        with folder(path.resolve()) as found:
            return run(_check_all(found))
    installed = installed_entry_points(target)
    if not installed:
        raise InvalidRequest(
            f"target: {target!r} is neither a project's folder nor an installed plugin's or"
            " distribution's name"
        )
    return run(_check_all(installed))


@asynccontextmanager
async def open_conformance() -> AsyncIterator[Stand]:
    """A stand with canaries as its secrets, in the environment too."""
    canaries = Canaries()
    async with contextlib.AsyncExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="solward-check-"))
        stack.enter_context(capture_logs())
        stack.enter_context(canaries.in_environment())
        yield await stack.enter_async_context(
            open_stand(Path(home), canaries=canaries, **canaries.settings)
        )


async def check(
    plugin: object,
    stand: Stand | None,
    *,
    cases: Sequence[Case] = (),
    address: str | None = None,
    refused: Sequence[Any] = (),
    allowed: Sequence[Any] = (),
    held: Sequence[Any] = (),
    http: httpx.AsyncClient | None = None,
    requests: Sequence[QuoteRequest] = (),
    kind: str | None = None,
) -> Report:
    """The report of one plugin, on `stand` or one opened for it.

    Raises:
        InvalidRequest: there is no such plugin, or it is of another kind.
    """
    target = plugin if isinstance(plugin, Target) else target_of(plugin)
    if kind not in (None, target.kind):
        raise InvalidRequest(f"target: {target.name!r} is a {target.kind}, not a {kind}")
    findings = [_contract(target)]
    if target.problem is not None:
        return _report(target, findings)
    if target.kind == "skill":
        if stand is None:
            async with open_conformance() as opened:
                findings += await skill_findings(target.loaded, opened, cases)
        else:
            findings += await skill_findings(target.loaded, stand, cases)
    elif target.kind == "provider":
        findings += await provider_findings(target.loaded, address)
    elif target.kind == "guardrail":
        findings += guardrail_findings(target.loaded, refused, allowed, held)
    else:
        findings += await venue_findings(target.loaded, http, requests)
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


async def _check_all(entry_points: Sequence[EntryPoint]) -> list[Report]:
    targets = [load_target(each) for each in entry_points]
    async with contextlib.AsyncExitStack() as stack:
        stand = None
        if any(each.kind == "skill" and each.problem is None for each in targets):
            stand = await stack.enter_async_context(open_conformance())
        return [await check(each, stand) for each in targets]


def _contract(target: Target) -> Finding:
    problem = target.problem
    if problem is None:
        return Finding("contract", Outcome.OK, "loads as the service loads it")
    name = "schema" if problem.code is ProblemCode.BAD_SCHEMA else "contract"
    return Finding(name, Outcome.FAILED, f"{problem.code}: {problem.detail}")


def _report(target: Target, findings: Sequence[Finding]) -> Report:
    return Report(target.name, target.kind, target.distribution, target.version, tuple(findings))
