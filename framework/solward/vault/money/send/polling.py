"""Watches transactions in flight until their fate is known: polls them in batches and settles them.

Only the ledger ends a transaction: by a status, or by a proof that no status will ever exist. The
wall clock never decides a fate.

A transaction is dead only if a single node proves it: the node's block height is past the last
valid height; *afterwards*, at no earlier slot, the node's whole history has no status; and that
history reaches back to the signing. Answers of different nodes are never combined to one proof,
because a node that lags may not have seen a landing that another node's height calls impossible.

One node's word is enough that a transaction landed without an error. A dead or failed transaction
releases money, so that takes as many hosts as `is_enough` says. If fewer are configured, or the
others do not answer in time, the record ends by one host's word and its money stays counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import structlog
from solders.transaction import VersionedTransaction

from solward.database.database import Database
from solward.database.set_apart import FailureIsolator
from solward.solana.message import AnyMessage, network_fee
from solward.support.tasks import end
from solward.telemetry import metrics
from solward.types.errors import LedgerError, LedgerRejected
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.worst_case import NoBound, worst_case
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import SignatureStatus, is_final
from solward.vault.ledger.transport import is_enough
from solward.vault.money.outcomes import explain, may_not_have_run, took_no_fee
from solward.vault.money.send.settlement import (
    Balances,
    kept_units,
    kept_units_of_failed,
    needs_balances,
    own_accounts,
    read_landed,
    settled_details,
)
from solward.vault.money.steps import Step, StepHook, no_hook
from solward.vault.store import attempts as store
from solward.vault.store.attempts import HAND_OVER, Attempt, AttemptState, NetworkCost, Settlement

# How long to wait for the balances of a landed transaction, since a node has its status first.
# Balances that arrive later neither add amounts to the record nor release money.
BALANCES_S = 5.0

_ONE_HOST: Final = (
    "according to one RPC node only: look up the signature before you repeat the transaction. "
    "The amount counts against the limits until it leaves their windows"
)

_log = structlog.get_logger(__name__)

# How long after the expiry a second host may answer; in blocks, as the wall clock never decides.
PATIENCE_BLOCKS: Final = 300
# Handed-over bytes are dead after this many polls past their last block without a trace, because
# the seller may have sent them late, to a node that shows them late.
LATER_POLLS: Final = 3


@dataclass(slots=True, eq=False)
class InFlight:
    """A transaction whose fate is not known yet.

    Attributes:
        signature: the wallet's, which does not name the transaction if another pays its fee.
        wire: the stored signed bytes; None if a faucet or a fee payer sends them.
        fee_lamports: the fee that the wallet pays if the transaction lands, even with an error.
        held_lamports: the debit if the transaction lands without error.
        type: the record's type.
        details: the record's details.
        reserved: asset -> units that count against the limits.
        context_slot: the slot at which its blockhash was read, before which it cannot have landed;
            None if not known.
        unknown: whether the state `unknown` is stored already.
        absent: how often no node had the transaction since it expired.
        first_sent: monotonic seconds when this process sent it first; None if another process did.
        ends: whether its end is the record's end; False for a step that others follow.
        sends: whether this service sends it; False if its bytes were handed over.
        done: the settlement, once stored.
        landed_slot: the slot in which it landed without an error; None while not known.
        found: the transaction's signature, once found, if only the ledger has it.
    """

    transaction_id: str
    signature: str
    wire: bytes | None
    last_valid_block_height: int
    fee_lamports: int
    held_lamports: int
    type: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    reserved: Mapping[str, int] = field(default_factory=dict)
    context_slot: int | None = None
    unknown: bool = False
    ends: bool = True
    sends: bool = True
    done: asyncio.Future[Settlement] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    first_sent: float | None = None
    sent_at: float = 0.0
    fates_read_at: float = 0.0
    absent: int = 0
    landed_at: float | None = None
    landed_slot: int | None = None
    found: str | None = None

    @property
    def name(self) -> str:
        """The signature by which nodes are asked for the transaction's status."""
        return self.found or self.signature


NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def in_flight(
    record: TransactionRecord,
    attempt: Attempt,
    held_lamports: int | None = None,
    reserved: Mapping[str, int] = NOTHING,
) -> InFlight:
    """Return a stored attempt as a transaction to watch. The end of one of several steps is not the
    record's end and releases no money.

    Args:
        held_lamports: the debit if it lands without an error; by default the highest possible.
        reserved: asset -> units; not used for a step.
    """
    in_steps = attempt.step not in ("", HAND_OVER)
    return InFlight(
        record.id,
        attempt.signature,
        attempt.wire,
        attempt.last_valid_block_height,
        fee_lamports=network_fee(VersionedTransaction.from_bytes(attempt.wire).message),
        held_lamports=attempt.max_debit if held_lamports is None else held_lamports,
        type="" if in_steps else record.type,
        details=record.details,
        reserved=NOTHING if in_steps else reserved,
        context_slot=attempt.context_slot,
        ends=not in_steps,
        sends=attempt.step != HAND_OVER,
    )


Item = TypeVar("Item", bound=InFlight)


class Poller(ABC, Generic[Item]):
    """A task that watches all transactions in flight of one kind. Callers wait for `InFlight.done`.

    Each kind has its own task, because reading an account's history may take a minute, and no
    transfer should wait for that.
    """

    # Factor of all waits; tests set other values.
    pace = 1.0
    balances_s = BALANCES_S

    def __init__(self, ledger: Ledger, database: Database, *, hook: StepHook = no_hook) -> None:
        self._ledger = ledger
        self._database = database
        self._hook = hook
        self._open: dict[str, Item] = {}
        self._apart = FailureIsolator[Any](attrgetter("transaction_id"), log_set_apart)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start watching."""
        self._task = asyncio.create_task(self._run(), name=f"solward-{type(self).__name__.lower()}")

    async def close(self) -> None:
        """Stop watching; the next start resumes the transactions in flight."""
        if self._task is not None:
            await end([self._task])

    def watch(self, item: Item) -> None:
        """Watch a transaction that may have been sent already."""
        self._open[item.transaction_id] = item
        self._wake.set()

    def find(self, transaction_id: str) -> Item | None:
        """Return the watched transaction of a record; None if it is not watched here."""
        return self._open.get(transaction_id)

    async def _run(self) -> None:
        while True:
            if not self._open:
                self._wake.clear()
                await self._wake.wait()
            self._wake.clear()
            wait_s = self._slots_s(1)
            try:
                wait_s = await self._round()
            except LedgerError as error:
                # All transactions in flight depend on this task, so no failure may end it.
                _log.warning("ledger_unavailable", error=str(error), in_flight=len(self._open))
            except Exception:
                _log.exception("confirmations_failed", in_flight=len(self._open))
            if self._open:
                # Not `wait_for`, which may swallow a cancellation that arrives as its timeout ends.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()

    @abstractmethod
    async def _round(self) -> float:
        """Look at the transactions that are due; return the seconds until the next round."""

    def _slots_s(self, slots: float) -> float:
        """Return the seconds that this many slots take, by this poller's pace."""
        return slots * self._ledger.slot_s * self.pace

    async def _settle_fates(self, items: Sequence[InFlight], fates: Fates) -> None:
        """Settle transactions that have ended, and store each unknown fate once."""
        landed, settlements = [], []
        for item in items:
            fate = fates.ended.get(item.signature)
            if fate is None or not _is_over(item, fate):
                continue
            if fate.status is not None and fate.status.err is None:
                item.landed_slot = fate.status.slot
                landed.append(item)
            else:
                settlements.append(_failed_settlement(item, fate))
        if any(each.attempt is AttemptState.LANDED_ERR for each in settlements):
            self._hook(Step.LANDED)
        await self._settle_landed(landed)
        await self._settle(settlements)
        unknown = [i for i in items if i.signature in fates.unknown and not i.unknown]
        if not unknown:
            return
        async with self._database.write() as connection:
            await store.mark_unknown(connection, [item.signature for item in unknown])
        for item in unknown:
            item.unknown = True
            _log.error(
                "attempt_unknown", signature=item.signature, transaction_id=item.transaction_id
            )

    async def _settle_landed(self, items: Sequence[InFlight]) -> None:
        """Settle transactions that landed without an error."""
        if items:
            self._hook(Step.LANDED)
            found = await asyncio.gather(*map(self._landed_settlement, items))
            await self._settle([each for each in found if each is not None])

    async def _landed_settlement(self, item: InFlight) -> Settlement | None:
        """Return a landed transaction's settlement; None while the balances for it are missing."""
        if item.wire is None or not item.ends:
            return _confirmed_settlement(item)
        message = VersionedTransaction.from_bytes(item.wire).message
        if not needs_balances(item.type, item.fee_lamports, item.reserved, message):
            return _confirmed_settlement(item)
        landed, sure = await read_landed(self._ledger, item.signature, message)
        now = time.monotonic()
        item.landed_at = item.landed_at or now
        wanted = landed is None or (not sure and is_enough(self._ledger.origins()))
        if wanted and now - item.landed_at < self.balances_s:
            return None
        return _confirmed_settlement(item, message, landed, sure=sure)

    async def _settle(self, settlements: Sequence[Settlement]) -> None:
        if not settlements:
            return
        followed = {item.transaction_id for item in self._open.values() if not item.ends}
        steps = [replace(s, ends=False) for s in settlements if s.transaction_id in followed]
        settlements = [item for item in settlements if item.transaction_id not in followed]
        async with self._database.write() as connection:
            if steps:
                await store.store_step_ends(connection, steps)
            stored = await store.settle(connection, settlements) if settlements else {}
        self._hook(Step.SETTLED)
        for settlement in (*(_as_stored(s, stored[s.transaction_id]) for s in settlements), *steps):
            item = self._open.pop(settlement.transaction_id, None)
            if item is None:
                continue
            if item.first_sent is not None:
                metrics.CONFIRMATION.observe(time.monotonic() - item.first_sent)
            if not item.done.done():
                item.done.set_result(settlement)


def _as_stored(settlement: Settlement, record: TransactionRecord) -> Settlement:
    """Return the settlement as stored, because another process may have settled first."""
    return replace(
        settlement,
        status=record.status,
        error=record.error,
        fee_lamports=record.fee_lamports or 0,
        spent=NetworkCost(
            record.fee_lamports or 0,
            record.compute_units,
            record.compute_unit_limit,
            record.compute_unit_price,
        ),
        details=record.details,
        record=record,
    )


def _confirmed_settlement(
    item: InFlight,
    message: AnyMessage | None = None,
    landed: Balances | None = None,
    *,
    sure: bool = False,
) -> Settlement:
    details = None
    lowered: dict[str, int] = {}
    opened: dict[str, int] = {}
    closed: dict[str, int] = {}
    if landed is not None and message is not None:
        wallet = landed.accounts[0]
        details = settled_details(item.type, item.details, landed, wallet, item.fee_lamports)
        if sure:
            # If the bytes do not bound the outflow, nothing is released.
            with contextlib.suppress(NoBound):
                lines = worst_case(message, wallet).lines
                lowered = kept_units(landed, wallet, item.fee_lamports, item.reserved, lines)
            opened, closed = own_accounts(landed, message, wallet)
    return Settlement(
        item.transaction_id,
        TransactionStatus.CONFIRMED,
        AttemptState.LANDED_OK,
        fee_lamports=item.fee_lamports,
        held_lamports=item.held_lamports,
        details=details,
        lowered=lowered,
        opened=opened,
        closed=closed,
        spent=NetworkCost(units=None if landed is None else landed.units),
        signature=item.found,
        landed_slot=item.landed_slot,
    )


def log_set_apart(transaction_id: str) -> None:
    """Log the failure of one transaction that was set apart, so that others continue."""
    _log.exception("confirmation_failed", transaction_id=transaction_id)


def _is_over(item: InFlight, fate: Fate) -> bool:
    """Return whether a fate ends the transaction now. Handed-over bytes that no node has end only
    after `LATER_POLLS` polls."""
    if fate.status is not None or item.sends:
        return True
    item.absent += 1
    return item.absent >= LATER_POLLS


def _failed_settlement(item: InFlight, fate: Fate) -> Settlement:
    """Return the settlement of a transaction that is dead, or landed with an error."""
    if not fate.sure:
        _log.warning(
            "attempt_presumed", signature=item.signature, transaction_id=item.transaction_id
        )
    if fate.status is None:
        return Settlement(
            item.transaction_id,
            TransactionStatus.FAILED,
            AttemptState.DEAD if fate.sure else AttemptState.PRESUMED_DEAD,
            fee_lamports=0,
            held_lamports=0 if fate.sure else item.held_lamports,
            error="The transaction expired without reaching the ledger; nothing was paid"
            if fate.sure
            else f"The transaction expired and is not on the ledger, {_ONE_HOST}",
        )
    error = f"The transaction failed on the ledger: {explain(fate.status.err, ())}"
    fee_lamports = 0 if took_no_fee(fate.status.err) else item.fee_lamports
    return Settlement(
        item.transaction_id,
        TransactionStatus.FAILED,
        AttemptState.LANDED_ERR,
        fee_lamports=fee_lamports,
        held_lamports=fee_lamports if fate.sure else item.held_lamports,
        error=error if fate.sure else f"{error}, {_ONE_HOST}",
        lowered=kept_units_of_failed(fee_lamports, item.reserved) if fate.sure else {},
        signature=item.found,
        landed_slot=fate.status.slot,
    )


class Fate(NamedTuple):
    """The end of a transaction.

    Attributes:
        status: the signature's status; None if the transaction is dead.
        sure: whether enough hosts agree to release money (`is_enough`).
    """

    status: SignatureStatus | None
    sure: bool


@dataclass(frozen=True, slots=True)
class Fates:
    """The fates of transactions by the wallet's signature, and the undecidable transactions.

    A transaction that is in neither may still land, or needs another host's answer."""

    ended: Mapping[str, Fate]
    unknown: frozenset[str]


@dataclass(slots=True)
class Answers:
    """The answers of nodes about one transaction."""

    landed: SignatureStatus | None = None
    failed: SignatureStatus | None = None
    failed_by: set[str] = field(default_factory=set)
    dead_by: set[str] = field(default_factory=set)
    unknown: bool = False
    late: bool = False


Query: TypeAlias = Callable[[Ledger, Sequence[Item], Mapping[str, Answers]], Awaitable[None]]


async def find_fates(
    ledger: Ledger, items: Sequence[Item], query: Query[Item] | None = None
) -> Fates:
    """Ask every usable node for the fates. One node's status outweighs other nodes' lack of it.

    Args:
        query: adds one node's answers about the transactions; by default from their statuses.

    Raises:
        LedgerError: no node answered.
    """
    answers = {item.signature: Answers() for item in items}
    unanswered: LedgerError | None = None
    answered = False
    for node in ledger.nodes():
        open_items = [item for item in items if answers[item.signature].landed is None]
        try:
            await (query or _query)(node, open_items, answers)
        except LedgerError as error:
            unanswered = error
            continue
        answered = True
    if not answered and unanswered is not None:
        raise unanswered
    alone = not is_enough(ledger.origins())
    ended = {
        signature: fate for signature, each in answers.items() if (fate := _find_fate(each, alone))
    }
    unknown = {
        signature
        for signature, each in answers.items()
        if each.unknown and not each.dead_by and signature not in ended
    }
    return Fates(ended, frozenset(unknown))


def _find_fate(answers: Answers, alone: bool) -> Fate | None:
    """Return a transaction's fate; None if it may still land, or another host must answer.

    Args:
        alone: whether the configured hosts are too few to release money.
    """
    if answers.landed is not None:
        return Fate(answers.landed, sure=True)
    # A node that has the failed transaction counts more than a node that lacks it.
    witnesses = answers.failed_by or answers.dead_by
    sure = is_enough(witnesses)
    if not witnesses or not (sure or alone or answers.late):
        return None
    return Fate(answers.failed, sure)


async def _query(node: Ledger, items: Sequence[InFlight], answers: Mapping[str, Answers]) -> None:
    # Only this node's height tells which items have expired. Until it is read, all may have.
    expired = {item.signature for item in items}
    try:
        tip = await node.tip()
        height = tip.block_height
        expired = {item.signature for item in items if height > item.last_valid_block_height}
        names = [item.name for item in items]
        found = await node.statuses(names, search_history=True, min_slot=tip.slot)
        missing = any(
            status is None and item.signature in expired
            for item, status in zip(items, found, strict=True)
        )
        # The first slot is read last, because a node drops its oldest blocks meanwhile.
        first_slot = await node.first_slot() if missing else 0
    except LedgerRejected:
        for signature in expired:
            answers[signature].unknown = True
        return
    for item, status in zip(items, found, strict=True):
        each = answers[item.signature]
        each.late |= height > item.last_valid_block_height + PATIENCE_BLOCKS
        if status is not None and (item.signature in expired or not may_not_have_run(status.err)):
            _note_status(each, status, node.origin)
        elif item.signature in expired:
            if item.context_slot is None or first_slot <= item.context_slot:
                each.dead_by.add(node.origin)
            else:
                each.unknown = True


def _note_status(answers: Answers, status: SignatureStatus, origin: str) -> None:
    if not is_final(status.confirmation):
        return
    if status.err is None:
        answers.landed = status
    else:
        # A failure without a fee counts only if no node reports a failure with a fee.
        if answers.failed is None or took_no_fee(answers.failed.err):
            answers.failed = status
        answers.failed_by.add(origin)
