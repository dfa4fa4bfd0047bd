"""The network fee of a message, computed from its bytes: simulators do not charge all of it."""

from __future__ import annotations

from solders.message import Message, MessageV0, MessageV1

from solward.solana.programs import (
    COMPUTE_BUDGET_PROGRAM,
    PRECOMPILES,
    SYSTEM_PROGRAM,
    VOTE_PROGRAM,
)

LAMPORTS_PER_SIGNATURE = 5_000
MICRO_LAMPORTS = 1_000_000
MAX_COMPUTE_UNITS = 1_400_000
DEFAULT_UNITS = 200_000
BUILTIN_UNITS = 3_000

# Programs still native to the validator get the small default (SIMD-0170). Programs that moved
# to BPF (stake, lookup tables) and precompiles are counted high: the fee is an upper bound.
_BUILTINS = frozenset({SYSTEM_PROGRAM, VOTE_PROGRAM, COMPUTE_BUDGET_PROGRAM})

_SET_UNIT_LIMIT = 2
_SET_UNIT_PRICE = 3


def network_fee(message: Message | MessageV0 | MessageV1) -> int:
    """Most lamports the network takes for `message`, whether it succeeds or not.

    5,000 lamports for each signature, precompile signatures included, and the priority fee:
    ceil(unit price x unit limit / 10**6) of the ComputeBudget instructions, and for version 1
    the whole lamports of the message's own field as well.
    """
    keys = message.account_keys
    signatures = message.header.num_required_signatures
    units_default = 0
    unit_limit: int | None = None
    unit_price = 0
    for instruction in message.instructions:
        program = str(keys[instruction.program_id_index])
        data = instruction.data
        units_default += BUILTIN_UNITS if program in _BUILTINS else DEFAULT_UNITS
        if program in PRECOMPILES and data:
            signatures += data[0]
        if program == COMPUTE_BUDGET_PROGRAM and data:
            if data[0] == _SET_UNIT_LIMIT and len(data) >= 5:
                unit_limit = int.from_bytes(data[1:5], "little")
            elif data[0] == _SET_UNIT_PRICE and len(data) >= 9:
                unit_price = int.from_bytes(data[1:9], "little")
    priority = 0
    if isinstance(message, MessageV1):
        priority = message.config.priority_fee or 0
        unit_limit = message.config.compute_unit_limit or unit_limit
    units = min(units_default if unit_limit is None else unit_limit, MAX_COMPUTE_UNITS)
    priority += -(-unit_price * units // MICRO_LAMPORTS)
    return signatures * LAMPORTS_PER_SIGNATURE + priority
