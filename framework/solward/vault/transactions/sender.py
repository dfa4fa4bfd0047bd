"""Watch what was sent until its fate is known: poll in batches, resend, settle.

The only terminal facts are the ledger's: a status, or what `fates` counts as a proof that there
never will be one. The wall clock never decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from solward.errors import LedgerError
from solward.record import TransactionRecord, TransactionStatus
from solward.telemetry import metrics
from solward.vault.ledger.protocol import Ledger, SignatureStatus
from solward.vault.store import attempts as store
from solward.vault.store.attempts import AttemptState, Settlement
from solward.vault.store.database import Database
from solward.vault.transactions.failures import explain
from solward.vault.transactions.fates import find_fates
from solward.vault.transactions.steps import Step, StepHook, no_hook

# Statuses at the pace of slots (0.4 s); the same bytes again once five slots took none of them.
RESEND_S = 2.0
POLL_S = 0.4

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class InFlight:
    """A transaction whose fate is open.

    Attributes:
        wire: the stored signed bytes; None when somebody else sends it (a faucet).
        fee_lamports: what landing costs the wallet, whatever comes of it.
        held_lamports: the debit if it lands without error.
        details: the record's full details if it lands, None to leave them.
        context_slot: the slot its blockhash was read at, before which it cannot have landed; None
            where that is not known.
        unknown: whether its state `unknown` is stored already.
        first_sent: when this process sent it first, in monotonic seconds; None where another did.
        done: the settlement, once stored.
    """

    transaction_id: str
    signature: str
    wire: bytes | None
    last_valid_block_height: int
    fee_lamports: int
    held_lamports: int
    details: Mapping[str, Any] | None = None
    context_slot: int | None = None
    unknown: bool = False
    done: asyncio.Future[Settlement] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    polled: bool = False
    first_sent: float | None = None
    sent_at: float = 0.0


class Sender:
    """One task for every transaction in flight; callers wait on `InFlight.done`."""

    def __init__(
        self,
        ledger: Ledger,
        database: Database,
        *,
        hook: StepHook = no_hook,
        on_settled: Callable[[Settlement], None] = lambda _settlement: None,
        poll_s: float = POLL_S,
        resend_s: float = RESEND_S,
    ) -> None:
        self._ledger = ledger
        self._database = database
        self._hook = hook
        self._on_settled = on_settled
        self._poll_s = poll_s
        self._resend_s = resend_s
        self._open: dict[str, InFlight] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start watching."""
        self._task = asyncio.create_task(self._run(), name="solward-sender")

    async def close(self) -> None:
        """Stop watching; the next start resumes what is in flight."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def send(self, item: InFlight) -> None:
        """Send the written-ahead bytes once and watch them; never raises for the ledger."""
        item.first_sent = time.monotonic()
        await self._send(item)
        self._hook(Step.SENT)
        self.watch(item)

    def watch(self, item: InFlight) -> None:
        """Watch something that may have been sent already."""
        self._open[item.signature] = item
        metrics.IN_FLIGHT.set(len(self._open))
        self._wake.set()

    async def _run(self) -> None:
        while True:
            if not self._open:
                self._wake.clear()
                await self._wake.wait()
            self._wake.clear()
            try:
                await self._round()
            except LedgerError as error:
                _log.warning("ledger_unavailable", error=str(error), in_flight=len(self._open))
            except Exception:
                # Every transaction in flight depends on this task, so no failure may end it.
                _log.exception("confirmation_failed", in_flight=len(self._open))
            if self._open and all(item.polled for item in self._open.values()):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._poll_s)

    async def _round(self) -> None:
        items = list(self._open.values())
        if not items:
            return
        for item in items:
            item.polled = True
        statuses = await self._ledger.statuses([item.signature for item in items])
        landed = [
            (item, status)
            for item, status in zip(items, statuses, strict=True)
            if status is not None and status.confirmation in ("confirmed", "finalized")
        ]
        if landed:
            self._hook(Step.LANDED)
            await self._settle([_landed(item, status) for item, status in landed])
        now = time.monotonic()
        late = [
            item
            for item, status in zip(items, statuses, strict=True)
            if status is None and now - item.sent_at >= self._resend_s
        ]
        if late:
            await self._resend_or_end(late)

    async def _resend_or_end(self, late: Sequence[InFlight]) -> None:
        """Resend what may still land; end what never can."""
        height = await self._ledger.block_height()
        expired = [item for item in late if height > item.last_valid_block_height]
        alive = [item for item in late if height <= item.last_valid_block_height]
        if alive:
            async with self._database.write() as connection:
                await store.mark_sent(connection, [item.signature for item in alive])
            await asyncio.gather(*(self._send(item) for item in alive))
            metrics.RESENDS.inc(sum(item.wire is not None for item in alive))
        if expired:
            await self._end_expired(expired)

    async def _end_expired(self, expired: Sequence[InFlight]) -> None:
        now = time.monotonic()
        for item in expired:
            item.sent_at = now
        fates = await find_fates(self._ledger, expired)
        ended = [_landed(item, fates.landed[item.signature]) for item in expired
                 if item.signature in fates.landed]  # fmt: skip
        ended += [_dead(item) for item in expired if item.signature in fates.dead]
        if ended:
            await self._settle(ended)
        await self._mark_unknown([item for item in expired if item.signature in fates.unknown])

    async def _mark_unknown(self, items: Sequence[InFlight]) -> None:
        new = [item for item in items if not item.unknown]
        if not new:
            return
        async with self._database.write() as connection:
            await store.mark_unknown(connection, [item.signature for item in new])
        for item in new:
            item.unknown = True
            _log.error(
                "attempt_unknown", signature=item.signature, transaction_id=item.transaction_id
            )

    async def _send(self, item: InFlight) -> None:
        if item.wire is not None:
            try:
                await self._ledger.send(item.wire)
            except LedgerError as error:
                # Whatever a send answers says nothing about the fate of its bytes.
                _log.info("send_unanswered", signature=item.signature, error=str(error))
        item.sent_at = time.monotonic()

    async def _settle(self, settlements: list[Settlement]) -> None:
        async with self._database.write() as connection:
            stored = await store.settle(connection, settlements)
        self._hook(Step.SETTLED)
        ended = {
            item.transaction_id: _as_stored(item, stored[item.transaction_id])
            for item in settlements
        }
        for signature, item in list(self._open.items()):
            settlement = ended.get(item.transaction_id)
            if settlement is not None:
                del self._open[signature]
                metrics.IN_FLIGHT.set(len(self._open))
                if item.first_sent is not None:
                    metrics.CONFIRMATION.observe(time.monotonic() - item.first_sent)
                self._on_settled(settlement)
                if not item.done.done():
                    item.done.set_result(settlement)


def _as_stored(settlement: Settlement, record: TransactionRecord) -> Settlement:
    """The settlement as on record: another process may have ended the transaction first."""
    return replace(
        settlement,
        status=record.status,
        error=record.error,
        fee_lamports=record.fee_lamports or 0,
        details=record.details,
    )


def _landed(item: InFlight, status: SignatureStatus) -> Settlement:
    if status.err is None:
        return Settlement(
            item.transaction_id,
            TransactionStatus.CONFIRMED,
            AttemptState.LANDED_OK,
            fee_lamports=item.fee_lamports,
            held_lamports=item.held_lamports,
            details=item.details,
        )
    return Settlement(
        item.transaction_id,
        TransactionStatus.FAILED,
        AttemptState.LANDED_ERR,
        fee_lamports=item.fee_lamports,
        held_lamports=item.fee_lamports,
        error=f"The transaction failed on the ledger: {explain(status.err, ())}",
    )


def _dead(item: InFlight) -> Settlement:
    return Settlement(
        item.transaction_id,
        TransactionStatus.FAILED,
        AttemptState.DEAD,
        fee_lamports=0,
        held_lamports=0,
        error="The transaction expired without reaching the ledger; nothing was paid",
    )
