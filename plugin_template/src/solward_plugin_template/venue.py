"""solward_plugin_template: swap with pools that the operator names, without any API.

A venue offers a price (`venue_quote`) and makes the swap of it as one instruction
(`venue_instructions`), which a key without funds of its own signs: nothing here can touch a wallet.
This one trades with the market of Solward's local ledger; put your program's accounts in its place.
One that asks an API has `base_url` and a manifest instead of `pools_env`, and calls `context.http`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solward import (
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

PROGRAM = "8F1bTWWhP5hZWWPyxs7Fhcs38P2cem1kqfU4Yk9dSRU4"
AUTHORITY = "6D9dUonGSghqvmjiZuQ7C4faWoWgvonPbCFJnAuhauYF"
TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
FEE_BPS = 30


@dataclass(frozen=True)
class Pool:
    """A pool in the direction of a swap: its vaults, and what they hold."""

    address: str
    paid: str
    paying: str
    reserve_in: int
    reserve_out: int

    def out(self, amount: int) -> int:
        """Return the units paid for `amount` units, rounded as the program rounds."""
        rest = amount * (10_000 - FEE_BPS)
        return rest * self.reserve_out // (self.reserve_in * 10_000 + rest)


@hookimpl
def venue_spec() -> VenueSpec:
    """Declare a venue that Solward asks if the operator names pools for it."""
    return VenueSpec("solward_plugin_template", pools_env="SOLWARD_PLUGIN_TEMPLATE_POOLS")


@hookimpl
async def venue_quote(request: QuoteRequest, context: VenueContext) -> Quote:
    """Quote what the best pool gives now, and the minimum that the slippage allows."""
    pools = await find_pools(request.input_mint, request.output_mint, context)
    best = max(pools, key=lambda pool: pool.out(request.amount))
    out = best.out(request.amount)
    if out < 1:
        raise InvalidRequest("amount is too small: the pool would give nothing for it")
    fair = Decimal(request.amount) * best.reserve_out / best.reserve_in
    return Quote(
        input_mint=request.input_mint,
        output_mint=request.output_mint,
        in_amount=request.amount,
        out_amount=out,
        minimum_out=-(-out * (10_000 - request.slippage_bps) // 10_000),
        slippage_bps=request.slippage_bps,
        price_impact=max(Decimal(0), 1 - out / fair),
        # Solward passes this back with the quote, and the caller may have changed it.
        raw={"pool": best.address},
    )


@hookimpl
async def venue_instructions(
    quote: Quote, taker: str, destination: str, context: VenueContext
) -> SwapInstructions:
    """Make the swap: `taker` signs and pays from its associated account, `destination` receives."""
    pools = await find_pools(quote.input_mint, quote.output_mint, context)
    pool = next((each for each in pools if each.address == quote.raw.get("pool")), None)
    if pool is None:
        raise LedgerUnavailable("the quote is of no configured pool")
    source = associated_address(taker, quote.input_mint, TOKEN_PROGRAM)
    accounts = (
        (TOKEN_PROGRAM, False, False),
        (taker, True, False),
        (source, False, True),
        (destination, False, True),
        (AUTHORITY, False, False),
        (pool.address, False, False),
        (pool.paid, False, True),
        (pool.paying, False, True),
    )
    swap = Instruction(
        Pubkey.from_string(PROGRAM),
        struct.pack("<BQQ", 1, quote.in_amount, quote.minimum_out),
        [AccountMeta(Pubkey.from_string(key), signs, written) for key, signs, written in accounts],
    )
    return SwapInstructions(quote, swap)


async def find_pools(input_mint: str, output_mint: str, context: VenueContext) -> list[Pool]:
    """Return the configured pools of this pair. Each account is checked, because anybody can write
    an account, and only the program's own can be trusted."""
    found = await context.ledger.accounts(context.pools)
    vaults = {}
    for address, account in found.items():
        if account is None or account.owner != PROGRAM or len(account.data) != 64:
            raise LedgerUnavailable(f"{address} is no pool of this program")
        vaults[address] = [str(Pubkey.from_bytes(account.data[at : at + 32])) for at in (0, 32)]
    states = await context.ledger.accounts([key for pair in vaults.values() for key in pair])
    pools = []
    for address, pair in vaults.items():
        held = {}
        for vault in pair:
            state = token_account(states[vault])
            if state is None or state.owner != AUTHORITY:
                raise LedgerUnavailable(f"{address} names {vault}, which is no vault of its own")
            held[state.mint] = (vault, state.amount)
        if {input_mint, output_mint} == held.keys():
            (paid, reserve_in), (paying, reserve_out) = held[input_mint], held[output_mint]
            pools.append(Pool(address, paid, paying, reserve_in, reserve_out))
    if not pools:
        raise InvalidRequest("no configured pool trades this pair")
    return pools
