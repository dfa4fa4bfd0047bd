"""Selling one token for another at a venue: the venue's bytes, bound to its quote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from solward.errors import InvalidRequest
from solward.guardrails import Effects, Intent
from solward.ledger.mints import read_mint
from solward.ledger.protocol import ReadLedger
from solward.ledger.token_list import WRAPPED_SOL_MINT, TokenList
from solward.money import SOL_DECIMALS, from_units, to_units
from solward.record import TransactionType
from solward.transactions.request import Draft
from solward.venue import Quote, QuoteRequest, SwapTransaction, VenueContext, VenueSpec

MAX_SLIPPAGE_BPS = 10_000
# Rent of the token account a swap may open for what it buys (165 bytes).
TOKEN_ACCOUNT_RENT = 2_039_280


class VenuePlugin(Protocol):
    """A loaded venue plugin."""

    @property
    def spec(self) -> VenueSpec:
        """What it declared."""

    async def quote(self, request: QuoteRequest, context: VenueContext) -> Quote:
        """Its offer."""

    async def swap(self, quote: Quote, wallet: str, context: VenueContext) -> SwapTransaction:
        """Its transaction."""


@dataclass(frozen=True, slots=True)
class Venue:
    """A venue plugin with the client it speaks through."""

    plugin: VenuePlugin
    context: VenueContext


@dataclass(frozen=True, slots=True)
class _Swap:
    """What was asked for, in mints and units."""

    request: QuoteRequest
    input_decimals: int
    output_decimals: int


async def plan_swap(
    wallet: str,
    venue: Venue,
    *,
    tokens: TokenList,
    ledger: ReadLedger,
    input_token: object,
    output_token: object,
    amount: object,
    slippage_bps: object,
) -> Draft:
    """Quote, fetch the venue's transaction, and declare exactly what the quote promised.

    The declaration is what binds the bytes: the engine simulates them, and anything that takes
    more than the quoted input or gives less than the quoted minimum is blocked.

    Raises:
        InvalidRequest: naming the field, or the venue's reason to refuse.
        LedgerUnavailable: ledger or venue did not answer, or answered something else.
    """
    swap = await _asked(tokens, ledger, input_token, output_token, amount, slippage_bps)
    request = swap.request
    quote = await venue.plugin.quote(request, venue.context)
    _check(quote, request)
    transaction = await venue.plugin.swap(quote, wallet, venue.context)
    sells_sol = request.input_mint == WRAPPED_SOL_MINT
    intent = Intent(
        type=TransactionType.SWAP,
        wallet=wallet,
        lamports_out=request.amount if sells_sol else 0,
        rent_lamports=0 if request.output_mint == WRAPPED_SOL_MINT else TOKEN_ACCOUNT_RENT,
        tokens_out={} if sells_sol else {request.input_mint: request.amount},
        tokens_in={request.output_mint: quote.minimum_out},
        programs=venue.plugin.spec.programs,
        details={
            "inputToken": request.input_mint,
            "outputToken": request.output_mint,
            "inputAmount": from_units(quote.in_amount, swap.input_decimals),
            "outputAmount": from_units(quote.out_amount, swap.output_decimals),
            "slippageBps": request.slippage_bps,
            "priceImpact": quote.price_impact,
        },
    )

    def received(effects: Effects) -> Mapping[str, Any]:
        units = effects.tokens_in.get(request.output_mint, quote.out_amount)
        return {"outputAmount": from_units(units, swap.output_decimals)}

    return Draft(intent, wire=transaction.wire, settled_details=received)


async def _asked(
    tokens: TokenList,
    ledger: ReadLedger,
    input_token: object,
    output_token: object,
    amount: object,
    slippage_bps: object,
) -> _Swap:
    source = tokens.resolve(input_token, "inputToken")
    target = tokens.resolve(output_token, "outputToken")
    if source == target:
        raise InvalidRequest("inputToken and outputToken must differ")
    if isinstance(slippage_bps, Decimal) and slippage_bps == slippage_bps.to_integral_value():
        slippage_bps = int(slippage_bps)
    if isinstance(slippage_bps, bool) or not isinstance(slippage_bps, int):
        raise InvalidRequest("slippageBps must be a whole number of basis points")
    if not 0 <= slippage_bps <= MAX_SLIPPAGE_BPS:
        raise InvalidRequest(f"slippageBps must be from 0 to {MAX_SLIPPAGE_BPS}")
    input_decimals = await _decimals(ledger, source, "inputToken")
    output_decimals = await _decimals(ledger, target, "outputToken")
    units = to_units(amount, input_decimals, "amount")
    return _Swap(QuoteRequest(source, target, units, slippage_bps), input_decimals, output_decimals)


async def _decimals(ledger: ReadLedger, mint: str, field: str) -> int:
    if mint == WRAPPED_SOL_MINT:
        return SOL_DECIMALS
    return (await read_mint(ledger, mint, field)).decimals


def _check(quote: Quote, request: QuoteRequest) -> None:
    """Refuse a quote for something else, or one that promises less than the slippage allows."""
    asked = (request.input_mint, request.output_mint, request.amount, request.slippage_bps)
    offered = (quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps)
    kept = MAX_SLIPPAGE_BPS - request.slippage_bps
    enough = quote.minimum_out * MAX_SLIPPAGE_BPS >= quote.out_amount * kept
    if asked != offered or not enough or quote.out_amount < 1:
        raise InvalidRequest("The venue's quote is not for the swap that was asked for")
