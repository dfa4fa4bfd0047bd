"""The only way to a signature: assess, judge and reserve, sign, write ahead, send, confirm.

docs/assurance/exactly-once.md states the order, and what is durable after each step.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, TypeVar

import structlog
from sqlalchemy.exc import IntegrityError

from solward.database.database import Database
from solward.database.plugin_entries import DEFAULT_BOUNDS, StoreBounds
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.protocol import BLOCKHASH_BLOCKS
from solward.solana.token_list import TokenList
from solward.solana.tokens import token_account
from solward.support.clock import now_ms
from solward.support.durations import HOUR_MS
from solward.telemetry import tracing
from solward.types.errors import (
    Held,
    HoldDecided,
    InvalidRequest,
    LedgerError,
    NotFound,
    StoreError,
    TakenOver,
    TransactionError,
    TransactionFailed,
)
from solward.types.guardrail import SOL, Intent, Outflow
from solward.types.money import from_units
from solward.types.payment import PaymentMode
from solward.types.record import (
    LEAVES,
    PLUGIN_DETAILS,
    HoldState,
    LeavingAmount,
    TransactionRecord,
    TransactionStatus,
    TransactionType,
)
from solward.types.site import SITE
from solward.vault.custody import Wallet, Wallets
from solward.vault.guardrails.rules import PluginGuardrail, Policy, ScopeLimits
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.patience import seconds_left, within
from solward.vault.money.judge.assess import Assessment, Assessor
from solward.vault.money.judge.blockhash import no_verification
from solward.vault.money.judge.building import (
    PriorityFee,
    PriorityFees,
    SwapVersions,
    TransactionVersion,
)
from solward.vault.money.judge.granting import GrantJudge, Question
from solward.vault.money.judge.prices import Prices
from solward.vault.money.outcomes import (
    Trial,
    TrialEnded,
    refusal,
    simulation_failure,
    wait_for_task,
    with_cause,
)
from solward.vault.money.plugin_entries import PluginEntries
from solward.vault.money.pocket.run import PocketRuns
from solward.vault.money.request import (
    Actor,
    Draft,
    HandedOverPayment,
    HoldTaken,
    HoldWaits,
    Payment,
    PocketDraft,
)
from solward.vault.money.reserve.hold_reservation import hold_of
from solward.vault.money.reserve.reservation import BidTooHigh, Reservation, Reserver
from solward.vault.money.send.handed_over import Watcher, live_payment
from solward.vault.money.send.polling import InFlight
from solward.vault.money.send.sender import DraftSigner, Sender, signed_message
from solward.vault.money.send.takeover import (
    Process,
    Reconciliation,
    faucet_effects,
    faucet_in_flight,
    reconcile,
)
from solward.vault.money.steps import Step, StepHook, bound_log_fields, no_hook
from solward.vault.store import attempts as attempt_store
from solward.vault.store import holds, processes
from solward.vault.store import payments as payment_store
from solward.vault.store import transactions as store
from solward.vault.store.attempts import HAND_OVER, PocketStep
from solward.vault.store.holds import HoldRow
from solward.vault.store.payments import PaidRequest, PaymentRow, StoredAnswer

T = TypeVar("T")
Work: TypeAlias = Callable[[], Awaitable[TransactionRecord]]

# How often a payment's record is read while another process watches the payment.
_OTHERS_POLL_S = 0.2

# A caller waits at most this long for the transaction's end, then gets a `pending` record. If the
# bytes expire earlier, the wait is their lifetime plus a margin in which their end is proved.
CONFIRM_WAIT_S = 45.0
CONFIRM_MARGIN_S = 15.0
# A stop waits this long for running transactions. With a ledger that answers, they need 1 or 2 s.
CLOSE_WAIT_S = 5.0
# How often a failed database is tried again, to resume the transactions that its failure left open.
TAKE_UP_S = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The rules and bounds that the engine enforces in addition to a caller's limits.

    Attributes:
        policy: blocked addresses, limits of fees and new accounts.
        wallet_limits: the service's limits, which hold for each wallet.
        plugin_guardrails: rules of plugins; they can only refuse, or ask a person.
        hold_ms: how long a held transaction waits for a person.
        prices: prices in dollars, for grants that count dollars.
        tokens: symbols of tokens, for the texts of refusals.
        listed: mints that an agent or API key without grants may buy; None for all.
        priority_fee: the setting for every transaction that the engine builds.
        transaction_version: the version in which swaps are built.
        store_bounds: bounds of the entries that a plugin stores for a wallet.
    """

    policy: Policy
    wallet_limits: ScopeLimits
    plugin_guardrails: Sequence[PluginGuardrail] = ()
    hold_ms: int = HOUR_MS
    prices: Prices | None = None
    tokens: TokenList | None = None
    listed: frozenset[str] | None = None
    priority_fee: PriorityFee = "off"
    transaction_version: TransactionVersion = "auto"
    store_bounds: StoreBounds = DEFAULT_BOUNDS
    confirm_wait_s: float = CONFIRM_WAIT_S
    close_wait_s: float = CLOSE_WAIT_S


def confirm_wait_s(slot_s: float, most_s: float = CONFIRM_WAIT_S) -> float:
    """Return the seconds that a caller waits for a transaction's end, if a slot takes `slot_s`."""
    return min(most_s, BLOCKHASH_BLOCKS * slot_s + CONFIRM_MARGIN_S)


class Engine:
    """Sends transactions of managed wallets, and sends each intent at most once."""

    def __init__(
        self,
        ledger: Ledger,
        database: Database,
        wallets: Wallets,
        options: EngineOptions,
        *,
        verify_cluster: Callable[[], Awaitable[None]] = no_verification,
        hook: StepHook = no_hook,
        process: Process | None = None,
    ) -> None:
        self.process = Process.new() if process is None else process
        owner = self.process.id
        self._ledger = ledger
        self._database = database
        self._wallets = wallets
        self._options = options
        self._hook = hook
        fees = PriorityFees(ledger, options.priority_fee, options.policy.max_fee_lamports)
        self.versions = SwapVersions(ledger, options.transaction_version)
        self._assessor = Assessor(
            ledger,
            verify_cluster,
            hook,
            database.windows.observe,
            fees=fees,
            versions=self.versions,
            regulated_mints=options.policy.regulated_mints,
        )
        self._reserver = Reserver(
            database,
            options.policy,
            options.wallet_limits,
            options.plugin_guardrails,
            owner,
            options.hold_ms,
            GrantJudge(options.prices, options.tokens, options.listed),
            options.store_bounds,
            0 if options.priority_fee == "off" else options.policy.max_fee_lamports,
        )
        self.entries = PluginEntries(database, options.store_bounds)
        self._signing = DraftSigner(database, wallets, self._assessor, self._reserver, hook, owner)
        self.sender = Sender(ledger, database, hook=hook)
        self.watcher = Watcher(ledger, database, hook=hook)
        self._runs = PocketRuns(
            ledger,
            database,
            wallets,
            self.sender,
            self._assessor.blockhashes,
            hook,
            owner,
            options.policy.blocked_addresses,
            fees,
            options.wallet_limits,
        )
        self._running: set[asyncio.Task[Any]] = set()
        # Each task resumes a record that a failed database left open.
        self._left_open: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start to watch sent transactions and handed-over payments."""
        self.sender.start()
        self.watcher.start()

    def use_guardrails(self, guardrails: Sequence[PluginGuardrail]) -> None:
        """Replace the plugins' guardrails; see `Reserver.use_guardrails`."""
        self._reserver.use_guardrails(guardrails)

    def deadline(self) -> AbstractContextManager[None]:
        """Limit a caller's total wait for planning, busy nodes and the transaction's end."""
        return within(self._confirm_wait_s)

    @property
    def _confirm_wait_s(self) -> float:
        return confirm_wait_s(self._ledger.slot_s, self._options.confirm_wait_s)

    async def execute(self, wallet_id: str, actor: Actor, draft: Draft) -> TransactionRecord:
        """Judge, sign and send a draft, and wait until its transaction has ended.

        Cancelling the caller does not cancel the transaction.

        Returns:
            The stored record: `confirmed`, or `pending` when the ledger took too long.

        Raises:
            WalletNotFound: no such wallet.
            InvalidRequest: the draft makes no transaction this wallet alone can sign.
            GuardrailBlocked: a rule refused the transaction; the record is stored.
            TransactionFailed: the transaction would fail or has failed; the record is stored.
            TakenOver: another process runs the agent's cycle now; nothing was stored.
            PocketTaken: another process used the pocket first; nothing was stored.
            IdempotencyInFlight, IdempotencyMismatch: the key was claimed by another request.
            Held: the transaction waits for a person; a hold is stored in place of a record.
            HoldTaken: the approval behind this request was used already, or has ended.
            HoldWaits: the approval cannot be carried out now, but may be later.
        """
        if draft.payment is not None and draft.payment.mode is not PaymentMode.PUSH:
            raise InvalidRequest(f"execute sends push payments only, not {draft.payment.mode}")
        actor, record = await self._prepare(wallet_id, actor, draft)

        async def pay() -> TransactionRecord:
            reservation, item = await self._sign(record, actor, draft)
            with tracing.span("transaction.send"):
                await self.sender.send(item)
            _log.info("transaction_sent", signature=item.signature)
            return await self._await_outcome(reservation.record, item)

        return await self._run_shielded(record, actor, pay)

    async def hand_over(self, wallet_id: str, actor: Actor, draft: Draft) -> HandedOverPayment:
        """Judge and sign a payment that the seller sends, and watch it until its end.

        The call returns at once, with the bytes for the seller in `wire`. Only the ledger tells how
        the payment ends. Cancelling the caller does not cancel the payment.

        Args:
            draft: its `payment` is sponsored or unsponsored.

        Raises:
            The errors of `execute`. Nobody was given the bytes of a refused or failed payment.
        """
        payment = draft.payment
        if payment is None or payment.mode is PaymentMode.PUSH:
            raise InvalidRequest("hand_over takes sponsored and unsponsored payments only")
        actor, record = await self._prepare(wallet_id, actor, draft)
        wire: bytes | None = None

        async def sign_for_seller() -> TransactionRecord:
            nonlocal wire
            reservation, item = await self._sign(record, actor, draft, HAND_OVER)
            wire, row = item.wire, reservation.payment
            assert wire is not None and row is not None  # noqa: PT018
            is_sponsored = row.mode is PaymentMode.SPONSORED
            if is_sponsored:
                self.watcher.watch(live_payment(row, item))
            else:
                self.sender.watch(item)
            self._hook(Step.HANDED_OVER)
            _log.info("payment_handed_over", site=row.site, mode=row.mode.value)
            return replace(reservation.record, signature=None if is_sponsored else item.signature)

        return HandedOverPayment(await self._run_shielded(record, actor, sign_for_seller), wire)

    async def note_answer(self, transaction_id: str, answer: StoredAnswer, most_bytes: int) -> None:
        """Store the seller's answer to a paid request, and look for the payment on the ledger.

        The seller's answer never ends the payment: only the ledger does.

        Args:
            most_bytes: maximum size of a principal's offers and answers; deletes the oldest first.

        Raises:
            NotFound: no such payment.
        """
        async with self._database.write() as connection:
            before = await payment_store.get(connection, transaction_id)
            if before is None:
                raise NotFound("Payment not found")
            await payment_store.note_answer(connection, transaction_id, answer)
            await payment_store.make_room(connection, transaction_id, most_bytes)
            row = await payment_store.get(connection, transaction_id)
            record = await store.get(connection, transaction_id)
            assert row is not None and record is not None  # noqa: PT018
            if row.answer != before.answer:
                states = await payment_store.states(connection, [transaction_id])
                payment_store.record_answered(connection, record, row, states[transaction_id])
        self._hook(Step.ANSWERED)
        self.watcher.note_answer(transaction_id, answer.hint)

    async def note_no_answer(self, transaction_id: str, most_bytes: int) -> None:
        """Delete the principal's oldest offers and answers, if the seller did not answer.

        Args:
            most_bytes: as for `note_answer`.
        """
        async with self._database.write() as connection:
            await payment_store.make_room(connection, transaction_id, most_bytes)

    async def payment(
        self, transaction_id: str
    ) -> tuple[TransactionRecord, PaymentRow, bytes | None]:
        """Return a payment's record and row, and its bytes to resend while they may still land.

        Raises:
            NotFound: no such payment.
        """
        async with self._database.read() as connection:
            row = await payment_store.get(connection, transaction_id)
            record = await store.get(connection, transaction_id)
            attempts = await attempt_store.of_transaction(connection, transaction_id)
        if row is None or record is None:
            raise NotFound("Payment not found")
        live = record.status is TransactionStatus.PENDING
        return record, row, attempts[-1].wire if live and attempts else None

    async def wait_until_settled(self, transaction_id: str, wait_s: float) -> TransactionRecord:
        """Wait up to `wait_s` for a payment's end, and return its record, even if unfinished.

        Raises:
            NotFound: no such record.
        """
        deadline = asyncio.get_running_loop().time() + wait_s
        while True:
            async with self._database.read() as connection:
                record = await store.get(connection, transaction_id)
            if record is None:
                raise NotFound("Payment not found")
            left_s = deadline - asyncio.get_running_loop().time()
            if record.status is not TransactionStatus.PENDING or left_s <= 0:
                return record
            item = self.watcher.find(transaction_id) or self.sender.find(transaction_id)
            if item is None:
                # Another process watches the payment, or the payment ended just now.
                await asyncio.sleep(min(left_s, _OTHERS_POLL_S))
                continue
            await asyncio.wait({item.done}, timeout=left_s)

    async def dry_run(self, wallet_id: str, actor: Actor, draft: Draft) -> Trial:
        """Judge a draft as `execute` would now, without storing, reserving or sending anything.

        Raises:
            WalletNotFound: no such wallet.
            InvalidRequest: the draft makes no transaction this wallet alone can sign.
        """
        await self._wallets.get(wallet_id)
        actor = _with_paid_site(actor, draft.payment)
        assessment, failure = None, None
        try:
            with self.deadline():
                draft, assessment = await self._assessor.assess_any(
                    draft, str(uuid.uuid4()), trial=True
                )
        except LedgerError as error:
            failure = str(error)
        else:
            if assessment.effects is None:
                failure = simulation_failure(assessment.failure)

        intent, pocket, payment = draft.intent, draft.pocket, draft.payment
        question = Question(wallet_id, actor, intent, pocket=pocket, payment=payment)
        if assessment is not None and assessment.effects is not None:
            bid = self._assessor.bid_lamports(draft, assessment)
            try:
                while True:
                    found = assessment.effects
                    asked = replace(question, effects=found, bid_lamports=bid)
                    try:
                        return Trial(await self._reserver.trial(asked), found, failure)
                    except BidTooHigh as error:
                        assessment, bid = await self._bid_lower(draft, assessment, error)
            except LedgerError as error:
                failure = str(error)
        return Trial(await self._reserver.trial(question), None, failure)

    async def use_pocket(
        self, wallet_id: str, actor: Actor, draft: PocketDraft
    ) -> TransactionRecord:
        """Fill a pocket, make the call that it signs, and return its contents to the wallet.

        A dry run judges only the funding, because no more than the funding can be lost.
        """
        actor, record = await self._prepare(wallet_id, actor, draft.funding)

        async def use() -> TransactionRecord:
            reservation, item = await self._sign(record, actor, draft.funding, PocketStep.FUND)
            await self.sender.send(item)
            return _require_success(
                await self._runs.run_after_funding(reservation.record, actor, draft, item)
            )

        return await self._run_shielded(record, actor, use, leaves=True)

    async def sweep_pocket(self, wallet_id: str, actor: Actor, address: str) -> TransactionRecord:
        """Return a pocket's contents to its wallet, which may be frozen, and store a new record.

        Raises:
            NotFound: the wallet has no such pocket that may hold something.
            InvalidRequest: the transaction that uses the pocket has not ended.
            TransactionFailed: something stayed in the pocket.
        """
        wallet = await self._wallets.get(wallet_id)
        intent = Intent(
            type=TransactionType.OTHER, wallet=wallet.address, details={"pocket": address}
        )
        record = self._new_record(wallet, actor, intent)

        async def sweep() -> TransactionRecord:
            await self._runs.begin_sweep(record, actor, address)
            return _require_success(await self._runs.sweep_alone(record))

        return await self._run_shielded(record, actor, sweep, leaves=True)

    async def _resume(self, record: TransactionRecord, live: InFlight | None, step: str) -> None:
        try:
            await self._runs.resume(record, live, step)
        except StoreError:
            self._resume_left_open(record.id)
        except Exception:
            # The record stays pending, and the next start or takeover resumes it.
            _log.exception("pocket_not_resumed", transaction_id=record.id)

    async def airdrop(
        self, wallet_id: str, actor: Actor, intent: Intent, lamports: int
    ) -> TransactionRecord:
        """Request SOL from the faucet, and judge, store and await the airdrop as a transaction."""
        wallet = await self._wallets.get(wallet_id)
        effects = faucet_effects(wallet.address)
        question = Question(wallet_id, actor, intent, effects)
        if actor.dry_run:
            raise TrialEnded(Trial(await self._reserver.trial(question), effects))
        record = self._new_record(wallet, actor, intent)

        async def request() -> TransactionRecord:
            reservation = await self._reserve(record, question)
            self._hook(Step.RESERVED)
            try:
                with tracing.span("transaction.send"):
                    height = await self._ledger.block_height()
                    signature = await self._ledger.request_airdrop(wallet.address, lamports)
            except LedgerError as error:
                text = f"The faucet refused: {error}"
                released = await self._reserver.release(reservation.record, text)
                raise TransactionFailed(text, with_cause(error, released)) from None
            async with self._database.write() as connection:
                ours = await store.set_signature(
                    connection, record.id, signature, owner=self.process.id
                )
            if not ours:
                text = "Another process has taken over this airdrop; the faucet may have paid it"
                released = await self._reserver.release(reservation.record, text)
                raise TransactionFailed(text, with_cause(TakenOver(), released))
            _log.info("transaction_sent", signature=signature)
            item = faucet_in_flight(record.id, signature, height)
            self.sender.watch(item)
            return await self._await_outcome(reservation.record, item)

        return await self._run_shielded(record, actor, request)

    async def store_refusal(
        self, wallet_id: str, actor: Actor, intent: Intent, error: Exception
    ) -> TransactionError | TrialEnded:
        """Store the record of an intent that has no draft, and return the error to raise."""
        wallet = await self._wallets.get(wallet_id)
        if actor.dry_run:
            verdict = await self._reserver.trial(Question(wallet_id, actor, intent))
            return TrialEnded(Trial(verdict, None, str(error)))
        record = self._new_record(wallet, actor, intent)
        return await self._store_failure(record, actor, intent, error)

    async def reconcile(self, wait_s: float = 0) -> Reconciliation:
        """Take over the transactions that dead processes left open; see `takeover.reconcile`."""
        return await reconcile(
            self._ledger,
            self._database,
            self.sender,
            self.watcher,
            self.process.id,
            lambda *left_open: self._start_task(self._resume(*left_open)),
            wait_s,
        )

    async def close(self) -> None:
        """Wait up to `close_wait_s` for running transactions, then stop the watching tasks.

        The next start reconciles the transactions that were cut off, as after a crash.
        """
        for task in self._left_open:
            task.cancel()
        if self._running:
            _done, late = await asyncio.wait(self._running, timeout=self._options.close_wait_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self.watcher.close()
        await self.sender.close()

    def _start_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _prepare(
        self, wallet_id: str, actor: Actor, draft: Draft
    ) -> tuple[Actor, TransactionRecord]:
        """Return the actor, with the site that the draft pays, and a record that is not stored yet.

        Raises:
            TrialEnded: the actor asked for a dry run.
        """
        if actor.dry_run:
            raise TrialEnded(await self.dry_run(wallet_id, actor, draft))
        actor = _with_paid_site(actor, draft.payment)
        return actor, self._new_record(await self._wallets.get(wallet_id), actor, draft.intent)

    async def _run_shielded(
        self, record: TransactionRecord, actor: Actor, work: Work, *, leaves: bool = False
    ) -> TransactionRecord:
        """Run the steps of `work` in a task that its caller cannot cancel, and return the record.

        Args:
            leaves: whether the caller gets an unfinished record at the deadline. Steps continue.
        """
        with self.deadline():
            task = self._start_task(self._run(record, actor, work))
            await wait_for_task(task, seconds_left(self._confirm_wait_s) if leaves else None)
            if not task.done():
                async with self._database.read() as connection:
                    stored = await store.get(connection, record.id)
                if stored is not None:
                    return stored
                await wait_for_task(task)
        return task.result()

    async def _run(self, record: TransactionRecord, actor: Actor, work: Work) -> TransactionRecord:
        """Perform an action's steps, or return its record if it was requested before."""
        known = await self.find_action(actor)
        if known is not None:
            return known
        try:
            with bound_log_fields(record, actor.trace):
                try:
                    return await work()
                except StoreError:
                    self._resume_left_open(record.id)
                    raise
        except IntegrityError:
            # Another process stored the same action first.
            known = await self.find_action(actor)
            if known is None:
                raise
            return known
        except HoldTaken:
            if actor.approval is not None:
                raise
            # Another request used the approval of the hold that this request waited for.
            known = await self.find_action(actor)
            if known is None:
                text = "The approval was used or ended in the meantime; nothing was sent"
                raise HoldDecided(text) from None
            return known

    def _resume_left_open(self, transaction_id: str) -> None:
        """Resume a record that a failure of the database may have left pending without a task."""
        item = self.sender.find(transaction_id)
        is_watched = item is not None and item.ends
        if not is_watched and self.watcher.find(transaction_id) is None:
            task = asyncio.create_task(self._retry_takeover(transaction_id))
            self._left_open.add(task)
            task.add_done_callback(self._left_open.discard)

    async def _retry_takeover(self, transaction_id: str) -> None:
        is_left = False
        while True:
            await asyncio.sleep(TAKE_UP_S)
            try:
                async with self._database.write() as connection:
                    me = self.process.id
                    is_left = await processes.disown(connection, transaction_id, me) or is_left
                if is_left:
                    await self.reconcile()
                return
            except StoreError as error:
                _log.warning("transaction_left_open", id=transaction_id, error=str(error))

    async def _sign(
        self, record: TransactionRecord, actor: Actor, draft: Draft, step: str = ""
    ) -> tuple[Reservation, InFlight]:
        """Assess, judge, reserve, sign and write ahead: perform all steps before the sending."""
        try:
            draft, record, assessment = await self._assess(record, actor, draft)
            bid, payment = self._assessor.bid_lamports(draft, assessment), draft.payment
            reservation = None
            while reservation is None:
                effects, pocket = assessment.effects, draft.pocket
                question = Question(
                    record.wallet_id, actor, draft.intent, effects, pocket, payment, bid
                )
                row = None if payment is None else _payment_row(record, draft, payment, assessment)
                try:
                    reservation = await self._reserve(record, question, row)
                except BidTooHigh as error:
                    assessment, bid = await self._bid_lower(draft, assessment, error)
        except LedgerError as error:
            if actor.approval is not None:
                raise HoldWaits(str(error)) from None
            raise await self._store_failure(record, actor, draft.intent, error) from None
        self._hook(Step.RESERVED)
        draft, assessment = await self._rebuild_on_balance(reservation, draft, assessment)
        with tracing.span("transaction.sign"):
            item = await self._signing.sign_and_write(
                record.wallet_id, draft, assessment, reservation, step
            )
        _log.info("transaction_signed", signature=item.signature)
        return reservation, item

    async def _assess(
        self, record: TransactionRecord, actor: Actor, draft: Draft
    ) -> tuple[Draft, TransactionRecord, Assessment]:
        """Assess a draft. Return the draft to judge, its record with amounts, and the assessment.

        Raises:
            LedgerError: the ledger did not answer.
            TransactionFailed: the transaction would fail; the record is stored.
        """
        with tracing.span("transaction.assess"):
            assessed, assessment = await self._assessor.assess_any(draft, record.id)
        assessment.check_failure_is_final()
        self._hook(Step.ASSESSED)
        if assessment.effects is None:
            text = simulation_failure(assessment.failure)
            raise refusal(await self._reserver.fail(record, actor, draft.intent, text))
        if assessed is not draft:
            record = replace(record, details=assessed.intent.details)
        return assessed, _with_leaving_amounts(record, assessment.effects.outflow), assessment

    async def _store_failure(
        self, record: TransactionRecord, actor: Actor, intent: Intent, error: Exception
    ) -> TransactionError:
        stored = await self._reserver.fail(record, actor, intent, str(error))
        return refusal(with_cause(error, stored))

    async def _bid_lower(
        self, draft: Draft, assessment: Assessment, error: BidTooHigh
    ) -> tuple[Assessment, int]:
        """Rebuild a draft with a lower priority fee, after it was refused only for its costs.

        Returns:
            The assessment to judge next, and the lamports by which its fee can still be lowered.

        Raises:
            LedgerError: the ledger did not answer, so it is not known whether the draft fits.
        """
        assert assessment.effects is not None
        most = assessment.effects.fee_lamports - error.excess_lamports
        with contextlib.suppress(InvalidRequest):
            rebuilt = await self._assessor.rebuild(draft, None, most)
            rebuilt.check_failure_is_final()
            if rebuilt.effects is not None and rebuilt.effects.fee_lamports <= most:
                return rebuilt, self._assessor.bid_lamports(draft, rebuilt)
        return assessment, 0

    async def _rebuild_on_balance(
        self, reservation: Reservation, draft: Draft, assessment: Assessment
    ) -> tuple[Draft, Assessment]:
        """Rebuild a purchase for its account's new balance, if the balance grew since planning.

        The reservation blocks other purchases, and the account is read after the last purchase of
        any process has landed. So another purchase's units never count for this purchase. Dust that
        a stranger sends in between belongs to the wallet and does not fail the purchase.
        """
        if draft.pocket is None or draft.pocket.asserted is None or assessment.effects is None:
            return draft, assessment
        address, held = draft.pocket.asserted
        # Older landings do not matter: this blockhash is later, or is too old to land.
        min_slot = max(reservation.landed_slot, assessment.blockhash.context_slot)
        try:
            account = token_account(await self._ledger.account_from(address, min_slot))
            if account is None or account.amount <= held:
                return draft, assessment
            assert draft.based_on is not None
            draft = draft.based_on(account.amount)
            fee = assessment.effects.fee_lamports
            rebuilt = await self._assessor.rebuild(draft, None, fee)
            await self._reserver.recheck(draft.intent, rebuilt.effects, reservation)
            return draft, rebuilt
        except (InvalidRequest, LedgerError, PermissionError) as failure:
            error = failure
        text = f"{error}; nothing was sent"
        raise refusal(with_cause(error, await self._reserver.release(reservation.record, text)))

    async def _reserve(
        self, record: TransactionRecord, question: Question, row: PaymentRow | None = None
    ) -> Reservation:
        with tracing.span("transaction.reserve"):
            try:
                reservation = await self._reserver.reserve(record, question, row)
            except Held:
                self._hook(Step.HELD)
                raise
        if reservation.record.status is not TransactionStatus.PENDING:
            raise refusal(reservation.record)
        return reservation

    async def _await_outcome(self, record: TransactionRecord, item: InFlight) -> TransactionRecord:
        with tracing.span("transaction.confirm", signature=item.signature):
            await asyncio.wait((item.done,), timeout=seconds_left(self._options.confirm_wait_s))
        if not item.done.done():
            async with self._database.read() as connection:
                stored = await store.get(connection, record.id)
            return stored or replace(record, signature=item.signature)
        ended = item.done.result().record
        assert ended is not None
        return _require_success(ended)

    async def find_action(self, actor: Actor) -> TransactionRecord | None:
        """Return the record of an action that was requested before; None for a new action.

        Call this before drafting from the ledger's state: once an action was executed, the state
        may no longer allow to draft it again.

        Raises:
            TransactionError: the transaction was blocked or failed.
            Held: the action waits for a person, or was approved and is not carried out yet.
        """
        if actor.action_key is None:
            return None
        row = None
        async with self._database.read() as connection:
            record = await store.by_action_key(connection, actor.action_key)
            if record is None and actor.approval is None:
                row = await hold_of(connection, actor)
        if row is not None:
            record = await self._record_of_hold(row)
        if record is not None and record.status in (
            TransactionStatus.BLOCKED,
            TransactionStatus.FAILED,
        ):
            raise refusal(record)
        return record

    async def is_action_held(self, action_key: str) -> bool:
        """Return whether any money call of an action is held; the key lacks a call's number."""
        async with self._database.read() as connection:
            return await holds.is_open_under(connection, action_key)

    async def record_of_hold(self, hold_id: str) -> TransactionRecord | None:
        """Return the record of an ended hold; None if the caller must repeat the request.

        Raises:
            Held: the hold is open.
            NotFound: no such hold.
        """
        async with self._database.read() as connection:
            row = await holds.get(connection, hold_id)
        if row is None:
            raise NotFound("Hold not found")
        return await self._record_of_hold(row)

    async def _record_of_hold(self, row: HoldRow) -> TransactionRecord | None:
        hold = row.hold
        if hold.transaction_id is not None:
            async with self._database.read() as connection:
                return await store.get(connection, hold.transaction_id)
        async with self._database.read() as connection:
            moment = await self._database.moment(connection)
        if hold.expires_ms <= moment.window_ms:
            async with self._database.write() as connection:
                await holds.expire(connection, row, moment)
            return await self.record_of_hold(hold.id)
        if hold.state is HoldState.APPROVED and hold.repeats:
            return None
        raise Held(hold)

    @staticmethod
    def _new_record(wallet: Wallet, actor: Actor, intent: Intent) -> TransactionRecord:
        return TransactionRecord(
            id=str(uuid.uuid4()),
            wallet_id=wallet.id,
            agent_id=actor.agent_id,
            principal=actor.principal,
            type=intent.type,
            status=TransactionStatus.PENDING,
            details=intent.details,
            guardrails_applied=(),
            created_ms=now_ms(),
        )


def _require_success(record: TransactionRecord) -> TransactionRecord:
    """Return a record, or raise its error if its transaction failed."""
    if record.status is TransactionStatus.FAILED:
        raise refusal(record)
    return record


def _with_paid_site(actor: Actor, payment: Payment | None) -> Actor:
    """Return the actor with the paid site in place of any sites that the caller named."""
    if payment is None:
        return actor
    others = (each for each in actor.via if not each.startswith(SITE))
    return replace(actor, via=(*others, f"{SITE}{payment.site}"))


# A plugin's own transaction of the type `other` has only these details.
_OF_PLUGINS = frozenset({PLUGIN_DETAILS, "pocket"})


def _with_leaving_amounts(record: TransactionRecord, outflow: Outflow | None) -> TransactionRecord:
    """Return the record of a plugin's transaction or swap, with the amounts that may leave.

    All other transactions state their amounts, which are checked against the bytes.
    """
    is_swap = record.type == TransactionType.SWAP and "inputAmount" not in record.details
    is_plugins = record.type == TransactionType.OTHER and record.details.keys() <= _OF_PLUGINS
    if outflow is None or not (is_swap or is_plugins):
        return record
    leaves = [
        LeavingAmount(
            line.operation.value,
            from_units(line.units, line.decimals),
            line.asset,
            line.owner or line.account,
        ).to_json()
        for line in outflow.lines
        if line.units and line.decimals is not None
    ]
    stated: dict[str, Any] = {LEAVES: leaves}
    if is_swap:
        sold = record.details.get("inputToken")
        asset = SOL if sold == WRAPPED_SOL_MINT else sold
        stated["inputAmount"] = sum(each["amount"] for each in leaves if each["asset"] == asset)
    return replace(record, details={**stated, **record.details})


def _payment_row(
    record: TransactionRecord, draft: Draft, payment: Payment, assessment: Assessment
) -> PaymentRow:
    message = assessment.transaction.message
    digest, index = signed_message(message, draft.intent.wallet)
    request = {each.name: getattr(payment, each.name) for each in fields(PaidRequest)}
    return PaymentRow(
        **request,
        transaction_id=record.id,
        wallet_id=record.wallet_id,
        source_units=assessment.source_units,
        message_sha256=digest,
        signer_index=index,
        created_ms=record.created_ms,
    )
