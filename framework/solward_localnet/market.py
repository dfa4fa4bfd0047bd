"""The demo market: two mints and two pools of real reserves, placed at genesis.

Addresses are derived from fixed seeds, so that every localnet has the same tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from solana.constants import LAMPORTS_PER_SOL
from solders.account import Account
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN_PROGRAM
from solders.token.state import Mint, TokenAccount, TokenAccountState
from spl.token.constants import MINT_LEN, NATIVE_DECIMALS, WRAPPED_SOL_MINT

from solward.solana.protocol import LOCALNET_RENT_PER_BYTE, rent_of
from solward.solana.tokens import TOKEN_ACCOUNT_BYTES
from solward_localnet.market_program import (
    AUTHORITY,
    FEE_BPS,
    MARKET_PROGRAM,
    POOL_BYTES,
    program_account,
    program_file,
    seeded,
)


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of one mint against SOL.

    Attributes:
        sol: lamports at genesis.
        units: units of `mint` at genesis; the ratio is the opening price.
    """

    symbol: str
    decimals: int
    sol: int
    units: int

    @property
    def mint(self) -> Pubkey:
        """The mint traded against SOL."""
        return seeded(f"{self.symbol} mint").pubkey()

    @property
    def vaults(self) -> tuple[Pubkey, Pubkey]:
        """Both, the one of SOL first."""
        return self.sol_vault, self.mint_vault

    @property
    def address(self) -> Pubkey:
        """The program's account that names the two vaults."""
        return seeded(f"{self.symbol} market").pubkey()

    @property
    def sol_vault(self) -> Pubkey:
        """The wrapped SOL the program trades with."""
        return seeded(f"{self.symbol} market SOL").pubkey()

    @property
    def mint_vault(self) -> Pubkey:
        """The units of `mint` the program trades with."""
        return seeded(f"{self.symbol} market {self.symbol}").pubkey()

    def hop(self, sells_sol: bool) -> tuple[Pubkey, Pubkey, Pubkey]:
        """What the program's `swap` takes of it: itself, the vault paid, the vault paying."""
        paid, paying = self.vaults if sells_sol else reversed(self.vaults)
        return self.address, paid, paying


# Opening prices: 150 USDC a SOL; 0.00002 USDC a BONK, hence 7.5 million BONK a SOL.
POOLS = (
    Pool("USDC", 6, 100_000 * LAMPORTS_PER_SOL, 15_000_000 * 10**6),
    Pool("BONK", 5, 20_000 * LAMPORTS_PER_SOL, 150_000_000_000 * 10**5),
)


def genesis_accounts(rent_per_byte: int = LOCALNET_RENT_PER_BYTE) -> Mapping[Pubkey, Account]:
    """The program, the mints, the pools and their vaults, which hold the rent of their bytes."""

    def rent(size: int) -> int:
        return rent_of(size, rent_per_byte)

    accounts = {MARKET_PROGRAM: program_account(program_file())}
    for pool in POOLS:
        mint = Mint(
            mint_authority=None,
            supply=pool.units,
            decimals=pool.decimals,
            is_initialized=True,
            freeze_authority=None,
        )
        accounts[pool.mint] = Account(rent(MINT_LEN), bytes(mint), TOKEN_PROGRAM)
        names = bytes(pool.sol_vault) + bytes(pool.mint_vault)
        held = rent(TOKEN_ACCOUNT_BYTES)
        accounts |= {
            pool.address: Account(rent(POOL_BYTES), names, MARKET_PROGRAM),
            pool.sol_vault: _vault(WRAPPED_SOL_MINT, pool.sol, held),
            pool.mint_vault: _vault(pool.mint, pool.units, held),
        }
    return accounts


def _vault(mint: Pubkey, amount: int, rent: int) -> Account:
    is_native = mint == WRAPPED_SOL_MINT
    state = TokenAccount(
        mint=mint,
        owner=AUTHORITY,
        amount=amount,
        delegate=None,
        state=TokenAccountState.Initialized,
        is_native=rent if is_native else None,
        delegated_amount=0,
        close_authority=None,
    )
    return Account(rent + (amount if is_native else 0), bytes(state), TOKEN_PROGRAM)


@dataclass(frozen=True, slots=True)
class Trade:
    """What a trade of exactly `paid` units gives.

    Attributes:
        price_impact: fraction by which the price got worse, fee included.
    """

    paid: int
    received: int
    price_impact: Decimal


def trade(paid: int, reserve_in: int, reserve_out: int) -> Trade:
    """Constant product, rounded against the trader: reserve_in * reserve_out never falls."""
    effective = paid * (10_000 - FEE_BPS)
    received = effective * reserve_out // (reserve_in * 10_000 + effective)
    fair = Decimal(paid) * reserve_out / reserve_in
    impact = max(Decimal(0), 1 - Decimal(received) / fair) if fair else Decimal(0)
    return Trade(paid, received, impact.quantize(Decimal("0.000001")))


def whole_dollars(held: Mapping[str, int]) -> Mapping[str, tuple[Fraction, int]]:
    """What the pools' reserves say of the worth of a whole token, where a USDC is a dollar.

    Between payment and receipt: a trade gives less by its fee and by how far it moves the price.

    Args:
        held: address of a vault -> its units. A pool with an empty one says nothing.

    Returns:
        mint, wrapped SOL's for SOL -> dollars, decimals.
    """
    usdc = next(pool for pool in POOLS if pool.symbol == "USDC")
    found = {str(usdc.mint): (Fraction(1), usdc.decimals)}
    sol = _whole_per_sol(usdc, held)
    if sol is None:
        return found
    found[str(WRAPPED_SOL_MINT)] = (sol, NATIVE_DECIMALS)
    for pool in POOLS:
        rate = _whole_per_sol(pool, held)
        if pool is not usdc and rate is not None:
            found[str(pool.mint)] = (sol / rate, pool.decimals)
    return found


def _whole_per_sol(pool: Pool, held: Mapping[str, int]) -> Fraction | None:
    sol, units = (held.get(str(vault), 0) for vault in pool.vaults)
    if not sol or not units:
        return None
    return Fraction(units * LAMPORTS_PER_SOL, sol * 10**pool.decimals)
