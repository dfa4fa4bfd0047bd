"""The network's fee of a transaction, computed from its message.

Rules: solana-compute-budget-interface, SIMD-0170 (default compute units of builtins).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from solders.message import MessageV1

from solward.solana.message import AnyMessage
from solward.solana.programs import (
    COMPUTE_BUDGET_PROGRAM,
    PRECOMPILES,
    SYSTEM_PROGRAM,
    VOTE_PROGRAM,
)
from solward.solana.protocol import LAMPORTS_PER_SIGNATURE, MAX_COMPUTE_UNITS

_MICRO_LAMPORTS = 1_000_000
_DEFAULT_UNITS = 200_000
_BUILTIN_UNITS = 3_000

# Programs still native to the validator get the small default. Programs that moved to BPF (stake,
# lookup tables) and precompiles are counted high: the fee is an upper bound.
_BUILTINS = frozenset({SYSTEM_PROGRAM, VOTE_PROGRAM, COMPUTE_BUDGET_PROGRAM})

REQUEST_HEAP: Final = 1
SET_UNIT_LIMIT: Final = 2
SET_UNIT_PRICE: Final = 3
SET_LOADED_BYTES: Final = 4
# The discriminator of a ComputeBudget instruction -> the bytes of the whole.
COMPUTE_BUDGET_SIZES: Final = {
    REQUEST_HEAP: 5,
    SET_UNIT_LIMIT: 5,
    SET_UNIT_PRICE: 9,
    SET_LOADED_BYTES: 5,
}


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """What a message says of its fee.

    Attributes:
        lamports: most that the network takes, whether it succeeds or not.
        unit_limit: compute units it may use, None where it sets no limit of its own.
        unit_price: micro-lamports for each unit of the limit; of version 1, rounded down.
        bid_lamports: what of `lamports` is the priority fee.
    """

    lamports: int
    unit_limit: int | None
    unit_price: int
    bid_lamports: int = 0


def network_fee(message: AnyMessage) -> int:
    """Most lamports the network takes for `message`, whether it succeeds or not; pure."""
    return fee_terms(message).lamports


def fee_terms(message: AnyMessage) -> FeeTerms:
    """The fee of `message` and what makes it; pure.

    5,000 lamports for each signature, precompile signatures included, and the priority fee. That is
    ceil(unit price x unit limit / 10**6) of the ComputeBudget instructions, and of version 1 the
    lamports of the message's own field: its ComputeBudget instructions count nothing (SIMD-0385).
    """
    keys = message.account_keys
    signatures = message.header.num_required_signatures
    units_default = 0
    unit_limit: int | None = None
    unit_price = 0
    for instruction in message.instructions:
        program = str(keys[instruction.program_id_index])
        data = instruction.data
        units_default += _BUILTIN_UNITS if program in _BUILTINS else _DEFAULT_UNITS
        if program in PRECOMPILES and data:
            signatures += data[0]
        if program == COMPUTE_BUDGET_PROGRAM and data:
            if data[0] == SET_UNIT_LIMIT and len(data) >= 5:
                unit_limit = int.from_bytes(data[1:5], "little")
            elif data[0] == SET_UNIT_PRICE and len(data) >= 9:
                unit_price = int.from_bytes(data[1:9], "little")
    if isinstance(message, MessageV1):
        priority = message.config.priority_fee or 0
        unit_limit = message.config.compute_unit_limit or 0
        unit_price = affordable_price(priority, unit_limit)
    else:
        units = min(units_default if unit_limit is None else unit_limit, MAX_COMPUTE_UNITS)
        priority = priority_lamports(unit_price, units)
    lamports = signatures * LAMPORTS_PER_SIGNATURE + priority
    return FeeTerms(lamports, unit_limit, unit_price, priority)


def priority_lamports(price: int, units: int) -> int:
    """What `units` cost at `price` micro-lamports each, rounded up as the network does."""
    return -(-price * units // _MICRO_LAMPORTS)


def affordable_price(lamports: int, units: int) -> int:
    """Highest price, in micro-lamports a compute unit, at which `units` cost at most `lamports`."""
    return max(0, lamports) * _MICRO_LAMPORTS // max(1, units)
