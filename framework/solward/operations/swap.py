"""Plans that sell one token for another at a venue, bound to that venue's quote.

Wallet and pocket sign one transaction. The wallet funds the pocket, the pocket trades, an assertion
fails below the minimum, and the pocket's accounts are closed to the wallet. The venue's instruction
does not name the wallet, so it can take only what the pocket holds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import partial
from typing import TypeAlias

import structlog
from solders.compute_budget import set_compute_unit_limit
from solders.hash import Hash
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from solward.operations.declared import MAX_SLIPPAGE_BPS, SWAP
from solward.operations.plans import plans
from solward.operations.plugin_draft import plain
from solward.operations.venues import Venue, Venues, collect_offers
from solward.solana.accounts import max_rent
from solward.solana.builders import pay, sync_native
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.token_list import TokenList
from solward.solana.tokens import (
    TOKEN_ACCOUNT_RENT,
    TRANSFER_FEE,
    associated_account_size,
    current_epoch,
    read_mint,
    token_account,
    transfer_fee,
)
from solward.types.errors import InvalidRequest, LedgerUnavailable, SkillError, SolwardError
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger
from solward.types.money import SOL_DECIMALS, U64_MAX, amount_text, format_sol, from_units, to_units
from solward.types.record import TransactionType
from solward.types.venue import FUNDS_FIRST, Quote, QuoteRequest, SwapInstructions
from solward.vault.custody import Pocket
from solward.vault.money.judge.building import LARGEST, SwapVersions, TooLarge, compile_instructions
from solward.vault.money.pocket.instructions import PocketToken, close, funding, open_account, send
from solward.vault.money.request import Draft, PocketCall, PocketDraft, PocketUse

# The maximum price impact that a venue may state; no trade moves a price by more.
_MOST_IMPACT = 100
_IMPACT_DECIMALS = 9

# A trade's price is compared with the price of this part of it, if the part gives at least 1,000
# units, so that rounding changes the part's price by at most a thousandth.
_SMALL_SHARE = 1_000
_LEAST_COMPARED = 1_000

# If a transaction is too large, the venue is asked for a route with fewer accounts.
_MAX_ACCOUNTS = (None, 40, 30, 20)
# A blockhash for measuring a transaction's size.
_ANY_BLOCKHASH = str(Hash.default())

# The fee of two signatures. A swap that costs more than a tenth of what it moves is refused.
_NETWORK_FEE = 10_000
_FEE_SHARE = 10

# The maximum that a venue's whole transaction may cost its pocket in addition to the amount:
# network fee and priority, accounts for both tokens, and the minimum balance of an account.
_CALL_COSTS = 1_000_000 + 2 * TOKEN_ACCOUNT_RENT + max_rent(0)
# The lamports that a pocket gets for these costs; most of them return. For takers with less than
# 0.01 SOL some venues add their own signer as a sponsor, which no call may have.
_FLOAT = 2 * _CALL_COSTS

# The accounts of the taker that a venue may require in addition to those of the two mints.
MAX_EXTRA_ACCOUNTS = 3

# Compute units of Solward's own instructions: 13,000 to 23,000 were measured, and deriving an
# associated account's address can take up to 10,000 more.
_OWN_UNITS = 100_000
_MAX_UNITS = 1_400_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SwapLimits:
    """Limits of a swap in addition to those in its request.

    Attributes:
        max_slippage_bps: the setting, in basis points.
        at_least: mint -> minimum units that must arrive, which the approver saw.
    """

    max_slippage_bps: int
    at_least: Mapping[str, int] = field(default_factory=dict)


NO_SWAP_LIMITS = SwapLimits(MAX_SLIPPAGE_BPS)


@dataclass(frozen=True, slots=True)
class _Swap:
    """The request for a swap, in mints and units.

    Attributes:
        amount: units that leave the wallet. The request sells less if the mint withholds a fee.
    """

    request: QuoteRequest
    source: _SwapToken
    target: _SwapToken
    amount: int


@dataclass(frozen=True, slots=True)
class _SwapToken:
    """A token of a swap, with the rent of an account for it."""

    side: PocketToken
    rent: int


@dataclass(frozen=True, slots=True)
class _Offer:
    """A venue's quote, with the larger of the venue's and the service's price impact."""

    venue: Venue
    quote: Quote
    impact: Decimal


# A venue's instruction, its newer quote, and further accounts of the pocket.
_VenueAnswer: TypeAlias = tuple[SwapInstructions, Quote, tuple[_SwapToken, ...]]


@plans(SWAP)
async def plan_swap(
    wallet: str,
    venues: Venues,
    *,
    pocket: Pocket,
    tokens: TokenList,
    ledger: ReadLedger,
    limits: SwapLimits,
    versions: SwapVersions,
    input_token: str,
    output_token: str,
    amount: Decimal | int,
    slippage_bps: int,
) -> Draft | PocketDraft:
    """Get quotes from the venues, fetch the best venue's swap, and bind it to its quote.

    If the venue makes an instruction, Solward makes the transaction, which wallet and `pocket` sign
    and which fails if less than the quoted minimum arrives. If the venue makes a whole transaction,
    or wants a taker with funds, the wallet funds the pocket first, and then only the pocket signs.
    If a venue fails, the next best venue is used.

    Raises:
        InvalidRequest: naming the field, or the venue's reason to refuse.
        LedgerUnavailable: ledger or venues did not answer, or answered something else.
        NoVenue: see `Venues.enabled`.
    """
    if slippage_bps > limits.max_slippage_bps:
        raise InvalidRequest(
            f"slippageBps must be at most {limits.max_slippage_bps} (MAX_SLIPPAGE_BPS)"
        )
    swap = await _read_request(tokens, ledger, input_token, output_token, amount, slippage_bps)
    offers = await collect_offers(venues.enabled(), partial(_read_offer, request=swap.request))
    offers.sort(key=lambda each: _quote_rank(each.quote), reverse=True)
    at_least = limits.at_least.get(swap.request.output_mint, 0)
    if offers[0].quote.out_amount < at_least:
        decimals = swap.target.side.decimals
        now, shown = (
            amount_text(units, decimals) for units in (offers[0].quote.out_amount, at_least)
        )
        raise InvalidRequest(f"the price moved: {now} would arrive, less than the {shown} shown")
    failed: SolwardError | None = None
    for offer in offers:
        if not offer.venue.plugin.gives_instructions:
            return _draft_in_steps(wallet, pocket, ledger, swap, offer, at_least)
        _check_worth(swap, offer.quote)
        try:
            return await _draft_single(wallet, pocket, ledger, swap, offer, at_least, versions)
        except SolwardError as error:
            if _needs_funds_first(error):
                return _draft_in_steps(wallet, pocket, ledger, swap, offer, at_least)
            # If all venues fail, the error of the best venue is raised.
            failed = failed or error
    assert failed is not None
    raise failed


def _quote_rank(quote: Quote) -> tuple[int, int]:
    """Return the sort key of a quote: the expected units, then the minimum units."""
    return quote.out_amount, quote.minimum_out


async def _draft_single(
    wallet: str,
    pocket: Pocket,
    ledger: ReadLedger,
    swap: _Swap,
    offer: _Offer,
    at_least: int,
    versions: SwapVersions,
) -> Draft:
    """Return the swap over the route with the most accounts that fits into a transaction.

    The transaction has version 1, whose bytes have every account, if the cluster accepts it and a
    route fits; otherwise version 0 with lookup tables.
    """
    venue, source, target = offer.venue, swap.source.side, swap.target.side
    made = PocketSwap(
        wallet=wallet,
        pocket=pocket.address,
        source=source,
        target=target,
        amount=swap.amount,
        minimum=offer.quote.minimum_out,
        held=None,
    )

    async def drafted(answered: _VenueAnswer, version: int) -> Draft | None:
        """Return the draft as a transaction of `version`; None if it is too large."""
        answer, newer, extra = answered
        # The slippage applies to the first quote, so a newer quote may only promise more.
        least = max(offer.quote.minimum_out, newer.minimum_out, at_least)
        # The balance is read last, so that no receipt during a venue's delay counts as the swap's.
        held = None if target.is_sol else await _read_held_units(ledger, wallet, target)
        tokens = tuple(each.side for each in extra)
        rents = [each.rent for each in (swap.source, *extra)]
        if target.is_sol or held is None:
            rents.append(swap.target.rent)
        intent = replace(
            _swap_intent(wallet, swap, replace(offer, quote=newer), least),
            rent_lamports=sum(rents),
            destinations=frozenset({pocket.address}),
        )
        bounded = replace(made, minimum=least, extra=tokens)
        draft = _draft_from_answer(intent, pocket, bounded, answer, venue.name, version, held)
        try:
            compile_instructions(draft, _ANY_BLOCKHASH, None, LARGEST)
        except TooLarge:
            return None
        return draft

    version = await versions.for_swaps(wallet)
    too_large: list[_VenueAnswer] = []
    async for answered in _read_answers(ledger, wallet, made, swap.request, offer):
        draft = await drafted(answered, version)
        if draft is not None:
            return draft
        too_large.append(answered)
    # The swap is built again, because the wallet's balance may have changed.
    for answered in too_large if version and versions.may_fall_back else ():
        draft = await drafted(answered, 0)
        if draft is not None:
            called = answered[0].swap
            named = {called.program_id, *(meta.pubkey for meta in called.accounts)}
            _log.warning("swap_in_version_0", venue=venue.name, accounts=len(named))
            return draft
    raise _too_large_error()


async def _read_answers(
    ledger: ReadLedger, wallet: str, made: PocketSwap, request: QuoteRequest, offer: _Offer
) -> AsyncIterator[_VenueAnswer]:
    """Yield the venue's checked answers, each with fewer accounts than before: its instruction, its
    newer quote, and further accounts of the pocket."""
    venue = offer.venue
    for max_accounts in _MAX_ACCOUNTS:
        try:
            answer = await venue.plugin.instructions(
                offer.quote, made.pocket, made.destination, venue.context, max_accounts
            )
        except InvalidRequest:
            if max_accounts is None:
                raise
            # The venue has no shorter route, so the caller reports that the swap is too large.
            return
        newer = _check_quote(answer.quote, request)
        check_swap(answer.swap, wallet, made.pocket)
        yield answer, newer, await _extra_tokens(ledger, answer, made)


def _too_large_error() -> LedgerUnavailable:
    return LedgerUnavailable(
        "The venue's swap does not fit into a transaction, even over the fewest accounts"
    )


def _needs_funds_first(error: Exception) -> bool:
    return isinstance(error, SkillError) and error.code == FUNDS_FIRST


def _draft_from_answer(
    intent: Intent,
    pocket: Pocket,
    made: PocketSwap,
    answer: SwapInstructions,
    venue: str,
    version: int,
    held: int | None,
) -> Draft:
    """Return the swap as one transaction. The wallet holds `held` units of the bought token."""
    if (held or 0) + made.minimum > U64_MAX:
        raise LedgerUnavailable("The venue's quote promises more than an account can hold")
    target, swap = made.target, replace(made, held=held)
    draft = Draft(
        intent,
        swap.instructions(answer.swap, answer.compute_units),
        pocket=PocketUse(
            pocket,
            mints=tuple(side.mint for side in swap.opens),
            output_mint=None if target.is_sol else target.mint,
            asserted=None if target.is_sol else (made.destination, held or 0),
            venue=venue,
        ),
        tables=answer.tables,
        based_on=partial(_draft_from_answer, intent, pocket, made, answer, venue, version),
        version=version,
    )
    if made.source.is_sol:
        return draft
    # A second draft of the swap leaves the pocket's input account open for a later sweep.
    assert draft.pocket is not None
    kept = swap.instructions(answer.swap, answer.compute_units, close_source=False)
    left_open = replace(
        draft,
        instructions=kept,
        pocket=replace(draft.pocket, leaves=True),
        based_on=lambda units: _alternative_draft(
            _draft_from_answer(intent, pocket, made, answer, venue, version, units)
        ),
    )
    return replace(draft, otherwise=left_open)


def _alternative_draft(draft: Draft) -> Draft:
    assert draft.otherwise is not None
    return draft.otherwise


async def _read_held_units(ledger: ReadLedger, wallet: str, side: PocketToken) -> int | None:
    """Return the units in the wallet's own account of a mint; None if there is no account."""
    address = side.account(wallet)
    state = await ledger.account(address)
    account = token_account(state)
    if account is not None and account.owner != wallet:
        raise InvalidRequest(
            f"outputToken: the wallet's account {address} belongs to {account.owner}"
        )
    return None if account is None else account.amount


async def _extra_tokens(
    ledger: ReadLedger, answer: SwapInstructions, swap: PocketSwap
) -> tuple[_SwapToken, ...]:
    """Return the tokens for which the venue requires further accounts of the pocket."""
    own = {side.mint for side in swap.opens}
    mints = [mint for mint in dict.fromkeys(answer.accounts) if mint not in own]
    if len(mints) > MAX_EXTRA_ACCOUNTS:
        raise LedgerUnavailable(
            f"The venue asks for {len(mints)} further accounts, more than {MAX_EXTRA_ACCOUNTS}"
        )
    try:
        return tuple([await _read_token(ledger, mint, "inputToken") for mint in mints])
    except InvalidRequest:
        raise LedgerUnavailable("The venue asks for an account of an invalid mint") from None


async def _pocket_call(
    ledger: ReadLedger, wallet: str, pocket: str, swap: _Swap, offer: _Offer, least: int
) -> PocketCall:
    """Return a transaction with the venue's instruction that only a funded pocket signs.

    It fails if less than `least` arrives, so a venue gains nothing by requiring funds first.
    """
    made = PocketSwap(
        wallet=pocket,
        pocket=pocket,
        source=swap.source.side,
        target=swap.target.side,
        # The amount is without the transfer fee, which the funding has paid.
        amount=swap.request.amount,
        minimum=least,
        held=None,
    )
    async for answer, newer, extra in _read_answers(ledger, wallet, made, swap.request, offer):
        built = replace(
            made, minimum=max(least, newer.minimum_out), extra=tuple(each.side for each in extra)
        )
        # The account stays open, because one unit that anybody sends to it would make closing fail.
        instructions = built.instructions(answer.swap, answer.compute_units, close_source=False)
        draft = Draft(_swap_intent(pocket, swap, offer, least), instructions, tables=answer.tables)
        try:
            compile_instructions(draft, _ANY_BLOCKHASH, None)
        except TooLarge:
            continue
        return PocketCall(instructions, answer.tables)
    raise _too_large_error()


def _draft_in_steps(
    wallet: str, pocket: Pocket, ledger: ReadLedger, swap: _Swap, offer: _Offer, at_least: int
) -> PocketDraft:
    """Return a swap in two steps: the wallet funds the pocket, then only the pocket signs.

    The pocket signs Solward's transaction with the venue's instruction, or the venue's whole
    transaction if the venue makes no instruction.
    """
    venue, source, target = offer.venue, swap.source.side, swap.target.side
    lamports = _FLOAT + (swap.amount if source.is_sol else 0)
    tokens = [] if source.is_sol else [(source, swap.amount)]
    least = offer.quote.minimum_out
    if at_least:
        # SOL returns less the costs of the call, which `returns` below subtracts.
        least = max(least, at_least + (_CALL_COSTS if target.is_sol else 0))
    intent = replace(
        _swap_intent(wallet, swap, offer, least),
        lamports_out=lamports,
        rent_lamports=0 if source.is_sol else swap.source.rent,
        tokens_in={},
        destinations=frozenset({pocket.address}),
    )

    async def build(address: str) -> bytes | PocketCall:
        minimum = max(offer.quote.minimum_out, at_least)
        if venue.plugin.gives_instructions:
            try:
                return await _pocket_call(ledger, wallet, address, swap, offer, minimum)
            except SkillError as error:
                if not (_needs_funds_first(error) and venue.plugin.gives_transactions):
                    raise
        return (await venue.plugin.swap(offer.quote, address, venue.context)).wire

    return PocketDraft(
        intent,
        funding(wallet, pocket.address, lamports, tokens),
        PocketUse(
            pocket,
            mints=(source.mint, target.mint),
            output_mint=None if target.is_sol else target.mint,
            leaves=True,
            # The pocket pays fee and rent from the same lamports.
            returns={target.mint: least - _CALL_COSTS if target.is_sol else least},
            venue=venue.name,
        ),
        build,
    )


def _swap_intent(wallet: str, swap: _Swap, offer: _Offer, least: int) -> Intent:
    """Return the swap's intent, without rent and accounts, which depend on how it is made."""
    request, source, target = swap.request, swap.source.side, swap.target.side
    return Intent(
        type=TransactionType.SWAP,
        wallet=wallet,
        lamports_out=swap.amount if source.is_sol else 0,
        tokens_out={} if source.is_sol else {request.input_mint: swap.amount},
        tokens_in={request.output_mint: least},
        price_impact_bps=math.ceil(offer.impact * MAX_SLIPPAGE_BPS),
        slippage_bps=request.slippage_bps,
        details={
            "inputToken": request.input_mint,
            "outputToken": request.output_mint,
            "inputAmount": from_units(swap.amount, source.decimals),
            "outputAmount": from_units(offer.quote.out_amount, target.decimals),
            "slippageBps": request.slippage_bps,
            "priceImpact": round(offer.impact, _IMPACT_DECIMALS),
            "venue": offer.venue.name,
        },
    )


async def read_quote(
    venues: Venues,
    *,
    tokens: TokenList,
    ledger: ReadLedger,
    input_token: str,
    output_token: str,
    amount: Decimal | int,
    slippage_bps: int,
) -> Quote:
    """Return the venues' best quote for `amount` whole units of a token; sends nothing.

    Raises:
        InvalidRequest: naming the field, or the venue's reason to refuse.
        LedgerUnavailable: ledger or venues did not answer, or answered something else.
        NoVenue: see `Venues.enabled`.
    """
    swap = await _read_request(tokens, ledger, input_token, output_token, amount, slippage_bps)

    async def quoted(venue: Venue) -> Quote:
        return _check_quote(await venue.plugin.quote(swap.request, venue.context), swap.request)

    return max(await collect_offers(venues.enabled(), quoted), key=_quote_rank)


async def _read_offer(venue: Venue, request: QuoteRequest) -> _Offer:
    """Return a venue's offer, with its price impact from a quote for a thousandth."""
    small = replace(request, amount=max(1, request.amount // _SMALL_SHARE))
    quote, little = await asyncio.gather(
        venue.plugin.quote(request, venue.context),
        venue.plugin.quote(small, venue.context),
        return_exceptions=True,
    )
    if isinstance(quote, BaseException):
        raise quote
    quote = _check_quote(quote, request)
    impact = max(quote.price_impact, Decimal(0))
    # If the venue does not trade such a small amount, nothing is compared.
    if isinstance(little, Quote):
        little = _plain_quote(little)
    if isinstance(little, Quote) and little.in_amount == small.amount < request.amount:
        # One unit is added, because the small trade may have lost it to rounding.
        fair = Decimal(little.out_amount + 1) * request.amount / small.amount
        if little.out_amount >= _LEAST_COMPARED:
            impact = max(impact, 1 - quote.out_amount / fair)
    elif isinstance(little, BaseException) and not isinstance(little, SolwardError):
        raise little
    return _Offer(venue, quote, impact)


def _check_worth(swap: _Swap, quote: Quote) -> None:
    """Refuse a swap of SOL whose network fee is too large compared with the amount."""
    request = swap.request
    lamports = request.amount if swap.source.side.is_sol else quote.minimum_out
    if WRAPPED_SOL_MINT not in (request.input_mint, request.output_mint):
        return
    if lamports < _NETWORK_FEE * _FEE_SHARE:
        raise InvalidRequest(
            f"amount is too small: the network's fee of {format_sol(_NETWORK_FEE)} SOL would be"
            f" more than a tenth of the {format_sol(lamports)} SOL traded"
        )


async def _read_request(
    tokens: TokenList,
    ledger: ReadLedger,
    input_token: str,
    output_token: str,
    amount: Decimal | int,
    slippage_bps: int,
) -> _Swap:
    given = tokens.resolve(input_token, "inputToken")
    wanted = tokens.resolve(output_token, "outputToken")
    if given == wanted:
        raise InvalidRequest("inputToken and outputToken must differ")
    source = await _read_token(ledger, given, "inputToken")
    target = await _read_token(ledger, wanted, "outputToken")
    units = to_units(amount, source.side.decimals, "amount")
    sold = units
    if source.side.taxed:
        sold -= transfer_fee(
            await read_mint(ledger, given, "inputToken"), units, await current_epoch(ledger)
        )
        if sold < 1:
            raise InvalidRequest("amount is too small: the mint's transfer fee takes all of it")
    return _Swap(QuoteRequest(given, wanted, sold, slippage_bps), source, target, units)


async def _read_token(ledger: ReadLedger, address: str, field: str) -> _SwapToken:
    """Return a token of a swap, with the rent of an account for it in lamports."""
    if address == WRAPPED_SOL_MINT:
        return _SwapToken(PocketToken(address, TOKEN_PROGRAM, SOL_DECIMALS), TOKEN_ACCOUNT_RENT)
    mint = await read_mint(ledger, address, field)
    if mint.runs_hook:
        # The hook's program would get accounts together with the wallet's signature.
        raise InvalidRequest(f"{field}: {address} has a transfer hook, so it cannot be swapped")
    side = PocketToken(address, mint.program, mint.decimals, TRANSFER_FEE in mint.extensions)
    return _SwapToken(side, max_rent(associated_account_size(mint)))


def _plain_quote(quote: Quote) -> Quote:
    """Return a quote in exact built-in types.

    A plugin's values may have the plugin's own classes, whose comparisons can return anything.
    """
    said = {each.name: getattr(quote, each.name) for each in fields(Quote)}
    found = Quote(**{name: it if name == "raw" else plain(it) for name, it in said.items()})
    mints = (found.input_mint, found.output_mint)
    units = (found.in_amount, found.out_amount, found.minimum_out, found.slippage_bps)
    kinds = ({type(each) for each in mints}, {type(each) for each in units})
    if kinds != ({str}, {int}) or type(found.price_impact) is not Decimal:
        raise LedgerUnavailable("The venue's quote has a value of the wrong type")
    return found


def _check_quote(given: Quote, request: QuoteRequest) -> Quote:
    """Check a quote against the request, and return it in exact built-in types.

    Raises:
        LedgerUnavailable: the quote is for another request, or promises less than the slippage
            allows. This is the venue's error, so the swap is recorded as failed.
    """
    quote = _plain_quote(given)
    requested = (request.input_mint, request.output_mint, request.amount, request.slippage_bps)
    offered = (quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps)
    if requested != offered:
        raise LedgerUnavailable("The venue's quote is not for the swap that was asked for")
    kept = MAX_SLIPPAGE_BPS - request.slippage_bps
    # Venues round the minimum up or down, so one unit less than the exact value is accepted.
    enough = (quote.minimum_out + 1) * MAX_SLIPPAGE_BPS >= quote.out_amount * kept
    if quote.minimum_out > quote.out_amount:
        raise LedgerUnavailable("The venue's quote has a minimum above what it offers")
    if not 1 <= quote.out_amount <= U64_MAX or not enough:
        raise LedgerUnavailable("The venue's quote promises less than the slippage allows")
    if not quote.price_impact.is_finite() or abs(quote.price_impact) > _MOST_IMPACT:
        raise LedgerUnavailable("The venue's quote has a price impact that is not a fraction")
    return quote


@dataclass(frozen=True, slots=True)
class PocketSwap:
    """A quoted swap.

    Attributes:
        amount: units of `source` that leave the wallet.
        minimum: units of `target` that must arrive.
        held: units in the wallet's own account of `target` before the swap; None if there is no
            account. Not used if the target is SOL.
        extra: further mints for which the pocket needs an account.
    """

    wallet: str
    pocket: str
    source: PocketToken
    target: PocketToken
    amount: int
    minimum: int
    held: int | None
    extra: tuple[PocketToken, ...] = ()

    @property
    def destination(self) -> str:
        """The account to which the venue delivers: the wallet's, or the pocket's for SOL."""
        owner = self.pocket if self.target.is_sol else self.wallet
        return self.target.account(owner)

    @property
    def opens(self) -> tuple[PocketToken, ...]:
        """The tokens for which the wallet opens an account of the pocket."""
        return (self.source, *([self.target] if self.target.is_sol else []), *self.extra)

    def instructions(
        self, swap: Instruction, compute_units: int | None, *, close_source: bool = True
    ) -> tuple[Instruction, ...]:
        """Return all instructions of the transaction, in order.

        Args:
            swap: the venue's instruction.
            compute_units: the units that the venue needs; None if it does not state them.
            close_source: False leaves the pocket's input account open, because one unit that
                anybody sends to it makes closing fail.
        """
        return (
            *_compute_limit(compute_units),
            *self._funding_instructions(),
            *self._opening_instructions(),
            swap,
            # Only Solward's own instructions may follow the assertion.
            *self._closing_instructions(close_source),
        )

    def _funding_instructions(self) -> Iterator[Instruction]:
        source, account = self.source, self.source.account(self.pocket)
        yield open_account(self.wallet, self.pocket, source)
        if source.is_sol:
            yield pay(self.wallet, account, self.amount)
            yield sync_native(account, source.program)
        else:
            yield send(source, source.account(self.wallet), account, self.wallet, self.amount)

    def _opening_instructions(self) -> Iterator[Instruction]:
        if self.target.is_sol:
            yield open_account(self.wallet, self.pocket, self.target)
        elif self.held is None:
            yield open_account(self.wallet, self.wallet, self.target)
        for token in self.extra:
            yield open_account(self.wallet, self.pocket, token)

    def _closing_instructions(self, close_source: bool) -> Iterator[Instruction]:
        # The assertion: a transfer to the same account moves nothing, and fails if less is there.
        target, account = self.target, self.destination
        owner, least = self.wallet, (self.held or 0) + self.minimum
        if target.is_sol:
            owner, least = self.pocket, self.minimum
        yield send(target, account, account, owner, least)
        if target.is_sol:
            yield from close(target, self.pocket, self.wallet)
        for token in (*self.extra, *([self.source] if close_source else [])):
            yield from close(token, self.pocket, self.wallet)


def check_swap(swap: Instruction, wallet: str, pocket: str) -> None:
    """Refuse a venue's instruction that names the wallet or needs another signature.

    Raises:
        LedgerUnavailable: it does either; this is the venue's error.
    """
    owner, taker = Pubkey.from_string(wallet), Pubkey.from_string(pocket)
    if swap.program_id == owner or any(meta.pubkey == owner for meta in swap.accounts):
        raise LedgerUnavailable("The venue's swap instruction names the wallet")
    if any(meta.is_signer and meta.pubkey != taker for meta in swap.accounts):
        raise LedgerUnavailable("The venue's swap instruction needs a signature of somebody else")


def _compute_limit(compute_units: int | None) -> Sequence[Instruction]:
    if compute_units is None:
        return ()
    return (set_compute_unit_limit(max(1, min(_MAX_UNITS, compute_units + _OWN_UNITS))),)
