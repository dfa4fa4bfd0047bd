"""Loads the plugins to check: into plugin hosts as the service does, or into this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

from solward.hosts.forking import ZygoteEnded
from solward.hosts.plugins import PluginHosts
from solward.hosts.supervisor import Hosts
from solward.plugins import LoadedSkill, open_registry
from solward.plugins.discovery import Candidate, candidate_of, canonical, of_folder
from solward.plugins.folders.layout import Installed
from solward.plugins.folders.storage import storage_folder
from solward.plugins.threaded import ThreadedRule
from solward.testing.canaries import plugin_secret
from solward.testing.conformance.report import Finding, Outcome
from solward.testing.conformance.tenant import TENANT
from solward.testing.conformance.watch import HostWatch, ProcessWatch, Watch, WatchedCapabilities
from solward.testing.targets import KINDS, Target, conflict, load_target, loaded_of
from solward.types.errors import InvalidRequest
from solward.types.manifest import Terms

# Of what no process of its own can show.
_UNSEEN: Final = "not checked is what its plugin host, confinement and manifest would refuse"


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin to check, and where it runs.

    Attributes:
        host: whether that is a plugin host as in production; None for a built-in plugin, which
            runs in the service's own process there.
        wheels: whether the hashes of all that runs are known.
    """

    target: Target
    watch: Watch
    host: Finding | None
    wheels: Finding


@asynccontextmanager
async def loaded(
    entry_points: Sequence[EntryPoint] = (),
    *,
    own: tuple[Path, Installed] | None = None,
    in_process: bool = False,
) -> AsyncIterator[list[Subject]]:
    """The plugins of these entry points, in their order, until the block ends.

    Args:
        own: a home, and the distribution in a folder of its own there, whose plugins they are.
        in_process: import them into this process, for debugging.

    Raises:
        InvalidRequest: a plugin host cannot import such an object, or this process may not.
    """
    candidates = [candidate_of(each) for each in entry_points]
    if own is not None:
        candidates = of_folder(own[1])
    if in_process:
        where = f"in this process, for debugging: {_UNSEEN}"
        with _in_process(candidates, where) as subjects:
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
        await hosts.declared(())
        try:
            unconfined = await hosts.hosts.unavailable()
        except (OSError, ZygoteEnded) as error:
            if own is not None:
                raise InvalidRequest(
                    f"target: no plugin host starts here ({error}); nothing else imports a wheel"
                ) from None
            where = f"in this process, as no plugin host starts here ({error}): {_UNSEEN}"
            with _in_process(candidates, where) as subjects:
                yield subjects
            return
        home = None if own is None else own[0]
        yield await _hosted(candidates, hosts, home, unconfined, Path(kept.name))
    finally:
        await hosts.close()
        kept.cleanup()


async def _hosted(
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
        host = Finding("host", Outcome.SKIPPED, f"{detail}: not checked is what that refuses")
    subjects = []
    for each in candidates:
        if each.built_in:
            subjects.append(replace(_here(each, ""), host=None))
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
        subjects.append(Subject(target, watch, host, _wheels(each.installed)))
    return subjects


@contextmanager
def _in_process(candidates: Sequence[Candidate], where: str) -> Iterator[list[Subject]]:
    """Plugins in this process; the secrets of their manifests are set meanwhile."""
    subjects = [_here(each, where) for each in candidates]
    specs = [
        each.target.loaded.spec for each in subjects if isinstance(each.target.loaded, LoadedSkill)
    ]
    missing = {env for spec in specs for env in Terms.of(spec).secrets() if env not in os.environ}
    os.environ.update({env: plugin_secret(env) for env in missing})
    try:
        yield subjects
    finally:
        for env in missing:
            os.environ.pop(env, None)


def _here(candidate: Candidate, where: str) -> Subject:
    """A plugin in this process, its hooks observed."""
    target, watch = load_target(candidate.entry_point), ProcessWatch()
    watched = watch.observer.watched
    plugin = target.loaded
    if target.kind == "guardrail" and plugin is not None:
        function = plugin.function
        rule = watched("guardrail_check", lambda intent, effects: function(intent, effects))
        plugin = ThreadedRule(lambda intent, effects: rule(intent=intent, effects=effects))
    elif target.kind == "skill" and plugin is not None:
        plugin = replace(plugin, call=watched("skill_execute", plugin.call))
    elif target.kind == "provider" and plugin is not None:
        plugin = replace(plugin, call=watched("provider_complete", plugin.call))
    host = Finding("host", Outcome.SKIPPED, where)
    return Subject(replace(target, loaded=plugin), watch, host, _wheels(None))


def _wheels(own: Installed | None) -> Finding:
    if own is None:
        detail = "checked where it stands, whose files may change; give its wheel"
        return Finding("wheels", Outcome.SKIPPED, detail)
    if own.left_out:
        return Finding("wheels", Outcome.WARNING, f"has files that are left out: {own.left_out[0]}")
    return Finding("wheels", Outcome.OK, f"{len(own.wheels)} with their SHA-256")
