"""Loading: discover, import, register all, check each, and bind the hooks last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

import pluggy

from solward import hookspecs
from solward.errors import PluginError
from solward.guardrail import Hold
from solward.provider import ProviderSpec
from solward.registry.checks import (
    check_examples,
    check_hooks,
    check_provider,
    check_skill,
    declared,
)
from solward.registry.containment import contained_call
from solward.registry.discovery import GUARDRAILS, PROVIDERS, SKILLS, Candidate, discover
from solward.registry.loaded import (
    LoadedGuardrail,
    LoadedProvider,
    LoadedSkill,
    LoadedVenue,
    Registry,
)
from solward.registry.parameters import Parameters
from solward.registry.problems import Problem, ProblemCode, Rejected, described
from solward.registry.schema import checked_schema
from solward.skill import SkillSpec
from solward.venue import VenueSpec


def load_registry(
    allow: Collection[str] = ("*",),
    *,
    demo: bool = False,
    entry_points: Iterable[EntryPoint] | None = None,
) -> Registry:
    """Find and load every allowed plugin.

    Args:
        allow: distribution names whose plugins may be imported beside the built-ins; `*` allows
            every installed one.
        demo: load demo providers too.
        entry_points: these instead of the installed ones.

    Returns:
        The loaded plugins; a third-party plugin that fails is in `problems` instead.

    Raises:
        PluginError: a built-in plugin fails.
    """
    candidates, problems = discover(allow, entry_points)
    manager = Manager()
    registered: list[tuple[Candidate, Any]] = []
    for candidate in candidates:
        try:
            registered.append((candidate, _register(manager, candidate)))
        except Rejected as rejected:
            problems.append(_problem(candidate, rejected))
    manager.seal()
    skills: dict[str, LoadedSkill] = {}
    providers: dict[str, LoadedProvider] = {}
    venues: dict[str, LoadedVenue] = {}
    guardrails: list[LoadedGuardrail] = []
    for candidate, plugin in registered:
        name = candidate.name
        try:
            if candidate.group == SKILLS:
                skills[name] = _skill(manager, candidate, plugin)
            elif candidate.group == PROVIDERS:
                provider = _provider(manager, candidate, plugin)
                if demo or not provider.spec.demo:
                    providers[name] = provider
            elif candidate.group == GUARDRAILS:
                guardrails.append(LoadedGuardrail(name, _guardrail(manager, plugin)))
            else:
                venues[name] = _venue(manager, candidate, plugin)
        except Rejected as rejected:
            problems.append(_problem(candidate, rejected))
    return Registry(
        MappingProxyType(skills),
        MappingProxyType(providers),
        MappingProxyType(venues),
        tuple(guardrails),
        tuple(problems),
    )


def _problem(candidate: Candidate, rejected: Rejected) -> Problem:
    problem = candidate.problem(rejected.code, rejected.detail)
    if candidate.built_in:
        raise PluginError(problem) from rejected
    return problem


def _register(manager: Manager, candidate: Candidate) -> Any:
    try:
        plugin = candidate.entry_point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Rejected(ProblemCode.IMPORT_FAILED, described(error)) from error
    key = f"{candidate.group}:{candidate.name}"
    try:
        manager.register(plugin, name=key)
    except pluggy.PluginValidationError as error:
        raise Rejected(ProblemCode.BAD_HOOK, described(error)) from error
    except ValueError as error:
        detail = "another entry point is this very module; one module is one plugin"
        raise Rejected(ProblemCode.BAD_HOOK, detail) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Rejected(ProblemCode.BAD_CONTRACT, described(error)) from error
    try:
        hash(plugin)
        check_hooks(candidate.group, plugin, manager.get_hookcallers(plugin) or [])
    except Rejected:
        manager.unregister(name=key)
        raise
    except Exception as error:
        manager.unregister(name=key)
        raise Rejected(ProblemCode.BAD_CONTRACT, described(error)) from error
    return plugin


def _skill(manager: Manager, candidate: Candidate, plugin: Any) -> LoadedSkill:
    call = manager.bind("skill_spec", plugin)
    spec = declared("skill_spec", call, SkillSpec, candidate.name)
    check_skill(spec)
    schema = checked_schema(spec.parameters)
    parameters = Parameters(schema)
    check_examples(spec, parameters)
    return LoadedSkill(
        replace(spec, parameters=schema),
        candidate.distribution,
        candidate.version,
        parameters,
        manager.bind("skill_execute", plugin),
    )


def _provider(manager: Manager, candidate: Candidate, plugin: Any) -> LoadedProvider:
    call = manager.bind("provider_spec", plugin)
    spec = declared("provider_spec", call, ProviderSpec, candidate.name)
    check_provider(spec)
    schema = checked_schema(spec.options)
    return LoadedProvider(
        replace(spec, options=schema),
        candidate.distribution,
        candidate.version,
        Parameters(schema),
        manager.bind("provider_complete", plugin),
        manager.bind_optional("provider_stream", plugin),
        manager.bind_optional("provider_price", plugin),
    )


def _venue(manager: Manager, candidate: Candidate, plugin: Any) -> LoadedVenue:
    call = manager.bind("venue_spec", plugin)
    spec = declared("venue_spec", call, VenueSpec, candidate.name)
    return LoadedVenue(
        spec,
        candidate.distribution,
        candidate.version,
        manager.bind("venue_quote", plugin),
        manager.bind_optional("venue_instructions", plugin),
        manager.bind_optional("venue_swap", plugin),
    )


def _guardrail(manager: Manager, plugin: Any) -> Callable[[Any, Any], str | Hold | None]:
    call = contained_call(manager.bind("guardrail_check", plugin))

    def check(intent: Any, effects: Any) -> str | Hold | None:
        answer: str | Hold | None = call(intent=intent, effects=effects)
        return answer

    return check


class SealedError(RuntimeError):
    """A plugin was registered after sealing, or a caller bound before it."""


class Manager(pluggy.PluginManager):
    """Registers plugins until it is sealed, and only then binds callers.

    A bound caller of pluggy calls every plugin but those it excludes, so a plugin registered later
    would run too; hence the seal.
    """

    def __init__(self) -> None:
        super().__init__(hookspecs.PROJECT)
        self.add_hookspecs(hookspecs)
        self._sealed = False

    def register(self, plugin: Any, name: str | None = None) -> str | None:
        """Register a plugin; raises `SealedError` when sealed, else what pluggy raises."""
        if self._sealed:
            raise SealedError("plugins are registered before the first caller is bound")
        return super().register(plugin, name)

    def seal(self) -> None:
        """Refuse every later registration."""
        self.check_pending()
        self._sealed = True

    def bind(self, hook: str, plugin: Any) -> Callable[..., Any]:
        """A caller of `hook` that runs `plugin` alone."""
        if not self._sealed:
            raise SealedError("callers are bound after the last registration")
        others = [other for other in self.get_plugins() if other is not plugin]
        return self.subset_hook_caller(hook, others)

    def bind_optional(self, hook: str, plugin: Any) -> Callable[..., Any] | None:
        """As `bind`, or None where `plugin` does not implement the hook."""
        return self.bind(hook, plugin) if hasattr(plugin, hook) else None
