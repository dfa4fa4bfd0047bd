"""The plugins of a running service. They are loaded at its start, and again when an installation in
its own folder changes, in the home of this or of another process.

Commands do not notify the service. It compares the records in its home, and the database's list of
commands, with the running plugins. So no command is lost, and a killed command has changed all or
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from solward.database.database import Database
from solward.hosts.models import ModelHosts
from solward.hosts.plugins import PluginHosts
from solward.plugins import acts as plugin_acts
from solward.plugins.acts import PluginAct
from solward.plugins.discovery import Candidate, Folders, Place, disabled, environment, survey
from solward.plugins.folders import layout
from solward.plugins.folders.layout import InstalledDistribution, State, canonical
from solward.plugins.hooks import GUARDRAILS
from solward.plugins.load import LoadedPlugin, load_plugins, make_registry
from solward.plugins.loaded import Registry
from solward.settings import Settings
from solward.support.tasks import in_background
from solward.telemetry import metrics
from solward.types.errors import StoreError
from solward.types.manifest import Problem, ProblemCode, Rejected, shorten_text

POLL_S: Final = 1.0
"""The maximum delay until a change in the home or in the database is noticed."""

_log = structlog.get_logger(__name__)

_Plugin = tuple[Candidate, LoadedPlugin | Rejected]
_PluginKey = tuple[str, str, str]
_OtherVersions = list[tuple[str, dict[str, str]]]


@dataclass(slots=True)
class _RunningPlugins:
    """A distribution from its own folder, as loaded by this process.

    Attributes:
        act: the id of the command on which all processes agreed at that time.
        ended: whether its hosts were ended because it was disabled or removed.
    """

    one: InstalledDistribution
    act: str
    plugins: list[_Plugin]
    ended: bool = False

    @property
    def candidates(self) -> list[Candidate]:
        return [candidate for candidate, _ in self.plugins]

    @property
    def is_whole(self) -> bool:
        return not any(isinstance(each, Rejected) for _, each in self.plugins)


@dataclass(frozen=True, slots=True)
class _LoadPlan:
    """The installation of a distribution that this process loads, or why it loads none.

    Attributes:
        one: the installation in this process's home.
        news: the command that made the installation, if no process has stored it yet.
        agreed: the command on which all processes agree once `news` is stored.
        before: the command on which they agreed before.
        withheld: the reason why no plugin of `one` is loaded; None if they are loaded.
    """

    name: str
    one: InstalledDistribution | None
    news: PluginAct | None
    agreed: PluginAct
    before: PluginAct | None
    withheld: tuple[ProblemCode, str] | None

    @property
    def is_mismatch(self) -> bool:
        return self.withheld is not None and self.withheld[0] is ProblemCode.VERSION_MISMATCH

    def may_continue(self, running: _RunningPlugins) -> bool:
        """Return whether plugins that already run continue to run."""
        if running.ended:
            return False
        return self.withheld is None or (self.is_mismatch and self.may_stay(running))

    @property
    def is_disabled(self) -> bool:
        """True if the distribution was disabled or removed."""
        return self.withheld is not None and self.withheld[0] is ProblemCode.DISABLED

    def may_stay(self, running: _RunningPlugins) -> bool:
        """Return whether running plugins, whose files all processes agree on, may continue."""
        agreed = self.agreed if self.is_mismatch else self.before
        return agreed is not None and agreed.enabled and agreed.digest == running.one.digest


@dataclass(frozen=True, slots=True)
class _PluginState:
    """The installed plugins: records in the home, commands and versions in the database."""

    fingerprint: Hashable
    state: State
    acts: Sequence[PluginAct]
    others: _OtherVersions


class LivePlugins:
    """Loads the plugins, and reloads third parties' plugins when their installations change."""

    def __init__(
        self,
        settings: Settings,
        home: Path,
        database: Database,
        process_id: str,
        hosts: PluginHosts,
        models: ModelHosts,
        *,
        demo: bool,
    ) -> None:
        """Create the plugins of a process, with none loaded yet.

        Args:
            settings: name the distributions whose plugins may be loaded.
            home: this process's home.
            process_id: this process's id in the database.
            hosts: run third parties' plugins.
            models: run the built-in language model providers.
            demo: whether to load demo providers too.
        """
        self.on_change: Callable[[Registry], object] = lambda _registry: None
        """Called with the new registry after each reload."""
        self.registry = _NOTHING
        """The current plugins. A run in progress continues with the plugins from its start."""
        self._allow = settings.plugins
        self._home = home
        self._database = database
        self._process_id = process_id
        self.hosts = hosts
        self._models = models
        self._demo = demo
        # Changes by pip take effect at the next start. The environment is read once, with names and
        # versions, because those of a removed distribution could not be read later.
        self._candidates, self._unreadable = environment()
        self._environment: dict[_PluginKey, _Plugin] = {}
        self._running: dict[str, _RunningPlugins] = {}
        # Upgrades that could not be loaded, each with the command's id and the problems.
        self._failed: dict[str, tuple[str, list[Problem]]] = {}
        self._seen: _PluginState | None = None

    @asynccontextmanager
    async def reloading(self) -> AsyncIterator[None]:
        """Load plugins again after every change, until the block ends."""
        async with in_background(self._reload_on_change(), "solward-plugins"):
            yield

    async def _reload_on_change(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                if await self._has_state_changed():
                    await self._reload()
            except StoreError as error:
                _log.warning("plugins_not_compared", error=str(error))
            except Exception:
                # The running plugins continue, and the next round tries again.
                _log.exception("plugins_not_loaded")

    async def _reload(self) -> None:
        """Load plugins again, and end disabled plugins even while an import takes long."""
        loading = asyncio.create_task(self.load())
        try:
            while not loading.done():
                await asyncio.wait([loading], timeout=POLL_S)
                if not loading.done():
                    with contextlib.suppress(StoreError):
                        await self._end_disabled_plugins()
            loading.result()
        finally:
            loading.cancel()

    async def _end_disabled_plugins(self) -> None:
        """End plugins that were disabled or removed while `load` was running."""
        view = await self._read_state()
        targets = {name: _make_plan(name, view) for name in self._running}
        ended = {
            name: running
            for name, running in self._running.items()
            if targets[name].is_disabled and not running.ended
        }
        if not ended:
            return
        if self._database.shared:
            news = [targets[name].news for name in ended]
            async with self._database.write() as connection:
                await plugin_acts.store(connection, [each for each in news if each is not None])
        self._use_registry(self.registry.without_distributions(ended))
        for name, running in ended.items():
            running.ended = True
            self.hosts.retire(running.candidates, _why_ended(targets[name]), drain=False)

    def _use_registry(self, registry: Registry) -> Registry:
        before, self.registry = self.registry, registry
        if registry != before:
            _log_problems(before.problems, registry.problems)
            self.on_change(registry)
        return registry

    def add_problem(self, problem: Problem) -> None:
        """Add a problem that occurred after the plugins were loaded."""
        before = self.registry.problems
        if problem not in before:
            self.registry = replace(self.registry, problems=(*before, problem))
            _log_problems(before, self.registry.problems)

    async def _has_state_changed(self) -> bool:
        seen = self._seen
        if seen is None:
            return True
        if await asyncio.to_thread(layout.fingerprint, self._home) != seen.fingerprint:
            return True
        if not self._database.shared:
            return False
        async with self._database.read() as connection:
            acts = await plugin_acts.count(connection)
            others = await plugin_acts.published_versions(connection, self._process_id)
        return acts != len(seen.acts) or others != seen.others

    async def load(self) -> Registry:
        """Load the plugins that are installed and enabled now; running plugins do not change.

        Calls must not overlap.

        Raises:
            StoreError: the database does not answer; nothing has changed.
            PluginError: a built-in plugin is broken.
        """
        view = await self._read_state()
        targets = {name: _make_plan(name, view) for name in _distribution_names(view)}
        for name, target in targets.items():
            if not await asyncio.to_thread(self._is_intact, target):
                detail = "its files changed after you accepted them: install this version again"
                withheld = ProblemCode.VERSION_MISMATCH, detail
                targets[name] = replace(target, withheld=withheld)
        folders = Folders(
            [each.one for each in targets.values() if each.one and not each.is_mismatch],
            {name: each.withheld for name, each in targets.items() if each.withheld},
            view.state.unreadable,
        )
        chosen, problems, places = await asyncio.to_thread(
            survey, self._allow, self._candidates, folders
        )
        versions = _environment_versions(places)
        acts = {name: each.agreed.id for name, each in targets.items()}
        self._failed = {
            name: each for name, each in self._failed.items() if acts.get(name) == each[0]
        }
        started = await self._load_missing(chosen, targets)
        failed = {name for name in started if self._is_rejected(started[name], targets[name])}
        running = {name: each for name, each in started.items() if name not in failed}
        for name, old in self._running.items():
            if name in targets and name not in running and targets[name].may_continue(old):
                running[name] = old
        try:
            await self._store([_new_act(each, running) for each in targets.values()], versions)
        except BaseException:
            for each in started.values():
                self.hosts.retire(each.candidates, _NOT_USED, drain=False)
            raise
        for name in failed:
            self.hosts.retire(started[name].candidates, _NOT_USED, drain=False)
            self._failed[name] = (acts[name], _upgrade_problems(started[name]))
        self._replace_running(running, targets)
        stays = [
            name
            for name, each in running.items()
            if targets[name].is_mismatch or each.one.digest != _plan_digest(targets[name])
        ]
        problems += [*self._unreadable, *self.hosts.faults()]
        problems += _environment_problems(versions, view.others)
        for target in targets.values():
            problems += self._plan_problems(target)
            if target.is_mismatch and target.one is not None:
                places += (Place(target.name, target.one.version, target.one),)
        self._seen = view
        registry = make_registry(self._loaded_plugins(chosen, stays), problems, places, self._demo)
        return self._use_registry(registry)

    @staticmethod
    def _is_intact(target: _LoadPlan) -> bool:
        """Return whether the installed files are complete; a lost file could hide a plugin."""
        one = target.one
        if target.withheld is not None or one is None:
            return True
        try:
            return layout.tree_digest(one.folder) == one.digest
        except (OSError, ValueError):
            return False

    async def _read_state(self) -> _PluginState:
        # Read before the state, so that the next round notices any change in between.
        fingerprint = await asyncio.to_thread(layout.fingerprint, self._home)
        state = await asyncio.to_thread(layout.state, self._home)
        others: _OtherVersions = []
        async with self._database.read() as connection:
            acts = await plugin_acts.stored_acts(connection)
            if self._database.shared:
                others = await plugin_acts.published_versions(connection, self._process_id)
        return _PluginState(fingerprint, state, acts, others)

    async def _load_missing(
        self, chosen: Sequence[Candidate], targets: Mapping[str, _LoadPlan]
    ) -> dict[str, _RunningPlugins]:
        """Load the plugins that do not run yet; the environment's plugins are loaded only once."""
        own = {each.distribution for each in chosen if each.installed is not None}
        again = {name for name in own if self._must_load(targets[name], chosen)}
        wanted = [
            each
            for each in chosen
            if each.distribution in again
            or (each.installed is None and _key(each) not in self._environment)
        ]
        started: dict[str, _RunningPlugins] = {}
        for candidate, plugin in await load_plugins(wanted, self.hosts, self._models):
            one, name = candidate.installed, candidate.distribution
            if one is None:
                self._environment[_key(candidate)] = (candidate, plugin)
                continue
            running = started.setdefault(name, _RunningPlugins(one, targets[name].agreed.id, []))
            running.plugins.append((candidate, plugin))
        return started

    def _must_load(self, target: _LoadPlan, chosen: Sequence[Candidate]) -> bool:
        """Return whether a distribution must be loaded, because this installation does not run."""
        running, one = self._running.get(target.name), target.one
        if running is None or running.ended or one is None:
            return one is not None
        if target.name in self._failed and target.may_stay(running):
            return False
        if running.act != target.agreed.id and not running.is_whole:
            return True
        if (running.one.folder, running.one.accepted) != (one.folder, one.accepted):
            return True
        has = set(map(_key, running.candidates))
        return any(_key(each) not in has for each in chosen if each.distribution == target.name)

    def _is_rejected(self, started: _RunningPlugins, target: _LoadPlan) -> bool:
        """Return whether an upgrade is rejected, because some of its plugins were not loaded."""
        old = self._running.get(target.name)
        return old is not None and not started.is_whole and target.may_stay(old)

    async def _store(self, news: Sequence[PluginAct | None], versions: Mapping[str, str]) -> None:
        acts = [each for each in news if each is not None]
        if not acts and not self._database.shared:
            return
        async with self._database.write() as connection:
            await plugin_acts.store(connection, acts)
            if self._database.shared:
                await plugin_acts.publish_versions(connection, self._process_id, versions)

    def _replace_running(
        self, running: dict[str, _RunningPlugins], targets: Mapping[str, _LoadPlan]
    ) -> None:
        """Use these plugins from now on; replaced plugins may finish their calls, others end."""
        before, self._running = self._running, running
        for name, old in before.items():
            target, new = targets.get(name), running.get(name)
            if target is None or new is None:
                self.hosts.retire(old.candidates, _why_ended(target), drain=False)
            elif new is not old:
                reason = f"version {new.one.version} has replaced it"
                self.hosts.retire(old.candidates, reason, drain=True)
            elif old.act != target.agreed.id and target.withheld is None:
                # The distribution was enabled again.
                self.hosts.enable(old.candidates)
                old.act = target.agreed.id

    def _plan_problems(self, target: _LoadPlan) -> list[Problem]:
        if target.is_mismatch and target.withheld is not None:
            code, detail = target.withheld
            version = "" if target.one is None else target.one.version
            found = [Problem(code, "*", target.name, detail, version=version)]
            if target.name not in self._running:
                found += [
                    Problem(code, rule, target.name, detail, GUARDRAILS, version)
                    for rule in target.agreed.guardrails
                ]
            return found
        _, problems = self._failed.get(target.name, ("", []))
        return problems

    def _loaded_plugins(self, chosen: Sequence[Candidate], stays: Collection[str]) -> list[_Plugin]:
        """Return the loaded plugins, built-ins first and then by kind and name."""
        names = set(map(_key, chosen))
        every = list(self._environment.values())
        every += [pair for each in self._running.values() for pair in each.plugins]
        return sorted(
            (pair for pair in every if _key(pair[0]) in names or pair[0].distribution in stays),
            key=lambda pair: (not pair[0].built_in, pair[0].group, pair[0].name),
        )


_NOT_USED: Final = "this version is not used"
_NOTHING: Final = Registry({}, {}, {}, {}, (), ())


def _log_problems(before: Collection[Problem], now: Collection[Problem]) -> None:
    """Log new problems of plugins, and count all problems."""
    for problem in now:
        if problem not in before:
            _log.warning("plugin_problem", problem=str(problem))
    metrics.PLUGIN_PROBLEMS.clear()
    for code, count in Counter(each.code.value for each in now).items():
        metrics.PLUGIN_PROBLEMS.labels(code).set(count)


def _key(candidate: Candidate) -> _PluginKey:
    return candidate.group, candidate.name, canonical(candidate.distribution)


def _distribution_names(view: _PluginState) -> list[str]:
    return sorted({*view.state.installed, *(each.distribution for each in view.acts)})


def _make_plan(name: str, view: _PluginState) -> _LoadPlan:
    acts = [each for each in view.acts if each.distribution == name]
    one, removed = view.state.installed.get(name), view.state.removed.get(name)
    local: PluginAct | None = None
    if one is not None:
        rules = [each.name for each in one.plugins if each.group == GUARDRAILS]
        local = PluginAct(one.act.id, name, one.act.ms, one.version, one.digest, one.enabled, rules)
    elif removed is not None and name not in view.state.unreadable:
        local = PluginAct(removed.id, name, removed.ms, None, None, False)
    news = local if local and local.id not in {each.id for each in acts} else None
    before = plugin_acts.newest_acts(acts).get(name)
    agreed = plugin_acts.newest_acts([*acts, *([news] if news else [])])[name]
    if one is not None:
        # This is its state for other processes, even if its own record is different.
        one = replace(one, enabled=agreed.enabled)
    return _LoadPlan(name, one, news, agreed, before, _why_withheld(one, agreed))


def _why_withheld(
    one: InstalledDistribution | None, agreed: PluginAct
) -> tuple[ProblemCode, str] | None:
    name = agreed.distribution
    if agreed.digest is None:
        detail = f"another process removed it; run solward plugins remove {name} here"
        return ProblemCode.DISABLED, detail
    if not agreed.enabled:
        return disabled(name)
    if one is not None and one.digest == agreed.digest:
        return None
    has = "none of it" if one is None else f"{one.version} ({one.digest[:12]})"
    return ProblemCode.VERSION_MISMATCH, (
        f"this service has agreed on {agreed.version} ({agreed.digest[:12]}), but this process has"
        f" {has}: install that version here, or run solward plugins remove --lost {name}"
    )


def _new_act(target: _LoadPlan, running: Mapping[str, _RunningPlugins]) -> PluginAct | None:
    """Return the command to store; None if its version could not be loaded."""
    here = running.get(target.name)
    is_loaded = here is None or (here.is_whole and here.one.digest == _plan_digest(target))
    return target.news if target.withheld is not None or is_loaded else None


def _plan_digest(target: _LoadPlan) -> str | None:
    return None if target.one is None else target.one.digest


def _why_ended(target: _LoadPlan | None) -> str:
    if target is None or target.agreed.digest is None:
        return "it was removed"
    return "the processes agreed on another version" if target.is_mismatch else "it was disabled"


def _upgrade_problems(failed: _RunningPlugins) -> list[Problem]:
    return [
        candidate.problem(
            ProblemCode.UPGRADE_FAILED,
            f"{failed.one.version} cannot be loaded, so the previous version stays in use:"
            f" {plugin.code}: {plugin.detail}",
        )
        for candidate, plugin in failed.plugins
        if isinstance(plugin, Rejected)
    ]


def _environment_versions(places: Sequence[Place]) -> dict[str, str]:
    """Return the versions of third parties' distributions in the service's environment."""
    return {canonical(each.distribution): each.version for each in places if not each.installed}


def _environment_problems(mine: Mapping[str, str], published: _OtherVersions) -> list[Problem]:
    """Return a problem for each distribution that differs in another process's environment."""
    found: list[Problem] = []
    for name in sorted({*mine, *(name for _, theirs in published for name in theirs)}):
        others = [
            f"{who} has {theirs.get(name, 'none of it')}"
            for who, theirs in published
            if theirs.get(name) != mine.get(name)
        ]
        if others:
            detail = f"{', '.join(others)}; this process has {mine.get(name, 'none of it')}"
            found.append(
                Problem(
                    ProblemCode.VERSION_MISMATCH, "*", name, shorten_text(detail),
                    version=mine.get(name, ""),
                )
            )  # fmt: skip
    return found
