"""The demo market: two mints and two pools of real reserves, placed at genesis.

Addresses are derived from fixed seeds, so that every localnet has the same tokens. The seeds are
public: whoever reads them can take the pools, which hold play money only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.token import ID as TOKEN_PROGRAM
from solders.token.associated import get_associated_token_address
from solders.token.state import Mint, TokenAccount, TokenAccountState

from solward.solana.accounts import rent_exempt_minimum
from solward.solana.tokens import MINT_BYTES, TOKEN_ACCOUNT_RENT
from solward_localnet.options import LAMPORTS_PER_SOL


def _seeded(name: str) -> Keypair:
    return Keypair.from_seed(hashlib.sha256(f"solward localnet {name}".encode()).digest())


@dataclass(frozen=True, slots=True)
class Pool:
    """A market maker for one mint against SOL.

    Its reserves are what its own accounts hold on the ledger: `maker`'s lamports and the units
    in `vault`.

    Attributes:
        sol: lamports at genesis.
        units: units of `mint` at genesis; the ratio is the opening price.
    """

    symbol: str
    decimals: int
    sol: int
    units: int

    @property
    def maker(self) -> Keypair:
        """Signs the pool's side of a swap."""
        return _seeded(f"{self.symbol} pool")

    @property
    def mint(self) -> Pubkey:
        """The mint traded against SOL."""
        return _seeded(f"{self.symbol} mint").pubkey()

    @property
    def vault(self) -> Pubkey:
        """The maker's associated token account."""
        return get_associated_token_address(self.maker.pubkey(), self.mint)


# Opening prices: 150 USDC a SOL; 0.00002 USDC a BONK, hence 7.5 million BONK a SOL.
POOLS = (
    Pool("USDC", 6, 100_000 * LAMPORTS_PER_SOL, 15_000_000 * 10**6),
    Pool("BONK", 5, 20_000 * LAMPORTS_PER_SOL, 150_000_000_000 * 10**5),
)


def genesis_accounts() -> Mapping[Pubkey, Account]:
    """The mints, the makers and their vaults."""
    accounts: dict[Pubkey, Account] = {}
    for pool in POOLS:
        maker = pool.maker.pubkey()
        mint = Mint(
            mint_authority=None,
            supply=pool.units,
            decimals=pool.decimals,
            is_initialized=True,
            freeze_authority=None,
        )
        vault = TokenAccount(
            mint=pool.mint,
            owner=maker,
            amount=pool.units,
            delegate=None,
            state=TokenAccountState.Initialized,
            is_native=None,
            delegated_amount=0,
            close_authority=None,
        )
        accounts[pool.mint] = Account(rent_exempt_minimum(MINT_BYTES), bytes(mint), TOKEN_PROGRAM)
        accounts[pool.vault] = Account(TOKEN_ACCOUNT_RENT, bytes(vault), TOKEN_PROGRAM)
        accounts[maker] = Account(pool.sol, b"", SYSTEM_PROGRAM)
    return accounts


@dataclass(frozen=True, slots=True)
class Trade:
    """What a trade of exactly `paid` units gives.

    Attributes:
        price_impact: fraction by which the price got worse, fee included.
    """

    paid: int
    received: int
    price_impact: Decimal


# The pools' fee, which stays in their reserves, in basis points.
FEE_BPS = 30


def trade(paid: int, reserve_in: int, reserve_out: int) -> Trade:
    """Constant product, rounded against the trader: reserve_in * reserve_out never falls."""
    effective = paid * (10_000 - FEE_BPS)
    received = effective * reserve_out // (reserve_in * 10_000 + effective)
    fair = Decimal(paid) * reserve_out / reserve_in
    impact = max(Decimal(0), 1 - Decimal(received) / fair) if fair else Decimal(0)
    return Trade(paid, received, impact.quantize(Decimal("0.000001")))
