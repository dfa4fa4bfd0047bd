"""The demo market: two mints and two pools of real reserves, placed at genesis, and their program.

Addresses are derived from fixed seeds, so that every localnet has the same tokens. The program is a
constant product market maker with one instruction, `swap`. Its accounts, all different:

    0      the token program
    1      the user, who signs for the source account
    2      the user's source token account
    3      the destination token account, with any owner
    4      the authority of all vaults, derived from this program
    5 6 7  a pool, its vault that is paid, its vault that pays
    8 9 10 for two hops: a second pool, which gets the first pool's payment, and its two vaults

Its data: the byte 1, the amount in, the minimum amount out; both amounts are unsigned 64-bit
integers. A pool is an account of this program with the addresses of its two vaults. The reserves
are the vaults' balances, in which a fee of 30 basis points remains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from solana.constants import LAMPORTS_PER_SOL
from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN_PROGRAM
from solders.token.state import Mint, TokenAccount, TokenAccountState
from spl.token.constants import MINT_LEN, NATIVE_DECIMALS, WRAPPED_SOL_MINT

from solward.solana.accounts import max_rent
from solward.solana.protocol import LOCALNET_RENT_PER_BYTE, rent_of
from solward.solana.tokens import TOKEN_ACCOUNT_BYTES

POOL_BYTES = 64
_LOADER = Pubkey.from_string("BPFLoader2111111111111111111111111111111111")
AUTHORITY_SEED = b"authority"
FILE = Path(__file__).with_name("market_program.elf")
_SHA256 = "f4e92900146219108e6f7f644179b7a66183e664fc77ae7d62ba2790392bd50d"


def seeded(name: str) -> Keypair:
    """Return the key pair that is the same under this name on every localnet."""
    return Keypair.from_seed(hashlib.sha256(f"solward localnet {name}".encode()).digest())


MARKET_PROGRAM = seeded("market program").pubkey()
AUTHORITY, BUMP = Pubkey.find_program_address([AUTHORITY_SEED], MARKET_PROGRAM)


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
        """The addresses of both vaults, the SOL vault first."""
        return self.sol_vault, self.mint_vault

    @property
    def address(self) -> Pubkey:
        """The program's account with the addresses of the two vaults."""
        return seeded(f"{self.symbol} market").pubkey()

    @property
    def sol_vault(self) -> Pubkey:
        """The vault with the pool's wrapped SOL."""
        return seeded(f"{self.symbol} market SOL").pubkey()

    @property
    def mint_vault(self) -> Pubkey:
        """The vault with the pool's units of `mint`."""
        return seeded(f"{self.symbol} market {self.symbol}").pubkey()


# Opening prices: 150 USDC a SOL; 0.00002 USDC a BONK, hence 7.5 million BONK a SOL.
POOLS = (
    Pool("USDC", 6, 100_000 * LAMPORTS_PER_SOL, 15_000_000 * 10**6),
    Pool("BONK", 5, 20_000 * LAMPORTS_PER_SOL, 150_000_000_000 * 10**5),
)


def genesis_accounts(rent_per_byte: int = LOCALNET_RENT_PER_BYTE) -> Mapping[Pubkey, Account]:
    """Return the accounts of the market's program, mints, pools and vaults, rent included."""

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


def whole_dollars(held: Mapping[str, int]) -> Mapping[str, tuple[Fraction, int]]:
    """Return each whole token's price in dollars, from the pools' reserves; 1 USDC is 1 dollar.

    It is the price before a trade. A trade pays less, by its fee and by its effect on the price.

    Args:
        held: units of each vault, by address. A pool with an empty vault is left out.

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


@cache
def program_file() -> bytes:
    """Return the market program's ELF file, which `tests/market_source.py` builds.

    Raises:
        ValueError: the file is another one.
    """
    file = FILE.read_bytes()
    if hashlib.sha256(file).hexdigest() != _SHA256:
        raise ValueError(f"{FILE} is not the market's program")
    return file


def program_account(file: bytes) -> Account:
    """Return a program as one account that nobody can change."""
    return Account(max_rent(len(file)), file, _LOADER, executable=True)
