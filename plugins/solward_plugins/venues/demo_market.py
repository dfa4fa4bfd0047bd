"""demo_market: trades with the pools of a localnet's demo market.

A pool is an account of the market's program with the addresses of its two vaults, the wrapped SOL
vault first. The reserves are the vaults' balances, read from the ledger at every quote. A swap is
one instruction; it uses two pools if neither token is SOL. The service uses this venue only on a
localnet, and configures the pools.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN_PROGRAM

from solward import (
    WRAPPED_SOL_MINT,
    InvalidRequest,
    LedgerUnavailable,
    Quote,
    QuoteRequest,
    SwapInstructions,
    VenueContext,
    VenueSpec,
    associated_address,
    hookimpl,
    token_account,
)

# The pools' fee, which stays in their reserves.
FEE_BPS = 30
_BPS = 10_000
_POOL_BYTES = 64
# The first byte of the program's instruction.
_SWAP = 1
_AUTHORITY_SEED = b"authority"
_TOKENS = str(TOKEN_PROGRAM)


@dataclass(frozen=True, slots=True)
class Hop:
    """A pool in the direction of a trade.

    Attributes:
        paid_vault, paying_vault: base58.
        reserve_in, reserve_out: the vaults' balances in units.
    """

    program: str
    pool: str
    paid_vault: str
    paying_vault: str
    reserve_in: int
    reserve_out: int

    def received(self, paid: int) -> int:
        """Return the units that the program pays for `paid`: a constant product, rounded down."""
        effective = paid * (_BPS - FEE_BPS)
        return effective * self.reserve_out // (self.reserve_in * _BPS + effective)


@hookimpl
def venue_spec() -> VenueSpec:
    """Return a venue for the tokens of the demo market."""
    return VenueSpec("demo_market")


@hookimpl
async def venue_quote(request: QuoteRequest, context: VenueContext) -> Quote:
    """Quote the market's present price."""
    return _make_quote(await _find_route(request, context), request)


@hookimpl
async def venue_instructions(
    quote: Quote, taker: str, destination: str, max_accounts: int | None, context: VenueContext
) -> SwapInstructions:
    """Return the swap of a quote, at the present price."""
    request = QuoteRequest(quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps)
    hops = await _find_route(request, context)
    newer = _make_quote(hops, request)
    least = max(quote.minimum_out, newer.minimum_out)
    source = associated_address(taker, request.input_mint, _TOKENS)
    swap = swap_instruction(hops, taker, source, destination, request.amount, least)
    if max_accounts is not None and len(swap.accounts) + 1 > max_accounts:
        raise InvalidRequest(f"The demo market has no route of at most {max_accounts} accounts")
    return SwapInstructions(newer, swap)


def swap_instruction(
    hops: Sequence[Hop], taker: str, source: str, destination: str, amount: int, minimum: int
) -> Instruction:
    """Make the market program's `swap`, which fails if it would pay less than `minimum`."""
    program = Pubkey.from_string(hops[0].program)
    authority, _ = Pubkey.find_program_address([_AUTHORITY_SEED], program)
    accounts = [
        (_TOKENS, False, False),
        (taker, True, False),
        (source, False, True),
        (destination, False, True),
        (str(authority), False, False),
    ]
    for hop in hops:
        accounts += [
            (hop.pool, False, False),
            (hop.paid_vault, False, True),
            (hop.paying_vault, False, True),
        ]
    return Instruction(
        program,
        struct.pack("<BQQ", _SWAP, amount, minimum),
        [AccountMeta(Pubkey.from_string(key), signs, written) for key, signs, written in accounts],
    )


async def _find_route(request: QuoteRequest, context: VenueContext) -> list[Hop]:
    """Return the pools from one token to the other.

    Raises:
        InvalidRequest: the market does not trade these tokens, or the ledger has no market.
        LedgerUnavailable: the ledger did not answer, or shows other accounts than the market's.
    """
    pools = await context.ledger.accounts(list(context.pools))
    vaults: dict[str, tuple[str, str]] = {}
    for address, state in pools.items():
        if state is not None and len(state.data) == _POOL_BYTES:
            vaults[address] = str(Pubkey(state.data[:32])), str(Pubkey(state.data[32:]))
    if not vaults:
        raise InvalidRequest("This ledger has no demo market")
    states = await context.ledger.accounts([each for pair in vaults.values() for each in pair])
    sells: dict[str, Hop] = {}
    buys: dict[str, Hop] = {}
    for address, (sol_vault, vault) in vaults.items():
        sol, held = token_account(states[sol_vault]), token_account(states[vault])
        pool = pools[address]
        if pool is None or sol is None or held is None or not sol.amount or not held.amount:
            raise LedgerUnavailable(f"The demo market's pool {address} lacks an account or funds")
        sells[held.mint] = Hop(pool.owner, address, vault, sol_vault, held.amount, sol.amount)
        buys[held.mint] = Hop(pool.owner, address, sol_vault, vault, sol.amount, held.amount)
    for mint in (request.input_mint, request.output_mint):
        if mint != WRAPPED_SOL_MINT and mint not in sells:
            raise InvalidRequest(f"The demo market does not trade {mint}")
    if request.input_mint == request.output_mint:
        raise InvalidRequest("Input and output are the same token")
    hops = [] if request.input_mint == WRAPPED_SOL_MINT else [sells[request.input_mint]]
    return hops if request.output_mint == WRAPPED_SOL_MINT else [*hops, buys[request.output_mint]]


def _make_quote(hops: Sequence[Hop], request: QuoteRequest) -> Quote:
    given, kept = request.amount, Decimal(1)
    for hop in hops:
        fair = Decimal(given) * hop.reserve_out / hop.reserve_in
        given = hop.received(given)
        if given < 1:
            raise InvalidRequest("amount is too small: the demo market would give nothing for it")
        kept *= given / fair
    return Quote(
        input_mint=request.input_mint,
        output_mint=request.output_mint,
        in_amount=request.amount,
        out_amount=given,
        minimum_out=-(-given * (_BPS - request.slippage_bps) // _BPS),
        slippage_bps=request.slippage_bps,
        price_impact=max(Decimal(0), 1 - kept).quantize(Decimal("0.000001")),
    )
