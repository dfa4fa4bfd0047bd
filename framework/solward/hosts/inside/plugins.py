"""The tenant `plugins`: imports the plugins of one distribution, says what they declare, and runs
their hooks, each as the call whose capability came with it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx

from solward.hosts.inside.context import (
    CurrentChannel,
    RemoteCalls,
    RemoteLedger,
    Running,
    current_cap,
    remote_context,
    running,
)
from solward.hosts.inside.http import install
from solward.hosts.inside.tenants import Setup
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Channel, Handler, Incoming
from solward.hosts.wire.failures import shortened
from solward.hosts.wire.values import (
    COMPLETION,
    COMPLETION_REQUEST,
    EFFECTS,
    HTTP_ANSWER,
    INTENT,
    MODEL_PRICE,
    PAYMENT_OFFER,
    PAYMENT_PROOF,
    PAYMENT_RECEIPT,
    PAYMENT_SPEC,
    PROVIDER_SPEC,
    QUOTE,
    QUOTE_REQUEST,
    SKILL_SPEC,
    SWAP_INSTRUCTIONS,
    SWAP_TRANSACTION,
    USAGE,
    VENUE_SPEC,
    from_json,
)
from solward.plugins.containment import PluginCrash, contained, contained_stream, deliberate
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
from solward.plugins.problems import Rejected, described
from solward.support import jsontext
from solward.support.clean_text import cleaned
from solward.types.errors import InvalidRequest, SkillError, SolwardError
from solward.types.guardrail import Hold
from solward.types.payment import PaymentOffer, PaymentReceipt
from solward.types.provider import (
    ModelPrice,
    ProviderContext,
    Usage,
    checked_completion,
    checked_usage,
)
from solward.types.venue import Quote, SwapInstructions, SwapTransaction, VenueContext

T = TypeVar("T")
P = TypeVar("P", bound="Plugins")

ENTRY_POINTS = "entry_points"
"""The option that names the plugins: JSON of `[group, name, value]`s."""

_PAIRS: dict[str, Any] = {
    SKILLS: SKILL_SPEC,
    PROVIDERS: PROVIDER_SPEC,
    VENUES: VENUE_SPEC,
    PAYMENTS: PAYMENT_SPEC,
}
# Of a venue's requests, as the service's own client has it.
_VENUE_TIMEOUT_S = 15.0

_log = logging.getLogger("plugin")


def plugins(setup: Setup) -> Mapping[str, Handler]:
    """Import the distribution's plugins; their handlers by method name."""
    return handlers(imported(setup, Plugins))


def imported(setup: Setup, kind: type[P]) -> P:
    """The distribution's plugins, imported."""
    named = [
        EntryPoint(name, value, group)
        for group, name, value in jsontext.loads(setup.options[ENTRY_POINTS])
    ]
    # Before a plugin is imported, which may make a client of its own.
    install(cast(Channel, CurrentChannel()), current_cap)
    return kind(named, None if setup.scratch is None else Path(setup.scratch))


def handlers(tenant: Plugins) -> dict[str, Handler]:
    """By method name."""
    return {
        methods.SPECS.name: tenant.specs,
        methods.SKILL_EXECUTE.name: tenant.skill_execute,
        methods.POCKET_BUILD.name: tenant.pocket_build,
        methods.PROVIDER_COMPLETE.name: tenant.provider_complete,
        methods.PROVIDER_STREAM.name: tenant.provider_stream,
        methods.PROVIDER_PRICE.name: tenant.provider_price,
        methods.VENUE_QUOTE.name: tenant.venue_quote,
        methods.VENUE_INSTRUCTIONS.name: tenant.venue_instructions,
        methods.VENUE_SWAP.name: tenant.venue_swap,
        methods.PAYMENT_OFFERS.name: tenant.payment_offers,
        methods.PAYMENT_HEADERS.name: tenant.payment_headers,
        methods.PAYMENT_RECEIPT.name: tenant.payment_receipt,
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

    async def specs(self, _incoming: Incoming) -> methods.Specs:
        """What every plugin declares, or why it cannot be used."""
        return methods.Specs(tuple(map(self._plugin, self._named, self._modules)))

    def _plugin(self, named: EntryPoint, module: Any) -> methods.Plugin:
        try:
            if isinstance(module, Rejected):
                raise module
            hooks, spec = self._declaration(named, module)
            made = methods.Plugin(named.group, named.name, hooks, spec)
            # Here and not where the answer is written: of one whose declaration does not fit the
            # others are not to blame.
            methods.SPECS.answers.write(methods.Specs((made,)))
            return made
        except Exception as error:
            rejected = error if isinstance(error, Rejected) else broken(described(error))
            found = methods.Problem(rejected.code.value, rejected.detail)
            return methods.Plugin(named.group, named.name, (), found)

    def _declaration(self, named: EntryPoint, module: Any) -> tuple[tuple[str, ...], Any]:
        group = named.group
        every = (*HOOKS[group], *OPTIONAL.get(group, ()))
        hooks = tuple(hook for hook in every if hasattr(module, hook))
        if group == GUARDRAILS:
            return hooks, None
        hook = HOOKS[group][0]
        found = declared(hook, self._manager.bind(hook, module), DECLARED[group], named.name)
        try:
            return hooks, _PAIRS[group].to_wire(found)
        except Exception as error:
            raise broken(f"{hook}: {described(error)}") from error

    async def skill_execute(self, incoming: Incoming) -> methods.Outcome:
        """Run a skill; its context ends with it."""
        request: methods.SkillExecute = incoming.request
        call = self._call(incoming)
        context, calls = remote_context(call, request, self._storage)
        self._calls[call.cap] = calls
        hook = self._bound(SKILLS, request.name, "skill_execute")
        try:
            outcome = await self._run(
                call, partial(hook, params=from_json(request.params), context=context)
            )
        finally:
            context.end()
            del self._calls[call.cap]
            await context.aclose()
        if not isinstance(outcome, str):
            _log.error("skill %s answered with %s", request.name, type(outcome).__name__)
            raise SkillError("bad_outcome", f"Skill {request.name!r} did not answer with text")
        return methods.Outcome(str.__str__(outcome))

    async def pocket_build(self, incoming: Incoming) -> methods.Built:
        """What a running skill calls with its pocket."""
        calls = self._calls.get(incoming.cap or b"")
        if calls is None:
            raise SkillError("call_ended", "The skill's call has ended")
        return await _shielded(calls.build(incoming.request.build, incoming.request.pocket))

    async def provider_complete(self, incoming: Incoming) -> Any:
        """One completion."""
        request: methods.ProviderComplete = incoming.request
        hook = self._bound(PROVIDERS, request.name, "provider_complete")
        completion = await self._run(
            self._call(incoming),
            partial(
                hook,
                request=COMPLETION_REQUEST.from_wire(request.request),
                options=from_json(request.options),
                context=self._provider_context(request),
            ),
        )
        return COMPLETION.to_wire(checked_completion(completion))

    async def provider_stream(
        self, incoming: Incoming
    ) -> AsyncGenerator[methods.CompletionPiece, None]:
        """One completion in pieces."""
        request: methods.ProviderComplete = incoming.request
        hook = self._bound(PROVIDERS, request.name, "provider_stream")
        call = self._call(incoming)
        with running(call):
            pieces = hook(
                request=COMPLETION_REQUEST.from_wire(request.request),
                options=from_json(request.options),
                context=self._provider_context(request),
            )
            async with aclosing(contained_stream(pieces)) as every:
                async for piece in every:
                    if isinstance(piece, Usage):
                        checked_usage(piece)
                        yield methods.CompletionPiece(usage=USAGE.to_wire(piece))
                        continue
                    text = cleaned(_of_type(piece, str, "provider_stream"))
                    for start in range(0, len(text), _PIECE_CHARACTERS):
                        yield methods.CompletionPiece(text[start : start + _PIECE_CHARACTERS])

    async def provider_price(self, incoming: Incoming) -> methods.Price:
        """A model's price."""
        request: methods.ProviderPrice = incoming.request
        hook = self._bound(PROVIDERS, request.name, "provider_price")
        price = await self._run(
            self._call(incoming),
            partial(hook, model=request.model, options=from_json(request.options)),
        )
        if price is None:
            return methods.Price(None)
        return methods.Price(MODEL_PRICE.to_wire(_of_type(price, ModelPrice, "provider_price")))

    async def venue_quote(self, incoming: Incoming) -> Any:
        """A venue's offer."""
        request: methods.VenueQuote = incoming.request
        quote = await self._venue(
            incoming, "venue_quote", request=QUOTE_REQUEST.from_wire(request.request)
        )
        return QUOTE.to_wire(_of_type(quote, Quote, "venue_quote"))

    async def venue_instructions(self, incoming: Incoming) -> Any:
        """A venue's swap as an instruction."""
        request: methods.VenueInstructions = incoming.request
        made = await self._venue(
            incoming,
            "venue_instructions",
            quote=QUOTE.from_wire(request.quote),
            taker=request.taker,
            destination=request.destination,
            max_accounts=request.max_accounts,
        )
        return SWAP_INSTRUCTIONS.to_wire(_of_type(made, SwapInstructions, "venue_instructions"))

    async def venue_swap(self, incoming: Incoming) -> Any:
        """A venue's swap as a transaction."""
        request: methods.VenueSwap = incoming.request
        made = await self._venue(
            incoming, "venue_swap", quote=QUOTE.from_wire(request.quote), wallet=request.wallet
        )
        return SWAP_TRANSACTION.to_wire(_of_type(made, SwapTransaction, "venue_swap"))

    async def payment_offers(self, incoming: Incoming) -> methods.Offers:
        """What a seller's answer offers."""
        request: methods.ReadOffers = incoming.request
        offers = await self._payment(
            incoming, "payment_offers", answer=HTTP_ANSWER.from_wire(request.answer)
        )
        # A generator would run where none of the guards around a hook is.
        if not isinstance(offers, list | tuple):
            raise TypeError(f"payment_offers must answer a list, not {type(offers).__name__}")
        return methods.Offers(
            tuple(
                shortened(str(each))
                if isinstance(each, InvalidRequest)
                else PAYMENT_OFFER.to_wire(_of_type(each, PaymentOffer, "payment_offers"))
                for each in offers
            )
        )

    async def payment_headers(self, incoming: Incoming) -> methods.ShownHeaders:
        """The headers that show a payment."""
        request: methods.ShowPayment = incoming.request
        headers = await self._payment(
            incoming,
            "payment_headers",
            offer=PAYMENT_OFFER.from_wire(request.offer),
            proof=PAYMENT_PROOF.from_wire(request.proof),
        )
        if not isinstance(headers, Mapping):
            found = type(headers).__name__
            raise TypeError(f"payment_headers must answer a mapping, not {found}")
        return methods.ShownHeaders(dict(headers))

    async def payment_receipt(self, incoming: Incoming) -> methods.Receipt:
        """What a seller says of a payment."""
        request: methods.ReadReceipt = incoming.request
        receipt = await self._payment(
            incoming,
            "payment_receipt",
            offer=PAYMENT_OFFER.from_wire(request.offer),
            answer=HTTP_ANSWER.from_wire(request.answer),
        )
        if receipt is None:
            return methods.Receipt(None)
        said = _of_type(receipt, PaymentReceipt, "payment_receipt")
        return methods.Receipt(PAYMENT_RECEIPT.to_wire(said))

    async def _payment(self, incoming: Incoming, hook: str, **given: Any) -> Any:
        bound = self._bound(PAYMENTS, incoming.request.name, hook)
        return await self._run(self._call(incoming), partial(bound, **given))

    async def guardrail_check(self, incoming: Incoming) -> methods.Verdict:
        """A rule's answer; one that raises, or answers anything else, has refused."""
        request: methods.GuardrailCheck = incoming.request
        hook = self._bound(GUARDRAILS, request.name, "guardrail_check")
        intent, effects = INTENT.from_wire(request.intent), EFFECTS.from_wire(request.effects)
        try:
            answer: object = hook(intent=intent, effects=effects)
        except BaseException as error:
            _log.exception("guardrail %s failed", request.name)
            return methods.Verdict(f"the rule failed: {type(error).__name__}", failed=True)
        if answer is None:
            return methods.Verdict()
        if type(answer) is Hold and isinstance(answer.reason, str):
            return methods.Verdict(answer.reason[:_MAX_REASON], held=True)
        text = answer if isinstance(answer, str) else "the rule refused"
        return methods.Verdict(str.__str__(text)[:_MAX_REASON])

    async def _venue(self, incoming: Incoming, hook: str, **given: Any) -> Any:
        request, call = incoming.request, self._call(incoming)
        bound = self._bound(VENUES, request.name, hook)
        client = httpx.AsyncClient(base_url=request.base_url or "", timeout=_VENUE_TIMEOUT_S)
        async with client as http:
            context = VenueContext(
                http, request.secrets, self._storage, RemoteLedger(call), request.pools
            )
            return await self._run(call, partial(bound, **given, context=context))

    def _provider_context(self, request: methods.ProviderComplete) -> ProviderContext:
        return ProviderContext(request.secret, request.base_url, self._storage)

    def _bound(self, group: str, name: str, hook: str) -> Callable[..., Any]:
        for named, module in zip(self._named, self._modules, strict=True):
            if (named.group, named.name) == (group, name) and hasattr(module, hook):
                return self._manager.bind(hook, module)
        raise SkillError("no_such_plugin", f"No plugin {name!r} with {hook} runs here")

    def _call(self, incoming: Incoming) -> Running:
        return Running(incoming.channel, incoming.cap or b"")

    async def _run(self, call: Running, hook: Callable[[], Awaitable[T]]) -> T:
        """Await a hook as this call."""
        with running(call):
            return await _shielded(hook())


# A piece of 64 KiB, of characters of at most four bytes.
_PIECE_CHARACTERS = 16_000
_MAX_REASON = 4_000


async def _shielded(work: Awaitable[T]) -> T:
    """Let deliberate errors pass; log any other here, where its traceback is."""
    try:
        return await contained(work)
    except SolwardError:
        raise
    except (Exception, PluginCrash) as error:
        meant = deliberate(error)
        if meant is not None:
            raise meant from None
        _log.exception("a plugin failed: %s", type(error).__name__)
        raise


def _of_type(value: Any, kind: type[T], hook: str) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{hook} must answer with {kind.__name__}, not {type(value).__name__}")
    return value
