"""Leases of the processes on one database, and the takeover of dead processes' transactions.

Each unfinished transaction has an owner. A process that finds the owner dead takes over the
transaction (`solward.vault.store.processes`), both before and while it serves, so that exactly one
process finishes each transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from solward.database.database import Database
from solward.support.tasks import end
from solward.types.errors import LedgerError, SolwardError
from solward.types.guardrail import TransactionEffects
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.vault.ledger.client import Ledger
from solward.vault.money.judge.blockhash import MAX_VALID_BLOCKS
from solward.vault.money.send.handed_over import Watcher, live_payment
from solward.vault.money.send.polling import InFlight, in_flight, log_set_apart
from solward.vault.money.send.sender import Sender
from solward.vault.money.steps import log_taken_over
from solward.vault.store import attempts as store
from solward.vault.store import payments as payment_store
from solward.vault.store import processes, spending
from solward.vault.store import transactions as transaction_store
from solward.vault.store.attempts import HAND_OVER, Attempt, Settlement
from solward.vault.store.payments import PaymentRow

# A killed process's payments wait at most this long for a takeover. Five renewals fit into it, so
# that a living process with a slow disk or a stalled loop keeps its work.
LEASE_S = 10.0
RENEW_S = 2.0

# The maximum number of rows in one database transaction, which bounds how long they are locked.
_BATCH = 200

_RELEASED = "The service stopped before the transaction was signed; nothing was sent"
# It is not known whether the faucet got the request; if it did, the balance shows it.
_RELEASED_AIRDROP = "The service stopped before the faucet answered; see the wallet's balance"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """One run of a program; a restart is another process.

    Attributes:
        kind: `api` or `worker`.
    """

    id: str
    kind: str
    host: str

    @classmethod
    def new(cls, kind: str = "api") -> Process:
        """Return this process with a new id."""
        return cls(str(uuid.uuid4()), kind, socket.gethostname())


@asynccontextmanager
async def hold_lease(
    database: Database,
    process: Process,
    on_renewed: Callable[[], Awaitable[object]],
    *,
    renew_s: float = RENEW_S,
) -> AsyncIterator[None]:
    """Hold this process's lease until the block ends.

    Args:
        on_renewed: called at each renewal on a shared database, to take over from dead processes.

    Raises:
        StoreError: the lease could not be taken.
    """
    lease = process.id, process.kind, process.host, int(LEASE_S * 1000)
    async with database.write() as connection:
        await processes.register(connection, *lease)

    async def renew() -> None:
        while True:
            await asyncio.sleep(renew_s)
            try:
                async with database.write() as connection:
                    await processes.renew(connection, *lease)
                await on_renewed()
            except SolwardError as error:
                _log.warning("lease_not_renewed", error=str(error))
            except Exception:
                # A failed takeover must not end the renewal of this process's own lease.
                _log.exception("takeover_failed")

    tasks = [asyncio.create_task(renew(), name="solward-lease")] if database.shared else []
    try:
        yield
    finally:
        await end(tasks)
        # If the database does not answer, the lease runs out by itself.
        with contextlib.suppress(SolwardError):
            async with database.write() as connection:
                await processes.remove(connection, process.id)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The numbers of reservations released and of transactions resumed."""

    released: int
    resumed: int


async def reconcile(
    ledger: Ledger,
    database: Database,
    sender: Sender,
    watcher: Watcher,
    me: str,
    resume: Callable[[TransactionRecord, InFlight | None, str], asyncio.Task[None]],
    wait_s: float,
) -> Reconciliation:
    """Take over dead processes' transactions: release the reservations of unsigned transactions,
    resume the others, and wait up to `wait_s` for their end.

    A reservation without an attempt row had no signed bytes, so it is released. Any other
    transaction may have landed: its stored bytes are watched and sent again until the ledger
    decides. Transactions still open after `wait_s` stay reserved and watched while the service
    serves. Handed-over payments are watched and not waited for, because only the seller sends them.

    Args:
        me: the id of the process that takes over.
        resume: resumes a record that uses its pocket in steps; the task ends with the record.
    """
    open_now = await _take_over(database, me)
    if not open_now:
        return Reconciliation(0, 0)
    ends: list[asyncio.Future[Any]] = []

    async def resume_record(left: _OpenRecord) -> bool:
        """Resume a record; return False if the record was released, so nothing is to be watched."""
        record, attempt, row = left.record, left.attempt, left.payment
        item = None
        if attempt is not None:
            held = left.held_lamports if left.step is None else None
            item = in_flight(record, attempt, held, left.reserved)
        if left.step is not None:
            if item is not None:
                sender.watch(item)
            ends.append(resume(record, item, left.step))
            return True
        if attempt is not None and attempt.step == HAND_OVER and record.signature is None:
            if row is not None and item is not None:
                hint = None if row.answer is None else row.answer.hint
                watcher.watch(live_payment(row, item), hint)
            return True
        if item is None:
            if record.signature is None:
                return False
            item = await _watch_airdrop(ledger, record)
        sender.watch(item)
        if item.sends:
            ends.append(item.done)
        return True

    gone_on = 0
    for each in open_now:
        try:
            gone_on += await resume_record(each)
        except Exception:
            # The record stays reserved until a start can read it, and does not stop the others.
            gone_on += 1
            log_set_apart(each.record.id)
    if ends:
        await asyncio.wait(ends, timeout=wait_s)
    found = Reconciliation(len(open_now) - gone_on, gone_on)
    _log.info("reconciled", released=found.released, resumed=found.resumed)
    return found


@dataclass(frozen=True, slots=True)
class _OpenRecord:
    """A record that a dead process left open.

    Attributes:
        held_lamports: the record's reserved debit.
        attempt: the attempt whose end is not known; None if no attempt is open.
        step: the last step of a record that uses its pocket in steps; None for any other.
        reserved: asset -> units that count against the limits.
    """

    record: TransactionRecord
    held_lamports: int
    attempt: Attempt | None
    step: str | None
    reserved: Mapping[str, int]
    payment: PaymentRow | None


async def _take_over(database: Database, me: str) -> list[_OpenRecord]:
    """Take over dead processes' transactions, and release reservations that were never signed."""
    taken: list[_OpenRecord] = []
    while True:
        async with database.write() as connection:
            seqs = await processes.take_over(connection, me, _BATCH)
            items = await store.pending(connection, seqs)
            traces = await transaction_store.traces(connection, seqs) if seqs else {}
            ids = [record.id for record, _, _ in items]
            steps = await store.last_steps(connection, ids) if ids else {}
            released = [
                _release_settlement(record, me)
                for record, _, attempt in items
                if attempt is None and record.signature is None and record.id not in steps
            ]
            if released:
                await store.settle(connection, released)
            signed = [record.id for record, _, attempt in items if attempt is not None]
            reserved = await spending.reserved_by(connection, signed) if signed else {}
            paid = await payment_store.of_transactions(connection, signed) if signed else {}
        for record, held, attempt in items:
            log_taken_over(record, traces[record.id], me)
            own = reserved.get(record.id, {})
            step, payment = steps.get(record.id), paid.get(record.id)
            taken.append(_OpenRecord(record, held, attempt, step, own, payment))
        if len(seqs) < _BATCH:
            return taken


def _release_settlement(record: TransactionRecord, me: str) -> Settlement:
    error = _RELEASED_AIRDROP if record.type == TransactionType.AIRDROP else _RELEASED
    return Settlement(record.id, TransactionStatus.FAILED, None, 0, 0, error=error, owner=me)


async def _watch_airdrop(ledger: Ledger, record: TransactionRecord) -> InFlight:
    assert record.signature is not None
    try:
        height = await ledger.block_height()
    except LedgerError:
        # So high that only a ledger that answers again can call the transaction expired.
        height = 2**62
    return faucet_in_flight(record.id, record.signature, height)


def faucet_effects(wallet: str) -> TransactionEffects:
    """Return an airdrop's effects, in which nothing leaves the wallet."""
    return TransactionEffects(lamports_out=0, fee_lamports=0, addresses=frozenset({wallet}))


def faucet_in_flight(transaction_id: str, signature: str, height: int) -> InFlight:
    """Return a faucet's transaction to watch; it is not resent, and costs the wallet nothing."""
    return InFlight(
        transaction_id, signature, None, height + MAX_VALID_BLOCKS, fee_lamports=0, held_lamports=0
    )
