"""Compute-unit limit and price of the transactions that Solward builds.

What a node says of prices is its word: whatever it is, the price is lowered until the whole network
fee is at most MAX_NETWORK_FEE_SOL. No answer, or none that can be read, fails no payment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import structlog
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.message import TransactionConfig

from solward.solana.message import (
    SET_UNIT_LIMIT,
    SET_UNIT_PRICE,
    AnyMessage,
    affordable_price,
    fee_terms,
    priority_lamports,
)
from solward.solana.programs import COMPUTE_BUDGET_PROGRAM, MEMO_PROGRAMS
from solward.solana.protocol import (
    DEFAULT_MAX_NETWORK_FEE,
    MAX_COMPUTE_UNITS,
    MAX_LOADED_BYTES,
)
from solward.types.errors import LedgerError
from solward.vault.ledger.client import Ledger

PriorityFee: TypeAlias = Literal["off", "auto"] | int
"""`off`: no Compute Budget instructions. A number: micro-lamports for each compute unit."""

# A node reports of each of its last 150 slots the least price that landed. So the 90th percentile
# is no high bid: it is what was enough in nine of ten slots.
PERCENTILE: Final = 90
_SLOTS = 150
# The least `auto` pays, for accounts about which nobody competes: 13 lamports for a plain transfer.
QUIET_PRICE: Final = 10_000
# Where no node says. 130 lamports for a plain transfer, 12,000 for a swap of 100,000 units.
UNKNOWN_PRICE: Final = 100_000

# Of one call (rpc-client-api: MAX_TX_ACCOUNT_LOCKS).
_MAX_ADDRESSES = 128
# A payment waits no longer than this for a price.
_ANSWER_S = 1.0
# A node that did not answer, or does not know the method, is not asked again before that.
_REST_S = 30.0
# Prices move from slot to slot, and a burst of payments needs one answer.
_FRESH_SLOTS = 5
_MAX_KNOWN = 512

# A simulation is of one state: another may make a program search longer. A fifth more than was
# simulated, and of small transactions 1,000 units.
_MARGIN_SHARE = 5
_LEAST_MARGIN = 1_000
# Accounts grow as programs do: a fifth more bytes than were loaded, and of few 32 KiB, which is
# what the network counts in.
_LEAST_BYTES_MARGIN = 32 << 10

_log = structlog.get_logger(__name__)


def with_margin(units: int) -> int:
    """The compute-unit limit for what used `units` in the simulation."""
    return min(MAX_COMPUTE_UNITS, units + max(units // _MARGIN_SHARE, _LEAST_MARGIN))


def bytes_with_margin(loaded: int | None) -> int:
    """The limit of loaded bytes for what loaded so many in the simulation; None where the node does
    not say."""
    if loaded is None:
        return MAX_LOADED_BYTES
    return min(MAX_LOADED_BYTES, loaded + max(loaded // _MARGIN_SHARE, _LEAST_BYTES_MARGIN))


@dataclass(frozen=True, slots=True)
class Used:
    """What a simulation used: compute units, and the bytes of accounts that it loaded; None where
    the node does not say."""

    units: int
    loaded_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What a transaction says of its compute units: the limit, and micro-lamports for each.

    Attributes:
        loaded_bytes: the limit of a transaction of version 1, which has none by default.
    """

    units: int
    price: int = 0
    loaded_bytes: int = MAX_LOADED_BYTES

    def instructions(self) -> tuple[Instruction, ...]:
        """The Compute Budget instructions; a price of 0 needs none."""
        limit = set_compute_unit_limit(self.units)
        return (limit, set_compute_unit_price(self.price)) if self.price else (limit,)

    def config(self) -> TransactionConfig:
        """The same in the message of a transaction of version 1, where the fee is a total."""
        return TransactionConfig(
            priority_fee=priority_lamports(self.price, self.units) or None,
            compute_unit_limit=self.units,
            loaded_accounts_data_size_limit=self.loaded_bytes,
        )


# For a simulation that finds out what is used. Without a price: nobody pays for it.
MEASURING: Final = Budget(MAX_COMPUTE_UNITS)
# As large as any budget, to see what fits into a transaction.
LARGEST: Final = Budget(MAX_COMPUTE_UNITS, 1)


def sets_price(instructions: Sequence[Instruction]) -> bool:
    """Whether who made the instructions set a price of compute units; then it stands."""
    return any(_kind(each) == SET_UNIT_PRICE for each in instructions)


def without_limit(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The instructions without a limit of compute units, which the simulation replaces."""
    return tuple(each for each in instructions if _kind(each) != SET_UNIT_LIMIT)


def _kind(instruction: Instruction) -> int | None:
    if str(instruction.program_id) != COMPUTE_BUDGET_PROGRAM or not instruction.data:
        return None
    return bytes(instruction.data)[0]


class PriorityFees:
    """Finds the budget of each transaction, as PRIORITY_FEE says.

    Attributes:
        max_lamports: most that a whole network fee may be.
    """

    def __init__(
        self,
        ledger: Ledger,
        setting: PriorityFee = "off",
        max_lamports: int = DEFAULT_MAX_NETWORK_FEE,
    ) -> None:
        self._ledger = ledger
        self._setting = setting
        self.max_lamports = max_lamports
        self._prices: dict[tuple[str, ...], tuple[float, int]] = {}
        self._rests_until = float("-inf")
        # Shape of a transaction -> what the last one of it used.
        self._used: dict[tuple[object, ...], Used] = {}

    def budgets(self, instructions: Sequence[Instruction]) -> bool:
        """Whether these instructions get a budget."""
        return self._setting != "off" and not sets_price(instructions)

    async def price(self, payer: str, instructions: Sequence[Instruction]) -> int:
        """Micro-lamports a compute unit for a transaction of `instructions`, 0 where they get no
        price; never raises for the ledger."""
        if not self.budgets(instructions):
            return 0
        if isinstance(self._setting, int):
            return self._setting
        written = {payer} | {
            str(meta.pubkey) for each in instructions for meta in each.accounts if meta.is_writable
        }
        return await self._recent(tuple(sorted(written)[:_MAX_ADDRESSES]))

    async def _recent(self, addresses: tuple[str, ...]) -> int:
        now = time.monotonic()
        read_at, known = self._prices.get(addresses, (float("-inf"), 0))
        if now - read_at <= _FRESH_SLOTS * self._ledger.slot_s:
            return known
        if now < self._rests_until:
            return UNKNOWN_PRICE
        try:
            async with asyncio.timeout(_ANSWER_S):
                found = await self._ledger.prioritization_fees(addresses)
        except (LedgerError, TimeoutError) as error:
            self._rests_until = time.monotonic() + _REST_S
            _log.warning("prioritization_fees_unknown", error=str(error) or "no answer in time")
            return UNKNOWN_PRICE
        price = percentile(found[-_SLOTS:])
        if len(self._prices) >= _MAX_KNOWN:
            self._prices.clear()
        self._prices[addresses] = time.monotonic(), price
        return price

    def budget(
        self,
        message: AnyMessage,
        units: int,
        price: int,
        max_lamports: int | None = None,
        loaded_bytes: int | None = None,
    ) -> Budget:
        """The limits for what used `units` and loaded `loaded_bytes`, and as much of `price` as may
        be paid.

        Args:
            message: the transaction without a price.
            max_lamports: where the whole fee must be lower still.
        """
        most = min(self.max_lamports, self.max_lamports if max_lamports is None else max_lamports)
        limit = with_margin(units)
        left = most - fee_terms(message).lamports
        paid = min(price, affordable_price(left, limit))
        return Budget(limit, paid, bytes_with_margin(loaded_bytes))

    def expected(self, instructions: Sequence[Instruction], memo: str | None) -> Used | None:
        """What the last transaction of this shape used, None where there was none."""
        return self._used.get(_shape(instructions, memo))

    def learn(self, instructions: Sequence[Instruction], memo: str | None, used: Used) -> None:
        """Note what a transaction of this shape used."""
        if len(self._used) >= _MAX_KNOWN:
            self._used.clear()
        self._used[_shape(instructions, memo)] = used


def fits(units: int, limit: int) -> bool:
    """Whether a limit set by what another transaction used leaves room for one that used `units`,
    and no more than it needs: half the margin, and at most twice the limit it would get."""
    least = units + max(units // _MARGIN_SHARE, _LEAST_MARGIN) // 2
    return min(least, MAX_COMPUTE_UNITS) <= limit <= 2 * with_margin(units)


def bytes_fit(loaded: int | None, limit: int) -> bool:
    """As `fits` of the bytes that were loaded; of more room than they need nobody pays."""
    return loaded is None or (loaded + bytes_with_margin(loaded)) // 2 <= limit


def percentile(prices: Sequence[int]) -> int:
    """The price of `auto` by what landed in the last slots."""
    if not prices:
        return QUIET_PRICE
    place = -(-PERCENTILE * len(prices) // 100) - 1
    return max(QUIET_PRICE, sorted(prices)[place])


def _shape(instructions: Sequence[Instruction], memo: str | None) -> tuple[object, ...]:
    return memo is not None, *(
        (bytes(each.program_id), _kind_or_length(each), len(each.accounts)) for each in instructions
    )


def _kind_or_length(instruction: Instruction) -> bytes | int:
    """What tells apart how much two instructions of a program use."""
    data = bytes(instruction.data)
    return len(data) if str(instruction.program_id) in MEMO_PROGRAMS else data[:1]
