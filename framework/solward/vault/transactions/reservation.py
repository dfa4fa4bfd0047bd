"""Judge and reserve in one database transaction; release what was never signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.clock import DAY_MS
from solward.errors import TakenOver
from solward.guardrail import Intent, TransactionEffects
from solward.record import TransactionRecord, TransactionStatus
from solward.telemetry import metrics
from solward.vault.guardrails import (
    PluginGuardrail,
    Policy,
    ScopeLimits,
    ScopeUsage,
    Verdict,
    counted_costs,
    counted_lamports,
    counted_tokens,
    judge,
    max_debit,
)
from solward.vault.store import alerts, idempotency, pockets, spending
from solward.vault.store import attempts as attempt_store
from solward.vault.store import transactions as store
from solward.vault.store.attempts import Settlement
from solward.vault.store.database import Database
from solward.vault.store.pockets import PocketRow, PocketState
from solward.vault.store.window_clock import MOST_BEHIND_MS, Moment
from solward.vault.transactions.plugin_rules import PluginRules
from solward.vault.transactions.request import Actor, PocketTaken, PocketUse

# In a record's `guardrailsApplied` where the freeze switch refused it.
FREEZE_RULE = "freeze"
# Likewise where windows are so far behind that nothing may be counted in them.
CLOCK_RULE = "clock"
# Rules of rolling windows.
_WINDOWED = ("rate_limit", "daily_limit", "spending_limit_check")


@dataclass(frozen=True, slots=True)
class Reservation:
    """A judged record, the limits it was judged by, and what it reserves: the debit, and the units
    of each asset that count in each scope."""

    record: TransactionRecord
    scopes: tuple[tuple[str, ScopeLimits], ...]
    held_lamports: int
    units: Mapping[str, int] = field(default_factory=dict)


async def _with_pocket(
    connection: AsyncConnection, record: TransactionRecord, use: PocketUse
) -> TransactionRecord:
    """Store the pocket with the reservation; under the wallet's lock, so that both checks hold."""
    pocket = use.pocket
    if use.program is not None and use.position is not None:
        known = await pockets.at_position(connection, pocket.wallet_id, use.program, use.position)
        if known is not None:
            return await _with_known(connection, record, use, known)
    if await pockets.is_used(connection, pocket.wallet_id, pocket.counter):
        raise PocketTaken
    mint = use.output_mint
    if mint and await pockets.purchase_in_flight(connection, pocket.wallet_id, mint):
        error = f"Another swap into {mint} has not ended yet; nothing was sent"
        return replace(record, status=TransactionStatus.FAILED, error=error)
    row = pockets.PocketRow(
        wallet_id=pocket.wallet_id,
        counter=pocket.counter,
        address=pocket.address,
        transaction_id=record.id,
        program=use.program,
        position=use.position,
        mints=use.mints,
        output_mint=mint,
        state=PocketState.FUNDING if use.leaves else PocketState.SINGLE,
        created_ms=record.created_ms,
    )
    await pockets.add(connection, row)
    return record


async def _with_known(
    connection: AsyncConnection, record: TransactionRecord, use: PocketUse, known: PocketRow
) -> TransactionRecord:
    """Use the pocket of a position again: one transaction at a time."""
    if known.address != use.pocket.address:
        raise PocketTaken
    last = None
    if known.transaction_id is not None:
        last = await store.get(connection, known.transaction_id)
    if last is not None and last.status is TransactionStatus.PENDING:
        error = f"The pocket of position {use.position} is in use; nothing was sent"
        return replace(record, status=TransactionStatus.FAILED, error=error)
    await pockets.use_again(connection, known, record.id, use.mints)
    return record


class Reserver:
    """Judges intents against usage, and stores verdict and reservation together."""

    def __init__(
        self,
        database: Database,
        policy: Policy,
        wallet_limits: ScopeLimits,
        plugin_guardrails: Sequence[PluginGuardrail] = (),
        owner: str | None = None,
    ) -> None:
        self._database = database
        self._owner = owner
        self._policy = policy
        self._wallet_limits = wallet_limits
        self._plugin_rules = PluginRules(plugin_guardrails)
        # scope -> when its costs were last near the ceiling; in memory, because a repeated alert
        # after a restart is better than a query of the audit log under the reservation's locks.
        self._alerted_ms: dict[str, int] = {}

    async def reserve(
        self,
        record: TransactionRecord,
        actor: Actor,
        intent: Intent,
        effects: TransactionEffects,
        pocket: PocketUse | None = None,
    ) -> Reservation:
        """Judge a simulated transaction; returns its record as stored: pending, blocked, or failed
        where another purchase of its pocket's mint is in flight.

        Raises:
            IdempotencyInFlight, IdempotencyMismatch: another request claimed the key first.
            TakenOver, KeyRevoked, SkillError: what requests it has ended: another run of the
                agent's cycle has the fencing token, the agent was stopped, the API key was
                revoked, the skill's call is over.
            PocketTaken: another process used the pocket first.
        """
        scopes = self._scopes(record.wallet_id, actor)
        before = None
        if self._plugin_rules.names:
            # Before the write transaction: a plugin must hold no lock of the database.
            before = await self.trial(record.wallet_id, actor, intent, effects)
        async with self._database.write() as connection:
            judged, now, usages = await self._judge(
                connection, record, actor, scopes, intent, effects, before
            )
            if judged.status is TransactionStatus.PENDING and pocket is not None:
                judged = await _with_pocket(connection, judged, pocket)
            allowed = judged.status is TransactionStatus.PENDING
            debit = max_debit(intent, effects) if allowed else 0
            await self._insert(connection, judged, actor, debit)
            units: dict[str, int] = {}
            near: tuple[str, ...] = ()
            if allowed:
                units = {spending.SOL_ASSET: counted_lamports(intent, effects)}
                units |= counted_tokens(intent, effects)
                costs = counted_costs(effects)
                if costs:
                    units[spending.COSTS_ASSET] = costs
                await spending.reserve(
                    connection, record.id, [scope for scope, _ in scopes], units, now.reserved_ms
                )
                near = self._near_ceiling(costs, scopes, usages, now.database_ms)
                for scope in near:
                    alerts.costs_near_ceiling(connection, judged, scope, actor.trace)
                await self._database.keep_ledger_time(connection)
        self._alerted_ms |= dict.fromkeys(near, now.database_ms)
        return Reservation(judged, scopes, debit, units)

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
            judged, _now, _usages = await self._judge(
                connection, record, actor, scopes, intent, effects
            )
            if judged.status is TransactionStatus.PENDING:
                judged = replace(judged, status=TransactionStatus.FAILED, error=error)
            await self._insert(connection, judged, actor)
        return judged

    async def trial(
        self, wallet_id: str, actor: Actor, intent: Intent, effects: TransactionEffects | None
    ) -> Verdict:
        """Judge as `reserve` would now, and change nothing."""
        async with self._database.read() as connection:
            frozen = await spending.freeze_reason(connection, wallet_id)
            scopes = self._scopes(wallet_id, actor)
            now = await self._database.moment(connection)
            verdict, _ = await self._verdict(connection, frozen, scopes, intent, effects, now)
        return await self._plugin_rules.judge(verdict, intent, effects)

    async def release(self, record: TransactionRecord, error: str) -> TransactionRecord:
        """Release a reservation without signed bytes.

        Returns:
            The record as stored then; another process that took it over may have ended it.
        """
        settlement = Settlement(
            record.id, TransactionStatus.FAILED, None, 0, 0, error=error, owner=self._owner
        )
        async with self._database.write() as connection:
            stored = await attempt_store.settle(connection, [settlement])
        return stored[record.id]

    async def recheck(
        self, intent: Intent, effects: TransactionEffects | None, reservation: Reservation
    ) -> None:
        """Judge rebuilt bytes of an intent whose limits are reserved already.

        Raises:
            PermissionError: they cost more than was reserved, or break a rule.
        """
        limits = [(scope, ScopeLimits(), ScopeUsage()) for scope, _ in reservation.scopes]
        verdict = judge(intent, effects, limits, self._policy)
        verdict = await self._plugin_rules.judge(verdict, intent, effects)
        if effects is None or not verdict.allowed:
            raise PermissionError(verdict.reason or "the rebuilt transaction would fail")
        if max_debit(intent, effects) > reservation.held_lamports:
            # The added memo costs no lamports, so the ledger's answers changed.
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
        before: Verdict | None = None,
    ) -> tuple[TransactionRecord, Moment, Mapping[str, ScopeUsage]]:
        """The record with its verdict, under the locks of its scopes, when it was judged, and what
        each scope had used by then where the rules need it.

        Args:
            before: the verdict of a moment ago, the plugins' included. A refusal stands; where it
                allows, the built-in rules judge again, because the usage may have changed.
        """
        run = actor.run
        try:
            await spending.lock(
                connection,
                record.wallet_id,
                [scope for scope, _ in actor.limits if scope.startswith("key:")],
                None if run is None else run.fencing,
                actor.api_key,
            )
            for check in actor.checks:
                check()
        except TakenOver:
            metrics.FENCED.labels("reserve").inc()
            raise
        frozen = await spending.freeze_reason(connection, record.wallet_id)
        # Read under the lock, so that records and rate windows follow the order of judgement.
        now = await self._database.moment(connection)
        usages: Mapping[str, ScopeUsage] = {}
        if before is not None and not before.allowed:
            verdict = before
        else:
            verdict, usages = await self._verdict(connection, frozen, scopes, intent, effects, now)
            if before is not None and verdict.allowed:
                verdict = replace(verdict, applied=verdict.applied + self._plugin_rules.names)
        judged = replace(
            record,
            created_ms=now.database_ms,
            status=TransactionStatus.PENDING if verdict.allowed else TransactionStatus.BLOCKED,
            guardrails_applied=verdict.applied,
            error=verdict.reason,
        )
        return judged, now, usages

    def _near_ceiling(
        self,
        costs: int,
        scopes: tuple[tuple[str, ScopeLimits], ...],
        usages: Mapping[str, ScopeUsage],
        now_ms: int,
    ) -> tuple[str, ...]:
        """Scopes whose ceiling `costs` brings near, and that had no alert of this process in the
        window."""
        return tuple(
            scope
            for scope, limits in scopes
            if costs
            and alerts.is_near(usages[scope].costs_last_day + costs, limits.daily_costs_lamports)
            and now_ms - self._alerted_ms.get(scope, -DAY_MS) >= DAY_MS
        )

    async def _verdict(
        self,
        connection: AsyncConnection,
        frozen: str | None,
        scopes: tuple[tuple[str, ScopeLimits], ...],
        intent: Intent,
        effects: TransactionEffects | None,
        now: Moment,
    ) -> tuple[Verdict, Mapping[str, ScopeUsage]]:
        """The verdict, and what each scope has used; empty where a switch decides."""
        if frozen is not None:
            reason = "transactions are frozen" + (f": {frozen}" if frozen else "")
            return Verdict((FREEZE_RULE,), FREEZE_RULE, reason), {}
        behind = f"the ledger's time, {now.behind_ms // 1000} s behind the database's clock"
        if now.behind_ms > MOST_BEHIND_MS and effects is not None:
            reason = f"windows of limits end at {behind}; more than a day is not bridged"
            return Verdict((CLOCK_RULE,), CLOCK_RULE, reason), {}
        window_ms = now.window_ms
        assets = {mint for _, limits in scopes for mint in limits.daily_tokens}
        used = await spending.usage(connection, [scope for scope, _ in scopes], assets, window_ms)
        judged: list[tuple[str, ScopeLimits, ScopeUsage]] = []
        for scope, limits in scopes:
            spent, most, next_tx_ms = used[scope], limits.max_tx_per_minute, None
            if most and spent.tx_last_minute >= most:
                next_tx_ms = await spending.next_tx_ms(connection, scope, most, window_ms)
            lamports = spent.units_last_day.get(spending.SOL_ASSET, 0)
            costs = spent.units_last_day.get(spending.COSTS_ASSET, 0)
            usage = ScopeUsage(
                spent.tx_last_minute, lamports, spent.units_last_day, next_tx_ms, costs
            )
            judged.append((scope, limits, usage))
        verdict = judge(intent, effects, judged, self._policy)
        if now.behind_ms and verdict.rule in _WINDOWED:
            verdict = replace(verdict, reason=f"{verdict.reason}; windows end at {behind}")
        return verdict, {scope: usage for scope, _, usage in judged}

    async def _insert(
        self,
        connection: AsyncConnection,
        record: TransactionRecord,
        actor: Actor,
        held_lamports: int = 0,
    ) -> None:
        key = actor.idempotency
        if key is not None:
            await idempotency.claim(
                connection, key.scope, key.fingerprint, record.id, record.created_ms
            )
        await store.insert_record(
            connection,
            record,
            action_key=actor.action_key,
            held_lamports=held_lamports,
            owner=self._owner if record.status is TransactionStatus.PENDING else None,
            trace=actor.trace,
        )
