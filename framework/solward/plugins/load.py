"""Loading: discover, import here or in plugin hosts, check each, and bind the hooks last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

from solward.plugins.checks import (
    check_examples,
    check_manifest,
    check_provider,
    check_skill,
    check_venue,
)
from solward.plugins.containment import contained_call
from solward.plugins.discovery import Candidate, Folders, Place, candidates_of, canonical, survey
from solward.plugins.hooks import (
    DECLARED,
    GUARDRAILS,
    HOOKS,
    OPTIONAL,
    PAYMENTS,
    PROVIDERS,
    SKILLS,
    VENUES,
    Manager,
    broken,
    declared,
    register,
)
from solward.plugins.loaded import (
    HookCall,
    LoadedGuardrail,
    LoadedPayment,
    LoadedProvider,
    LoadedSkill,
    LoadedVenue,
    Registry,
)
from solward.plugins.parameters import Parameters
from solward.plugins.problems import Problem, ProblemCode, Rejected
from solward.plugins.schema import check_examples_cheap, checked_schema
from solward.plugins.skill_settings import SkillSettings
from solward.plugins.threaded import ThreadedRule
from solward.types.errors import PluginError
from solward.types.guardrail import Intent, TransactionEffects
from solward.types.manifest import Terms
from solward.types.payment import PaymentSpec
from solward.types.provider import ProviderSpec
from solward.types.skill import SkillSpec
from solward.types.venue import VenueSpec


@dataclass(frozen=True, slots=True)
class Declared:
    """A plugin whose hooks were checked where it was imported.

    Attributes:
        spec: its declaration, None for a guardrail.
        calls: each of its other hooks' name -> what calls it. A guardrail's is async.
    """

    spec: SkillSpec | ProviderSpec | VenueSpec | PaymentSpec | None
    calls: Mapping[str, HookCall]


Found = Declared | Rejected
Loaded = LoadedSkill | LoadedProvider | LoadedVenue | LoadedPayment | LoadedGuardrail


class PluginSource(Protocol):
    """Imports plugins elsewhere than in this process."""

    async def declared(self, candidates: Sequence[Candidate]) -> Sequence[Found]:
        """What each candidate is, in their order."""


class ModelSource(Protocol):
    """Runs the hooks of built-in language model providers elsewhere than in this process."""

    def hooks(self, spec: ProviderSpec, module: str) -> Mapping[str, HookCall]:
        """The hooks of a module, by name."""


def load_registry(
    allow: Collection[str] = ("*",),
    *,
    demo: bool = False,
    entry_points: Iterable[EntryPoint] | None = None,
    models: ModelSource | None = None,
    home: Path | None = None,
) -> Registry:
    """Find and load every allowed plugin, all in this process.

    The service runs third parties in plugin hosts (`open_registry`); this is for the built-in
    plugins alone and for debugging one's own.

    Args:
        allow: distribution names whose plugins may be imported beside the built-ins; `*` allows
            every installed one.
        demo: load demo providers too.
        entry_points: these instead of those of the service's environment.
        models: runs the built-in language model providers; None leaves them in this process.
        home: whose plugins in folders of their own are named as left out.

    Returns:
        The loaded plugins; a third-party plugin that fails is in `problems` instead.

    Raises:
        PluginError: a built-in plugin fails.
    """
    given = None if entry_points is None else candidates_of(entry_points)
    candidates, problems, places = survey(allow, given, _folders(home))
    detail = "it stands in a folder of its own, and only plugin hosts import from there"
    problems += [
        each.problem(ProblemCode.NEEDS_HOST, detail)
        for each in candidates
        if each.installed is not None
    ]
    candidates = [each for each in candidates if each.installed is None]
    return compose(checked(candidates, in_process(candidates), models), problems, places, demo)


async def open_registry(
    allow: Collection[str] = ("*",),
    *,
    hosts: PluginSource | None,
    demo: bool = False,
    entry_points: Iterable[EntryPoint] | None = None,
    models: ModelSource | None = None,
    home: Path | None = None,
) -> Registry:
    """As `load_registry`, with every plugin but the built-in ones in plugin hosts.

    Args:
        hosts: runs third parties' plugins; None imports them into this process.
        home: whose plugins in folders of their own are loaded too.
    """
    if hosts is None:
        return load_registry(allow, demo=demo, entry_points=entry_points, models=models, home=home)
    given = None if entry_points is None else candidates_of(entry_points)
    candidates, problems, places = survey(allow, given, _folders(home))
    plugins = await loaded(candidates, hosts, models)
    return compose(plugins, problems, places, demo)


async def loaded(
    candidates: Sequence[Candidate], hosts: PluginSource, models: ModelSource | None
) -> list[tuple[Candidate, Loaded | Rejected]]:
    """Load plugins, all but the built-in ones in plugin hosts, and check what they declare.

    Args:
        models: as of `load_registry`.
    """
    built_in = [candidate for candidate in candidates if candidate.built_in]
    others = [candidate for candidate in candidates if not candidate.built_in]
    found = in_process(built_in)
    found += await hosts.declared(others) if others else []
    plugins: list[tuple[Candidate, Loaded | Rejected]] = []
    for candidate, each in zip([*built_in, *others], found, strict=True):
        plugins += checked([candidate], [each], models)
        # A service that runs goes on meanwhile: the schemas of many take seconds together.
        await asyncio.sleep(0)
    return plugins


def _folders(home: Path | None) -> Folders | None:
    return None if home is None else Folders.of(home)


def in_process(candidates: Sequence[Candidate]) -> list[Found]:
    """Import plugins into this process; one result a candidate, in their order."""
    manager, registered = _registered(candidates)
    return [
        plugin
        if isinstance(plugin, Rejected)
        else _attempt(partial(_bound, manager, candidate, plugin))
        for candidate, plugin in zip(candidates, registered, strict=True)
    ]


# Sealed managers of built-in plugins, which never change, with the plugins that were registered.
# Registering them takes 30 ms, and every service in a process has the same ones.
_MANAGERS: dict[Hashable, tuple[Manager, list[Any]]] = {}
_MAX_MANAGERS = 8


def _registered(candidates: Sequence[Candidate]) -> tuple[Manager, list[Any]]:
    """Returns a sealed manager and, for each candidate, its plugin or why it was rejected."""
    key = None
    if all(each.built_in for each in candidates):
        key = tuple(map(_identity, candidates))
        if key in _MANAGERS:
            return _MANAGERS[key]
    manager = Manager()
    registered = [
        _attempt(partial(register, manager, each.group, each.name, each.entry_point.load))
        for each in candidates
    ]
    manager.seal()
    if key is not None and not any(isinstance(each, Rejected) for each in registered):
        if len(_MANAGERS) >= _MAX_MANAGERS:
            _MANAGERS.clear()
        _MANAGERS[key] = manager, registered
    return manager, registered


def _identity(candidate: Candidate) -> Hashable:
    """Returns all that registering a plugin depends on: its entry point, its distribution and the
    functions that are its hooks now."""
    try:
        plugin: Any = candidate.entry_point.load()
    except Exception:  # registering says why
        plugin = None
    point = candidate.entry_point
    names = (*HOOKS[candidate.group], *OPTIONAL.get(candidate.group, ()))
    hooks = tuple(id(getattr(plugin, name, None)) for name in names)
    return (
        (candidate.group, candidate.name, point.value),
        (candidate.distribution, candidate.version),
        (id(plugin), hooks),
    )


def _attempt(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Rejected as rejected:
        return rejected


def _bound(manager: Manager, candidate: Candidate, plugin: Any) -> Declared:
    group = candidate.group
    if group == GUARDRAILS:
        call = contained_call(manager.bind("guardrail_check", plugin))
        return Declared(None, {"guardrail_check": ThreadedRule(partial(_named, call))})
    hook, *others = HOOKS[group]
    spec = declared(hook, manager.bind(hook, plugin), DECLARED[group], candidate.name)
    calls = {name: manager.bind(name, plugin) for name in others}
    for name in OPTIONAL.get(group, ()):
        optional = manager.bind_optional(name, plugin)
        if optional is not None:
            calls[name] = optional
    return Declared(spec, calls)


def _named(call: HookCall, intent: Any, effects: Any) -> Any:
    return call(intent=intent, effects=effects)


def checked(
    candidates: Sequence[Candidate], found: Sequence[Found], models: ModelSource | None
) -> list[tuple[Candidate, Loaded | Rejected]]:
    """Each plugin, its declaration checked here, whoever imported it.

    Args:
        models: as of `load_registry`.
    """
    return [
        (candidate, _attempt(partial(_one, candidate, each, models)))
        for candidate, each in zip(candidates, found, strict=True)
    ]


def _one(candidate: Candidate, found: Found, models: ModelSource | None) -> Loaded:
    if isinstance(found, Rejected):
        raise found
    if candidate.group == SKILLS:
        return _skill(candidate, found)
    if candidate.group == PROVIDERS:
        return _provider(candidate, found, models)
    if candidate.group == VENUES:
        return _venue(candidate, found)
    if candidate.group == PAYMENTS:
        return _payment(candidate, found)
    return _guardrail(candidate, found)


def compose(
    plugins: Iterable[tuple[Candidate, Loaded | Rejected]],
    problems: Iterable[Problem],
    places: tuple[Place, ...],
    demo: bool,
) -> Registry:
    """The registry of these plugins, of which the first of a name counts; of guardrails each.

    In place of a guardrail that is not loaded, and was not left out on purpose, stands one that
    refuses everything: what the guardrail would have refused nobody knows.

    Args:
        problems: of plugins that are not among these.
        demo: with demo providers.

    Raises:
        PluginError: a built-in plugin was rejected.
    """
    skills: dict[str, LoadedSkill] = {}
    providers: dict[str, LoadedProvider] = {}
    venues: dict[str, LoadedVenue] = {}
    payments: dict[str, LoadedPayment] = {}
    # Also by distribution: of one name none takes the place of another that would have refused.
    guardrails: dict[tuple[str, str], LoadedGuardrail] = {}
    every = list(problems)
    for candidate, each in plugins:
        name = candidate.name
        if isinstance(each, Rejected):
            problem = candidate.problem(each.code, each.detail)
            if candidate.built_in:
                raise PluginError(problem) from each
            every.append(problem)
        elif isinstance(each, LoadedSkill):
            skills.setdefault(name, each)
        elif isinstance(each, LoadedProvider):
            if demo or not each.spec.demo:
                providers.setdefault(name, each)
        elif isinstance(each, LoadedVenue):
            venues.setdefault(name, each)
        elif isinstance(each, LoadedPayment):
            payments.setdefault(name, each)
        else:
            guardrails.setdefault((name, canonical(candidate.distribution)), each)
    for problem in every:
        if problem.group == GUARDRAILS and problem.code not in _ON_PURPOSE:
            key = (problem.plugin, canonical(problem.distribution))
            guardrails.setdefault(key, _refusing(problem))
    return Registry(
        MappingProxyType(skills),
        MappingProxyType(providers),
        MappingProxyType(venues),
        MappingProxyType(payments),
        tuple(guardrails.values()),
        tuple(every),
        places,
    )


_ON_PURPOSE = (ProblemCode.NOT_ALLOWED, ProblemCode.DISABLED)


def _refusing(problem: Problem) -> LoadedGuardrail:
    async def check(_intent: Intent, _effects: TransactionEffects) -> str:
        return f"the guardrail is not loaded: {problem}"

    return LoadedGuardrail(problem.plugin, problem.distribution, problem.version, check)


def _skill(candidate: Candidate, found: Declared) -> LoadedSkill:
    spec = cast(SkillSpec, found.spec)
    check_skill(spec)
    _check_needs(candidate, spec)
    schema = checked_schema(spec.parameters, trusted=candidate.built_in)
    parameters = Parameters(schema)
    if not candidate.built_in:
        check_examples_cheap(spec.examples, schema)
    check_examples(spec, parameters)
    settings = None
    if spec.settings is not None:
        settings = SkillSettings.read(spec.settings, trusted=candidate.built_in)
    return LoadedSkill(
        replace(spec, parameters=schema),
        candidate.distribution,
        candidate.version,
        parameters,
        found.calls["skill_execute"],
        settings,
    )


def _provider(candidate: Candidate, found: Declared, models: ModelSource | None) -> LoadedProvider:
    spec = cast(ProviderSpec, found.spec)
    check_provider(spec, built_in=candidate.built_in)
    _check_needs(candidate, spec)
    schema = checked_schema(spec.options, trusted=candidate.built_in)
    calls = found.calls
    if models is not None and candidate.built_in and spec.is_llm:
        calls = models.hooks(spec, candidate.entry_point.value)
    return LoadedProvider(
        replace(spec, options=schema),
        candidate.distribution,
        candidate.version,
        Parameters(schema),
        calls["provider_complete"],
        calls.get("provider_stream"),
        calls.get("provider_price"),
    )


def _venue(candidate: Candidate, found: Declared) -> LoadedVenue:
    instructions, swap = (found.calls.get(name) for name in OPTIONAL[VENUES])
    if instructions is None and swap is None:
        raise broken(f"{' or '.join(OPTIONAL[VENUES])} must be there: one of them, or both")
    spec = cast(VenueSpec, found.spec)
    check_venue(spec, built_in=candidate.built_in)
    _check_needs(candidate, spec)
    return LoadedVenue(
        spec,
        candidate.distribution,
        candidate.version,
        found.calls["venue_quote"],
        instructions,
        swap,
    )


def _payment(candidate: Candidate, found: Declared) -> LoadedPayment:
    offers, headers, receipt = (found.calls[name] for name in HOOKS[PAYMENTS][1:])
    return LoadedPayment(
        cast(PaymentSpec, found.spec),
        candidate.distribution,
        candidate.version,
        offers,
        headers,
        receipt,
    )


def _check_needs(candidate: Candidate, spec: SkillSpec | ProviderSpec | VenueSpec) -> None:
    """Refuse a manifest that is wrong, and needs that nobody accepted: a declaration is code, and
    may differ from time to time.

    Raises:
        Rejected: naming them.
    """
    check_manifest(spec)
    if candidate.installed is None:
        return
    accepted = candidate.installed.accepted.get(f"{candidate.group}:{candidate.name}")
    if more := Terms.of(spec).wider_than(accepted):
        raise Rejected(
            ProblemCode.NOT_ACCEPTED,
            f"it asks for what was not accepted when it was installed: {'; '.join(more)}",
        )


def _guardrail(candidate: Candidate, found: Declared) -> LoadedGuardrail:
    return LoadedGuardrail(
        candidate.name, candidate.distribution, candidate.version, found.calls["guardrail_check"]
    )
