"""Checks of a plugin's hooks: the module must have the hooks of its group, and no others.

The guards around plugin code are also here: no exception of a plugin stops the process.

This module imports little, because plugin hosts use it too. Declarations are checked in the
service.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from typing import Any, ParamSpec, TypeVar

import pluggy

from solward import hookspecs
from solward.types.errors import SolwardError
from solward.types.manifest import GROUPS, ProblemCode, Rejected, describe_error
from solward.types.payment import PaymentSpec
from solward.types.provider import ProviderSpec
from solward.types.skill import Effects, SkillSpec
from solward.types.venue import VenueSpec

SKILLS, PROVIDERS, VENUES, PAYMENTS, GUARDRAILS = GROUPS

HOOKS = {
    SKILLS: ("skill_spec", "skill_execute"),
    PROVIDERS: ("provider_spec", "provider_complete"),
    VENUES: ("venue_spec", "venue_quote"),
    PAYMENTS: ("payment_spec", "payment_offers", "payment_headers", "payment_receipt"),
    GUARDRAILS: ("guardrail_check",),
}

# Hooks that a plugin may omit.
OPTIONAL = {
    PROVIDERS: ("provider_stream", "provider_price"),
    VENUES: ("venue_instructions", "venue_swap"),
}


def hooks_of(group: str) -> tuple[str, ...]:
    """Return all hooks of a group, optional ones last."""
    return (*HOOKS[group], *OPTIONAL.get(group, ()))


# Types of the groups' declarations; a guardrail declares nothing.
DECLARED = {SKILLS: SkillSpec, PROVIDERS: ProviderSpec, VENUES: VenueSpec, PAYMENTS: PaymentSpec}

Spec = TypeVar("Spec", SkillSpec, ProviderSpec, VenueSpec, PaymentSpec)


class SealedError(RuntimeError):
    """A plugin was registered after the manager was sealed, or a caller was bound before."""


class Manager(pluggy.PluginManager):
    """A plugin manager that accepts plugins until it is sealed, and binds callers only afterwards.

    A bound caller of pluggy calls every plugin except those excluded when it was bound, so it would
    also call a plugin that is registered later.
    """

    def __init__(self) -> None:
        super().__init__(hookspecs.PROJECT)
        self.add_hookspecs(hookspecs)
        self._sealed = False

    def register(self, plugin: Any, name: str | None = None) -> str | None:
        """Register a plugin; raise `SealedError` if sealed, or an error of pluggy."""
        if self._sealed:
            raise SealedError("plugins must be registered before the manager is sealed")
        return super().register(plugin, name)

    def seal(self) -> None:
        """Refuse every later registration."""
        self.check_pending()
        self._sealed = True

    def bind(self, hook: str, plugin: Any) -> Callable[..., Any]:
        """Return a caller of `hook` that runs `plugin` alone."""
        if not self._sealed:
            raise SealedError("callers can be bound only after the manager is sealed")
        others = [other for other in self.get_plugins() if other is not plugin]
        return self.subset_hook_caller(hook, others)


def register(
    manager: Manager, group: str, name: str, load: Callable[[], Any], *, interrupts: bool = True
) -> Any:
    """Import a plugin, check its hooks, and register it.

    Args:
        load: imports it, as `EntryPoint.load` does.
        interrupts: whether `KeyboardInterrupt` passes; in the service it is the operator's.

    Raises:
        Rejected: if it cannot be imported, or its hooks are not as specified.
    """
    try:
        plugin = load()
    except BaseException as error:
        if interrupts and isinstance(error, KeyboardInterrupt):
            raise
        raise Rejected(ProblemCode.IMPORT_FAILED, describe_error(error)) from error
    key = f"{group}:{name}"
    try:
        manager.register(plugin, name=key)
    except pluggy.PluginValidationError as error:
        detail = _unknown_argument(group, plugin) or describe_error(error)
        raise Rejected(ProblemCode.BAD_HOOK, detail) from error
    except ValueError as error:
        detail = "another entry point names the same module; a module is one plugin"
        raise Rejected(ProblemCode.BAD_HOOK, detail) from error
    except BaseException as error:
        if interrupts and isinstance(error, KeyboardInterrupt):
            raise
        raise broken(describe_error(error)) from error
    try:
        hash(plugin)
        check_hooks(group, plugin, manager.get_hookcallers(plugin) or [])
    except Rejected:
        manager.unregister(name=key)
        raise
    except Exception as error:
        manager.unregister(name=key)
        raise broken(describe_error(error)) from error
    return plugin


def _unknown_argument(group: str, plugin: Any) -> str | None:
    """Return an error text if a hook has an unknown argument; otherwise None."""
    with contextlib.suppress(Exception):  # a plugin may be any object
        for hook in hooks_of(group):
            known = inspect.signature(getattr(hookspecs, hook)).parameters
            function = getattr(plugin, hook, None)
            for name in () if function is None else inspect.signature(function).parameters:
                if name not in known:
                    return f"{hook} has no argument {name!r}; it has {', '.join(known) or 'none'}"
    return None


def check_hooks(group: str, plugin: Any, callers: list[pluggy.HookCaller]) -> None:
    """Check that the plugin implements the group's hooks, each once, as specified, and no others.

    Args:
        callers: the hooks that the plugin implements, as pluggy found them.

    Raises:
        Rejected: `bad_hook` for a hook that is unknown, of another group, or a wrapper;
            `bad_contract` for one that is missing, not async though specified so, or with argument
            defaults.
    """
    found: dict[str, Callable[..., Any]] = {}
    for caller in callers:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is not plugin:
                continue
            hook = caller.name
            if not caller.has_spec():
                known = ", ".join(hooks_of(group))
                raise Rejected(ProblemCode.BAD_HOOK, f"{hook} is not a hook; {group} has {known}")
            if hook not in hooks_of(group):
                raise Rejected(ProblemCode.BAD_HOOK, f"{hook} is not a hook of {group}")
            if implementation.wrapper or implementation.hookwrapper:
                raise Rejected(ProblemCode.BAD_HOOK, f"{hook} must not be a wrapper")
            if hook in found:
                raise Rejected(ProblemCode.BAD_HOOK, f"{hook} is implemented twice")
            found[hook] = implementation.function
    for hook in hooks_of(group):
        if hook not in found:
            if hook not in HOOKS[group] and not hasattr(plugin, hook):
                continue
            marked = "without @hookimpl" if hasattr(plugin, hook) else "missing"
            raise broken(f"{hook} is {marked}")
        _check_function(hook, found[hook])
    if group == VENUES:
        check_venue_hooks(found)


def check_venue_hooks(found: Collection[str]) -> None:
    """Raise `Rejected` if a venue has no hook that makes a swap."""
    if not set(found) & set(OPTIONAL[VENUES]):
        raise broken(f"{' or '.join(OPTIONAL[VENUES])} must be implemented: one of them, or both")


def _check_function(hook: str, function: Callable[..., Any]) -> None:
    specification = getattr(hookspecs, hook)
    must_be_async = inspect.iscoroutinefunction(specification)
    if inspect.isasyncgenfunction(specification):
        if not inspect.isasyncgenfunction(function):
            raise broken(f"{hook} must be an async generator: `async def` with `yield`")
    elif inspect.iscoroutinefunction(function) != must_be_async:
        raise broken(f"{hook} must be defined with `{'async ' if must_be_async else ''}def`")
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not parameter.empty:
            raise broken(f"{hook} must not give {name} a default: pluggy would not pass it")
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise broken(f"{hook} must name its arguments: {inspect.signature(specification)}")


def read_declaration(hook: str, call: Callable[[], Any], kind: type[Spec], name: str) -> Spec:
    """Call a plugin's spec hook twice, and return the plugin's declaration.

    Raises:
        Rejected: `bad_contract` if it raises, returns another type or another name than the entry
            point's, or returns a different value the second time.
    """
    try:
        spec, again = call(), call()
        pure = bool(spec == again)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise broken(f"{hook} raised {describe_error(error)}") from error
    if not isinstance(spec, kind):
        raise broken(f"{hook} must return a {kind.__name__}, not {type(spec).__name__}")
    if not pure:
        raise broken(f"{hook} must return the same declaration each time")
    if spec.name != name:
        raise broken(f"{hook} returns the name {spec.name!r}, but its entry point is {name!r}")
    # A message would turn these wrong types into the right ones, so they are checked here.
    if isinstance(spec, SkillSpec):
        if not isinstance(spec.effects, Effects):
            raise broken("effects must be Effects.READ or Effects.SPEND")
        if not isinstance(spec.examples, tuple):
            raise broken("examples must be a tuple of parameter objects")
    return spec


def broken(detail: str) -> Rejected:
    """Return the rejection of a plugin that breaks its contract."""
    return Rejected(ProblemCode.BAD_CONTRACT, detail)


T = TypeVar("T")
P = ParamSpec("P")


class PluginCrash(RuntimeError):
    """Plugin code raised an exception that would stop the process: `SystemExit`, a Rust panic."""


async def run_contained(work: Awaitable[T]) -> T:
    """Await plugin code, and turn a `BaseException` of its own into a `PluginCrash`.

    `SystemExit` in a task would stop the whole event loop. Cancellation, `KeyboardInterrupt` and
    ordinary exceptions pass.
    """
    try:
        return await work
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise PluginCrash(f"{type(error).__name__} from a plugin") from error


async def contained_stream(pieces: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield a plugin's pieces, guarded like `run_contained`; closing this closes the generator."""
    try:
        async for piece in pieces:
            yield piece
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise PluginCrash(f"{type(error).__name__} from a plugin") from error
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def contained_call(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap plugin code that is not async, guarded like `run_contained`."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise PluginCrash(f"{type(error).__name__} from a plugin") from error

    return call


def deliberate_error(error: Exception) -> SolwardError | None:
    """Return the first error of a task group if all its errors are deliberate; otherwise None."""
    if not isinstance(error, ExceptionGroup):
        return None
    found, other = error.split(SolwardError)
    first: SolwardError | ExceptionGroup[SolwardError] | None = found
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first if other is None else None
