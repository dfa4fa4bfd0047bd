"""Sign what was judged and write it ahead: no signed bytes leave before they are durable."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from solders.message import to_bytes_versioned
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from sqlalchemy.exc import IntegrityError

from solward.database.database import Database
from solward.solana.message import AnyMessage, fee_terms, required_signers
from solward.support.clock import now_ms
from solward.telemetry import metrics
from solward.types.errors import KeystoreError, TakenOver, TransactionFailed
from solward.types.record import TransactionRecord
from solward.vault.custody import Wallets
from solward.vault.guardrails.rules import expected_debit, max_debit
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.ledger.protocol import Blockhash
from solward.vault.money.failures import ended_by
from solward.vault.money.judge.assess import Assessment, Assessor
from solward.vault.money.request import Draft
from solward.vault.money.reserve.reservation import Reservation, Reserver
from solward.vault.money.send.sender import InFlight, in_flight
from solward.vault.money.steps import Step, StepHook
from solward.vault.store import attempts as store
from solward.vault.store import payments, pockets
from solward.vault.store.attempts import HAND_OVER, Attempt, PocketStep, Spent


class Signing:
    """Turns a reservation into durable signed bytes."""

    def __init__(
        self,
        database: Database,
        wallets: Wallets,
        assessor: Assessor,
        reserver: Reserver,
        hook: StepHook,
        owner: str | None = None,
    ) -> None:
        self._database = database
        self._wallets = wallets
        self._assessor = assessor
        self._reserver = reserver
        self._hook = hook
        self._owner = owner

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
            step: a `PocketStep` where the bytes are not all of the record, `HAND_OVER` where
                somebody else sends them.

        Raises:
            TransactionFailed: on any failure; nothing was sent, and the reservation is released.
        """
        record = reservation.record
        try:
            try:
                return await self._write(wallet_id, draft, assessment, reservation, step)
            except IntegrityError:
                if draft.wire is not None:
                    raise
                assert assessment.effects is not None
                judged = assessment.effects.fee_lamports
                rebuilt = await self._assessor.rebuild(draft, record.id, judged)
                await self._reserver.recheck(draft.intent, rebuilt.effects, reservation)
                return await self._write(wallet_id, draft, rebuilt, reservation, step)
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
            raise TransactionFailed(text, ended_by(error, failed)) from error

    async def _write(
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
        signatures = dict(
            zip(required_signers(message), assessment.transaction.signatures, strict=True)
        )
        for signer in signers:
            if signer.address in signatures:
                made = await signer.sign(bytes(to_bytes_versioned(message)))
                signatures[signer.address] = Signature.from_bytes(made)
        own = message.account_keys[0] if draft.payment is None else draft.intent.wallet
        signature = signatures[str(own)]
        signed = VersionedTransaction.populate(message, list(signatures.values()))
        self._assessor.note_signed(draft, message)
        self._hook(Step.SIGNED)
        attempt = attempt_of(record, signed, assessment.blockhash, step, assessment.units)
        attempt = replace(
            attempt,
            signature=str(signature),
            max_debit=max_debit(draft.intent, effects),
            # Of a sponsored payment neither fee nor signature is the wallet's.
            spent=replace(attempt.spent, fee_lamports=effects.fee_lamports),
            names=signature == signed.signatures[0],
        )
        digest, index = signed_message(message, draft.intent.wallet)
        async with self._database.write() as connection:
            await store.write_ahead(connection, attempt, now_ms(), owner=self._owner)
            row = reservation.payment
            if row is not None and row.message_sha256 != digest:
                await payments.note_message(connection, record.id, digest, index)
            if row is not None and step == HAND_OVER:
                named = replace(record, signature=attempt.signature if attempt.names else None)
                payments.record_handed_over(connection, named, row, reservation.trace)
            if draft.pocket is not None and draft.pocket.leaves:
                await pockets.open_funded(connection, record.id)
        self._hook(Step.WRITTEN_AHEAD)
        return in_flight(record, attempt, expected_debit(draft.intent, effects), reservation.units)


def signed_message(message: AnyMessage, wallet: str) -> tuple[str, int]:
    """SHA-256 of what is signed, hex, and which of the signatures is the wallet's."""
    digest = hashlib.sha256(bytes(to_bytes_versioned(message))).hexdigest()
    return digest, required_signers(message).index(wallet)


def spent_by(message: AnyMessage, units: int | None = None) -> Spent:
    """What a message says it spends on the network, and the compute units it used."""
    terms = fee_terms(message)
    return Spent(terms.lamports, units, terms.unit_limit, terms.unit_price)


def attempt_of(
    record: TransactionRecord,
    signed: VersionedTransaction,
    blockhash: Blockhash,
    step: str,
    units: int | None,
) -> Attempt:
    """The attempt of what is signed, not stored yet; a sweep's debit is what it can take.

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
        spent=spent_by(message, units),
    )
