"""Options of a localnet, chosen when it is opened."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from solana.constants import LAMPORTS_PER_SOL
from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.protocol import LOCALNET_RENT_PER_BYTE, MAX_LOCALNET_RENT_PER_BYTE

Finality: TypeAlias = Literal["alpenglow", "tower", "finalized"]

MIN_SLOTS_PER_EPOCH = 32
"""Agave's `MINIMUM_SLOTS_PER_EPOCH`."""


# Uptime goes on while a Linux machine sleeps.
_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BOOTED_NS = time.time_ns() - time.clock_gettime_ns(_UPTIME)


def wall_clock_ms() -> int:
    """Return Unix milliseconds: the clock at the process's start plus the uptime since then.
    So a change of the machine's clock does not change an open ledger's time."""
    return (_BOOTED_NS + time.clock_gettime_ns(_UPTIME)) // 1_000_000


@dataclass(frozen=True, slots=True)
class LocalnetOptions:
    """Options of one localnet.

    `slot_ms` is the length of a slot in milliseconds of `clock`, which returns milliseconds since
    the Unix epoch and is called in the ledger's own thread. `finality` is the simulated consensus:
    with `alpenglow`, transactions are final when they land; with `tower`, one slot later;
    `finalized` is like `alpenglow`, but the commitment `confirmed` is refused.
    `slots_per_epoch`, `rent_per_byte` (the lamports of rent that an account pays for each byte),
    the faucet's and the validator's lamports and `genesis` (accounts placed at genesis) count only
    when the ledger is created: an existing one keeps what it was created with. `ticker` wakes the
    node on every slot so that subscribers see slots pass; without it a slot passes when somebody
    calls. `test_control` makes the RPC methods `solward_advanceSlots`, `solward_advanceEpochs` and
    `solward_setRent` callable. Without `takes_version_1` transactions of version 1 are refused, as
    by the clusters before it.

    Raises:
        ValueError: an option is out of its range; the text names it.
    """

    slot_ms: int = 200
    slots_per_epoch: int = 432
    finality: Finality = "alpenglow"
    rent_per_byte: int = LOCALNET_RENT_PER_BYTE
    faucet_lamports: int = 500_000_000 * LAMPORTS_PER_SOL
    max_airdrop_lamports: int = 1_000_000 * LAMPORTS_PER_SOL
    validator_stake_lamports: int = 1_000_000 * LAMPORTS_PER_SOL
    clock: Callable[[], int] = wall_clock_ms
    genesis: Callable[[], Mapping[Pubkey, Account]] | None = None
    ticker: bool = True
    test_control: bool = False
    takes_version_1: bool = True

    def __post_init__(self) -> None:
        if self.slot_ms < 1:
            raise ValueError(f"slot_ms must be at least 1, not {self.slot_ms}")
        if self.slots_per_epoch < MIN_SLOTS_PER_EPOCH:
            raise ValueError(
                f"slots_per_epoch must be at least {MIN_SLOTS_PER_EPOCH}, "
                f"not {self.slots_per_epoch}"
            )
        if not 1 <= self.rent_per_byte <= MAX_LOCALNET_RENT_PER_BYTE:
            raise ValueError(
                f"rent_per_byte must be from 1 to {MAX_LOCALNET_RENT_PER_BYTE},"
                f" not {self.rent_per_byte}"
            )
        for name in ("faucet_lamports", "max_airdrop_lamports", "validator_stake_lamports"):
            lamports = getattr(self, name)
            if not 0 < lamports < 2**63:
                raise ValueError(f"{name} must be positive and below 2^63, not {lamports}")
