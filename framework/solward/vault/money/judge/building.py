"""Builds transactions: their version, their compute-unit limit and price, and their bytes.

In a transaction of version 1 all accounts are in the bytes (SIMD-0385), so that no node's word on a
lookup table is needed. A simulation on each node finds whether the cluster accepts version 1,
because neither a node's software version nor the address of a feature tells.

A node may lie about prices. So the price is lowered until the whole network fee is at most
MAX_NETWORK_FEE_SOL. If a node's answer is missing or unreadable, the payment goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import structlog
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID

from solward.solana.message import (
    SET_UNIT_LIMIT,
    SET_UNIT_PRICE,
    AnyMessage,
    affordable_price,
    decode_transaction,
    fee_terms,
    priority_lamports,
)
from solward.solana.programs import COMPUTE_BUDGET_PROGRAM, MEMO_PROGRAMS
from solward.solana.protocol import (
    DEFAULT_MAX_NETWORK_FEE,
    MAX_COMPUTE_UNITS,
    MAX_LOADED_BYTES,
    MAX_V1_ADDRESSES,
    MAX_V1_INSTRUCTIONS,
    MAX_V1_WIRE_BYTES,
    MAX_WIRE_BYTES,
)
from solward.types.errors import InvalidRequest, LedgerError, LedgerRejected, LedgerUnavailable
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import MIN_CONTEXT_SLOT
from solward.vault.money.request import Draft

PriorityFee: TypeAlias = Literal["off", "auto"] | int
"""`off`: no Compute Budget instructions. A number: micro-lamports for each compute unit."""

TransactionVersion: TypeAlias = Literal["auto", 0, 1]
"""`auto`: 1 if the cluster accepts version 1, else 0."""

# A node reports the lowest price that landed in each of its last 150 slots. So the 90th percentile
# is not a high bid: it was enough in nine of ten slots.
PERCENTILE: Final = 90
_SLOTS = 150
# The lowest price of `auto`, for accounts without competition: 13 lamports for a plain transfer.
QUIET_PRICE: Final = 10_000
# The price if no node states one: 130 lamports for a plain transfer, 12,000 for 100,000 units.
UNKNOWN_PRICE: Final = 100_000

# The maximum number of addresses in one call (rpc-client-api: MAX_TX_ACCOUNT_LOCKS).
_MAX_ADDRESSES = 128
# A payment waits no longer than this for a price.
_PRICE_WAIT_S = 1.0
# A node that did not answer, or does not know the method, is asked again after this long.
_REST_S = 30.0
# How long a price is cached. It changes from slot to slot, but one answer serves a burst.
_FRESH_SLOTS = 5
_MAX_KNOWN = 512

# In another state a program may use more than it did in the simulation. The margin is a fifth of
# that use, and at least 1,000 units.
_MARGIN_SHARE = 5
_LEAST_MARGIN = 1_000
# Accounts grow too. The margin is a fifth of the loaded bytes, and at least 32 KiB, the unit in
# which the network counts them.
_LEAST_BYTES_MARGIN = 32 << 10

# A cluster begins to accept a version at an epoch's start, and no swap needs it at once.
REMEMBERED_S: Final = 600.0
# The cluster is asked again after this long if no node said whether it accepts version 1.
_UNKNOWN_S: Final = 30.0
# A swap waits no longer than this for the answer.
_VERSION_WAIT_S: Final = 2.0

# A node refuses bytes that it cannot read with JSON-RPC's "invalid params".
_INVALID_PARAMS: Final = -32602
_UNSUPPORTED: Final = "UnsupportedVersion"

# Errors due to the age of the bytes, not to their effects: the transaction is built again.
UNKNOWN_BLOCKHASH = "BlockhashNotFound"
STALE = (UNKNOWN_BLOCKHASH, "AlreadyProcessed")
# The errors of a simulation whose fee payer cannot pay.
UNFUNDED = frozenset({"AccountNotFound", "InsufficientFundsForFee"})
# The maximum number of accounts of an instruction in version 1, which may repeat an account.
_MOST_V1_ACCOUNTS = 255

_log = structlog.get_logger(__name__)


class TooLarge(InvalidRequest):
    """Raised if the instructions do not fit into a transaction."""


def compile_instructions(
    draft: Draft, blockhash: str, memo: str | None, budget: Budget | None = None
) -> VersionedTransaction:
    """Compile a draft's instructions. Only the wallet, its pocket and a payment's sponsor sign. The
    sponsor pays the fee, or the wallet if there is no sponsor.

    Args:
        memo: makes the message differ from an otherwise equal one on the same blockhash, which
            would have the same signature.
        budget: replaces a compute-unit limit in the instructions; in version 1, None is the
            maximum.

    Raises:
        TooLarge: the instructions do not fit into a transaction.
        InvalidRequest: the instructions need another signature, or cannot be compiled.
    """
    wallet = payer = Pubkey.from_string(draft.intent.wallet)
    signers = [wallet]
    if draft.payment is not None and draft.payment.fee_payer is not None:
        payer = Pubkey.from_string(draft.payment.fee_payer)
        signers.append(payer)
    if draft.pocket is not None:
        signers.append(Pubkey.from_string(draft.pocket.pocket.address))
    instructions = list(draft.instructions)
    if not instructions:
        raise InvalidRequest("instructions must not be empty")
    if draft.version:
        instructions = list(without_unit_limit(instructions))
        _check_counts(payer, instructions)
    elif budget is not None:
        instructions = [*budget.instructions(), *without_unit_limit(instructions)]
    if memo is not None:
        # `spl.memo` would make the wallet's account writable, which a sponsored payment avoids.
        signing = AccountMeta(wallet, is_signer=True, is_writable=False)
        instructions.append(Instruction(MEMO_PROGRAM_ID, memo.encode(), [signing]))
    recent = Hash.from_string(blockhash)
    message: MessageV0 | MessageV1
    try:
        if draft.version:
            config = (MEASURING if budget is None else budget).config()
            message = MessageV1.try_compile(payer, instructions, recent, config)
        else:
            tables = _usable_tables(draft.tables, wallet, instructions)
            message = MessageV0.try_compile(payer, instructions, tables, recent)
    except ValueError as error:
        raise InvalidRequest(f"The instructions cannot be compiled: {error}") from None
    needed = message.account_keys[: message.header.num_required_signatures]
    if set(needed) - set(signers):
        raise InvalidRequest("The instructions need a signature besides the wallet's")
    transaction = VersionedTransaction.populate(message, [Signature.default()] * len(needed))
    most = MAX_V1_WIRE_BYTES if draft.version else MAX_WIRE_BYTES
    if len(bytes(transaction)) > most:
        raise TooLarge(f"The instructions do not fit into {most} bytes")
    return transaction


def _check_counts(payer: Pubkey, instructions: Sequence[Instruction]) -> None:
    """Raise `TooLarge` if a count exceeds its byte in version 1, which solders would truncate."""
    named = {payer, *(each.program_id for each in instructions)}
    named |= {meta.pubkey for each in instructions for meta in each.accounts}
    if len(named) > MAX_V1_ADDRESSES:
        raise TooLarge(f"The instructions name more than {MAX_V1_ADDRESSES} accounts")
    if any(len(each.accounts) > _MOST_V1_ACCOUNTS for each in instructions):
        raise TooLarge(f"An instruction has more than {_MOST_V1_ACCOUNTS} accounts")
    if len(instructions) > MAX_V1_INSTRUCTIONS:
        raise TooLarge(f"There are more than {MAX_V1_INSTRUCTIONS} instructions")


async def compile_with_budget(
    fees: PriorityFees,
    draft: Draft,
    blockhash: str,
    units: int | None,
    max_lamports: int | None = None,
) -> VersionedTransaction | None:
    """Compile a draft with a compute-unit limit and price, after a simulation that used `units`.
    Return None if the draft gets no limit and price, or has no room for them.

    Args:
        max_lamports: see `PriorityFees.budget`.
    """
    if not fees.sets_budget(draft.instructions):
        return None
    try:
        measuring = compile_instructions(draft, blockhash, None, MEASURING)
        compile_instructions(draft, blockhash, None, LARGEST)
    except TooLarge:
        return None
    price = await fees.price(draft.intent.wallet, draft.instructions)
    used = MAX_COMPUTE_UNITS if units is None else units
    budget = fees.budget(measuring.message, used, price, max_lamports)
    return compile_instructions(draft, blockhash, None, budget)


def _usable_tables(
    tables: Mapping[str, tuple[str, ...]], wallet: Pubkey, instructions: Sequence[Instruction]
) -> list[AddressLookupTableAccount]:
    """Return the tables without the accounts that must stay in the message itself."""
    if not tables:
        return []
    static = {
        str(meta.pubkey)
        for instruction in instructions
        if any(meta.pubkey == wallet for meta in instruction.accounts)
        for meta in instruction.accounts
    }
    # An unused address replaces these accounts, so that the others keep their indexes.
    nobody = Keypair().pubkey()
    return [
        AddressLookupTableAccount(
            Pubkey.from_string(table),
            [nobody if address in static else Pubkey.from_string(address) for address in held],
        )
        for table, held in tables.items()
    ]


def parse_wire(wire: bytes, wallet: str) -> VersionedTransaction:
    """Parse a transaction made elsewhere, in which only the wallet's signature may be missing.

    Raises:
        MalformedTransaction: the bytes are no transaction that this service signs.
        InvalidRequest: somebody else pays the fee, or another signature is missing or wrong.
    """
    transaction = decode_transaction(wire)
    verified = transaction.verify_with_results()
    message = transaction.message
    if str(message.account_keys[0]) != wallet:
        raise InvalidRequest("The transaction's fee payer is not the wallet")
    if not all(verified[1:]):
        raise InvalidRequest("A signature other than the wallet's is missing or wrong")
    return transaction


def with_margin(units: int) -> int:
    """Return the compute-unit limit of a transaction that used `units` in the simulation."""
    return min(MAX_COMPUTE_UNITS, units + max(units // _MARGIN_SHARE, _LEAST_MARGIN))


def bytes_with_margin(loaded: int | None) -> int:
    """Return the limit of loaded bytes after a simulation; None gives the highest limit."""
    if loaded is None:
        return MAX_LOADED_BYTES
    return min(MAX_LOADED_BYTES, loaded + max(loaded // _MARGIN_SHARE, _LEAST_BYTES_MARGIN))


@dataclass(frozen=True, slots=True)
class ComputeUse:
    """The compute units and loaded bytes of a simulation; None for bytes that are not known."""

    units: int
    loaded_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """The compute budget of a transaction: the limit of units, and the price of one unit.

    Attributes:
        price: in micro-lamports.
        loaded_bytes: used in version 1 only, which has no default limit.
    """

    units: int
    price: int = 0
    loaded_bytes: int = MAX_LOADED_BYTES

    def instructions(self) -> tuple[Instruction, ...]:
        """Return the Compute Budget instructions; a price of 0 needs no price instruction."""
        limit = set_compute_unit_limit(self.units)
        return (limit, set_compute_unit_price(self.price)) if self.price else (limit,)

    def config(self) -> TransactionConfig:
        """Return the budget in the form of version 1, which states the priority fee as a total."""
        return TransactionConfig(
            priority_fee=priority_lamports(self.price, self.units) or None,
            compute_unit_limit=self.units,
            loaded_accounts_data_size_limit=self.loaded_bytes,
        )


# For the simulation that measures compute units. It has no price, because nobody pays for it.
MEASURING: Final = Budget(MAX_COMPUTE_UNITS)
# Has as many bytes as any budget, to check whether a budget fits into a transaction.
LARGEST: Final = Budget(MAX_COMPUTE_UNITS, 1)


def sets_price(instructions: Sequence[Instruction]) -> bool:
    """Return whether the instructions set a compute-unit price, which then stays unchanged."""
    return any(_budget_kind(each) == SET_UNIT_PRICE for each in instructions)


def without_unit_limit(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return the instructions without a limit of compute units, which the simulation replaces."""
    return tuple(each for each in instructions if _budget_kind(each) != SET_UNIT_LIMIT)


def _budget_kind(instruction: Instruction) -> int | None:
    if str(instruction.program_id) != COMPUTE_BUDGET_PROGRAM or not instruction.data:
        return None
    return bytes(instruction.data)[0]


class PriorityFees:
    """Computes the compute budget of each transaction, by the setting PRIORITY_FEE.

    Attributes:
        max_lamports: the maximum of a whole network fee.
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
        # Shape of a transaction -> what the last transaction of this shape used.
        self._used: dict[tuple[object, ...], ComputeUse] = {}

    def sets_budget(self, instructions: Sequence[Instruction]) -> bool:
        """Return whether this service adds a compute budget to these instructions."""
        return self._setting != "off" and not sets_price(instructions)

    async def price(self, payer: str, instructions: Sequence[Instruction]) -> int:
        """Return the micro-lamports per compute unit to bid for `instructions`; 0 if they get no
        price. Errors of the ledger are not raised."""
        if not self.sets_budget(instructions):
            return 0
        if isinstance(self._setting, int):
            return self._setting
        written = {payer} | {
            str(meta.pubkey) for each in instructions for meta in each.accounts if meta.is_writable
        }
        return await self._recent_price(tuple(sorted(written)[:_MAX_ADDRESSES]))

    async def _recent_price(self, addresses: tuple[str, ...]) -> int:
        now = time.monotonic()
        read_at, known = self._prices.get(addresses, (float("-inf"), 0))
        if now - read_at <= _FRESH_SLOTS * self._ledger.slot_s:
            return known
        if now < self._rests_until:
            return UNKNOWN_PRICE
        try:
            async with asyncio.timeout(_PRICE_WAIT_S):
                found = await self._ledger.prioritization_fees(addresses)
        except (LedgerError, TimeoutError) as error:
            self._rests_until = time.monotonic() + _REST_S
            _log.warning("prioritization_fees_unknown", error=str(error) or "no answer in time")
            return UNKNOWN_PRICE
        price = auto_price(found[-_SLOTS:])
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
        """Return the limits for a transaction that used `units` and loaded `loaded_bytes`, with
        `price` lowered to the maximum that may be paid.

        Args:
            message: the transaction without a price.
            max_lamports: another limit of the whole fee, if there is one.
        """
        most = min(self.max_lamports, self.max_lamports if max_lamports is None else max_lamports)
        limit = with_margin(units)
        left = most - fee_terms(message).lamports
        paid = min(price, affordable_price(left, limit))
        return Budget(limit, paid, bytes_with_margin(loaded_bytes))

    def last_use(self, instructions: Sequence[Instruction], memo: str | None) -> ComputeUse | None:
        """Return what the last transaction of this shape used; None if its shape is new."""
        return self._used.get(_shape_key(instructions, memo))

    def learn(self, instructions: Sequence[Instruction], memo: str | None, use: ComputeUse) -> None:
        """Note what a transaction of this shape used."""
        if len(self._used) >= _MAX_KNOWN:
            self._used.clear()
        self._used[_shape_key(instructions, memo)] = use


def limit_fits(units: int, limit: int) -> bool:
    """Return whether a limit leaves at least half the margin above `units`, and is at most twice
    the limit that `units` would get."""
    least = units + max(units // _MARGIN_SHARE, _LEAST_MARGIN) // 2
    return min(least, MAX_COMPUTE_UNITS) <= limit <= 2 * with_margin(units)


def bytes_limit_fits(loaded: int | None, limit: int) -> bool:
    """Return whether a limit leaves at least half the margin above `loaded`. Excess is free."""
    return loaded is None or (loaded + bytes_with_margin(loaded)) // 2 <= limit


def auto_price(prices: Sequence[int]) -> int:
    """Return the price that the setting `auto` bids, from the lowest landed price of each slot."""
    if not prices:
        return QUIET_PRICE
    place = -(-PERCENTILE * len(prices) // 100) - 1
    return max(QUIET_PRICE, sorted(prices)[place])


def _shape_key(instructions: Sequence[Instruction], memo: str | None) -> tuple[object, ...]:
    """Return a key that instructions with about the same use of compute units share."""
    shape: list[object] = [memo is not None]
    for each in instructions:
        data = bytes(each.data)
        told = len(data) if str(each.program_id) in MEMO_PROGRAMS else data[:1]
        shape.append((bytes(each.program_id), told, len(each.accounts)))
    return tuple(shape)


class VersionRefused(LedgerUnavailable):
    """Raised if a node refuses a transaction of version 1."""


def is_version_refusal(answer: LedgerRejected | object) -> bool:
    """Return whether an error of a simulation or a call means that the node refuses version 1."""
    if isinstance(answer, LedgerRejected):
        return answer.code == _INVALID_PARAMS
    return answer == _UNSUPPORTED


class SwapVersions:
    """Finds the transaction version in which swaps are built."""

    def __init__(self, ledger: Ledger, setting: TransactionVersion = "auto") -> None:
        self._ledger = ledger
        self._setting = setting
        self._known: bool | None = None
        self._until = float("-inf")
        self._asking = asyncio.Lock()

    @property
    def may_fall_back(self) -> bool:
        """True if a transaction that cannot use version 1 may use version 0."""
        return self._setting != 1

    async def for_swaps(self, payer: str) -> int:
        """Return the version in which to build a swap. Errors of the ledger are not raised.

        Args:
            payer: payer of the probe transaction, which is simulated and never sent.
        """
        if self._setting != "auto":
            return self._setting
        async with self._asking:
            if time.monotonic() >= self._until:
                found = await self.query_support(payer)
                self._cache_support(found, REMEMBERED_S if found is not None else _UNKNOWN_S)
        return 1 if self._known else 0

    def note_refusal(self) -> None:
        """Note that a node refused version 1, although the cluster seemed to accept it."""
        self._cache_support(False, REMEMBERED_S)

    def _cache_support(self, found: bool | None, for_s: float) -> None:
        if found is not None and found != self._known:
            _log.info("transaction_version_found", version=int(found), remembered_s=for_s)
        self._known, self._until = found, time.monotonic() + for_s

    async def query_support(self, payer: str) -> bool | None:
        """Ask whether all nodes that answer accept version 1; None if no node answers."""
        try:
            async with asyncio.timeout(_VERSION_WAIT_S):
                latest = await self._ledger.latest_blockhash()
        except (LedgerError, TimeoutError):
            return None
        wire = _probe_bytes(payer, latest.blockhash)
        found = await asyncio.gather(*(_accepts_bytes(node, wire) for node in self._ledger.nodes()))
        said = [each for each in found if each is not None]
        return all(said) if said else None


async def _accepts_bytes(node: Ledger, wire: bytes) -> bool | None:
    """Return whether a node would run the bytes; None if its answer does not tell."""
    try:
        async with asyncio.timeout(_VERSION_WAIT_S):
            err = (await node.simulate(wire, ())).err
    except LedgerRejected as error:
        return None if error.code == MIN_CONTEXT_SLOT else False
    except (LedgerError, TimeoutError):
        return None
    # A node may report an unknown blockhash before it has read the version. It reports a payer with
    # too little SOL only after it has read the version.
    if isinstance(err, str) and err in STALE:
        return None
    return err is None or (isinstance(err, str) and err in UNFUNDED)


def _probe_bytes(payer: str, blockhash: str) -> bytes:
    """Return the bytes of a transaction of version 1 that does nothing."""
    message = MessageV1.try_compile(
        Pubkey.from_string(payer),
        [Instruction(MEMO_PROGRAM_ID, b"", [])],
        Hash.from_string(blockhash),
        TransactionConfig(
            compute_unit_limit=MAX_COMPUTE_UNITS,
            loaded_accounts_data_size_limit=MAX_LOADED_BYTES,
        ),
    )
    return bytes(VersionedTransaction.populate(message, [Signature.default()]))
