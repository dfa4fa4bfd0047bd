"""Signs judged transactions, writes them ahead, and sends them until their fate is known.

Signed bytes leave this process only after they are durable.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog
from solders.message import to_bytes_versioned
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from sqlalchemy.exc import IntegrityError

from solward.database.database import Database
from solward.solana.message import AnyMessage, fee_terms, required_signers
from solward.support.clock import now_ms
from solward.telemetry import metrics
from solward.types.errors import KeystoreError, LedgerError, TakenOver, TransactionFailed
from solward.types.record import TransactionRecord
from solward.vault.custody import Signer, Wallets
from solward.vault.guardrails.rules import expected_debit, max_debit
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.ledger.protocol import Blockhash, is_final
from solward.vault.money.judge.assess import Assessment, Assessor
from solward.vault.money.outcomes import may_not_have_run, with_cause
from solward.vault.money.request import Draft
from solward.vault.money.reserve.reservation import Reservation, Reserver
from solward.vault.money.send.polling import InFlight, Poller, find_fates, in_flight
from solward.vault.money.steps import Step, StepHook
from solward.vault.store import attempts as store
from solward.vault.store import payments, pockets
from solward.vault.store.attempts import HAND_OVER, Attempt, NetworkCost, PocketStep, Settlement

# Statuses are read once a slot. The same bytes are resent if they do not land in this many slots.
RESEND_SLOTS: Final = 5

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class DraftSigner:
    """Signs the transaction of a reservation, and stores the signed bytes."""

    _database: Database
    _wallets: Wallets
    _assessor: Assessor
    _reserver: Reserver
    _hook: StepHook
    _owner: str

    async def sign_and_write(
        self,
        wallet_id: str,
        draft: Draft,
        assessment: Assessment,
        reservation: Reservation,
        step: str = "",
    ) -> InFlight:
        """Sign the assessed bytes and make them durable.

        Args:
            step: a `PocketStep` if the record has further attempts; `HAND_OVER` if the seller
                sends.

        Raises:
            TransactionFailed: on any failure; nothing was sent, and the reservation is released.
        """
        record = reservation.record
        try:
            try:
                return await self._sign_and_store(wallet_id, draft, assessment, reservation, step)
            except IntegrityError:
                if draft.wire is not None:
                    raise
                assert assessment.effects is not None
                judged = assessment.effects.fee_lamports
                rebuilt = await self._assessor.rebuild(draft, record.id, judged)
                await self._reserver.recheck(draft.intent, rebuilt.effects, reservation)
                return await self._sign_and_store(wallet_id, draft, rebuilt, reservation, step)
        except Exception as error:
            text = "The transaction could not be signed; nothing was sent"
            if isinstance(error, IntegrityError):
                text = "An identical transaction was already sent; nothing was sent"
            elif isinstance(error, TakenOver):
                metrics.FENCED.labels("write_ahead").inc()
                text = "Another process has taken this transaction over; nothing was sent here"
            broken = str(error) if isinstance(error, KeystoreError) else None
            failed = await self._reserver.release(
                record, text, key_failure=broken, trace=reservation.trace
            )
            raise TransactionFailed(text, with_cause(error, failed)) from error

    async def _sign_and_store(
        self,
        wallet_id: str,
        draft: Draft,
        assessment: Assessment,
        reservation: Reservation,
        step: str,
    ) -> InFlight:
        assert assessment.effects is not None
        record, effects = reservation.record, assessment.effects
        message = assessment.transaction.message
        signers = [await self._wallets.signer(wallet_id)]
        if draft.pocket is not None and not step:
            counter = draft.pocket.pocket.counter
            signers.append(await self._wallets.pocket_signer(wallet_id, counter))
        signed = await sign_with(assessment.transaction, signers)
        digest, index = signed_message(message, draft.intent.wallet)
        signature = signed.signatures[0 if draft.payment is None else index]
        self._assessor.note_signed(draft, message)
        self._hook(Step.SIGNED)
        attempt = attempt_of(record, signed, assessment.blockhash, step, assessment.units)
        attempt = replace(
            attempt,
            signature=str(signature),
            max_debit=max_debit(draft.intent, effects),
            # A sponsor pays its payment's fee, and the sponsor's signature names it.
            spent=replace(attempt.spent, fee_lamports=effects.fee_lamports),
            names=signature == signed.signatures[0],
        )
        async with self._database.write() as connection:
            await store.write_ahead(connection, attempt, now_ms(), owner=self._owner)
            row = reservation.payment
            if row is not None and row.message_sha256 != digest:
                await payments.note_message(connection, record.id, digest, index)
            if row is not None and step == HAND_OVER:
                named = replace(record, signature=attempt.signature if attempt.names else None)
                payments.record_handed_over(connection, named, row, reservation.trace)
            if draft.pocket is not None and draft.pocket.leaves:
                await pockets.mark_funded(connection, record.id)
        self._hook(Step.WRITTEN_AHEAD)
        return in_flight(record, attempt, expected_debit(draft.intent, effects), reservation.units)


async def sign_with(
    transaction: VersionedTransaction, signers: Iterable[Signer]
) -> VersionedTransaction:
    """Sign a transaction with the `signers` that it needs."""
    message = transaction.message
    covered = bytes(to_bytes_versioned(message))
    signatures = dict(zip(required_signers(message), transaction.signatures, strict=True))
    for signer in signers:
        if signer.address in signatures:
            made = await signer.sign(covered)
            signatures[signer.address] = Signature.from_bytes(made)
    return VersionedTransaction.populate(message, list(signatures.values()))


def signed_message(message: AnyMessage, wallet: str) -> tuple[str, int]:
    """Return the SHA-256 of the signed message in hex, and the index of the wallet's signature."""
    digest = hashlib.sha256(bytes(to_bytes_versioned(message))).hexdigest()
    return digest, required_signers(message).index(wallet)


def stated_cost(message: AnyMessage, units: int | None = None) -> NetworkCost:
    """Return the fee and compute budget that a message states, with the compute units used."""
    terms = fee_terms(message)
    return NetworkCost(terms.lamports, units, terms.unit_limit, terms.unit_price)


def attempt_of(
    record: TransactionRecord,
    signed: VersionedTransaction,
    blockhash: Blockhash,
    step: str,
    units: int | None,
) -> Attempt:
    """Return an unstored attempt for signed bytes; its debit is 0, or a sweep's worst case.

    Args:
        units: compute units that its simulation used.
    """
    message = signed.message
    bound = 0
    if step == PocketStep.SWEEP:
        bound = worst_case(message, str(message.account_keys[0])).costs
    return Attempt(
        transaction_id=record.id,
        attempt_no=1,
        signature=str(signed.signatures[0]),
        wire=bytes(signed),
        blockhash=str(message.recent_blockhash),
        last_valid_block_height=blockhash.last_valid_block_height,
        context_slot=blockhash.earliest_landing_slot,
        max_debit=bound,
        step=step,
        spent=stated_cost(message, units),
    )


class Sender(Poller[InFlight]):
    """Sends this service's transactions, and watches all transactions with a known signature."""

    # Tests set another value.
    resend_slots: float = RESEND_SLOTS

    async def send(self, item: InFlight) -> None:
        """Send the written-ahead bytes once and watch them; errors of the ledger are not raised."""
        item.first_sent = time.monotonic()
        try:
            await self._send(item)
        except Exception:
            # The bytes may have left. Unwatched, they would stay open until the next start.
            _log.exception("send_failed", signature=item.signature)
        self._hook(Step.SENT)
        self.watch(item)

    def watch(self, item: InFlight) -> None:
        """Watch a transaction that may have been sent already."""
        super().watch(item)
        metrics.IN_FLIGHT.set(len(self._open))

    async def _settle(self, settlements: Sequence[Settlement]) -> None:
        await super()._settle(settlements)
        metrics.IN_FLIGHT.set(len(self._open))

    async def _round(self) -> float:
        await self._apart.run(list(self._open.values()), self._poll_statuses)
        return self._slots_s(1)

    async def _poll_statuses(self, items: Sequence[InFlight]) -> None:
        items = [item for item in items if self.find(item.transaction_id) is item]
        if not items:
            return
        try:
            statuses = await self._ledger.statuses([item.signature for item in items])
        except LedgerError:
            # A node that refuses statuses (a rate limit) may still accept transactions.
            await self._resend([item for item in items if self._is_late(item)])
            raise
        ended = [
            (item, status)
            for item, status in zip(items, statuses, strict=True)
            if status is not None
            and is_final(status.confirmation)
            and not may_not_have_run(status.err)
        ]
        # A landed transaction that waits for its balances stays landed, whatever nodes say.
        landed = [item for item in items if item.landed_at is not None]
        for item, status in ended:
            if status.err is None and item.landed_at is None:
                item.landed_slot = status.slot
                landed.append(item)
        await self._settle_landed(landed)
        late = [
            item
            for item, status in zip(items, statuses, strict=True)
            if item.landed_at is None
            and (status is None or status.confirmation is None or may_not_have_run(status.err))
            and self._is_late(item)
        ]
        now = time.monotonic()
        # A failure releases money, so the word of the node in use is not enough.
        failed = [
            item
            for item, status in ended
            if status.err is not None
            and item.landed_at is None
            and now - item.fates_read_at >= self._slots_s(self.resend_slots)
        ]
        if failed:
            await self._settle_by_all_nodes(failed)
        if late:
            await self._resend_or_end(late)

    async def _resend_or_end(self, late: Sequence[InFlight]) -> None:
        """Send transactions again that may still land, and settle the expired transactions."""
        try:
            height = await self._ledger.block_height()
        except LedgerError:
            await self._resend(late)
            raise
        expired = [item for item in late if height > item.last_valid_block_height]
        alive = [item for item in late if height <= item.last_valid_block_height]
        await self._resend(alive)
        if expired:
            await self._settle_by_all_nodes(expired)

    def _is_late(self, item: InFlight) -> bool:
        return time.monotonic() - item.sent_at >= self._slots_s(self.resend_slots)

    async def _resend(self, items: Sequence[InFlight]) -> None:
        """Send the same bytes again; this has no effect if they have landed or expired."""
        now = time.monotonic()
        for item in items:
            item.sent_at = now
        items = [item for item in items if item.sends]
        if not items:
            return
        async with self._database.write() as connection:
            await store.mark_sent(connection, [item.signature for item in items])
        await asyncio.gather(*(self._send(item) for item in items))
        metrics.RESENDS.inc(sum(item.wire is not None for item in items))

    async def _settle_by_all_nodes(self, items: Sequence[InFlight]) -> None:
        """Ask every node about transactions that the node in use calls expired or failed."""
        now = time.monotonic()
        for item in items:
            item.sent_at = item.fates_read_at = now
        await self._settle_fates(items, await find_fates(self._ledger, items))

    async def _send(self, item: InFlight) -> None:
        if item.wire is not None:
            try:
                await self._ledger.send(item.wire)
            except LedgerError as error:
                # The answer to a send says nothing about the fate of its bytes.
                _log.info("send_unanswered", signature=item.signature, error=str(error))
        item.sent_at = time.monotonic()
