"""Loaded plugins: declarations that passed every check, and their bound hooks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from solward.plugins.discovery import Place
from solward.plugins.folders.layout import canonical
from solward.plugins.hooks import contained_stream, run_contained
from solward.plugins.parameters import Parameters
from solward.plugins.payment_checks import (
    SAMPLES,
    check_proof,
    checked_headers,
    checked_offers,
    checked_receipt,
)
from solward.plugins.schema import SkillSettings
from solward.types.errors import InvalidRequest, SkillError, SkillNotFound, SolwardError
from solward.types.guardrail import Hold, Intent, TransactionEffects
from solward.types.manifest import Problem, shorten_text
from solward.types.payment import (
    HttpAnswer,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSpec,
)
from solward.types.provider import (
    Completion,
    CompletionRequest,
    ModelPrice,
    ProviderContext,
    ProviderSpec,
    ToolDefinition,
    Usage,
)
from solward.types.skill import SkillSpec
from solward.types.venue import (
    Quote,
    QuoteRequest,
    SwapInstructions,
    SwapTransaction,
    VenueContext,
    VenueSpec,
)

if TYPE_CHECKING:
    from solward.context import SkillContext

HookCall = Callable[..., Any]

EMPTY_CONTEXT = ProviderContext()

PROTOCOL_TIME_LIMIT_S = 5.0
"""Time limit of one hook of a payment protocol, a pure function of a seller's answer."""
PROTOCOL_FAILED = "payment_protocol"
"""Code of the `SkillError` that reports a failed payment protocol."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")
_Named = TypeVar("_Named", "LoadedSkill", "LoadedProvider", "LoadedVenue", "LoadedPayment")


@dataclass(frozen=True, slots=True)
class _LoadedPlugin:
    """A loaded plugin of any kind but a guardrail.

    Attributes:
        distribution: the installed distribution it belongs to, with its `version`.
        calls: callers of its hooks by name, without the hook that declares the plugin.
    """

    spec: Any
    distribution: str
    version: str
    calls: Mapping[str, HookCall] = field(repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class LoadedSkill(_LoadedPlugin):
    """A skill; the references in `spec.parameters` are resolved.

    Attributes:
        settings: its settings; None if it declares none.
    """

    spec: SkillSpec
    parameters: Parameters = field(repr=False)
    settings: SkillSettings | None = None

    async def execute(self, params: dict[str, Any], context: SkillContext) -> Any:
        """Run the hook itself, without checks. Do not call this directly; use `run_skill`."""
        return await run_contained(self.calls["skill_execute"](params=params, context=context))


@dataclass(frozen=True, slots=True)
class LoadedProvider(_LoadedPlugin):
    """A language model provider, or a demo provider that replaces one."""

    spec: ProviderSpec
    options: Parameters = field(repr=False)

    @property
    def streams(self) -> bool:
        """True if the provider can answer in pieces (a stream)."""
        return "provider_stream" in self.calls

    async def complete(
        self,
        request: CompletionRequest,
        options: Mapping[str, Any] | None = None,
        context: ProviderContext = EMPTY_CONTEXT,
    ) -> Completion:
        """Return one completion; raise the provider's errors, and `InvalidRequest` for options."""
        valid = self.options.validate({} if options is None else options)
        complete = self.calls["provider_complete"]
        return await run_contained(complete(request=request, options=valid, context=context))

    async def price(self, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
        """Return the price of a model, or None if it is not known; raise errors of the provider."""
        price = self.calls.get("provider_price")
        if price is None:
            return None
        return await run_contained(price(model=model, options=self.options.validate(dict(options))))

    async def stream(
        self,
        request: CompletionRequest,
        options: Mapping[str, Any] | None = None,
        context: ProviderContext = EMPTY_CONTEXT,
    ) -> AsyncGenerator[str | Usage, None]:
        """Yield one answer in pieces, or whole without a stream; raises errors of `complete`."""
        if not self.streams:
            completion = await self.complete(request, options, context)
            yield completion.text or ""
            if completion.usage is not None:
                yield completion.usage
            return
        valid = self.options.validate({} if options is None else options)
        stream = self.calls["provider_stream"]
        pieces = stream(request=request, options=valid, context=context)
        async with aclosing(contained_stream(pieces)) as contained_pieces:
            async for piece in contained_pieces:
                yield piece


@dataclass(frozen=True, slots=True)
class LoadedVenue(_LoadedPlugin):
    """A swap venue that returns instructions, transactions or both; raises the venue's errors."""

    spec: VenueSpec

    @property
    def gives_instructions(self) -> bool:
        """True if the venue returns an instruction for a swap (`instructions`)."""
        return "venue_instructions" in self.calls

    @property
    def gives_transactions(self) -> bool:
        """True if the venue returns a whole transaction for a swap (`swap`)."""
        return "venue_swap" in self.calls

    async def quote(self, request: QuoteRequest, context: VenueContext) -> Quote:
        """Return the venue's offer."""
        return await run_contained(self.calls["venue_quote"](request=request, context=context))

    async def instructions(
        self,
        quote: Quote,
        taker: str,
        destination: str,
        context: VenueContext,
        max_accounts: int | None = None,
    ) -> SwapInstructions:
        """Return the swap instruction of an offer; only if `gives_instructions`."""
        if not self.gives_instructions:
            raise TypeError(f"{self.spec.name} has no venue_instructions")
        call = self.calls["venue_instructions"](
            quote=quote,
            taker=taker,
            destination=destination,
            max_accounts=max_accounts,
            context=context,
        )
        return await run_contained(call)

    async def swap(self, quote: Quote, wallet: str, context: VenueContext) -> SwapTransaction:
        """Return the transaction of an offer, without a signature; only if `gives_transactions`."""
        if not self.gives_transactions:
            raise TypeError(f"{self.spec.name} has no venue_swap")
        call = self.calls["venue_swap"]
        return await run_contained(call(quote=quote, wallet=wallet, context=context))


@dataclass(frozen=True, slots=True)
class LoadedPayment(_LoadedPlugin):
    """A payment protocol. Each call may take `PROTOCOL_TIME_LIMIT_S`, and every answer is
    checked, even that of a built-in plugin.

    `offers` and `headers` also raise:
        SkillError: `payment_protocol` if the plugin fails, or does not answer in time.
    """

    spec: PaymentSpec

    async def offers(self, answer: HttpAnswer) -> tuple[PaymentOffer | InvalidRequest, ...]:
        """Return the ways to pay on Solana that a seller's answer offers, in the seller's order.

        The result is empty if the answer is not of this protocol. Headers can be made for each
        offer, in each of its payment modes. An entry that is malformed, out of range or for which
        no headers can be made becomes an error with the reason.

        Raises:
            InvalidRequest: if it is of this protocol and malformed as a whole; names what is wrong.
        """

        async def found() -> tuple[PaymentOffer | InvalidRequest, ...]:
            offers = checked_offers(await self.calls["payment_offers"](answer=answer))
            return tuple([await self._provable_offer(each) for each in offers])

        return await self._call_with_limit(found())

    async def _provable_offer(
        self, offer: PaymentOffer | InvalidRequest
    ) -> PaymentOffer | InvalidRequest:
        """Return the offer, or an error if its payment could not be proved to the seller."""
        if isinstance(offer, InvalidRequest):
            return offer
        try:
            for mode in offer.modes:
                await self._make_headers(offer, SAMPLES[mode])
        except InvalidRequest as odd:
            return odd
        return offer

    async def headers(self, offer: PaymentOffer, proof: PaymentProof) -> dict[str, str]:
        """Return the headers that prove the payment when the request is made again.

        Raises:
            InvalidRequest: if the proof's mode is not one of the offer's, or the plugin's answer is
                not valid headers; names what is wrong.
        """
        check_proof(offer, proof)
        return await self._call_with_limit(self._make_headers(offer, proof))

    async def _make_headers(self, offer: PaymentOffer, proof: PaymentProof) -> dict[str, str]:
        return checked_headers(await self.calls["payment_headers"](offer=offer, proof=proof))

    async def receipt(self, offer: PaymentOffer, answer: HttpAnswer) -> PaymentReceipt | None:
        """Return the receipt in the seller's answer to the paid request, or None.

        It raises no error, because neither the seller's answer nor the plugin may fail a payment.
        """

        async def said() -> PaymentReceipt | None:
            call = self.calls["payment_receipt"]
            return checked_receipt(await call(offer=offer, answer=answer))

        try:
            return await self._call_with_limit(said())
        except SolwardError as error:
            _log.warning("payment_receipt_unread", protocol=self.spec.name, error=str(error))
            return None

    async def _call_with_limit(self, call: Coroutine[Any, Any, T]) -> T:
        name = self.spec.name
        try:
            async with asyncio.timeout(PROTOCOL_TIME_LIMIT_S):
                return await run_contained(call)
        except TimeoutError:
            why = f"did not answer within {PROTOCOL_TIME_LIMIT_S:g} s"
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}: {shorten_text(str(error))}") from None
        except SkillError as error:
            why = f"failed: {shorten_text(str(error))}"
        except Exception as error:
            _log.exception("payment_protocol_failed", protocol=name)
            why = f"failed: {type(error).__name__}"
        raise SkillError(PROTOCOL_FAILED, f"The payment protocol {name!r} {why}")


@dataclass(frozen=True, slots=True)
class LoadedGuardrail:
    """A guardrail with a bound hook, which returns a reason to refuse or ask a person, or None."""

    name: str
    distribution: str
    version: str
    check: Callable[[Intent, TransactionEffects], Coroutine[Any, Any, str | Hold | None]]


@dataclass(frozen=True, slots=True)
class Registry:
    """The loaded plugins by name, built-ins first, and the problems of those left out.

    Attributes:
        guardrails: plugins' guardrails, in the form that the vault needs (`PluginGuardrail`).
        places: where third parties' distributions are installed, loaded or not.
    """

    skills: Mapping[str, LoadedSkill]
    providers: Mapping[str, LoadedProvider]
    venues: Mapping[str, LoadedVenue]
    payments: Mapping[str, LoadedPayment]
    guardrails: tuple[LoadedGuardrail, ...]
    problems: tuple[Problem, ...]
    places: tuple[Place, ...] = ()
    _tools: tuple[ToolDefinition, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tools = tuple(
            ToolDefinition(skill.spec.name, skill.spec.description, skill.spec.parameters)
            for skill in self.skills.values()
        )
        object.__setattr__(self, "_tools", tools)

    def all_plugins(self) -> Iterator[tuple[str, str, Any]]:
        """Yield (kind, name, plugin) of each plugin; several guardrails may have one name."""
        named: dict[str, Mapping[str, Any]] = {
            "skill": self.skills,
            "provider": self.providers,
            "venue": self.venues,
            "payment": self.payments,
        }
        for kind, plugins in named.items():
            for name, plugin in plugins.items():
                yield kind, name, plugin
        yield from (("guardrail", each.name, each) for each in self.guardrails)

    def without_distributions(self, distributions: Collection[str]) -> Registry:
        """Return the registry without the plugins of these distributions (canonical names)."""

        def others(plugins: Mapping[str, _Named]) -> Mapping[str, _Named]:
            kept = {name: each for name, each in plugins.items() if not is_of_it(each)}
            return MappingProxyType(kept)

        def is_of_it(plugin: _Named | LoadedGuardrail) -> bool:
            return canonical(plugin.distribution) in distributions

        return replace(
            self,
            skills=others(self.skills),
            providers=others(self.providers),
            venues=others(self.venues),
            payments=others(self.payments),
            guardrails=tuple(each for each in self.guardrails if not is_of_it(each)),
        )

    def skill(self, name: str) -> LoadedSkill:
        """Return the skill of this name; raises `SkillNotFound`."""
        if name not in self.skills:
            raise SkillNotFound(name, sorted(self.skills))
        return self.skills[name]

    def tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tool definition of every skill, made once for all agents."""
        return self._tools
