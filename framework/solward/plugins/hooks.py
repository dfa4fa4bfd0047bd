"""What a plugin's module must have: its group's hooks, each as specified, and no other.

Also the guards around plugin code, so that no exception of it stops the process.

Light, because plugin hosts check modules by it as well; declarations are checked in the service.
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
from solward.types.manifest import GROUPS, ProblemCode, Rejected, described
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

# Hooks a plugin may leave out.
OPTIONAL = {
    PROVIDERS: ("provider_stream", "provider_price"),
    VENUES: ("venue_instructions", "venue_swap"),
}


def hooks_of(group: str) -> tuple[str, ...]:
    """Return all hooks of a group, those that a plugin may leave out last."""
    return (*HOOKS[group], *OPTIONAL.get(group, ()))


# What a group's plugins declare; a guardrail declares nothing.
DECLARED = {SKILLS: SkillSpec, PROVIDERS: ProviderSpec, VENUES: VenueSpec, PAYMENTS: PaymentSpec}

Spec = TypeVar("Spec", SkillSpec, ProviderSpec, VenueSpec, PaymentSpec)


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
        """Return a caller of `hook` that runs `plugin` alone."""
        if not self._sealed:
            raise SealedError("callers are bound after the last registration")
        others = [other for other in self.get_plugins() if other is not plugin]
        return self.subset_hook_caller(hook, others)


def register(
    manager: Manager, group: str, name: str, load: Callable[[], Any], *, interrupts: bool = True
) -> Any:
    """Import a plugin and register it, its hooks checked.

    Args:
        load: imports it, as `EntryPoint.load` does.
        interrupts: let `KeyboardInterrupt` pass, which is the operator's in the service's process.

    Raises:
        Rejected: it cannot be imported, or its hooks are not as specified.
    """
    try:
        plugin = load()
    except BaseException as error:
        if interrupts and isinstance(error, KeyboardInterrupt):
            raise
        raise Rejected(ProblemCode.IMPORT_FAILED, described(error)) from error
    key = f"{group}:{name}"
    try:
        manager.register(plugin, name=key)
    except pluggy.PluginValidationError as error:
        detail = _wrong_argument(group, plugin) or described(error)
        raise Rejected(ProblemCode.BAD_HOOK, detail) from error
    except ValueError as error:
        detail = "another entry point is this very module; one module is one plugin"
        raise Rejected(ProblemCode.BAD_HOOK, detail) from error
    except BaseException as error:
        if interrupts and isinstance(error, KeyboardInterrupt):
            raise
        raise broken(described(error)) from error
    try:
        hash(plugin)
        check_hooks(group, plugin, manager.get_hookcallers(plugin) or [])
    except Rejected:
        manager.unregister(name=key)
        raise
    except Exception as error:
        manager.unregister(name=key)
        raise broken(described(error)) from error
    return plugin


def _wrong_argument(group: str, plugin: Any) -> str | None:
    """Which argument of a hook it does not have; None where that is not what is wrong."""
    with contextlib.suppress(Exception):  # a plugin may be any object
        for hook in hooks_of(group):
            known = inspect.signature(getattr(hookspecs, hook)).parameters
            function = getattr(plugin, hook, None)
            for name in () if function is None else inspect.signature(function).parameters:
                if name not in known:
                    return f"{hook} has no argument {name!r}; it has {', '.join(known) or 'none'}"
    return None


def check_hooks(group: str, plugin: Any, callers: list[pluggy.HookCaller]) -> None:
    """Check that the plugin implements the group's hooks, each once and as specified, and no other.

    Args:
        callers: the hooks the plugin implements, as pluggy found them.

    Raises:
        Rejected: `bad_hook` for a hook that is unknown, foreign or a wrapper, `bad_contract`
            for one that is missing, not async though specified so, or with argument defaults.
    """
    found: dict[str, Callable[..., Any]] = {}
    for caller in callers:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is not plugin:
                continue
            hook = caller.name
            if not caller.has_spec():
                known = ", ".join(hooks_of(group))
                raise Rejected(ProblemCode.BAD_HOOK, f"{hook} is no hook; {group} has {known}")
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
            marked = "without @hookimpl" if hasattr(plugin, hook) else "not there"
            raise broken(f"{hook} is {marked}")
        _check_function(hook, found[hook])
    if group == VENUES:
        check_venue_hooks(found)


def check_venue_hooks(found: Collection[str]) -> None:
    """Raises `Rejected` where a venue can quote and not swap."""
    if not set(found) & set(OPTIONAL[VENUES]):
        raise broken(f"{' or '.join(OPTIONAL[VENUES])} must be there: one of them, or both")


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
            raise broken(f"{hook} must not give {name} a default: it would never be passed")
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise broken(f"{hook} must name its arguments: {inspect.signature(specification)}")


def declared(hook: str, call: Callable[[], Any], kind: type[Spec], name: str) -> Spec:
    """Return the declaration that a spec hook returns.

    Raises:
        Rejected: `bad_contract`: it raises, returns another type, another name than the entry
            point's, or a different value the second time.
    """
    try:
        spec, again = call(), call()
        pure = bool(spec == again)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise broken(f"{hook} raised {described(error)}") from error
    if not isinstance(spec, kind):
        raise broken(f"{hook} must return a {kind.__name__}, not {type(spec).__name__}")
    if not pure:
        raise broken(f"{hook} must return the same declaration each time")
    if spec.name != name:
        raise broken(f"{hook} names it {spec.name!r}, but its entry point is {name!r}")
    # Values of a type that a message would carry as the right one.
    if isinstance(spec, SkillSpec):
        if not isinstance(spec.effects, Effects):
            raise broken("effects must be Effects.READ or Effects.SPEND")
        if not isinstance(spec.examples, tuple):
            raise broken("examples must be a tuple of parameter objects")
    return spec


def broken(detail: str) -> Rejected:
    """Return a plugin that does not keep its contract."""
    return Rejected(ProblemCode.BAD_CONTRACT, detail)


T = TypeVar("T")
P = ParamSpec("P")


class PluginCrash(RuntimeError):
    """Plugin code raised what would have stopped the process: `SystemExit`, a Rust panic."""


async def contained(work: Awaitable[T]) -> T:
    """Await plugin code; a `BaseException` of its own becomes a `PluginCrash`.

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
    """As `contained`, for an async generator; closing it closes the plugin's."""
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
    """As `contained`, for plugin code that is not async."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise PluginCrash(f"{type(error).__name__} from a plugin") from error

    return call


def deliberate(error: Exception) -> SolwardError | None:
    """Return the first deliberate error of a task group in which every error is one."""
    if not isinstance(error, ExceptionGroup):
        return None
    found, other = error.split(SolwardError)
    first: SolwardError | ExceptionGroup[SolwardError] | None = found
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first if other is None else None
