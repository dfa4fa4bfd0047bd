"""Selling one token for another at a venue: the venue's bytes, bound to its quote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from solward.errors import InvalidRequest, LedgerUnavailable
from solward.guardrail import Intent, TransactionEffects
from solward.money import SOL_DECIMALS, U64_MAX, from_units, to_units
from solward.operations.declared.swap import MAX_SLIPPAGE_BPS, SWAP
from solward.operations.plans import plans
from solward.record import TransactionType
from solward.solana.ledger import ReadLedger
from solward.solana.programs import TOKEN_2022_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.token_list import TokenList
from solward.solana.tokens import TOKEN_2022_ACCOUNT_RENT, TOKEN_ACCOUNT_RENT, read_mint
from solward.vault.transactions.request import Draft
from solward.venue import Quote, QuoteRequest, SwapTransaction, VenueContext, VenueSpec

# No trade moves a price by more; what a venue says beyond it is not a number to keep.
_MOST_IMPACT = 100
_IMPACT_DECIMALS = 9


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
    """The request in mints and units."""

    request: QuoteRequest
    input_decimals: int
    output_decimals: int
    output_rent: int


@plans(SWAP)
async def plan_swap(
    wallet: str,
    venue: Venue,
    *,
    tokens: TokenList,
    ledger: ReadLedger,
    input_token: str,
    output_token: str,
    amount: Decimal | int,
    slippage_bps: int,
) -> Draft:
    """Quote, fetch the venue's transaction, and declare exactly what the quote promised.

    The declaration is what binds the bytes: the engine simulates them, and anything that takes
    more than the quoted input or gives less than the quoted minimum is blocked.

    Raises:
        InvalidRequest: naming the field, or the venue's reason to refuse.
        LedgerUnavailable: ledger or venue did not answer, or answered something else.
    """
    swap = await _read_request(tokens, ledger, input_token, output_token, amount, slippage_bps)
    request = swap.request
    quote = await venue.plugin.quote(request, venue.context)
    _check(quote, request)
    transaction = await venue.plugin.swap(quote, wallet, venue.context)
    sells_sol = request.input_mint == WRAPPED_SOL_MINT
    wraps = WRAPPED_SOL_MINT in (request.input_mint, request.output_mint)
    intent = Intent(
        type=TransactionType.SWAP,
        wallet=wallet,
        lamports_out=request.amount if sells_sol else 0,
        # An aggregator wraps SOL in an account it opens and closes on the way.
        rent_lamports=swap.output_rent + (TOKEN_ACCOUNT_RENT if wraps else 0),
        tokens_out={} if sells_sol else {request.input_mint: request.amount},
        tokens_in={request.output_mint: quote.minimum_out},
        programs=venue.plugin.spec.programs,
        # Back to the wallet only: the rule sees to it.
        may_close=frozenset({_wrapped_account(wallet)}) if wraps else frozenset(),
        details={
            "inputToken": request.input_mint,
            "outputToken": request.output_mint,
            "inputAmount": from_units(quote.in_amount, swap.input_decimals),
            "outputAmount": from_units(quote.out_amount, swap.output_decimals),
            "slippageBps": request.slippage_bps,
            "priceImpact": round(quote.price_impact, _IMPACT_DECIMALS),
        },
    )

    def received(effects: TransactionEffects) -> Mapping[str, Any]:
        units = effects.tokens_in.get(request.output_mint, quote.out_amount)
        return {"outputAmount": from_units(units, swap.output_decimals)}

    return Draft(intent, wire=transaction.wire, settled_details=received)


async def read_quote(
    venue: Venue,
    *,
    tokens: TokenList,
    ledger: ReadLedger,
    input_token: str,
    output_token: str,
    amount: Decimal | int,
    slippage_bps: int,
) -> Quote:
    """What the venue offers for `amount` whole units of a token; sends nothing.

    Raises:
        InvalidRequest: naming the field, or the venue's reason to refuse.
        LedgerUnavailable: ledger or venue did not answer, or answered something else.
    """
    swap = await _read_request(tokens, ledger, input_token, output_token, amount, slippage_bps)
    quote = await venue.plugin.quote(swap.request, venue.context)
    _check(quote, swap.request)
    return quote


async def _read_request(
    tokens: TokenList,
    ledger: ReadLedger,
    input_token: str,
    output_token: str,
    amount: Decimal | int,
    slippage_bps: int,
) -> _Swap:
    source = tokens.resolve(input_token, "inputToken")
    target = tokens.resolve(output_token, "outputToken")
    if source == target:
        raise InvalidRequest("inputToken and outputToken must differ")
    input_decimals, _ = await _token(ledger, source, "inputToken")
    output_decimals, output_rent = await _token(ledger, target, "outputToken")
    units = to_units(amount, input_decimals, "amount")
    request = QuoteRequest(source, target, units, slippage_bps)
    return _Swap(request, input_decimals, output_decimals, output_rent)


async def _token(ledger: ReadLedger, address: str, field: str) -> tuple[int, int]:
    """A token's decimals, and the lamports of rent an account for it takes; SOL needs none."""
    if address == WRAPPED_SOL_MINT:
        return SOL_DECIMALS, 0
    mint = await read_mint(ledger, address, field)
    extended = mint.program == TOKEN_2022_PROGRAM
    return mint.decimals, TOKEN_2022_ACCOUNT_RENT if extended else TOKEN_ACCOUNT_RENT


def _wrapped_account(wallet: str) -> str:
    mint = Pubkey.from_string(WRAPPED_SOL_MINT)
    return str(get_associated_token_address(Pubkey.from_string(wallet), mint))


def _check(quote: Quote, request: QuoteRequest) -> None:
    """Refuse a quote for something else, or one that promises less than the slippage allows.

    It is the venue's fault, not the caller's: the swap is recorded as failed.
    """
    requested = (request.input_mint, request.output_mint, request.amount, request.slippage_bps)
    offered = (quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps)
    if requested != offered:
        raise LedgerUnavailable("The venue's quote is not for the swap that was asked for")
    kept = MAX_SLIPPAGE_BPS - request.slippage_bps
    enough = quote.minimum_out * MAX_SLIPPAGE_BPS >= quote.out_amount * kept
    if not 1 <= quote.out_amount <= U64_MAX or not enough:
        raise LedgerUnavailable("The venue's quote promises less than the slippage allows")
    if not quote.price_impact.is_finite() or abs(quote.price_impact) > _MOST_IMPACT:
        raise LedgerUnavailable("The venue's quote has a price impact that is no fraction")
