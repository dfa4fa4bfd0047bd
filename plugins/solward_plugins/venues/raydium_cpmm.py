"""raydium_cpmm: trades with pools of Raydium's constant product program, without any API.

`RAYDIUM_CPMM_POOLS` names the pools, because finding them would need an indexer. Each is read from
the ledger and checked at every quote: the program that owns it, its mints, its vaults and its fees.
The layouts and the arithmetic are those of the program's published source and IDL
(github.com/raydium-io/raydium-cp-swap); a swap is one hop, by `swap_base_input`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from solward import (
    CLOCK_SYSVAR,
    Account,
    InvalidRequest,
    LedgerUnavailable,
    Mint,
    Quote,
    QuoteRequest,
    SwapInstructions,
    VenueContext,
    VenueSpec,
    associated_address,
    hookimpl,
    mint_account,
    token_account,
    transfer_fee,
)

POOLS_ENV = "RAYDIUM_CPMM_POOLS"

MAINNET_PROGRAM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
DEVNET_PROGRAM = "DRaycpLY18LhpbydsBWbVJtxpNv9oXPgjRSfpF2bWpYb"
_PROGRAMS = (MAINNET_PROGRAM, DEVNET_PROGRAM)
_AUTHORITY_SEED = b"vault_and_lp_mint_auth_seed"


def _discriminator(name: str) -> bytes:
    """Return the first bytes of an account or instruction, as Anchor derives them from its name."""
    return hashlib.sha256(name.encode()).digest()[:8]


_SWAP = _discriminator("global:swap_base_input")
_POOL = _discriminator("account:PoolState")
_CONFIG = _discriminator("account:AmmConfig")

# A pool's account: addresses at 8 + 32 * n, then the numbers.
_POOL_BYTES = 637
_KEYS = (
    "config",
    "creator",
    "vault_0",
    "vault_1",
    "lp_mint",
    "mint_0",
    "mint_1",
    "program_0",
    "program_1",
    "observation",
)
_STATUS_AT = 329
_SWAP_DISABLED = 4
# Fees of protocol (0, 1) and fund (0, 1), which lie in the vaults and are not part of the reserves;
# when trading opens; the epoch of the last trade.
_NUMBERS = struct.Struct("<QQQQQQ")
_NUMBERS_AT = 341
# What the creator's fee is taken from, whether there is one, and what is owed of it (0, 1).
_CREATOR = struct.Struct("<B?6xQQ")
_CREATOR_AT = 389
_ON_EITHER, _ON_0, _ON_1 = range(3)

# A configuration's account: trade fee; creator's fee. Both are parts of a million.
_CONFIG_BYTES = 236
_TRADE_FEE_AT, _CREATOR_FEE_AT = 12, 108
_MILLION = 1_000_000

_BPS = 10_000
_U64 = 2**64 - 1
# The clock sysvar: slot, start of the epoch, epoch, epoch of the schedule, seconds.
_CLOCK = struct.Struct("<QqQQq")


@dataclass(frozen=True, slots=True)
class Pool:
    """The content of a pool's account.

    Attributes:
        keys: base58 addresses by their names in `_KEYS`.
        owed: units in the vaults that are owed fees and cannot be traded, of mint 0 and 1.
        creator_fee_on: `creator_fee_on` of the program's source; None without such a fee.
    """

    address: str
    program: str
    keys: Mapping[str, str]
    disabled: bool
    opens_at: int
    owed: tuple[int, int]
    creator_fee_on: int | None


@dataclass(frozen=True, slots=True)
class Trade:
    """One pool in the direction of a request, with everything on which its price depends.

    Attributes:
        reserve_in, reserve_out: tradable units.
        fee, creator_fee: parts of a million.
        creator_on_input: whether the creator's fee is in the sold token, not the bought one.
    """

    pool: Pool
    source: Mint
    target: Mint
    vaults: tuple[str, str]
    reserve_in: int
    reserve_out: int
    fee: int
    creator_fee: int
    creator_on_input: bool
    epoch: int

    def paid(self, amount: int) -> int:
        """Return the units that reach the pool if `amount` units are sold."""
        return amount - transfer_fee(self.source, amount, self.epoch)

    def given(self, amount: int) -> int:
        """Return the units that the pool pays for `amount` units sold, rounded like the program."""
        return swap_output(
            self.paid(amount),
            self.reserve_in,
            self.reserve_out,
            fee=self.fee,
            creator_fee=self.creator_fee,
            creator_on_input=self.creator_on_input,
        )

    def out(self, amount: int) -> int:
        """Return the units that arrive for `amount` units sold, after the mint's fee."""
        given = self.given(amount)
        return given - transfer_fee(self.target, given, self.epoch)


def swap_output(
    paid: int,
    reserve_in: int,
    reserve_out: int,
    *,
    fee: int,
    creator_fee: int = 0,
    creator_on_input: bool = True,
) -> int:
    """Return the units that the pool pays for `paid` units: fees round up, the payment down.

    Args:
        fee, creator_fee: parts of a million.
    """
    charged = fee + creator_fee if creator_on_input else fee
    rest = paid + -paid * charged // _MILLION
    if rest <= 0 or reserve_in <= 0:
        return 0
    given = rest * reserve_out // (reserve_in + rest)
    return given if creator_on_input else given + -given * creator_fee // _MILLION


@hookimpl
def venue_spec() -> VenueSpec:
    """Return a venue for the pairs of the configured pools."""
    return VenueSpec("raydium_cpmm", pools_env=POOLS_ENV)


@hookimpl
async def venue_quote(request: QuoteRequest, context: VenueContext) -> Quote:
    """Quote the present price of the pool that pays the most."""
    trades = await _find_trades(context, context.pools, request)
    best = max(trades, key=lambda trade: trade.out(request.amount))
    return _make_quote(best, request)


@hookimpl
async def venue_instructions(
    quote: Quote, taker: str, destination: str, max_accounts: int | None, context: VenueContext
) -> SwapInstructions:
    """Return the swap with the quote's pool, at the pool's present price."""
    pool = quote.raw.get("pool")
    if pool not in context.pools:
        raise LedgerUnavailable("The quote's pool is not configured")
    request = QuoteRequest(quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps)
    [trade] = await _find_trades(context, [str(pool)], request)
    newer = _make_quote(trade, request)
    least = max(quote.minimum_out, newer.minimum_out)
    source = associated_address(taker, trade.source.address, trade.source.program)
    return SwapInstructions(
        newer, swap_instruction(trade, taker, source, destination, request.amount, least)
    )


def swap_instruction(
    trade: Trade, taker: str, source: str, destination: str, amount: int, minimum: int
) -> Instruction:
    """Make the `swap_base_input` instruction of the program's IDL."""
    pool = trade.pool
    program = Pubkey.from_string(pool.program)
    accounts = (
        (taker, True, False),
        (_authority(pool.program), False, False),
        (pool.keys["config"], False, False),
        (pool.address, False, True),
        (source, False, True),
        (destination, False, True),
        (trade.vaults[0], False, True),
        (trade.vaults[1], False, True),
        (trade.source.program, False, False),
        (trade.target.program, False, False),
        (trade.source.address, False, False),
        (trade.target.address, False, False),
        (pool.keys["observation"], False, True),
    )
    return Instruction(
        program,
        _SWAP + struct.pack("<QQ", amount, minimum),
        [AccountMeta(Pubkey.from_string(key), signs, written) for key, signs, written in accounts],
    )


def _make_quote(trade: Trade, request: QuoteRequest) -> Quote:
    given = trade.out(request.amount)
    if not 0 < given <= _U64:
        raise InvalidRequest("amount is too small: the pool would give nothing for it")
    # The mints' own fees are left out, because the trade does not cause them.
    fair = Decimal(trade.paid(request.amount)) * trade.reserve_out / trade.reserve_in
    return Quote(
        input_mint=request.input_mint,
        output_mint=request.output_mint,
        in_amount=request.amount,
        out_amount=given,
        minimum_out=-(-given * (_BPS - request.slippage_bps) // _BPS),
        slippage_bps=request.slippage_bps,
        price_impact=max(Decimal(0), 1 - trade.given(request.amount) / fair),
        raw={"pool": trade.pool.address},
    )


async def _find_trades(
    context: VenueContext, addresses: Iterable[str], request: QuoteRequest
) -> list[Trade]:
    """Return the pools that trade this pair now, at least one.

    Raises:
        InvalidRequest: no pool trades the pair.
        LedgerUnavailable: the ledger did not answer, or none of the accounts is a valid pool.
    """
    wanted = list(addresses)
    found = await context.ledger.accounts([*wanted, CLOCK_SYSVAR])
    epoch, now = _read_clock(found[CLOCK_SYSVAR])
    pools = {address: _parse_pool(address, found[address]) for address in wanted}
    if wrong := [address for address, pool in pools.items() if pool is None]:
        raise LedgerUnavailable(
            f"{POOLS_ENV}: {', '.join(wrong)} is no pool of Raydium's CPMM program on this network"
        )
    pair = (request.input_mint, request.output_mint)
    fitting = [
        pool
        for pool in pools.values()
        if pool is not None and sorted(pair) == sorted((pool.keys["mint_0"], pool.keys["mint_1"]))
    ]
    if not fitting:
        raise InvalidRequest(f"No pool of {POOLS_ENV} trades this pair")
    needed = dict.fromkeys(
        key
        for pool in fitting
        for key in (
            pool.address,
            *(pool.keys[name] for name in ("config", "vault_0", "vault_1", "mint_0", "mint_1")),
        )
    )
    # This reads the pools again, so that owed fees and balances are of the same state.
    states = await context.ledger.accounts([*needed])
    trades = [
        _make_trade(pool, pair, states, epoch)
        for pool in (_parse_pool(each.address, states[each.address]) for each in fitting)
        if pool is not None and not pool.disabled and pool.opens_at <= now
    ]
    if not trades:
        raise InvalidRequest("The pool of this pair does not trade now")
    return trades


def _parse_pool(address: str, account: Account | None) -> Pool | None:
    """Return the pool in an account, None if the account is not one of the program's."""
    if account is None or account.owner not in _PROGRAMS:
        return None
    data = account.data
    if len(data) != _POOL_BYTES or not data.startswith(_POOL):
        return None
    keys = {
        name: str(Pubkey.from_bytes(data[8 + 32 * at : 40 + 32 * at]))
        for at, name in enumerate(_KEYS)
    }
    protocol_0, protocol_1, fund_0, fund_1, opens_at, _ = _NUMBERS.unpack_from(data, _NUMBERS_AT)
    fee_on, has_fee, creator_0, creator_1 = _CREATOR.unpack_from(data, _CREATOR_AT)
    return Pool(
        address,
        account.owner,
        keys,
        bool(data[_STATUS_AT] & _SWAP_DISABLED),
        opens_at,
        (protocol_0 + fund_0 + creator_0, protocol_1 + fund_1 + creator_1),
        fee_on if has_fee else None,
    )


def _make_trade(
    pool: Pool, pair: tuple[str, str], states: Mapping[str, Account | None], epoch: int
) -> Trade:
    sides = (0, 1) if pool.keys["mint_0"] == pair[0] else (1, 0)
    mints: list[Mint] = []
    reserves: list[int] = []
    for side in sides:
        mint = mint_account(pair[len(mints)], states[pair[len(mints)]], strict=True)
        vault = token_account(states[pool.keys[f"vault_{side}"]])
        if mint is None or vault is None:
            raise _inconsistent_pool(pool)
        held = (vault.mint, vault.owner, mint.program)
        if held != (mint.address, _authority(pool.program), pool.keys[f"program_{side}"]):
            raise _inconsistent_pool(pool)
        mints.append(mint)
        reserves.append(vault.amount - pool.owed[side])
    config = states[pool.keys["config"]]
    if (
        config is None
        or config.owner != pool.program
        or len(config.data) != _CONFIG_BYTES
        or not config.data.startswith(_CONFIG)
    ):
        raise _inconsistent_pool(pool)
    fee, creator_fee = (_read_number(config.data, at) for at in (_TRADE_FEE_AT, _CREATOR_FEE_AT))
    on = pool.creator_fee_on
    if min(reserves) < 0 or fee + creator_fee > _MILLION or on not in (None, *range(3)):
        raise _inconsistent_pool(pool)
    return Trade(
        pool=pool,
        source=mints[0],
        target=mints[1],
        vaults=(pool.keys[f"vault_{sides[0]}"], pool.keys[f"vault_{sides[1]}"]),
        reserve_in=reserves[0],
        reserve_out=reserves[1],
        fee=fee,
        creator_fee=0 if on is None else creator_fee,
        creator_on_input=on in (None, _ON_EITHER, (_ON_0, _ON_1)[sides[0]]),
        epoch=epoch,
    )


def _authority(program: str) -> str:
    """Return the address that owns the vaults of every pool of the program."""
    key, _ = Pubkey.find_program_address([_AUTHORITY_SEED], Pubkey.from_string(program))
    return str(key)


def _read_number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _read_clock(account: Account | None) -> tuple[int, int]:
    """Return the epoch and the Unix time at the ledger's tip."""
    if account is None or len(account.data) < _CLOCK.size:
        raise LedgerUnavailable("The ledger shows no clock")
    _slot, _start, epoch, _schedule, seconds = _CLOCK.unpack_from(account.data)
    return epoch, seconds


def _inconsistent_pool(pool: Pool) -> LedgerUnavailable:
    return LedgerUnavailable(f"The accounts of the pool {pool.address} contradict each other")
