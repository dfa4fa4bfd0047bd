"""Loading of plugins: discover them, import them here or in plugin hosts, check each, and bind
the hooks last.

The service itself always checks the declarations that a plugin returned. A guardrail that runs in
this process is called in a thread of its own (`ThreadedRule`).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
import re
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

from solward.context.operations import OperationMethods
from solward.plugins.discovery import Candidate, Folders, Place, candidates_of, survey
from solward.plugins.folders.layout import canonical
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
    check_venue_hooks,
    contained_call,
    hooks_of,
    read_declaration,
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
from solward.plugins.schema import SkillSettings, check_examples_cheap, checked_schema
from solward.settings.settings import allowed_for_providers, is_pools_variable
from solward.settings.vendors import ADDRESS_ENDINGS
from solward.support import jsontext
from solward.support.base58 import is_address
from solward.types.errors import InvalidRequest, PluginError, SkillError
from solward.types.guardrail import Hold, Intent, TransactionEffects
from solward.types.manifest import (
    MAX_STORAGE_MB,
    PAY,
    POCKET,
    TRANSACT,
    Manifest,
    Problem,
    ProblemCode,
    Rejected,
    Secret,
    Terms,
    declared_site,
    describe_error,
    site_of,
)
from solward.types.payment import PaymentSpec
from solward.types.provider import ProviderSpec
from solward.types.skill import SkillSpec
from solward.types.venue import BEST_VENUE, VenueSpec
from solward.vault.money.judge.plugin_rules import RuleFailure, exact_answer, failure_of

MAX_DESCRIPTION = 1_024
MAX_TIMEOUT_S = 600.0
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
# Limit of each list in a manifest, because people read it before they accept it.
MAX_DECLARED = 64
# A quote moves nothing, so a manifest does not name it.
_OPERATIONS = {each for each in vars(OperationMethods) if not each.startswith("_")} - {"quote"}


@dataclass(frozen=True, slots=True)
class DeclaredPlugin:
    """A plugin whose hooks were checked by the process that imported it.

    Attributes:
        spec: its declaration; None for a guardrail.
        calls: callers of its other hooks, by name. A guardrail's is async.
    """

    spec: SkillSpec | ProviderSpec | VenueSpec | PaymentSpec | None
    calls: Mapping[str, HookCall]


ImportResult = DeclaredPlugin | Rejected
LoadedPlugin = LoadedSkill | LoadedProvider | LoadedVenue | LoadedPayment | LoadedGuardrail


class PluginSource(Protocol):
    """An importer of plugins outside this process."""

    async def import_candidates(self, candidates: Sequence[Candidate]) -> Sequence[ImportResult]:
        """Return the result for each candidate, in the order given."""


class ModelSource(Protocol):
    """A runner of the hooks of built-in language model providers outside this process."""

    def hooks(self, spec: ProviderSpec, module: str) -> Mapping[str, HookCall]:
        """Return the hooks of a module, by name."""


def load_registry(
    allow: Collection[str] = ("*",),
    *,
    demo: bool = False,
    entry_points: Iterable[EntryPoint] | None = None,
    models: ModelSource | None = None,
    home: Path | None = None,
) -> Registry:
    """Find and load every allowed plugin in this process.

    The service runs third parties' plugins in plugin hosts (`open_registry`). Use this for built-in
    plugins alone, and to debug your own.

    Args:
        allow: distributions whose plugins may be imported besides the built-ins; `*` allows all.
        demo: whether to load demo providers.
        entry_points: entry points instead of those of the service's environment.
        models: runs the built-in language model providers; None runs them in this process.
        home: the home whose plugins in folders of their own are reported as left out.

    Returns:
        The loaded plugins. `problems` names the third-party plugins that failed.

    Raises:
        PluginError: if a built-in plugin fails.
    """
    given = None if entry_points is None else candidates_of(entry_points)
    candidates, problems, places = survey(allow, given, _home_folders(home))
    detail = "it is installed in its own folder, from which only plugin hosts import"
    problems += [
        each.problem(ProblemCode.NEEDS_HOST, detail)
        for each in candidates
        if each.installed is not None
    ]
    candidates = [each for each in candidates if each.installed is None]
    return make_registry(import_and_check(candidates, models), problems, places, demo)


async def open_registry(
    allow: Collection[str] = ("*",),
    *,
    hosts: PluginSource | None,
    demo: bool = False,
    entry_points: Iterable[EntryPoint] | None = None,
    models: ModelSource | None = None,
    home: Path | None = None,
) -> Registry:
    """Find and load every allowed plugin, all but the built-in ones in plugin hosts.

    Args:
        hosts: runs third parties' plugins; None imports them into this process.
        home: the home whose plugins in folders of their own are loaded too.

    The other arguments are those of `load_registry`.
    """
    if hosts is None:
        return load_registry(allow, demo=demo, entry_points=entry_points, models=models, home=home)
    given = None if entry_points is None else candidates_of(entry_points)
    candidates, problems, places = survey(allow, given, _home_folders(home))
    plugins = await load_plugins(candidates, hosts, models)
    return make_registry(plugins, problems, places, demo)


async def load_plugins(
    candidates: Sequence[Candidate], hosts: PluginSource, models: ModelSource | None
) -> list[tuple[Candidate, LoadedPlugin | Rejected]]:
    """Load plugins, all but the built-in ones in plugin hosts, and check their declarations.

    Args:
        models: see `load_registry`.
    """
    built_in = [candidate for candidate in candidates if candidate.built_in]
    others = [candidate for candidate in candidates if not candidate.built_in]
    plugins = import_and_check(built_in, models)
    found = await hosts.import_candidates(others) if others else []
    for candidate, each in zip(others, found, strict=True):
        plugins += check_plugins([candidate], [each])
        # Let a running service continue: checking the schemas of many plugins takes seconds.
        await asyncio.sleep(0)
    return plugins


def _home_folders(home: Path | None) -> Folders | None:
    return None if home is None else Folders.from_home(home)


# Built-in plugins after import and check. They never change and are the same for every service in a
# process, and to import and check them takes a quarter of the time to open a service.
_BUILT_IN: dict[Hashable, list[tuple[ImportResult, LoadedPlugin | Rejected]]] = {}
_MAX_BUILT_IN = 8


def import_and_check(
    candidates: Sequence[Candidate], models: ModelSource | None
) -> list[tuple[Candidate, LoadedPlugin | Rejected]]:
    """Import plugins into this process, and return each one checked, in the order given.

    Args:
        models: see `load_registry`.
    """
    key = tuple(map(_plugin_identity, candidates)) if all(e.built_in for e in candidates) else None
    results = None if key is None else _BUILT_IN.get(key)
    if results is None:
        found = import_in_process(candidates)
        plugins = [each for _, each in check_plugins(candidates, found)]
        results = list(zip(found, plugins, strict=True))
        if key is not None and not any(isinstance(each, Rejected) for each in plugins):
            if len(_BUILT_IN) >= _MAX_BUILT_IN:
                _BUILT_IN.clear()
            _BUILT_IN[key] = results
    return [
        (candidate, plugin if models is None else _hosted(candidate, declared, plugin, models))
        for candidate, (declared, plugin) in zip(candidates, results, strict=True)
    ]


def _hosted(
    candidate: Candidate, found: ImportResult, plugin: LoadedPlugin | Rejected, models: ModelSource
) -> LoadedPlugin | Rejected:
    """Return the plugin; if it is a built-in language model provider, `models` runs its hooks."""
    if not (candidate.built_in and isinstance(plugin, LoadedProvider) and plugin.spec.is_llm):
        return plugin
    spec = cast(ProviderSpec, cast(DeclaredPlugin, found).spec)
    return replace(plugin, calls=models.hooks(spec, candidate.entry_point.value))


def import_in_process(candidates: Sequence[Candidate]) -> list[ImportResult]:
    """Import plugins into this process; return one result for each candidate, in their order."""
    manager = Manager()
    registered = [
        _catch_rejection(partial(register, manager, each.group, each.name, each.entry_point.load))
        for each in candidates
    ]
    manager.seal()
    return [
        plugin
        if isinstance(plugin, Rejected)
        else _catch_rejection(partial(_bind_plugin, manager, candidate, plugin))
        for candidate, plugin in zip(candidates, registered, strict=True)
    ]


def _plugin_identity(candidate: Candidate) -> Hashable:
    """Return everything on which importing and checking a built-in plugin depends: its entry point,
    its distribution, and the functions that are its hooks now."""
    try:
        plugin: Any = candidate.entry_point.load()
    except Exception:  # registering it reports the error
        plugin = None
    point = candidate.entry_point
    return (
        (candidate.group, candidate.name, point.value),
        (candidate.distribution, candidate.version),
        (plugin, *(getattr(plugin, name, None) for name in hooks_of(candidate.group))),
    )


def _catch_rejection(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Rejected as rejected:
        return rejected
    except Exception as error:
        # A third party's declaration may have values that no check expects; only its plugin fails.
        return Rejected(
            ProblemCode.BAD_CONTRACT, f"the plugin cannot be read: {describe_error(error)}"
        )


def _bind_plugin(manager: Manager, candidate: Candidate, plugin: Any) -> DeclaredPlugin:
    group = candidate.group
    if group == GUARDRAILS:
        call = contained_call(manager.bind("guardrail_check", plugin))
        return DeclaredPlugin(None, {"guardrail_check": ThreadedRule(partial(_call_by_name, call))})
    hook, *others = HOOKS[group]
    spec = read_declaration(hook, manager.bind(hook, plugin), DECLARED[group], candidate.name)
    calls = {name: manager.bind(name, plugin) for name in others}
    for name in OPTIONAL.get(group, ()):
        if hasattr(plugin, name):
            calls[name] = manager.bind(name, plugin)
    return DeclaredPlugin(spec, calls)


def _call_by_name(call: HookCall, intent: Any, effects: Any) -> Any:
    return call(intent=intent, effects=effects)


def check_plugins(
    candidates: Sequence[Candidate], found: Sequence[ImportResult]
) -> list[tuple[Candidate, LoadedPlugin | Rejected]]:
    """Check the declarations of imported plugins, and return each plugin or its rejection."""
    return [
        (candidate, _catch_rejection(partial(_load_plugin, candidate, each)))
        for candidate, each in zip(candidates, found, strict=True)
    ]


def _load_plugin(candidate: Candidate, found: ImportResult) -> LoadedPlugin:
    if isinstance(found, Rejected):
        raise found
    for field in () if found.spec is None else fields(found.spec):
        value = getattr(found.spec, field.name)
        if isinstance(value, str) and (unfit := jsontext.explain_unfit(value, field.name)):
            raise broken(unfit)
    return _LOADERS[candidate.group](candidate, found)


def make_registry(
    plugins: Iterable[tuple[Candidate, LoadedPlugin | Rejected]],
    problems: Iterable[Problem],
    places: tuple[Place, ...],
    demo: bool,
) -> Registry:
    """Return the registry of these plugins: the first of each name, and all guardrails.

    A guardrail that could not be loaded, and was not left out on purpose, is replaced by one that
    refuses everything, because nobody knows what it would have refused.

    Args:
        problems: problems of plugins that are not among these.
        demo: whether demo providers are included.

    Raises:
        PluginError: if a built-in plugin was rejected.
    """
    by_group: dict[str, dict[str, Any]] = {group: {} for group in DECLARED}
    # The key has the distribution too: a guardrail never replaces another one of the same name.
    guardrails: dict[tuple[str, str], LoadedGuardrail] = {}
    every = list(problems)
    for candidate, each in plugins:
        name = candidate.name
        if isinstance(each, Rejected):
            problem = candidate.problem(each.code, each.detail)
            if candidate.built_in:
                raise PluginError(problem) from each
            every.append(problem)
        elif isinstance(each, LoadedGuardrail):
            guardrails.setdefault((name, canonical(candidate.distribution)), each)
        elif demo or not getattr(each.spec, "demo", False):
            by_group[candidate.group].setdefault(name, each)
    for problem in every:
        if problem.group == GUARDRAILS and problem.code not in _ON_PURPOSE:
            key = (problem.plugin, canonical(problem.distribution))
            guardrails.setdefault(key, _refusing_guardrail(problem))
    return Registry(
        MappingProxyType(by_group[SKILLS]),
        MappingProxyType(by_group[PROVIDERS]),
        MappingProxyType(by_group[VENUES]),
        MappingProxyType(by_group[PAYMENTS]),
        tuple(guardrails.values()),
        tuple(every),
        places,
    )


_ON_PURPOSE = (ProblemCode.NOT_ALLOWED, ProblemCode.DISABLED)


def _refusing_guardrail(problem: Problem) -> LoadedGuardrail:
    async def check(_intent: Intent, _effects: TransactionEffects) -> str:
        return RuleFailure(f"the guardrail is not loaded: {problem}")

    return LoadedGuardrail(problem.plugin, problem.distribution, problem.version, check)


def _load_skill(candidate: Candidate, found: DeclaredPlugin) -> LoadedSkill:
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
        found.calls,
        parameters,
        settings,
    )


def _load_provider(candidate: Candidate, found: DeclaredPlugin) -> LoadedProvider:
    spec = cast(ProviderSpec, found.spec)
    check_provider(spec, built_in=candidate.built_in)
    _check_needs(candidate, spec)
    schema = checked_schema(spec.options, trusted=candidate.built_in)
    return LoadedProvider(
        replace(spec, options=schema),
        candidate.distribution,
        candidate.version,
        found.calls,
        Parameters(schema),
    )


def _load_venue(candidate: Candidate, found: DeclaredPlugin) -> LoadedVenue:
    check_venue_hooks(found.calls)
    spec = cast(VenueSpec, found.spec)
    check_venue(spec, built_in=candidate.built_in)
    _check_needs(candidate, spec)
    return LoadedVenue(spec, candidate.distribution, candidate.version, found.calls)


def _load_payment(candidate: Candidate, found: DeclaredPlugin) -> LoadedPayment:
    spec = cast(PaymentSpec, found.spec)
    return LoadedPayment(spec, candidate.distribution, candidate.version, found.calls)


def _check_needs(candidate: Candidate, spec: SkillSpec | ProviderSpec | VenueSpec) -> None:
    """Refuse a wrong manifest, and needs that nobody accepted: a declaration is made by code, so it
    can change at any time.

    Raises:
        Rejected: naming them.
    """
    check_manifest(spec)
    if candidate.installed is None:
        return
    accepted = candidate.installed.accepted.get(f"{candidate.group}:{candidate.name}")
    if more := Terms.from_spec(spec).needs_beyond(accepted):
        raise Rejected(
            ProblemCode.NOT_ACCEPTED,
            f"it needs more than was accepted at its installation: {'; '.join(more)}",
        )


def _load_guardrail(candidate: Candidate, found: DeclaredPlugin) -> LoadedGuardrail:
    return LoadedGuardrail(
        candidate.name, candidate.distribution, candidate.version, found.calls["guardrail_check"]
    )


_LOADERS: Mapping[str, Callable[[Candidate, DeclaredPlugin], LoadedPlugin]] = {
    SKILLS: _load_skill,
    PROVIDERS: _load_provider,
    VENUES: _load_venue,
    PAYMENTS: _load_payment,
    GUARDRAILS: _load_guardrail,
}


_OPERATIONS |= {TRANSACT, POCKET, PAY}


_SYMBOL = re.compile(r"[A-Za-z0-9]{1,16}")


def check_skill(spec: SkillSpec) -> None:
    """Raise `Rejected`, naming the first field of `SkillSpec` that is out of range."""
    text = spec.description
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_DESCRIPTION:
        raise broken(f"description must be text of 1 to {MAX_DESCRIPTION} characters")
    timeout = spec.timeout_s
    known = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not known or not math.isfinite(timeout) or not 0 < timeout <= MAX_TIMEOUT_S:
        raise broken(f"timeout_s must be more than 0 and at most {MAX_TIMEOUT_S:g} seconds")


def check_examples(spec: SkillSpec, parameters: Parameters) -> None:
    """Raise `Rejected`, naming the first example that does not fit the skill's schema."""
    for at, example in enumerate(spec.examples):
        try:
            parameters.validate(example)
        except InvalidRequest as error:
            raise broken(f"examples[{at}]: {error}") from None


def check_provider(spec: ProviderSpec, *, built_in: bool = False) -> None:
    """Raise `Rejected`, naming the first field of `ProviderSpec` that is out of range.

    Args:
        built_in: whether it may name Solward's own variables of vendors' addresses.
    """
    if not isinstance(spec.default_model, str) or not spec.default_model.strip():
        raise broken("default_model must name a model")
    if not built_in:
        _check_variables(spec)
    if not isinstance(spec.is_llm, bool) or not isinstance(spec.demo, bool):
        raise broken("is_llm and demo must be True or False")


def check_venue(spec: VenueSpec, *, built_in: bool = False) -> None:
    """Raise `Rejected`, naming the first field of `VenueSpec` that is wrong.

    Args:
        built_in: whether it may name Solward's own variables.
    """
    if spec.name == BEST_VENUE:
        raise broken(f"name must not be {BEST_VENUE!r}, which SWAP_VENUE uses for the best offer")
    if not built_in:
        _check_variables(spec)
        pools = spec.pools_env
        if pools is not None and not is_pools_variable(pools):
            raise broken(
                "pools_env must be an environment variable's name that ends in _POOLS and is not"
                " Solward's own, or None"
            )
    if spec.manifest is None:
        for field in ("secret_env", "base_url_env", "base_url"):
            if not built_in and getattr(spec, field) is not None:
                raise broken(f"{field} must be None: without a manifest there is no network")
    if spec.base_url is None or spec.manifest is None:
        return
    try:
        target = site_of(spec.manifest, spec.base_url)
    except SkillError as error:
        raise broken(
            f"base_url must be an https:// address of one of manifest.sites: {error}"
        ) from None
    if "?" in target.path:
        raise broken("base_url must have no query")


def check_manifest(spec: SkillSpec | ProviderSpec | VenueSpec) -> None:
    """Raise `Rejected`, naming the first field of a declaration's manifest that is wrong."""
    manifest = spec.manifest
    if manifest is None:
        return
    if not isinstance(manifest, Manifest):
        raise broken("manifest must be a Manifest or None")
    for at, site in _manifest_entries("sites", manifest.sites):
        if declared_site(site) is None:
            raise broken(
                f"{at} must be a host name in lower-case ASCII (IDNA), without path, such as"
                f" api.example.com or api.example.com:8443, not {_quoted(site)}"
            )
    for at, operation in _manifest_entries("operations", manifest.operations):
        if not isinstance(operation, str) or operation not in _OPERATIONS:
            known = ", ".join(sorted(_OPERATIONS))
            raise broken(f"{at} must be one of {known}; not {_quoted(operation)}")
    for at, asset in _manifest_entries("assets", manifest.assets):
        if not isinstance(asset, str) or not (_SYMBOL.fullmatch(asset) or is_address(asset)):
            raise broken(f"{at} must be a symbol or a mint's base58 address, not {_quoted(asset)}")
    storage = manifest.storage_mb
    if isinstance(storage, bool) or not isinstance(storage, int):
        raise broken("manifest.storage_mb must be an integer")
    if not 0 <= storage <= MAX_STORAGE_MB:
        raise broken(f"manifest.storage_mb must be from 0 to {MAX_STORAGE_MB}, not {storage}")
    for at, secret in _manifest_entries("secrets", manifest.secrets):
        if not isinstance(secret, Secret):
            raise broken(f"{at} must be a Secret")
        _check_variable(f"{at}.env", secret.env)
        if isinstance(spec, ProviderSpec) and secret.env != spec.secret_env:
            raise broken(
                f"{at}.env must be the secret_env, {spec.secret_env}: a provider gets no other"
            )
        if not isinstance(secret.site, str) or secret.site not in manifest.sites:
            raise broken(f"{at}.site must be one of manifest.sites, not {_quoted(secret.site)}")
        if not isinstance(secret.in_query, bool):
            raise broken(f"{at}.in_query must be True or False")
    key = None if isinstance(spec, SkillSpec) else spec.secret_env
    if key is not None and all(each.env != key for each in manifest.secrets):
        raise broken(
            f"manifest.secrets must name {key}, the secret_env, and the site that gets it if no"
            " address is configured"
        )
    if not isinstance(spec, SkillSpec):
        for field in ("operations", "assets"):
            if getattr(manifest, field) is not None:
                raise broken(f"manifest.{field} must be None: only a skill moves money")


def _manifest_entries(field: str, values: object) -> Iterator[tuple[str, Any]]:
    """Yield each entry of a manifest's tuple with its name; nothing for a field that is None.

    Raises:
        Rejected: if the value is not a tuple, is too long, or has an entry twice.
    """
    if values is None and field in ("operations", "assets"):
        return
    if not isinstance(values, tuple) or len(values) > MAX_DECLARED:
        raise broken(f"manifest.{field} must be a tuple of at most {MAX_DECLARED} entries")
    for at, value in enumerate(values):
        name = f"manifest.{field}[{at}]"
        yield name, value
        # Compared after the check, because a value of another type may equal anything.
        if value in values[:at]:
            raise broken(f"{name} repeats an earlier entry")


def _quoted(value: object) -> str:
    return repr(value)[:80] if type(value) is str else type(value).__name__


def _check_variables(spec: ProviderSpec | VenueSpec) -> None:
    for field in ("secret_env", "base_url_env"):
        variable = getattr(spec, field)
        if variable is not None:
            _check_variable(field, variable, " or None", address=field == "base_url_env")


def _check_variable(
    field: str, variable: object, otherwise: str = "", *, address: bool = False
) -> None:
    if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable):
        raise broken(f"{field} must be an environment variable's name{otherwise}")
    if allowed_for_providers(variable, address=address):
        return
    endings = "_BASE_URL, _API_BASE or _URL"
    if address and not variable.endswith(ADDRESS_ENDINGS):
        raise broken(f"{field} must not be {variable}: an address's name ends in {endings}")
    if not address and allowed_for_providers(variable, address=True):
        raise broken(f"{field} must not be {variable}: {endings} end an address's name")
    raise broken(f"{field} must not be {variable}, which is Solward's own")


class ThreadedRule:
    """A rule's function in the form that the vault calls. Each check gets copies and its own
    thread, so that a check that never returns does not block the event loop."""

    __slots__ = ("_hanging", "function")

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function
        # A hanging rule is not called again until it answers, so that it blocks only one thread.
        self._hanging = False

    async def __call__(self, intent: Intent, effects: TransactionEffects) -> str | Hold | None:
        """Return the reason to refuse or to ask a person, or None to allow."""
        if self._hanging:
            return RuleFailure("the rule has not answered an earlier transaction yet")
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str | Hold | None] = loop.create_future()
        given = copy.deepcopy((intent, effects))

        def answer(reason: str | Hold | None) -> None:
            self._hanging = False
            if not answered.done():
                answered.set_result(reason)

        def check() -> None:
            try:
                reason = exact_answer(self.function(*given))
            except BaseException as error:
                reason = failure_of(error)
            # The loop may be closed already.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(answer, reason)

        threading.Thread(target=check, name="guardrail", daemon=True).start()
        try:
            return await answered
        except asyncio.CancelledError:
            self._hanging = True
            raise
