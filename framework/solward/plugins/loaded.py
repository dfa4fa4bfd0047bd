"""Loaded plugins: declarations that passed every check, and their bound hooks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from solward.plugins.containment import contained, contained_stream
from solward.plugins.discovery import Place
from solward.plugins.folders.layout import canonical
from solward.plugins.parameters import Parameters
from solward.plugins.payment_checks import (
    SAMPLES,
    check_proof,
    checked_headers,
    checked_offers,
    checked_receipt,
)
from solward.plugins.problems import Problem, shortened
from solward.plugins.skill_settings import SkillSettings
from solward.types.errors import InvalidRequest, SkillError, SkillNotFound, SolwardError
from solward.types.guardrail import Hold, Intent, TransactionEffects
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
"""For one hook of a payment protocol, which is a pure function of what a seller answered."""
PROTOCOL_FAILED = "payment_protocol"
"""Code of the `SkillError` of a payment protocol that failed."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")
_Named = TypeVar("_Named", "LoadedSkill", "LoadedProvider", "LoadedVenue", "LoadedPayment")


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill; `spec.parameters` has its references written out.

    Attributes:
        distribution: the installed distribution it belongs to, with its `version`.
        settings: what the operator may set for it; None where it declares none.
    """

    spec: SkillSpec
    distribution: str
    version: str
    parameters: Parameters = field(repr=False)
    call: HookCall = field(repr=False)
    settings: SkillSettings | None = None

    def validate(self, params: object) -> dict[str, Any]:
        """A copy of `params` with defaults applied; raises `InvalidRequest` naming the field."""
        return self.parameters.validate(params)

    async def execute(self, params: dict[str, Any], context: SkillContext) -> Any:
        """Run the hook itself on valid parameters; callers use `run_skill`."""
        return await contained(self.call(params=params, context=context))


@dataclass(frozen=True, slots=True)
class LoadedProvider:
    """A language model provider, or a demo in its place.

    Attributes:
        stream_call: its `provider_stream` hook, None when it has none.
        price_call: its `provider_price` hook, None when it has none.
    """

    spec: ProviderSpec
    distribution: str
    version: str
    options: Parameters = field(repr=False)
    call: HookCall = field(repr=False)
    stream_call: HookCall | None = field(default=None, repr=False)
    price_call: HookCall | None = field(default=None, repr=False)

    def validate_options(self, options: object) -> dict[str, Any]:
        """A copy of `options` with defaults applied; raises `InvalidRequest`."""
        return self.options.validate(options)

    async def complete(
        self,
        request: CompletionRequest,
        options: Mapping[str, Any] | None = None,
        context: ProviderContext = EMPTY_CONTEXT,
    ) -> Completion:
        """One completion; raises what the provider raises, `InvalidRequest` on bad options."""
        valid = self.validate_options({} if options is None else options)
        call = self.call(request=request, options=valid, context=context)
        completion: Completion = await contained(call)
        return completion

    async def price(self, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
        """The price of a model, None where it is not known; raises what the provider raises."""
        if self.price_call is None:
            return None
        call = self.price_call(model=model, options=self.validate_options(dict(options)))
        price: ModelPrice | None = await contained(call)
        return price

    async def stream(
        self,
        request: CompletionRequest,
        options: Mapping[str, Any] | None = None,
        context: ProviderContext = EMPTY_CONTEXT,
    ) -> AsyncGenerator[str | Usage, None]:
        """One answer streamed, in one piece where the provider cannot stream; as `complete`."""
        if self.stream_call is None:
            completion = await self.complete(request, options, context)
            yield completion.text or ""
            if completion.usage is not None:
                yield completion.usage
            return
        valid = self.validate_options({} if options is None else options)
        pieces = self.stream_call(request=request, options=valid, context=context)
        async with aclosing(contained_stream(pieces)) as contained_pieces:
            async for piece in contained_pieces:
                yield piece


@dataclass(frozen=True, slots=True)
class LoadedVenue:
    """A swap venue; raises what the venue raises.

    Attributes:
        instructions_call: its `venue_instructions` hook, None when it has none.
        swap_call: its `venue_swap` hook, None when it has none; never both None.
    """

    spec: VenueSpec
    distribution: str
    version: str
    quote_call: HookCall = field(repr=False)
    instructions_call: HookCall | None = field(repr=False)
    swap_call: HookCall | None = field(repr=False)

    @property
    def gives_instructions(self) -> bool:
        """Whether it makes a swap as an instruction (`instructions`)."""
        return self.instructions_call is not None

    @property
    def gives_transactions(self) -> bool:
        """Whether it makes a swap as a whole transaction (`swap`)."""
        return self.swap_call is not None

    async def quote(self, request: QuoteRequest, context: VenueContext) -> Quote:
        """The venue's offer."""
        quote: Quote = await contained(self.quote_call(request=request, context=context))
        return quote

    async def instructions(
        self,
        quote: Quote,
        taker: str,
        destination: str,
        context: VenueContext,
        max_accounts: int | None = None,
    ) -> SwapInstructions:
        """The swap instruction of an offer; only where `gives_instructions`."""
        if self.instructions_call is None:
            raise TypeError(f"{self.spec.name} has no venue_instructions")
        call = self.instructions_call(
            quote=quote,
            taker=taker,
            destination=destination,
            max_accounts=max_accounts,
            context=context,
        )
        instructions: SwapInstructions = await contained(call)
        return instructions

    async def swap(self, quote: Quote, wallet: str, context: VenueContext) -> SwapTransaction:
        """The transaction of an offer, but for a signature; only where `gives_transactions`."""
        if self.swap_call is None:
            raise TypeError(f"{self.spec.name} has no venue_swap")
        call = self.swap_call(quote=quote, wallet=wallet, context=context)
        transaction: SwapTransaction = await contained(call)
        return transaction


@dataclass(frozen=True, slots=True)
class LoadedPayment:
    """A payment protocol; each of these has `PROTOCOL_TIME_LIMIT_S`, and what the plugin answers is
    checked, whoever wrote it.

    Raises of `offers` and `headers`, beside what is said there:
        SkillError: `payment_protocol`: it failed, or did not answer in time.
    """

    spec: PaymentSpec
    distribution: str
    version: str
    offers_call: HookCall = field(repr=False)
    headers_call: HookCall = field(repr=False)
    receipt_call: HookCall = field(repr=False)

    async def offers(self, answer: HttpAnswer) -> tuple[PaymentOffer | InvalidRequest, ...]:
        """The ways to pay on Solana that a seller's answer offers, the seller's first choice first;
        empty where it is none of this protocol. Each can be shown, in each of its modes. An entry
        that is malformed, out of range or cannot be shown is an error that says what is wrong.

        Raises:
            InvalidRequest: it is of this protocol, and malformed as a whole; names what is wrong.
        """

        async def found() -> tuple[PaymentOffer | InvalidRequest, ...]:
            offers = checked_offers(await self.offers_call(answer=answer))
            return tuple([await self._showable(each) for each in offers])

        return await self._answered(found())

    async def _showable(
        self, offer: PaymentOffer | InvalidRequest
    ) -> PaymentOffer | InvalidRequest:
        """The offer, or why its payment could not be shown: once it is paid it is too late."""
        if isinstance(offer, InvalidRequest):
            return offer
        try:
            for mode in offer.modes:
                checked_headers(await self.headers_call(offer=offer, proof=SAMPLES[mode]))
        except InvalidRequest as odd:
            return odd
        return offer

    async def headers(self, offer: PaymentOffer, proof: PaymentProof) -> dict[str, str]:
        """The headers by which the request, made again, shows its payment.

        Raises:
            InvalidRequest: the proof is of a mode that the offer does not have, or the plugin
                answers with what are no headers; names what is wrong.
        """
        check_proof(offer, proof)

        async def made() -> dict[str, str]:
            return checked_headers(await self.headers_call(offer=offer, proof=proof))

        return await self._answered(made())

    async def receipt(self, offer: PaymentOffer, answer: HttpAnswer) -> PaymentReceipt | None:
        """What the seller's answer to the paid request says of the payment, None where nothing.

        Raises nothing: what a seller says ends no payment, and neither does a plugin that fails.
        """

        async def said() -> PaymentReceipt | None:
            return checked_receipt(await self.receipt_call(offer=offer, answer=answer))

        try:
            return await self._answered(said())
        except SolwardError as error:
            _log.warning("payment_receipt_unread", protocol=self.spec.name, error=str(error))
            return None

    async def _answered(self, call: Coroutine[Any, Any, T]) -> T:
        name = self.spec.name
        try:
            async with asyncio.timeout(PROTOCOL_TIME_LIMIT_S):
                return await contained(call)
        except TimeoutError:
            why = f"did not answer within {PROTOCOL_TIME_LIMIT_S:g} s"
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}: {shortened(str(error))}") from None
        except SkillError as error:
            why = f"failed: {shortened(str(error))}"
        except Exception as error:
            _log.exception("payment_protocol_failed", protocol=name)
            why = f"failed: {type(error).__name__}"
        raise SkillError(PROTOCOL_FAILED, f"The payment protocol {name!r} {why}")


@dataclass(frozen=True, slots=True)
class LoadedGuardrail:
    """A guardrail with its hook bound: gives the reason to refuse, or to ask a person, or None."""

    name: str
    distribution: str
    version: str
    check: Callable[[Intent, TransactionEffects], Coroutine[Any, Any, str | Hold | None]]


@dataclass(frozen=True, slots=True)
class Registry:
    """The loaded plugins by name, built-ins first, and those left out, with the reason.

    Attributes:
        guardrails: plugins' guardrails, as the vault takes them (`PluginGuardrail`).
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

    def without(self, distributions: Collection[str]) -> Registry:
        """Without the plugins of these distributions, by their canonical names."""

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
        """The skill of this name; raises `SkillNotFound`."""
        if name not in self.skills:
            raise SkillNotFound(name, sorted(self.skills))
        return self.skills[name]

    def tools(self) -> tuple[ToolDefinition, ...]:
        """The tool definition of every skill; made once, for all agents."""
        return self._tools
