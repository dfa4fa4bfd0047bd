"""Check `models`: each language model that is configured, asked for one word where it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from solward.types.errors import PluginError, SolwardError
from solward_cli.doctor.report import Line, fail, ok, warn

if TYPE_CHECKING:
    from solward.plugins import LoadedProvider
    from solward_cli.doctor.subject import Subject

# Of the answer: one word, and what a model that reasons needs before it.
MOST_TOKENS: Final = 256
_ANSWER_S: Final = 60.0


async def check(subject: Subject) -> list[Line]:
    """Whether each vendor that has a key answers, with the models that agents use."""
    try:
        registry = await subject.registry()
    except PluginError as error:
        return [fail("Providers", str(error), "see `solward plugins list`")]
    settings = subject.settings
    providers = {
        name: each
        for name, each in registry.providers.items()
        if each.spec.is_llm and settings.configured(each.spec)
    }
    lines = []
    for name, model in sorted(await _used(subject, providers)):
        if name not in providers:
            variable = (
                registry.providers[name].spec.secret_env if name in registry.providers else ""
            )
            advice = f"set {variable}" if variable else "see `solward plugins list`"
            lines.append(fail(f"{name}/{model}", "an agent uses it, and it has no key", advice))
        elif subject.spends:
            lines.append(await _probed(subject, providers[name], model))
        else:
            found = f"has its key, and was not asked: that takes up to {MOST_TOKENS} tokens"
            lines.append(ok(f"{name}/{model}", f"{found} (`solward doctor models`)"))
    advice = "set a vendor's key, such as ANTHROPIC_API_KEY"
    return lines or [warn("Providers", "no vendor has a key", advice)]


async def announced(subject: Subject) -> list[str]:
    """`provider/model` of each that `check` asks."""
    registry = await subject.registry()
    providers = {
        name: each
        for name, each in registry.providers.items()
        if each.spec.is_llm and subject.settings.configured(each.spec)
    }
    used = await _used(subject, providers)
    return [f"{name}/{model}" for name, model in sorted(used) if name in providers]


async def _used(subject: Subject, providers: dict[str, LoadedProvider]) -> set[tuple[str, str]]:
    """The models of agents that exist, of the settings' default, and of each vendor with a key."""
    settings = subject.settings
    used: set[tuple[str, str]] = set()
    registry = await subject.registry()
    for row in await subject.agents():
        loaded = registry.providers.get(row["llm_provider"])
        if loaded is None or loaded.spec.is_llm:
            used.add((row["llm_provider"], row["llm_model"]))
    asked = {name for name, _ in used}
    for name, each in providers.items():
        if name == settings.default_llm_provider and settings.default_llm_model:
            used.add((name, settings.default_llm_model))
        elif name not in asked:
            used.add((name, each.spec.default_model))
    return used


async def _probed(subject: Subject, provider: LoadedProvider, model: str) -> Line:
    import asyncio
    import time

    from solward.types.provider import CompletionRequest, Message

    request = CompletionRequest(
        model=model,
        system="Answer with one word.",
        messages=(Message("user", "Say ok."),),
        max_output_tokens=MOST_TOKENS,
    )
    name = f"{provider.spec.name}/{model}"
    began = time.monotonic()
    try:
        context = subject.settings.provider_context(provider.spec)
        async with asyncio.timeout(_ANSWER_S):
            answer = await provider.complete(request, None, context)
    except TimeoutError:
        return fail(name, f"no answer within {_ANSWER_S:g} s", "look at this machine's way out")
    except SolwardError as error:
        return fail(name, str(error), f"look at {provider.spec.secret_env} and the model's name")
    took = time.monotonic() - began
    tokens = "" if answer.usage is None else f", {answer.usage.tokens} tokens"
    return ok(name, f"answered in {took:.1f} s{tokens}")
