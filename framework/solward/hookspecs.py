"""Every hook a plugin can implement. One entry point is one plugin, and its name is the plugin's.

Entry-point groups: `solward.skills`, `solward.providers`, `solward.venues`, `solward.payments`,
`solward.guardrails`. Implementations are marked with `solward.hookimpl`; unused arguments may be
left out, default values and other names are refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from solward.context import SkillContext
    from solward.types.errors import InvalidRequest
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

PROJECT = "solward"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def skill_spec() -> SkillSpec:
    """Declare the skill: name, description, JSON Schema parameters, effects, timeout. Pure."""
    raise NotImplementedError


@hookspec(firstresult=True)
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Run the skill; returns the outcome as text.

    Args:
        params: valid by the declared schema, defaults applied; numbers are int or Decimal.
        context: what the skill may do with the wallet; it has no key.

    Raises:
        SkillError: model and caller see its text. `InvalidRequest`, `GuardrailBlocked` and the
            other `SolwardError`s pass too; any other exception becomes an internal error.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def provider_spec() -> ProviderSpec:
    """Declare the provider: name, default model, JSON Schema options, secret's variable. Pure."""
    raise NotImplementedError


@hookspec(firstresult=True)
async def provider_complete(
    request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
) -> Completion:
    """Return one completion: text, tool calls, or both.

    Args:
        options: valid by the declared schema, defaults applied.
        context: the provider's own secret and address.

    Raises:
        ProviderError: the vendor failed.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
async def provider_stream(
    request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
) -> AsyncIterator[str | Usage]:
    """Yield the answer to a chat in pieces of text (an async generator). Optional.

    The last piece may be a `Usage`. Chats run no tool calls, so none are streamed.

    Raises:
        ProviderError: the vendor failed.
    """
    raise NotImplementedError
    yield  # makes this a generator, which is what an implementation must be


@hookspec(firstresult=True)
async def provider_price(model: str, options: Mapping[str, Any]) -> ModelPrice | None:
    """Return the price of a model, None if it is not known. Optional.

    With it `maxUsdPerDay` of an agent's budget is reserved before the model is asked.

    Args:
        options: valid by the declared schema, defaults applied.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def venue_spec() -> VenueSpec:
    """Declare the swap venue. Pure."""
    raise NotImplementedError


@hookspec(firstresult=True)
async def venue_quote(request: QuoteRequest, context: VenueContext) -> Quote:
    """Offer a price for selling exactly `request.amount` units.

    Raises:
        InvalidRequest: the venue refuses the request.
        LedgerUnavailable: the venue did not answer.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
async def venue_instructions(
    quote: Quote, taker: str, destination: str, max_accounts: int | None, context: VenueContext
) -> SwapInstructions:
    """Return the swap of a quote as one instruction, which Solward puts into its transaction.

    A venue implements this hook or `venue_swap`, or both.

    Args:
        taker: the key that signs the swap and owns its input account: a fresh key without funds,
            never the wallet. An instruction with another signer is refused.
        destination: the token account that receives the output; for SOL a wrapped SOL account.
        max_accounts: maximum number of accounts that the swap should name, None for the venue's
            own choice; lower if the transaction was too large before.

    Raises:
        SkillError: `funds_first`: it wants a taker that holds what it sells, and is asked again.
        InvalidRequest: the venue refuses the quote.
        LedgerUnavailable: the venue did not answer.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
async def venue_swap(quote: Quote, wallet: str, context: VenueContext) -> SwapTransaction:
    """Return the transaction of a quote, complete except for the signature of `wallet` (base58).

    The engine simulates the bytes and blocks them if they do more than the quote declares.

    Raises:
        InvalidRequest: the venue refuses the quote.
        LedgerUnavailable: the venue did not answer.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def payment_spec() -> PaymentSpec:
    """Declare the payment protocol. Pure."""
    raise NotImplementedError


@hookspec(firstresult=True)
async def payment_offers(answer: HttpAnswer) -> Sequence[PaymentOffer | InvalidRequest]:
    """Return the ways to pay on Solana that a seller offers, the seller's first choice first.

    Pure. Empty where the answer is not of this protocol, or offers nothing that can be paid on
    Solana with one transfer. An entry of the seller's list that cannot be read is an
    `InvalidRequest` in its place, which names what is wrong; the others can still be paid.

    Raises:
        InvalidRequest: it is of this protocol, and malformed as a whole; names what is wrong.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
async def payment_headers(offer: PaymentOffer, proof: PaymentProof) -> Mapping[str, str]:
    """Return the headers that prove the payment when the request is repeated. Pure: equal
    arguments give equal headers, because the proof is sent again after a crash.

    Args:
        offer: one of `payment_offers`; `raw` is as it was.
        proof: of a mode that the offer has.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
async def payment_receipt(offer: PaymentOffer, answer: HttpAnswer) -> PaymentReceipt | None:
    """Return the receipt in the seller's answer to the paid request, None without one. Pure.

    A receipt does not end a payment: only the ledger does.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def guardrail_check(intent: Intent, effects: TransactionEffects) -> str | Hold | None:
    """Return a reason to refuse the transaction, a `Hold` to ask a person, or None to allow it.

    Runs after every built-in rule, with copies, and cannot allow what another refuses. Raising, or
    taking longer than 5 s, also refuses. Pure; other transactions wait for the answer.
    """
    raise NotImplementedError
