"""What a wallet's limits leave room for, and how SOL is parted to fit into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solward.money import sol_to_lamports

# One signature, and no priority fee: what the engine's own transfers cost.
FEE = 5_000
# The least an account without data may hold: (0 + 128) bytes of rent at 6,960 lamports. The ledger
# refuses to leave less than this, unless nothing is left, and lets nobody pay a fee out of it.
RENT_EXEMPT = 890_880
# A part smaller than this is mostly fee; it waits for a limit that has room.
LEAST_PART = 100_000


@dataclass(frozen=True, slots=True)
class Room:
    """What the wallet's limits leave at a moment; None is no limit. SOL in lamports, else units."""

    per_tx: int | None
    today: int | None
    this_minute: int | None
    per_minute: int | None
    tokens: Mapping[str, int]
    frozen: bool

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Room:
        """From the answer of `GET /wallets/:id/limits`."""
        minute = raw["maxTransactionsPerMinute"]
        return cls(
            per_tx=_lamports(raw["maxSolPerTransaction"]["limit"]),
            today=_lamports(raw["dailySpendingLimitSol"]["left"]),
            this_minute=minute["left"],
            per_minute=minute["limit"],
            tokens={mint: int(each["left"]) for mint, each in raw["dailyTokens"].items()},
            frozen=raw["frozen"],
        )


def next_part(balance: int, room: Room) -> int:
    """Lamports to send next of `balance`, 0 where no limit leaves room or nothing can be sent.

    The last part leaves exactly nothing; each before it leaves what the next can be paid from.
    """
    most = balance - FEE
    caps = [cap for cap in (room.per_tx, room.today) if cap is not None]
    if most < RENT_EXEMPT:
        return 0
    if not caps or most <= min(caps):
        return most
    part = min(*caps, most - FEE - RENT_EXEMPT)
    return part if part >= LEAST_PART else 0


def _lamports(sol: Any) -> int | None:
    if sol is None:
        return None
    return sol_to_lamports(sol) if sol else 0
