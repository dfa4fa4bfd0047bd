"""The tenants `plugins` and `models`.

`plugins` imports the plugins of one distribution, answers with their declarations, and runs each
hook as the call whose capability came with it. `models` does the same for Solward's own language
model providers, and prepares litellm for a process that may not write files or run programs.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import httpx

from solward.hosts.inside.calls import (
    CallInHost,
    CurrentChannel,
    RemoteCalls,
    RemoteLedger,
    current_cap,
    install,
    remote_context,
    run_as_call,
)
from solward.hosts.inside.main import Setup
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Channel, Handler, IncomingCall
from solward.hosts.wire.failures import shortened
from solward.hosts.wire.methods import BuiltTransaction, Plugin, Verdict
from solward.hosts.wire.values import sendable_completion
from solward.plugins.hooks import (
    DECLARED,
    GUARDRAILS,
    HOOKS,
    PAYMENTS,
    PROVIDERS,
    SKILLS,
    VENUES,
    Manager,
    PluginCrash,
    broken,
    contained_stream,
    deliberate_error,
    hooks_of,
    read_declaration,
    register,
    run_contained,
)
from solward.support import jsontext
from solward.support.clean_text import cleaned
from solward.types.errors import InvalidRequest, SkillError, SolwardError
from solward.types.guardrail import Hold
from solward.types.manifest import Rejected, describe_error
from solward.types.payment import PaymentOffer, PaymentReceipt
from solward.types.provider import (
    Completion,
    ModelPrice,
    ProviderContext,
    Usage,
    checked_completion,
    checked_usage,
)
from solward.types.venue import Quote, SwapInstructions, SwapTransaction, VenueContext

T = TypeVar("T")
P = ParamSpec("P")
Kind = TypeVar("Kind", bound="Plugins")

ENTRY_POINTS = "entry_points"
"""The option that names the plugins, as a JSON list of `[group, name, value]`."""

# Types of the answers of venues' and payment protocols' hooks, by method.
_VENUE_ANSWERS: Mapping[str, Any] = {
    methods.VENUE_QUOTE.name: Quote,
    methods.VENUE_INSTRUCTIONS.name: SwapInstructions,
    methods.VENUE_SWAP.name: SwapTransaction,
}
_PAYMENT_ANSWERS: Mapping[str, Any] = {
    methods.PAYMENT_OFFERS.name: list | tuple,
    methods.PAYMENT_HEADERS.name: Mapping,
    methods.PAYMENT_RECEIPT.name: PaymentReceipt | None,
}
# Timeout of a venue's requests, the same as that of the service's own client.
_VENUE_TIMEOUT_S = 15.0

_log = logging.getLogger("plugin")


def plugins(setup: Setup) -> Mapping[str, Handler]:
    """Import the distribution's plugins and return their handlers by method."""
    return handlers(import_plugins(setup, Plugins))


def models(setup: Setup) -> Mapping[str, Handler]:
    """Import the providers' modules and return their handlers; the first call imports litellm."""
    import tempfile  # here, because no plugin host needs it

    # No program can run here and no file can be written. litellm's import looks for a compiler and
    # a folder for temporary files, and uses neither.
    os.environ["PATH"] = ""
    tempfile.tempdir = "/nonexistent"
    # aiohttp would open sockets; httpx asks the service.
    os.environ["DISABLE_AIOHTTP_TRANSPORT"] = "True"
    asyncio.get_running_loop().set_default_executor(_SameThreadExecutor())
    return plugins(setup)


class _SameThreadExecutor(ThreadPoolExecutor):
    """An executor that runs litellm's functions, which take microseconds, in the calling thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See `Executor.submit`; the future is done when it returns."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def import_plugins(setup: Setup, kind: type[Kind]) -> Kind:
    """Import the distribution's plugins, and return them."""
    named = [
        EntryPoint(name, value, group)
        for group, name, value in jsontext.loads(setup.options[ENTRY_POINTS])
    ]
    # Installed before a plugin is imported, because it may make a client at import.
    install(cast(Channel, CurrentChannel()), current_cap)
    return kind(named, None if setup.scratch is None else Path(setup.scratch))


def handlers(tenant: Plugins) -> dict[str, Handler]:
    """Return the tenant's handlers by method name."""
    return {
        methods.SPECS.name: tenant.specs,
        methods.SKILL_EXECUTE.name: tenant.skill_execute,
        methods.POCKET_BUILD.name: tenant.pocket_build,
        methods.PROVIDER_COMPLETE.name: tenant.provider_complete,
        methods.PROVIDER_STREAM.name: tenant.provider_stream,
        methods.PROVIDER_PRICE.name: tenant.provider_price,
        **dict.fromkeys(_VENUE_ANSWERS, tenant.venue),
        **dict.fromkeys(_PAYMENT_ANSWERS, tenant.payment),
        methods.PAYMENT_OFFERS.name: tenant.payment_offers,
        methods.GUARDRAIL_CHECK.name: tenant.guardrail_check,
    }


class Plugins:
    """The plugins of one distribution, imported, and their running calls."""

    def __init__(self, named: list[EntryPoint], storage: Path | None) -> None:
        self._named = named
        self._storage = storage
        self._manager = Manager()
        self._modules: list[Any] = []
        for each in named:
            try:
                module = register(self._manager, each.group, each.name, each.load, interrupts=False)
            except Rejected as rejected:
                module = rejected
            self._modules.append(module)
        self._manager.seal()
        self._calls: dict[bytes, RemoteCalls] = {}

    async def specs(self, _incoming: IncomingCall) -> tuple[Plugin, ...]:
        """Return each plugin's declaration, or the reason why the plugin cannot be used."""
        return tuple(map(self._declare_plugin, self._named, self._modules))

    def _declare_plugin(self, named: EntryPoint, module: Any) -> Plugin:
        try:
            if isinstance(module, Rejected):
                raise module
            group, spec = named.group, None
            hooks = tuple(hook for hook in hooks_of(group) if hasattr(module, hook))
            if group != GUARDRAILS:
                call = self._manager.bind(HOOKS[group][0], module)
                spec = read_declaration(HOOKS[group][0], call, DECLARED[group], named.name)
            made = Plugin(group, named.name, hooks, spec)
            # Written here first, so that a declaration that cannot travel fails its plugin alone.
            try:
                methods.SPECS.answers.write((made,))
            except Exception as error:
                raise broken(f"{HOOKS[group][0]}: {describe_error(error)}") from error
            return made
        except Exception as error:
            rejected = error if isinstance(error, Rejected) else broken(describe_error(error))
            found = methods.Problem(rejected.code.value, rejected.detail)
            return Plugin(named.group, named.name, (), found)

    async def skill_execute(self, incoming: IncomingCall) -> str:
        """Run a skill; its context ends with the run."""
        asked, call = incoming.request, _call_of(incoming)
        name: str = asked["name"]
        context, calls = remote_context(call, asked, self._storage)
        self._calls[call.cap] = calls
        hook = self._bound_hook(SKILLS, name, "skill_execute")
        try:
            outcome = await _run_hook(call, partial(hook, params=asked["params"], context=context))
        finally:
            context.end()
            del self._calls[call.cap]
            await context.aclose()
        if not isinstance(outcome, str):
            _log.error("skill %s returned %s", name, type(outcome).__name__)
            raise SkillError("bad_outcome", f"Skill {name!r} did not return text")
        return str.__str__(outcome)

    async def pocket_build(self, incoming: IncomingCall) -> BuiltTransaction:
        """Run the build function of a running skill's pocket."""
        calls, asked = self._calls.get(incoming.cap or b""), incoming.request
        if calls is None:
            raise SkillError("call_ended", "The skill's call has ended")
        return await _run_shielded(calls.build(asked["build"], asked["pocket"]))

    async def provider_complete(self, incoming: IncomingCall) -> Completion:
        """Run a provider's hook, and return its completion."""
        hook = self._completion_hook(incoming, "provider_complete")
        return sendable_completion(checked_completion(await _run_hook(_call_of(incoming), hook)))

    async def provider_stream(self, incoming: IncomingCall) -> AsyncGenerator[str | Usage, None]:
        """Run a provider's hook, and yield its completion in pieces."""
        hook = self._completion_hook(incoming, "provider_stream")
        with run_as_call(_call_of(incoming)):
            async with aclosing(contained_stream(hook())) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Usage):
                        checked_usage(piece)
                        yield piece
                        continue
                    text = cleaned(_check_type(piece, str, "provider_stream"))
                    for start in range(0, len(text), _PIECE_CHARACTERS):
                        yield text[start : start + _PIECE_CHARACTERS]

    async def provider_price(self, incoming: IncomingCall) -> ModelPrice | None:
        """Run a provider's hook, and return the model's price."""
        asked = dict(incoming.request)
        hook = self._bound_hook(PROVIDERS, asked.pop("name"), "provider_price")
        price = await _run_hook(_call_of(incoming), partial(hook, **asked))
        return None if price is None else _check_type(price, ModelPrice, "provider_price")

    def _completion_hook(self, incoming: IncomingCall, name: str) -> Callable[[], Any]:
        asked = incoming.request
        hook = self._bound_hook(PROVIDERS, asked["name"], name)
        context = ProviderContext(asked["secret"], asked["base_url"], self._storage)
        return partial(hook, request=asked["request"], options=asked["options"], context=context)

    async def venue(self, incoming: IncomingCall) -> Any:
        """Run a venue's hook and return its answer."""
        asked, call, name = dict(incoming.request), _call_of(incoming), incoming.method
        hook = self._bound_hook(VENUES, asked.pop("name"), _hook_name(name))
        base_url, secrets, pools = (asked.pop(each) for each in ("base_url", "secrets", "pools"))
        client = httpx.AsyncClient(base_url=base_url or "", timeout=_VENUE_TIMEOUT_S)
        async with client as http:
            ledger = RemoteLedger(call)
            context = VenueContext(http, secrets, self._storage, ledger, pools)
            answer = await _run_hook(call, partial(hook, **asked, context=context))
        return _check_type(answer, _VENUE_ANSWERS[name], _hook_name(name))

    async def payment(self, incoming: IncomingCall) -> Any:
        """Run a payment protocol's hook and return its answer."""
        asked, name = dict(incoming.request), incoming.method
        hook = self._bound_hook(PAYMENTS, asked.pop("name"), _hook_name(name))
        answer = await _run_hook(_call_of(incoming), partial(hook, **asked))
        # A generator of offers is refused: it would run outside the guards around a hook.
        return _check_type(answer, _PAYMENT_ANSWERS[name], _hook_name(name))

    async def payment_offers(self, incoming: IncomingCall) -> tuple[PaymentOffer | str, ...]:
        """Return the offers in a seller's answer; for an unreadable offer, the reason as text."""
        return tuple(
            shortened(str(each))
            if isinstance(each, InvalidRequest)
            else _check_type(each, PaymentOffer, "payment_offers")
            for each in await self.payment(incoming)
        )

    async def guardrail_check(self, incoming: IncomingCall) -> Verdict:
        """Return a rule's verdict; an exception or an invalid answer counts as a refusal."""
        asked = dict(incoming.request)
        name = asked.pop("name")
        hook = self._bound_hook(GUARDRAILS, name, "guardrail_check")
        try:
            answer: object = hook(**asked)
        except BaseException as error:
            _log.exception("guardrail %s failed", name)
            return Verdict(f"the rule failed: {type(error).__name__}", failed=True)
        if answer is None:
            return Verdict()
        if type(answer) is Hold and isinstance(answer.reason, str):
            return Verdict(answer.reason[:_MAX_REASON], held=True)
        text = answer if isinstance(answer, str) else "the rule refused"
        return Verdict(str.__str__(text)[:_MAX_REASON])

    def _bound_hook(self, group: str, name: str, hook: str) -> Callable[..., Any]:
        for named, module in zip(self._named, self._modules, strict=True):
            if (named.group, named.name) == (group, name) and hasattr(module, hook):
                return self._manager.bind(hook, module)
        raise SkillError("no_such_plugin", f"This host has no plugin {name!r} with {hook}")


def _call_of(incoming: IncomingCall) -> CallInHost:
    return CallInHost(incoming.channel, incoming.cap or b"")


async def _run_hook(call: CallInHost, hook: Callable[[], Awaitable[T]]) -> T:
    with run_as_call(call):
        return await _run_shielded(hook())


# Characters in a piece of 64 KiB, if each has four bytes.
_PIECE_CHARACTERS = 16_000
_MAX_REASON = 4_000


async def _run_shielded(work: Awaitable[T]) -> T:
    """Await plugin code; log any error that is not deliberate, with its traceback, and raise it."""
    try:
        return await run_contained(work)
    except SolwardError:
        raise
    except (Exception, PluginCrash) as error:
        meant = deliberate_error(error)
        if meant is not None:
            raise meant from None
        _log.exception("a plugin failed: %s", type(error).__name__)
        raise


def _hook_name(method: str) -> str:
    return method.replace(".", "_")


def _check_type(value: Any, kind: Any, hook: str) -> Any:
    if not isinstance(value, kind):
        wanted = getattr(kind, "__name__", kind)
        raise TypeError(f"{hook} must return {wanted}, not {type(value).__name__}")
    return value
