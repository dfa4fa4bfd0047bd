"""The checks of a registered plugin: its hooks complete and well-formed, its declaration valid."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import pluggy

from solward import hookspecs
from solward.errors import InvalidRequest
from solward.provider import ProviderSpec
from solward.registry.discovery import GUARDRAILS, PROVIDERS, SKILLS, VENUES
from solward.registry.parameters import Parameters
from solward.registry.problems import ProblemCode, Rejected, described
from solward.settings.settings import allowed_for_providers
from solward.skill import Effects, SkillSpec
from solward.venue import VenueSpec

HOOKS = {
    SKILLS: ("skill_spec", "skill_execute"),
    PROVIDERS: ("provider_spec", "provider_complete"),
    VENUES: ("venue_spec", "venue_quote"),
    GUARDRAILS: ("guardrail_check",),
}

# Hooks a plugin may leave out.
OPTIONAL = {
    PROVIDERS: ("provider_stream", "provider_price"),
    VENUES: ("venue_instructions", "venue_swap"),
}

# Optional hooks of which a plugin has at least one.
AT_LEAST_ONE = {VENUES: OPTIONAL[VENUES]}

MAX_DESCRIPTION = 1_024
MAX_TIMEOUT_S = 600.0
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,127}")

Spec = TypeVar("Spec", SkillSpec, ProviderSpec, VenueSpec)


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
            if implementation.plugin is plugin:
                _check_registration(group, caller, implementation, found)
                found[caller.name] = implementation.function
    for hook in (*HOOKS[group], *OPTIONAL.get(group, ())):
        if hook not in found:
            if hook not in HOOKS[group] and not hasattr(plugin, hook):
                continue
            marked = "without @hookimpl" if hasattr(plugin, hook) else "not there"
            raise _broken(f"{hook} is {marked}")
        _check_function(hook, found[hook])
    alternatives = AT_LEAST_ONE.get(group)
    if alternatives and not found.keys() & set(alternatives):
        raise _broken(f"{' or '.join(alternatives)} must be there: one of them, or both")


def _check_registration(
    group: str,
    caller: pluggy.HookCaller,
    implementation: pluggy.HookImpl,
    found: dict[str, Callable[..., Any]],
) -> None:
    hook = caller.name
    if not caller.has_spec():
        known = ", ".join((*HOOKS[group], *OPTIONAL.get(group, ())))
        raise Rejected(ProblemCode.BAD_HOOK, f"{hook} is no hook; {group} has {known}")
    if hook not in (*HOOKS[group], *OPTIONAL.get(group, ())):
        raise Rejected(ProblemCode.BAD_HOOK, f"{hook} is not a hook of {group}")
    if implementation.wrapper or implementation.hookwrapper:
        raise Rejected(ProblemCode.BAD_HOOK, f"{hook} must not be a wrapper")
    if hook in found:
        raise Rejected(ProblemCode.BAD_HOOK, f"{hook} is implemented twice")


def _check_function(hook: str, function: Callable[..., Any]) -> None:
    specification = getattr(hookspecs, hook)
    must_be_async = inspect.iscoroutinefunction(specification)
    if inspect.isasyncgenfunction(specification):
        if not inspect.isasyncgenfunction(function):
            raise _broken(f"{hook} must be an async generator: `async def` with `yield`")
    elif inspect.iscoroutinefunction(function) != must_be_async:
        raise _broken(f"{hook} must be defined with `{'async ' if must_be_async else ''}def`")
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not parameter.empty:
            raise _broken(f"{hook} must not give {name} a default: it would never be passed")
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise _broken(f"{hook} must name its arguments: {inspect.signature(specification)}")


def declared(hook: str, call: Callable[[], Any], kind: type[Spec], name: str) -> Spec:
    """The declaration that a spec hook returns.

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
        raise _broken(f"{hook} raised {described(error)}") from error
    if not isinstance(spec, kind):
        raise _broken(f"{hook} must return a {kind.__name__}, not {type(spec).__name__}")
    if not pure:
        raise _broken(f"{hook} must return the same declaration each time")
    if spec.name != name:
        raise _broken(f"{hook} names it {spec.name!r}, but its entry point is {name!r}")
    return spec


def check_skill(spec: SkillSpec) -> None:
    """Raises `Rejected`, naming the first field of `SkillSpec` that is out of range."""
    text = spec.description
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_DESCRIPTION:
        raise _broken(f"description must be text of 1 to {MAX_DESCRIPTION} characters")
    if not isinstance(spec.effects, Effects):
        raise _broken("effects must be Effects.READ or Effects.SPEND")
    timeout = spec.timeout_s
    known = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not known or not math.isfinite(timeout) or not 0 < timeout <= MAX_TIMEOUT_S:
        raise _broken(f"timeout_s must be more than 0 and at most {MAX_TIMEOUT_S:g} seconds")


def check_examples(spec: SkillSpec, parameters: Parameters) -> None:
    """Raises `Rejected`, naming the first example that does not fit the skill's schema."""
    if not isinstance(spec.examples, tuple):
        raise _broken("examples must be a tuple of parameter objects")
    for at, example in enumerate(spec.examples):
        try:
            parameters.validate(example)
        except InvalidRequest as error:
            raise _broken(f"examples[{at}]: {error}") from None


def check_provider(spec: ProviderSpec) -> None:
    """Raises `Rejected`, naming the first field of `ProviderSpec` that is out of range."""
    if not isinstance(spec.default_model, str) or not spec.default_model.strip():
        raise _broken("default_model must name a model")
    for field in ("secret_env", "base_url_env"):
        variable = getattr(spec, field)
        if variable is None:
            continue
        if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable):
            raise _broken(f"{field} must be an environment variable's name or None")
        if not allowed_for_providers(variable):
            raise _broken(f"{field} must not be {variable}, which is Solward's own")
    if not isinstance(spec.is_llm, bool) or not isinstance(spec.demo, bool):
        raise _broken("is_llm and demo must be True or False")


def _broken(detail: str) -> Rejected:
    return Rejected(ProblemCode.BAD_CONTRACT, detail)
