"""The one write transaction that judges and reserves, and the ways a reservation is undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.errors import TakenOver
from solward.guardrail import Intent, TransactionEffects
from solward.record import TransactionRecord, TransactionStatus
from solward.telemetry import metrics
from solward.vault.guardrails import (
    ExtraRule,
    Policy,
    ScopeLimits,
    ScopeUsage,
    Verdict,
    counted_lamports,
    counted_tokens,
    judge,
    max_debit,
)
from solward.vault.store import attempts as attempt_store
from solward.vault.store import idempotency, processes, spending
from solward.vault.store import transactions as store
from solward.vault.store.attempts import Settlement
from solward.vault.store.database import Database
from solward.vault.transactions.request import Actor

# What a record's guardrailsApplied names when the freeze switch stopped it.
FREEZE_RULE = "freeze"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A judged record, and the limits it was judged by."""

    record: TransactionRecord
    scopes: tuple[tuple[str, ScopeLimits], ...]
    held_lamports: int


class Reserver:
    """Judges intents against what is spent, and stores verdict and reservation together."""

    def __init__(
        self,
        database: Database,
        policy: Policy,
        wallet_limits: ScopeLimits,
        extra_rules: Sequence[ExtraRule] = (),
        owner: str | None = None,
    ) -> None:
        self._database = database
        self._owner = owner
        self._policy = policy
        self._wallet_limits = wallet_limits
        self._extra_rules = tuple(extra_rules)

    async def reserve(
        self, record: TransactionRecord, actor: Actor, intent: Intent, effects: TransactionEffects
    ) -> Reservation:
        """Judge a simulated transaction; returns its record as stored, pending or blocked.

        Raises:
            IdempotencyInFlight, IdempotencyMismatch: another request claimed the key first.
            TakenOver: another run of the agent's cycle took its fence.
        """
        scopes = self._scopes(record.wallet_id, actor)
        held = max_debit(intent, effects)
        async with self._database.write() as connection:
            judged = await self._judge(connection, record, actor, scopes, intent, effects)
            await self._claim(connection, actor, judged)
            allowed = judged.status is TransactionStatus.PENDING
            await store.insert_record(
                connection,
                judged,
                principal=actor.principal,
                action_key=actor.action_key,
                held_lamports=held if allowed else 0,
                owner=self._owner if allowed else None,
                trace=actor.trace,
            )
            if allowed:
                units = {spending.SOL_ASSET: counted_lamports(intent, effects)}
                units |= counted_tokens(intent, effects)
                await spending.reserve(
                    connection, record.id, [scope for scope, _ in scopes], units, judged.created_ms
                )
        return Reservation(judged, scopes, held if allowed else 0)

    async def fail(
        self,
        record: TransactionRecord,
        actor: Actor,
        intent: Intent,
        effects: TransactionEffects | None,
        error: str,
    ) -> TransactionRecord:
        """Store an intent that cannot be sent: blocked where the declaration alone breaks a rule,
        failed otherwise. Nothing is reserved."""
        scopes = self._scopes(record.wallet_id, actor)
        async with self._database.write() as connection:
            judged = await self._judge(connection, record, actor, scopes, intent, effects)
            if judged.status is TransactionStatus.PENDING:
                judged = replace(judged, status=TransactionStatus.FAILED, error=error)
            await self._claim(connection, actor, judged)
            await store.insert_record(
                connection,
                judged,
                principal=actor.principal,
                action_key=actor.action_key,
                trace=actor.trace,
            )
        return judged

    async def trial(
        self, wallet_id: str, actor: Actor, intent: Intent, effects: TransactionEffects | None
    ) -> Verdict:
        """Judge as `reserve` would at this moment, and change nothing."""
        async with self._database.read() as connection:
            frozen = await spending.freeze_reason(connection, wallet_id)
            scopes = self._scopes(wallet_id, actor)
            now = await processes.clock(connection)
            return await self._verdict(connection, frozen, scopes, intent, effects, now)

    async def release(self, record: TransactionRecord, error: str) -> TransactionRecord:
        """Give a reservation back: no bytes were ever written ahead.

        Returns:
            The record as it is then; where another process took it over, what that one made of it.
        """
        settlement = Settlement(
            record.id, TransactionStatus.FAILED, None, 0, 0, error=error, owner=self._owner
        )
        async with self._database.write() as connection:
            stored = await attempt_store.settle(connection, [settlement])
        return stored[record.id]

    def recheck(
        self, intent: Intent, effects: TransactionEffects | None, reservation: Reservation
    ) -> None:
        """Judge rebuilt bytes of an intent whose limits are reserved already.

        Raises:
            PermissionError: they do more than what was reserved, or break a rule.
        """
        limits = [(scope, ScopeLimits(), ScopeUsage()) for scope, _ in reservation.scopes]
        verdict = judge(intent, effects, limits, self._policy, self._extra_rules)
        if effects is None or not verdict.allowed:
            raise PermissionError(verdict.reason or "the rebuilt transaction would fail")
        if max_debit(intent, effects) > reservation.held_lamports:
            # A memo costs no lamports, so more debit means the ledger changed its mind.
            raise PermissionError("the rebuilt transaction costs more than was reserved")

    def _scopes(self, wallet_id: str, actor: Actor) -> tuple[tuple[str, ScopeLimits], ...]:
        return ((f"wallet:{wallet_id}", self._wallet_limits), *actor.limits)

    async def _judge(
        self,
        connection: AsyncConnection,
        record: TransactionRecord,
        actor: Actor,
        scopes: tuple[tuple[str, ScopeLimits], ...],
        intent: Intent,
        effects: TransactionEffects | None,
    ) -> TransactionRecord:
        run = actor.run
        try:
            await spending.lock(
                connection,
                record.wallet_id,
                [scope for scope, _ in actor.limits if scope.startswith("key:")],
                None if run is None else (run.agent_id, run.cycle, run.fence),
            )
        except TakenOver:
            metrics.FENCED.labels("reserve").inc()
            raise
        frozen = await spending.freeze_reason(connection, record.wallet_id)
        # Read under the lock, so that records and rate windows follow the order of judgement.
        now = await processes.clock(connection)
        record = replace(record, created_ms=now)
        return _judged(
            record, await self._verdict(connection, frozen, scopes, intent, effects, now)
        )

    async def _verdict(
        self,
        connection: AsyncConnection,
        frozen: str | None,
        scopes: tuple[tuple[str, ScopeLimits], ...],
        intent: Intent,
        effects: TransactionEffects | None,
        now: int,
    ) -> Verdict:
        if frozen is not None:
            reason = "transactions are frozen" + (f": {frozen}" if frozen else "")
            return Verdict((FREEZE_RULE,), FREEZE_RULE, reason)
        assets = {mint for _, limits in scopes for mint in limits.daily_tokens}
        spent = await spending.usage(connection, [scope for scope, _ in scopes], assets, now)
        limits = [
            (scope, limit, await _usage(connection, scope, limit, spent[scope], now))
            for scope, limit in scopes
        ]
        return judge(intent, effects, limits, self._policy, self._extra_rules)

    async def _claim(
        self, connection: AsyncConnection, actor: Actor, record: TransactionRecord
    ) -> None:
        key = actor.idempotency
        if key is None:
            return
        await idempotency.claim(
            connection, key.scope, key.fingerprint, record.id, record.created_ms
        )


async def _usage(
    connection: AsyncConnection, scope: str, limits: ScopeLimits, spent: spending.Spent, now: int
) -> ScopeUsage:
    most = limits.max_tx_per_minute
    full = most is not None and spent.tx_last_minute >= most
    return ScopeUsage(
        spent.tx_last_minute,
        spent.units_last_day.get(spending.SOL_ASSET, 0),
        spent.units_last_day,
        await spending.next_tx_ms(connection, scope, most, now) if full and most else None,
    )


def _judged(record: TransactionRecord, verdict: Verdict) -> TransactionRecord:
    status = TransactionStatus.PENDING if verdict.allowed else TransactionStatus.BLOCKED
    return replace(record, status=status, guardrails_applied=verdict.applied, error=verdict.reason)
