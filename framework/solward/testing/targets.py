"""Look-up of plugins by an entry point's name, a module, an object, or a project's folder."""

from __future__ import annotations

import contextlib
import importlib
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from solward.plugins.discovery import BUILT_IN, discover
from solward.plugins.folders.layout import canonical
from solward.plugins.hooks import HOOKS
from solward.plugins.load import load_registry
from solward.plugins.loaded import LoadedPayment, LoadedProvider, LoadedSkill, LoadedVenue, Registry
from solward.types.errors import InvalidRequest, PluginError
from solward.types.manifest import GROUPS, KINDS, Problem, ProblemCode, misspelt_group

LoadedPlugin = LoadedSkill | LoadedProvider | LoadedVenue | LoadedPayment | Any


class UninstalledEntryPoint(EntryPoint):
    """An entry point that is not installed: from a project's folder, or for a plugin object."""

    def __init__(
        self,
        name: str,
        value: str,
        group: str,
        distribution: Distribution | None = None,
        plugin: object = None,
    ) -> None:
        super().__init__(name, value, group)
        vars(self).update(dist=distribution, plugin=plugin)

    def load(self) -> Any:
        """Return the plugin object, or the imported module."""
        plugin = vars(self)["plugin"]
        return super().load() if plugin is None else plugin


class FolderDistribution(Distribution):
    """A distribution for a project's folder that is not installed."""

    def __init__(self, name: str, version: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        """See `Distribution.read_text`; it has only metadata, with name and version."""
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """See `Distribution.locate_file`; no file of it is installed."""
        return Path(path)


@dataclass(frozen=True, slots=True)
class Target:
    """One plugin to check, loaded or with the problem that prevented it.

    Attributes:
        kind: `skill`, `provider`, `venue`, `payment` or `guardrail`.
        loaded: the registry's plugin, or a guardrail's function; None if there is a problem.
    """

    name: str
    kind: str
    distribution: str
    version: str
    loaded: Any
    problem: Problem | None


def target_of(plugin: object) -> Target:
    """Load one plugin: a name, a module, another plugin object, or an entry point.

    Raises:
        InvalidRequest: if nothing installed has the name, or the object implements no hook.
    """
    return load_target(entry_point_of(plugin))


def entry_point_of(plugin: object) -> EntryPoint:
    """Return the entry point of a name, a module or another object; raise `InvalidRequest`."""
    if isinstance(plugin, EntryPoint):
        return plugin
    if not isinstance(plugin, str):
        return _entry_point_of_object(plugin)
    found = installed_entry_points(plugin)
    if len(found) == 1:
        return found[0]
    if found:
        groups = ", ".join(f"{each.group}:{each.name}" for each in found)
        raise InvalidRequest(f"target: {plugin!r} is the name of more than one plugin: {groups}")
    module, _, attributes = plugin.partition(":")
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        found_object = importlib.import_module(module)
        for attribute in filter(None, attributes.split(".")):
            found_object = getattr(found_object, attribute)
        return _entry_point_of_object(found_object, plugin)
    raise InvalidRequest(
        f"target: {plugin!r} is neither an installed plugin's name nor a module or an object of"
        " one (module:object);"
        " `solward plugins list` shows what is installed"
    )


def installed_entry_points(name: str) -> list[EntryPoint]:
    """Return the installed entry points with a name, `GROUP:NAME`, or a distribution's name."""
    group, _, plain = name.rpartition(":")
    every = _installed_entry_points()
    found = [each for each in every if each.name == plain and group in ("", each.group)]
    if not found:
        found = [
            each
            for each in every
            if each.dist and canonical(each.dist.metadata["Name"] or "") == canonical(name)
        ]
    # A distribution can be on the path twice.
    return list({(each.group, each.name, each.value): each for each in found}.values())


def load_target(entry_point: EntryPoint) -> Target:
    """Load one plugin alone, as the registry does; refuse the name of a built-in one."""
    kind = KINDS[entry_point.group]
    name, distribution = entry_point.name, entry_point.dist
    title = distribution.metadata["Name"] if distribution else "unknown"
    version = distribution.metadata["Version"] if distribution else "unknown"
    problem, registry = _load_registry(entry_point)
    loaded = None if registry is None else loaded_of(registry, kind, name)
    return Target(name, kind, title, version, loaded, problem)


@contextlib.contextmanager
def project_entry_points(path: Path) -> Iterator[list[EntryPoint]]:
    """Yield the entry points of a project folder, importable inside the block.

    Raises:
        InvalidRequest: if it has no `pyproject.toml`, or that names no plugin of Solward.
    """
    file = path / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text("utf-8")).get("project", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest(f"target: cannot read {file}: {error}") from None
    declared = project.get("entry-points", {})
    distribution = FolderDistribution(
        str(project.get("name", path.name)), str(project.get("version", "unknown"))
    )
    if wrong := misspelt_group(declared):
        raise InvalidRequest(f"target: {file}: {wrong}")
    found: list[EntryPoint] = [
        UninstalledEntryPoint(str(name), str(value), group, distribution)
        for group in GROUPS
        for name, value in declared.get(group, {}).items()
    ]
    if not found:
        groups = ", ".join(GROUPS)
        raise InvalidRequest(f"target: {file} declares no entry point of {groups}")
    paths = [str(each) for each in (path / "src", path) if each.is_dir()]
    sys.path[:0] = paths
    importlib.invalidate_caches()
    try:
        yield found
    finally:
        for each in paths:
            with contextlib.suppress(ValueError):
                sys.path.remove(each)


def conflict(entry_point: EntryPoint) -> Problem | None:
    """Return a problem if the plugin has the name of a built-in one, otherwise None."""
    if entry_point.dist is not None:
        own = [
            each
            for dist in distributions(name=BUILT_IN)
            for each in _entry_points_of(dist)
            if (each.group, each.name) == (entry_point.group, entry_point.name)
        ]
        for problem in discover(("*",), [*own, entry_point])[1]:
            if problem.code is ProblemCode.NAME_CONFLICT:
                return problem
    return None


def _load_registry(entry_point: EntryPoint) -> tuple[Problem | None, Registry | None]:
    problem = conflict(entry_point)
    if problem is not None:
        return problem, None
    try:
        registry = load_registry(("*",), demo=True, entry_points=[entry_point])
    except PluginError as broken:
        return cast(Problem, broken.problem), None
    return (registry.problems[0], None) if registry.problems else (None, registry)


def loaded_of(registry: Registry, kind: str, name: str) -> LoadedPlugin:
    """Return a registry's plugin, or a guardrail's calling function; raise `KeyError`."""
    found = {(each, called): plugin for each, called, plugin in registry.all_plugins()}[kind, name]
    return found.check if kind == "guardrail" else found


def _entry_point_of_object(plugin: object, value: str = "") -> EntryPoint:
    """Return the entry point of a plugin object; `value` names the place to import it from."""
    for group, hooks in HOOKS.items():
        if any(hasattr(plugin, hook) for hook in hooks):
            declare = getattr(plugin, hooks[0], None)
            name = getattr(plugin, "__name__", type(plugin).__name__).rpartition(".")[2]
            if hooks[0].endswith("_spec") and callable(declare):
                # The contract check reports an error of this call.
                with contextlib.suppress(Exception):
                    name = str(declare().name)
            if not value and isinstance(plugin, ModuleType):
                value = plugin.__name__
            for each in _installed_entry_points():
                if (each.group, each.value, each.name) == (group, value, name):
                    return each
            return UninstalledEntryPoint(name, value, group, plugin=plugin)
    raise InvalidRequest(f"target: {plugin!r} implements no hook of Solward")


def _installed_entry_points() -> list[EntryPoint]:
    return [each for dist in distributions() for each in _entry_points_of(dist)]


def _entry_points_of(distribution: Distribution) -> Iterable[EntryPoint]:
    with contextlib.suppress(Exception):
        return [each for each in distribution.entry_points if each.group in GROUPS]
    return []
