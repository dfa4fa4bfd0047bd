"""Pools of Raydium's constant product program, as the accounts that a ledger has of them.

Laid out as the program's published source says (github.com/raydium-io/raydium-cp-swap).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.state import Mint, TokenAccount, TokenAccountState
from spl.token.constants import TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT

from solward.plugins.loaded import LoadedVenue
from solward.solana.accounts import rent_exempt_minimum
from solward_plugins.venues import raydium_cpmm

CPMM = Pubkey.from_string("CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C")
AUTHORITY, AUTHORITY_BUMP = Pubkey.find_program_address([b"vault_and_lp_mint_auth_seed"], CPMM)
VAULT_RENT = 2_039_280


def discriminator(name: str) -> bytes:
    return hashlib.sha256(f"account:{name}".encode()).digest()[:8]


def mint_state(decimals: int, supply: int = 10**18) -> Account:
    state = Mint(
        mint_authority=None,
        supply=supply,
        decimals=decimals,
        is_initialized=True,
        freeze_authority=None,
    )
    return Account(rent_exempt_minimum(82), bytes(state), TOKEN_PROGRAM_ID)


def held(mint: Pubkey, owner: Pubkey, units: int, program: Pubkey = TOKEN_PROGRAM_ID) -> Account:
    """A token account."""
    native = mint == WRAPPED_SOL_MINT
    state = TokenAccount(
        mint=mint,
        owner=owner,
        amount=units,
        delegate=None,
        state=TokenAccountState.Initialized,
        is_native=VAULT_RENT if native else None,
        delegated_amount=0,
        close_authority=None,
    )
    return Account(VAULT_RENT + (units if native else 0), bytes(state), program)


@dataclass
class CpmmPool:
    """A pool; the mints in the order in which the program keeps them, by their bytes.

    Attributes:
        reserves: units of mint 0 and 1 that trade.
        owed: units in the vaults beside: protocol fees (0, 1), fund fees (0, 1).
        creator_owed: the same of the creator's fees (0, 1).
        fee, creator_fee: parts of a million.
        creator_on: what the creator's fee is taken from (0 either, 1 mint 0, 2 mint 1), None
            where the pool has no such fee.
    """

    mints: tuple[Pubkey, Pubkey]
    reserves: tuple[int, int]
    fee: int = 2_500
    owed: tuple[int, int, int, int] = (0, 0, 0, 0)
    creator_owed: tuple[int, int] = (0, 0)
    creator_fee: int = 0
    creator_on: int | None = None
    status: int = 0
    opens_at: int = 0
    programs: tuple[Pubkey, Pubkey] = (TOKEN_PROGRAM_ID, TOKEN_PROGRAM_ID)
    program: Pubkey = CPMM
    address: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    config: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    observation: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    lp_mint: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    vaults: tuple[Pubkey, Pubkey] = field(
        default_factory=lambda: (Keypair().pubkey(), Keypair().pubkey())
    )

    @property
    def authority(self) -> Pubkey:
        return Pubkey.find_program_address([b"vault_and_lp_mint_auth_seed"], self.program)[0]

    def state(self) -> bytes:
        """The pool's own account."""
        keys = (
            self.config,
            Pubkey.default(),
            *self.vaults,
            self.lp_mint,
            *self.mints,
            *self.programs,
            self.observation,
        )
        data = discriminator("PoolState") + b"".join(map(bytes, keys))
        data += bytes([AUTHORITY_BUMP, self.status, 9, 9, 6])
        data += struct.pack("<QQQQQQQ", 10**9, *self.owed, self.opens_at, 0)
        on, has = (0, False) if self.creator_on is None else (self.creator_on, True)
        data += struct.pack("<B?6xQQ", on, has, *self.creator_owed) + bytes(8 * 28)
        assert len(data) == 637
        return data

    def config_state(self) -> bytes:
        data = discriminator("AmmConfig") + struct.pack("<B?H", 255, False, 0)
        data += struct.pack("<QQQQ", self.fee, 120_000, 40_000, 0) + bytes(64)
        return data + struct.pack("<Q", self.creator_fee) + bytes(8 * 15)

    def observation_state(self) -> bytes:
        data = discriminator("ObservationState") + struct.pack("<?H", True, 0)
        return data + bytes(self.address) + bytes(40 * 100 + 32)

    def accounts(self) -> dict[Pubkey, Account]:
        """All of it but the mints."""
        owned = (
            (self.address, self.state()),
            (self.config, self.config_state()),
            (self.observation, self.observation_state()),
        )
        made = {
            key: Account(rent_exempt_minimum(len(data)), data, self.program) for key, data in owned
        }
        for side in (0, 1):
            units = self.reserves[side] + self.owed[side] + self.owed[2 + side]
            made[self.vaults[side]] = held(
                self.mints[side],
                self.authority,
                units + self.creator_owed[side],
                self.programs[side],
            )
        return made


def pool_of(reserves: Mapping[Pubkey, int], **options: object) -> CpmmPool:
    """A pool of two mints, in the program's order."""
    mints = sorted(reserves, key=bytes)
    return CpmmPool((mints[0], mints[1]), (reserves[mints[0]], reserves[mints[1]]), **options)  # type: ignore[arg-type]


def loaded() -> LoadedVenue:
    """The built-in plugin."""
    return LoadedVenue(
        raydium_cpmm.venue_spec(),
        "solward",
        "0",
        raydium_cpmm.venue_quote,
        raydium_cpmm.venue_instructions,
        None,
    )


def fee_mint(bps: int, most: int) -> bytes:
    """A Token-2022 mint whose transfers withhold a fee, the same in every epoch."""
    fee = struct.pack("<QQH", 0, most, bps)
    extension = struct.pack("<HH", 1, 108) + bytes(64) + bytes(8) + fee + fee
    return mint_state(6).data.ljust(165, b"\0") + b"\1" + extension
