"""Strict decoding of transactions, so that Solward signs exactly what it understood; and the
network's fee of a transaction, computed from its message.

Rules of the fee: solana-compute-budget-interface, SIMD-0170 (default compute units of builtins).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from solders.message import Message, MessageV0, MessageV1, to_bytes_versioned
from solders.transaction import VersionedTransaction

from solward.solana.accounts import LOOKUP_TABLE_HEADER_BYTES, lookup_table_addresses
from solward.solana.programs import (
    COMPUTE_BUDGET_PROGRAM,
    PRECOMPILES,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAMS,
    VOTE_PROGRAM,
)
from solward.solana.protocol import (
    LAMPORTS_PER_SIGNATURE,
    MAX_COMPUTE_UNITS,
    MAX_V1_WIRE_BYTES,
    MAX_WIRE_BYTES,
    System,
    Token,
)
from solward.types.errors import InvalidRequest

AnyMessage: TypeAlias = Message | MessageV0 | MessageV1


class MalformedTransaction(InvalidRequest):
    """The bytes are not a transaction that this service signs; the error says what is wrong."""


@dataclass(frozen=True, slots=True)
class ResolvedKey:
    """An account of a transaction, with lookup tables resolved; its flags are from the header."""

    address: str
    writable: bool
    signer: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A top-level instruction of a message, or an instruction in a token program's batch.

    Attributes:
        accounts: addresses; None for one in a lookup table, whose content only a node knows.
    """

    program: str
    data: bytes
    accounts: tuple[str | None, ...]


# The state of a lookup table and the deactivation slot of an active one.
_TABLE_STATE = (1).to_bytes(4, "little")
_TABLE_ACTIVE = b"\xff" * 8


def decode_transaction(wire: bytes) -> VersionedTransaction:
    """Decode wire bytes to a transaction that serialises to the same bytes, signed or not.

    Raises:
        MalformedTransaction: truncated, trailing or oversized bytes, an unknown version, a
            duplicate account, an index out of range, a program index 0 or a signer count that
            does not fit.
    """
    if len(wire) > MAX_V1_WIRE_BYTES:
        raise MalformedTransaction(f"transaction is longer than {MAX_V1_WIRE_BYTES} bytes")
    try:
        transaction = VersionedTransaction.from_bytes(wire)
        same = bytes(transaction) == wire
    except BaseException as error:
        raise _decode_error(error, "transaction bytes cannot be decoded") from None
    if not same:
        raise MalformedTransaction("transaction bytes do not serialise back to themselves")
    message = transaction.message
    # This comes before the transaction's own check, which does not say what is wrong.
    check_message(message)
    try:
        transaction.sanitize()
    except BaseException as error:
        raise _decode_error(error, "transaction is not well formed") from None
    if not isinstance(message, MessageV1) and len(wire) > MAX_WIRE_BYTES:
        raise MalformedTransaction(f"transaction is longer than {MAX_WIRE_BYTES} bytes")
    if len(transaction.signatures) != message.header.num_required_signatures:
        raise MalformedTransaction("transaction's signature count is not its signer count")
    return transaction


def check_message(message: AnyMessage) -> None:
    """Refuse a message with duplicate accounts or with indexes out of range.

    Raises:
        MalformedTransaction: naming what is wrong.
    """
    try:
        if isinstance(message, MessageV1):
            # Duplicates, 64 addresses and instructions, 12 signatures, 32 to 256 KiB of heap
            # (SIMD-0385).
            message.validate()
        if not isinstance(message, Message):
            message.sanitize()
        to_bytes_versioned(message)
    except BaseException as error:
        raise _decode_error(error, "message is not well formed") from None
    keys = message.account_keys
    header = message.header
    signers = header.num_required_signatures
    if not 0 < signers <= len(keys) or header.num_readonly_signed_accounts >= signers:
        raise MalformedTransaction("message needs a writable signer as fee payer")
    if signers + header.num_readonly_unsigned_accounts > len(keys):
        raise MalformedTransaction("message header counts more accounts than there are")
    if len(set(keys)) != len(keys):
        raise MalformedTransaction("message names an account twice")
    if not message.instructions:
        raise MalformedTransaction("message has no instructions")
    total = len(keys)
    if isinstance(message, MessageV0):
        tables = [table.account_key for table in message.address_table_lookups]
        if len(set(tables)) != len(tables):
            raise MalformedTransaction("message names a lookup table twice")
        total += sum(
            len(table.writable_indexes) + len(table.readonly_indexes)
            for table in message.address_table_lookups
        )
    for instruction in message.instructions:
        # Index 0 is the fee payer, which is never a program; programs are never looked up.
        if not 0 < instruction.program_id_index < len(keys):
            raise MalformedTransaction("instruction's program index is out of range")
        if any(index >= total for index in instruction.accounts):
            raise MalformedTransaction("instruction's account index is out of range")


def top_level_calls(message: AnyMessage) -> tuple[Call, ...]:
    """Return a message's instructions in order, with each batch replaced by its parts; pure.

    A malformed batch stays in the result; `is_batch` recognizes it.
    """
    return resolved_calls(message, [str(key) for key in message.account_keys])


def resolved_calls(message: AnyMessage, addresses: Sequence[str]) -> tuple[Call, ...]:
    """Return the top-level calls; `addresses` are the accounts in the order of `resolve`."""
    calls: list[Call] = []
    for each in message.instructions:
        accounts = tuple(addresses[at] if at < len(addresses) else None for at in each.accounts)
        calls += unbatched(Call(addresses[each.program_id_index], bytes(each.data), accounts))
    return tuple(calls)


def is_batch(program: str, data: bytes) -> bool:
    """Return whether an instruction is a `Batch` of a token program."""
    return program in TOKEN_PROGRAMS and data[:1] == bytes([Token.BATCH])


def unbatched(call: Call) -> tuple[Call, ...]:
    """Return a batch's instructions with their accounts, or any other or malformed call itself."""
    if not is_batch(call.program, call.data):
        return (call,)
    try:
        parts = batch_parts(call.data, len(call.accounts))
    except MalformedTransaction:
        return (call,)
    return tuple(Call(call.program, data, call.accounts[start:end]) for data, start, end in parts)


def batch_parts(data: bytes, accounts: int) -> list[tuple[bytes, int, int]]:
    """Return the instructions in the data of a `Batch`: of each its data, and the start and end of
    its accounts among those of the batch; pure.

    Args:
        accounts: how many the batch has.

    Raises:
        MalformedTransaction: lengths do not add up, or an instruction is empty or a batch.
    """
    parts: list[tuple[bytes, int, int]] = []
    at, start = 1, 0
    while at < len(data):
        name = f"instruction {len(parts) + 1} of a batch"
        if at + 1 == len(data):
            raise MalformedTransaction("a batch has a trailing byte")
        end, size = start + data[at], data[at + 1]
        inner = data[at + 2 : at + 2 + size]
        if len(inner) < size:
            raise MalformedTransaction(f"{name} has {len(inner)} bytes of data, expected {size}")
        if end > accounts:
            left = accounts - start
            raise MalformedTransaction(f"{name} has {left} accounts left, expected {data[at]}")
        if not inner:
            raise MalformedTransaction(f"{name} has no data")
        if inner[0] == Token.BATCH:
            raise MalformedTransaction(f"{name} is a batch itself")
        parts.append((inner, start, end))
        at, start = at + 2 + size, end
    if not parts:
        raise MalformedTransaction("a batch has no instructions")
    if start < accounts:
        raise MalformedTransaction(
            f"{accounts - start} accounts of a batch belong to none of its instructions"
        )
    return parts


def lookup_tables(message: AnyMessage) -> tuple[str, ...]:
    """Return the addresses of the lookup tables `message` uses; only version 0 has any."""
    if not isinstance(message, MessageV0):
        return ()
    return tuple(str(table.account_key) for table in message.address_table_lookups)


def advances_nonce(message: AnyMessage) -> bool:
    """Return whether `message` advances a durable nonce, so that its bytes may never expire."""
    keys = message.account_keys
    return any(
        str(keys[each.program_id_index]) == SYSTEM_PROGRAM
        and bytes(each.data[:4]) == System.ADVANCE_NONCE.to_bytes(4, "little")
        for each in message.instructions
    )


def required_signers(message: AnyMessage) -> tuple[str, ...]:
    """Return the addresses that must sign, the fee payer first."""
    count = message.header.num_required_signatures
    return tuple(str(key) for key in message.account_keys[:count])


def resolve(
    message: AnyMessage, tables: Mapping[str, bytes] | None = None
) -> tuple[ResolvedKey, ...]:
    """Return all accounts of `message` in the order to which instruction indexes refer.

    Static keys, then the writable addresses of all lookup tables, then all the readonly ones.
    `tables` holds the data of each lookup table account by its address.

    Raises:
        MalformedTransaction: a table is missing, deactivated or no lookup table, an index is
            beyond its end, or an account appears twice.
    """
    check_message(message)
    header = message.header
    keys = message.account_keys
    signers = header.num_required_signatures
    resolved = []
    for index, key in enumerate(keys):
        if index < signers:
            writable = index < signers - header.num_readonly_signed_accounts
        else:
            writable = index < len(keys) - header.num_readonly_unsigned_accounts
        resolved.append(ResolvedKey(str(key), writable, index < signers))
    if isinstance(message, MessageV0):
        looked_up: dict[bool, list[str]] = {True: [], False: []}
        for lookup in message.address_table_lookups:
            entries = _lookup_table_entries(str(lookup.account_key), tables or {})
            for writable, indexes in (
                (True, lookup.writable_indexes),
                (False, lookup.readonly_indexes),
            ):
                for index in indexes:
                    if index >= len(entries):
                        raise MalformedTransaction("lookup table index is out of range")
                    looked_up[writable].append(entries[index])
        for writable, addresses in looked_up.items():
            resolved.extend(ResolvedKey(address, writable, False) for address in addresses)
    if len({key.address for key in resolved}) != len(resolved):
        raise MalformedTransaction("transaction names an account twice through a lookup table")
    return tuple(resolved)


def _lookup_table_entries(address: str, tables: Mapping[str, bytes]) -> list[str]:
    data = tables.get(address)
    if data is None:
        raise MalformedTransaction(f"lookup table {address} cannot be read")
    size = len(data) - LOOKUP_TABLE_HEADER_BYTES
    if data[:4] != _TABLE_STATE or size < 0 or size % 32:
        raise MalformedTransaction(f"account {address} is not a lookup table")
    if data[4:12] != _TABLE_ACTIVE:
        raise MalformedTransaction(f"lookup table {address} is deactivated")
    return lookup_table_addresses(data)


def _decode_error(error: BaseException, text: str) -> BaseException:
    """Return the error to raise for a failed decode; pyo3's PanicException is a BaseException."""
    if isinstance(error, Exception):
        return MalformedTransaction(f"{text}: {error}")
    return MalformedTransaction(text) if type(error).__name__ == "PanicException" else error


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
# The discriminator of a ComputeBudget instruction -> the instruction's length in bytes.
COMPUTE_BUDGET_SIZES: Final = {
    REQUEST_HEAP: 5,
    SET_UNIT_LIMIT: 5,
    SET_UNIT_PRICE: 9,
    SET_LOADED_BYTES: 5,
}


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """The fee of a message, and the numbers from which it is computed.

    Attributes:
        lamports: maximum fee, whether the transaction succeeds or fails.
        unit_limit: compute units that it may use; None if the message sets no limit.
        unit_price: micro-lamports for each unit of the limit; of version 1, rounded down.
        bid_lamports: the part of `lamports` that is the priority fee.
    """

    lamports: int
    unit_limit: int | None
    unit_price: int
    bid_lamports: int = 0


def network_fee(message: AnyMessage) -> int:
    """Return the maximum fee of `message` in lamports, whether it succeeds or fails; pure."""
    return fee_terms(message).lamports


def fee_terms(message: AnyMessage) -> FeeTerms:
    """Return the fee of `message` and the numbers from which it is computed; pure.

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
    """Return the cost of `units` at `price` micro-lamports each, rounded up as the network does."""
    return -(-price * units // _MICRO_LAMPORTS)


def affordable_price(lamports: int, units: int) -> int:
    """Return the highest price in micro-lamports at which `units` cost at most `lamports`."""
    return max(0, lamports) * _MICRO_LAMPORTS // max(1, units)
