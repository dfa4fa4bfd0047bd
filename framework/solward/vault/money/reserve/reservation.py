"""Judge and reserve in one database transaction; release what was never signed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.window_clock import MOST_BEHIND_MS, Moment
from solward.solana.protocol import BLOCKHASH_BLOCKS, MOST_SLOT_MS
from solward.support.durations import DAY_MS, HOUR_MS
from solward.telemetry import metrics
from solward.types.errors import Held, StoreError, TakenOver
from solward.types.guardrail import (
    GRANT_SCOPE,
    Charged,
    Intent,
    Outflow,
    Request,
    TransactionEffects,
)
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.types.roles import is_key
from solward.vault.grants.dollars import AssetPrice
from solward.vault.grants.judged import ALLOWED, HELD
from solward.vault.grants.model import Charge, Why
from solward.vault.guardrails import (
    CLOCK_RULE,
    COSTS_RULE,
    FREEZE_RULE,
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
from solward.vault.guardrails.rules import RATE_LIMIT
from solward.vault.money.judge.grant_case import is_within
from solward.vault.money.judge.granting import Granted, Granting, PricesMissing, Question
from solward.vault.money.judge.plugin_rules import PluginRules, joined
from solward.vault.money.judge.price_change import price_change
from solward.vault.money.plugin_entries import remember
from solward.vault.money.request import Actor, HoldWaits, Payment, PocketUse
from solward.vault.money.reserve.hold_reservation import (
    HoldReserver,
    Judged,
    approval_of,
    claim,
    claim_record,
    hold_of,
    use_approval,
)
from solward.vault.money.reserve.pocket_reservation import owned_by_another, with_pocket
from solward.vault.refusal import RefusalNumbers
from solward.vault.store import alerts, spending
from solward.vault.store import attempts as attempt_store
from solward.vault.store import grants as grants_store
from solward.vault.store import payments as payment_store
from solward.vault.store import recipients as recipient_store
from solward.vault.store import transactions as store
from solward.vault.store.alerts import Alert
from solward.vault.store.attempts import Settlement
from solward.vault.store.holds import GRANTS_RULE, HoldRow
from solward.vault.store.payments import PaymentRow
from solward.vault.store.plugin_entries import DEFAULT_BOUNDS, StoreBounds, third_party

# In a record's `guardrailsApplied` where a payment's terms refused it.
PAYMENT_RULE = "simulated_effects"
# Judged again where grants were changed in between, and count dollars of other assets.
_PRICE_TRIES = 3
_RULE_TRIES = 3
# Rules of rolling windows.
_WINDOWED = (RATE_LIMIT, "daily_limit", "spending_limit_check")


# A blockhash that can still land is later than what landed before that, however slow slots are. Nor
# does a slot that was a lie stop purchases for longer.
_LANDED_LATELY_MS = 2 * BLOCKHASH_BLOCKS * MOST_SLOT_MS

_T = TypeVar("_T")
Prices = Mapping[str, AssetPrice]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A judged record, the limits it was judged by, and what it reserves: the debit, and the units
    of each asset that count in each scope; `outflow` is what the bytes can take, `payment` what was
    stored with it. Of a purchase `landed_slot` is the last in which the wallet's landed."""

    record: TransactionRecord
    scopes: tuple[tuple[str, ScopeLimits], ...]
    held_lamports: int
    units: Mapping[str, int] = field(default_factory=dict)
    approved: bool = False
    outflow: Outflow | None = None
    payment: PaymentRow | None = None
    trace: str | None = None
    landed_slot: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """What built-in rules and grants say, and what each scope had used."""

    verdict: Verdict
    usages: Mapping[str, ScopeUsage]
    granted: Granted | None

    def check_bid(
        self, bid: int, scopes: Sequence[tuple[str, ScopeLimits]], effects: TransactionEffects
    ) -> None:
        """Raise `BidTooHigh` where costs refuse, and a bid of so many lamports could be lowered."""
        excess = 0
        if self.verdict.rule == COSTS_RULE:
            costs = counted_costs(effects)
            excess = max(
                costs + usage.costs_last_day - limits.daily_costs_lamports
                for scope, limits in scopes
                if limits.daily_costs_lamports is not None
                and (usage := self.usages.get(scope)) is not None
            )
        elif self.verdict.rule == GRANTS_RULE and self.granted is not None:
            finding = self.granted.decision.refused
            if finding is not None and finding.why is Why.COSTS:
                used, limit = finding.used or 0, finding.limit or 0
                excess = (finding.requested or 0) + used - limit if limit else 0
        if 0 < excess <= bid:
            raise BidTooHigh(excess)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What was found before the write transaction, by plugins' rules too.

    Attributes:
        verdict: None where there are no such rules.
        plugin_hold: why they want a person to decide.
    """

    rules: PluginRules
    verdict: Verdict | None = None
    plugin_hold: str | None = None


class BidTooHigh(Exception):
    """Refused only because network fee and rent are more than is left, and nothing was stored: a
    bid that is lower by `excess_lamports` would fit."""

    def __init__(self, excess_lamports: int) -> None:
        super().__init__(excess_lamports)
        self.excess_lamports = excess_lamports


class _RulesChanged(Exception):
    """Since the trial the plugins' rules were replaced."""


def _alone(
    actor: Actor, granted: Granted | None, units: Mapping[str, int]
) -> list[tuple[str, str, int]]:
    """What counts in one scope alone: in a skill's and a plugin's, to find it again, and in
    grants. In the order in which totals are locked."""
    counted = {(via, spending.SOL_ASSET): units[spending.SOL_ASSET] for via in actor.via}
    charges = () if granted is None else granted.decision.charges
    for charge in charges:
        counted.setdefault((charge.scope, spending.SOL_ASSET), 0)
        key = charge.scope, charge.asset
        counted[key] = counted.get(key, 0) + charge.units
    return [(scope, asset, counted[scope, asset]) for scope, asset in sorted(counted)]


async def _as_payment(
    connection: AsyncConnection, judged: Judged, actor: Actor, payment: Payment
) -> Judged:
    """A payment under what holds for it alone: its sponsor is nobody of ours, and a person decides
    where the price rose."""
    if not judged.is_allowed:
        return judged
    sponsor = payment.fee_payer
    if sponsor is not None and await recipient_store.keys_of_ours(connection, [sponsor]):
        reason = f"the sponsor {sponsor} is a wallet of this service, or a pocket of one"
        return judged.blocked(reason, PAYMENT_RULE)
    if actor.is_admins:
        return judged
    risen = await price_change(connection, judged.record.wallet_id, payment)
    return replace(judged, hold=joined(judged.hold, risen))


def _is_refused_for_now(judged: Judged, actor: Actor) -> bool:
    """Whether a refusal ends by itself, within a minute or with the failure that it is for, so that
    an approval is not used up; raises `HoldWaits` where the service carries the approval out, as it
    tries again."""
    record = judged.record
    is_rate = (
        record.status is TransactionStatus.BLOCKED and record.guardrails_applied[-1] == RATE_LIMIT
    )
    passes = is_rate or judged.passing
    if passes and actor.approval is not None:
        raise HoldWaits(record.error or RATE_LIMIT)
    return passes


async def _note(connection: AsyncConnection, judged: Judged) -> None:
    """Store what was judged: of the record, or of the hold in its place."""
    if judged.granted is None:
        return
    record = judged.record
    if judged.held is not None:
        await judged.granted.note(connection, judged.held.id, record.type, HELD)
    elif record.status is TransactionStatus.PENDING:
        await judged.granted.note(connection, record.id, record.type, ALLOWED)
    elif record.status is TransactionStatus.BLOCKED:
        rule = record.guardrails_applied[-1]
        await judged.granted.note(connection, record.id, record.type, rule)


def _is_within(rebuilt: Outflow | None, judged: Outflow | None) -> bool:
    """Whether rebuilt bytes take nothing that the judged ones do not."""
    if rebuilt is None or judged is None:
        return rebuilt is judged
    return rebuilt.costs <= judged.costs and is_within(rebuilt.lines, judged.lines)


def _request(wallet_id: str, actor: Actor, granted: Granted | None) -> Request:
    charges = () if granted is None else granted.decision.charges
    kind, _, key = actor.principal.partition(":")
    via = {kind: name for kind, _, name in (each.partition(":") for each in actor.via)}
    return Request(
        wallet=wallet_id,
        agent=actor.agent_id,
        key=key if kind == "key" else None,
        skill=via.get("skill"),
        plugin=via.get("plugin"),
        charged=tuple(_charged(each) for each in charges),
    )


def _charged(charge: Charge) -> Charged:
    who, _, grant = charge.scope.removeprefix(GRANT_SCOPE).rpartition("#")
    return Charged(who, grant, charge.asset, charge.units)


class Reserver:
    """Judges intents against usage, and stores verdict and reservation together."""

    def __init__(
        self,
        database: Database,
        policy: Policy,
        wallet_limits: ScopeLimits,
        plugin_guardrails: Sequence[PluginGuardrail] = (),
        owner: str | None = None,
        hold_ms: int = HOUR_MS,
        granting: Granting | None = None,
        store_bounds: StoreBounds = DEFAULT_BOUNDS,
        held_fee_lamports: int = 0,
    ) -> None:
        """Args:
        granting: judges by grants.
        store_bounds: of what a plugin keeps for a wallet.
        hold_ms: how long a held transaction waits for a person.
        held_fee_lamports: see `HoldReserver`.
        """
        self._database = database
        self._granting = Granting() if granting is None else granting
        self._holds = HoldReserver(self._granting, hold_ms, held_fee_lamports)
        self._store_bounds = store_bounds
        self._owner = owner
        self._policy = policy
        self._wallet_limits = wallet_limits
        self.use_guardrails(plugin_guardrails)
        # scope -> when its costs were last near the ceiling; in memory, because a repeated alert
        # after a restart is better than a query of the audit log under the reservation's locks.
        self._alerted_ms: dict[str, int] = {}

    def use_guardrails(self, guardrails: Sequence[PluginGuardrail]) -> None:
        """Judge by these guardrails of plugins: each reservation from now on was judged by them."""
        self._plugin_rules = PluginRules(guardrails)

    async def reserve(
        self,
        record: TransactionRecord,
        actor: Actor,
        intent: Intent,
        effects: TransactionEffects,
        pocket: PocketUse | None = None,
        payment: tuple[Payment, PaymentRow] | None = None,
        bid_lamports: int = 0,
    ) -> Reservation:
        """Judge a simulated transaction; returns its record as stored: pending, blocked, or failed
        where another purchase of its pocket's mint is in flight.

        Args:
            payment: with what is stored of it.
            bid_lamports: by how much its network fee can be lowered.

        Raises:
            IdempotencyInFlight, IdempotencyMismatch: another request claimed the key first.
            TakenOver, KeyRevoked, SkillError: what requests it has ended: another run of the
                agent's cycle or of the schedule has the fencing token, the agent was stopped or the
                schedule paused, the API key was revoked, the skill's call is over. Or what it
                remembers does not fit.
            PocketTaken: another process used the pocket first.
            Held: a person decides; the hold is stored in place of a record.
            HoldTaken: the approval was used, or has ended.
            BidTooHigh: it fits with a lower bid; nothing was stored.
        """
        question = Question.of(record.wallet_id, actor, intent, effects, pocket, bid_lamports)
        for _ in range(_RULE_TRIES):
            trial = _Trial(self._plugin_rules)
            if trial.rules.names:
                # Before the write transaction: a plugin must hold no lock of the database.
                trial = await self._trial(question, effects)
            reserve = partial(self._reserve, record, question, effects, pocket, payment, trial)
            with contextlib.suppress(_RulesChanged):
                return await self._priced(question, reserve)
        raise StoreError("The plugins' guardrails are changed all the time; try again")

    async def _priced(self, question: Question, judge: Callable[[Prices], Awaitable[_T]]) -> _T:
        """Judge with the prices that grants count in; again where they were changed meanwhile."""
        assets: frozenset[str] = frozenset()
        for _ in range(_PRICE_TRIES):
            # Before the database transaction: a price source must hold no lock of it.
            prices = await self._granting.prices_for(question, assets)
            try:
                return await judge(prices)
            except PricesMissing as missing:
                assets |= missing.assets
        raise StoreError("The grants are changed all the time; try again")

    async def _reserve(
        self,
        record: TransactionRecord,
        question: Question,
        effects: TransactionEffects,
        pocket: PocketUse | None,
        paid: tuple[Payment, PaymentRow] | None,
        trial: _Trial,
        prices: Prices,
    ) -> Reservation:
        payment, row = (None, None) if paid is None else paid
        actor, intent = question.actor, question.intent
        scopes = self._scopes(record.wallet_id, actor, intent)
        landed_slot = 0
        async with self._alerts() as alerted, self._database.write() as connection:
            judged = await self._judge(connection, record, question, scopes, effects, prices, trial)
            if judged.is_allowed and pocket is not None and not actor.is_admins:
                refusal = await owned_by_another(connection, judged.record, pocket)
                judged = judged if refusal is None else judged.blocked(refusal)
            if payment is not None:
                judged = await _as_payment(connection, judged, actor, payment)
            judged = await self._holds.weigh(
                connection, judged, actor, intent, effects, pocket, payment
            )
            if judged.is_allowed and pocket is not None:
                stored_with = await with_pocket(connection, judged.record, pocket)
                judged = replace(judged, record=stored_with)
                if pocket.asserted is not None:
                    # No other purchase is in flight, so those that landed have their slots.
                    since_ms = judged.now.database_ms - _LANDED_LATELY_MS
                    landed_slot = await attempt_store.last_landed_slot(
                        connection, record.wallet_id, since_ms
                    )
            if judged.held is None and not _is_refused_for_now(judged, actor):
                await use_approval(connection, judged.record, judged.approval)
            stored, now = judged.record, judged.now
            debit = max_debit(intent, effects) if judged.is_allowed else 0
            if judged.held is None:
                await self._insert(
                    connection, stored, actor, debit, judged.numbers, judged.approval
                )
                if row is not None and judged.is_allowed:
                    row = replace(row, created_ms=stored.created_ms)
                    await payment_store.add(connection, row, actor.principal)
                if judged.is_allowed:
                    await remember(connection, stored, actor, self._store_bounds)
            else:
                await claim(connection, actor, judged.held, now)
            units: dict[str, int] = {}
            if judged.is_allowed:
                units = {spending.SOL_ASSET: counted_lamports(intent, effects)}
                units |= counted_tokens(intent, effects)
                costs = counted_costs(effects)
                if costs:
                    units[spending.COSTS_ASSET] = costs
                await spending.reserve(
                    connection,
                    record.id,
                    [scope for scope, _ in scopes],
                    units,
                    now.reserved_ms,
                    _alone(actor, judged.granted, units),
                )
                for scope in self._near_ceiling(costs, scopes, judged.usages, now.database_ms):
                    self._mark_alerted(alerted, scope, now.database_ms)
                    alerts.raise_alert(
                        connection, Alert.COSTS_NEAR_CEILING, stored, actor.trace, scope=scope
                    )
                lamports = units[spending.SOL_ASSET]
                for scope in self._near_limit(lamports, scopes, judged.usages, now.database_ms):
                    self._mark_alerted(alerted, f"sol:{scope}", now.database_ms)
                    alerts.raise_alert(
                        connection, Alert.DAILY_LIMIT_NEAR, stored, actor.trace, scope=scope
                    )
                for each in self._granting.near_ends(judged.granted):
                    if self._is_unalerted(each.key, now.database_ms):
                        self._mark_alerted(alerted, each.key, now.database_ms)
                        alerts.raise_alert(
                            connection,
                            Alert.GRANT_NEAR_END,
                            stored,
                            actor.trace,
                            detail=each.detail,
                        )
            if judged.is_allowed or judged.held is not None:
                await self._database.keep_ledger_time(connection)
            await _note(connection, judged)
        if judged.held is not None:
            raise Held(judged.held)
        approved = judged.approval is not None
        return Reservation(
            stored, scopes, debit, units, approved, effects.outflow, row, actor.trace, landed_slot
        )

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
        scopes = self._scopes(record.wallet_id, actor, intent)
        question = Question.of(record.wallet_id, actor, intent, None, None)
        async with self._database.write() as connection:
            judged = await self._judge(connection, record, question, scopes, effects, {})
            stored = judged.record
            _is_refused_for_now(judged, actor)
            if stored.status is TransactionStatus.PENDING:
                stored = replace(stored, status=TransactionStatus.FAILED, error=error)
            if actor.approval is not None:
                approval = await approval_of(connection, actor.approval, judged.now)
                await use_approval(connection, stored, approval)
            await self._insert(connection, stored, actor, numbers=judged.numbers)
        return stored

    async def trial(
        self,
        wallet_id: str,
        actor: Actor,
        intent: Intent,
        effects: TransactionEffects | None,
        pocket: PocketUse | None = None,
        payment: Payment | None = None,
        bid_lamports: int = 0,
    ) -> Verdict:
        """Judge as `reserve` would now, and change nothing; raises `BidTooHigh` likewise."""
        question = Question.of(wallet_id, actor, intent, effects, pocket, bid_lamports)
        found = await self._trial(question, effects)
        verdict = found.verdict
        assert verdict is not None
        if payment is not None and verdict.allowed and not actor.is_admins:
            async with self._database.read() as connection:
                risen = await price_change(connection, wallet_id, payment)
            verdict = replace(verdict, hold=joined(verdict.hold, risen))
        return verdict

    async def _trial(self, question: Question, effects: TransactionEffects | None) -> _Trial:
        """The verdict by the rules of now."""
        rules, wallet_id = self._plugin_rules, question.wallet_id
        actor, intent = question.actor, question.intent
        scopes = self._scopes(wallet_id, actor, intent)

        async def judge(prices: Prices) -> _Found:
            async with self._database.read() as connection:
                switches = await spending.switches_and_version(connection, wallet_id)
                now = await self._database.moment(connection)
                return await self._verdict(
                    connection, question, switches, scopes, effects, now, prices
                )

        found = await self._priced(question, judge)
        verdict = found.verdict
        if effects is not None:
            effects = replace(effects, request=_request(wallet_id, actor, found.granted))
        judged = await rules.judge(replace(verdict, hold=None), intent, effects)
        plugin_hold = None if actor.is_admins else judged.hold
        judged = replace(judged, hold=joined(verdict.hold, plugin_hold))
        return _Trial(rules, judged, plugin_hold)

    async def release(
        self,
        record: TransactionRecord,
        error: str,
        *,
        key_failure: str | None = None,
        trace: str | None = None,
    ) -> TransactionRecord:
        """Release a reservation without signed bytes.

        Args:
            key_failure: why the wallet's key could not be opened, where that is the reason.

        Returns:
            The record as stored then; another process that took it over may have ended it.
        """
        settlement = Settlement(
            record.id, TransactionStatus.FAILED, None, 0, 0, error=error, owner=self._owner
        )
        async with self._database.write() as connection:
            stored = await attempt_store.settle(connection, [settlement])
            if key_failure is not None:
                alerts.raise_alert(
                    connection, Alert.KEY_NOT_OPENED, stored[record.id], trace, error=key_failure
                )
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
        if verdict.hold is not None and not reservation.approved:
            raise PermissionError(verdict.hold)
        if not _is_within(effects.outflow, reservation.outflow):
            raise PermissionError("the rebuilt transaction takes more than was judged")
        if max_debit(intent, effects) > reservation.held_lamports:
            # The added memo costs no lamports, so the ledger's answers changed.
            raise PermissionError("the rebuilt transaction costs more than was reserved")

    def _scopes(
        self, wallet_id: str, actor: Actor, intent: Intent
    ) -> tuple[tuple[str, ScopeLimits], ...]:
        if intent.type == TransactionType.AIRDROP:
            # The faucet pays, and whoever may ask it must not use up the wallet's own turns.
            most = self._wallet_limits.max_tx_per_minute
            own = f"faucet:{wallet_id}", ScopeLimits(max_tx_per_minute=most)
        else:
            own = f"wallet:{wallet_id}", self._wallet_limits
        return own, *actor.limits

    async def _judge(
        self,
        connection: AsyncConnection,
        record: TransactionRecord,
        question: Question,
        scopes: tuple[tuple[str, ScopeLimits], ...],
        effects: TransactionEffects | None,
        prices: Prices,
        trial: _Trial | None = None,
    ) -> Judged:
        """The record with its verdict, under the locks of its scopes.

        Args:
            trial: what was found a moment ago, by plugins too. A refusal stands; where it allows,
                the built-in rules judge again, because the usage may have changed.

        Raises:
            PricesMissing: ask for them, and judge again.
            _RulesChanged: ask the plugins' rules again, which are others now.
        """
        if trial is not None and trial.rules is not self._plugin_rules:
            raise _RulesChanged
        before = None if trial is None else trial.verdict
        actor, run = question.actor, question.actor.run
        try:
            await spending.lock(
                connection,
                record.wallet_id,
                await self._shared_scopes(connection, actor),
                None if run is None else run.fencing,
                actor.api_key,
                actor.agent_id if actor.approval is not None else None,
                None if actor.schedule is None else actor.schedule.fencing,
            )
            for check in actor.checks:
                check()
        except TakenOver:
            metrics.FENCED.labels("reserve").inc()
            raise
        switches = await spending.switches_and_version(connection, record.wallet_id)
        # Read under the lock, so that records and rate windows follow the order of judgement.
        now = await self._database.moment(connection)
        if before is not None and not before.allowed:
            found = await self._refused(connection, question, before, switches[1], now, prices)
        else:
            found = await self._verdict(
                connection, question, switches, scopes, effects, now, prices
            )
        verdict = found.verdict
        if trial is not None and verdict.allowed:
            verdict = replace(
                verdict,
                applied=verdict.applied + trial.rules.names,
                hold=joined(verdict.hold, trial.plugin_hold),
            )
        judged = replace(
            record,
            created_ms=now.database_ms,
            status=TransactionStatus.PENDING if verdict.allowed else TransactionStatus.BLOCKED,
            guardrails_applied=verdict.applied,
            error=verdict.reason,
            retry_after_s=verdict.retry_after_s,
            cause=verdict.cause,
        )
        hold = verdict.hold if verdict.allowed else None
        return Judged(
            judged,
            hold,
            now,
            found.usages,
            found.granted,
            numbers=verdict.numbers,
            passing=verdict.passing,
        )

    async def _shared_scopes(self, connection: AsyncConnection, actor: Actor) -> list[str]:
        """What has windows over several wallets: the key, and a skill or plugin under grants."""
        scopes = [scope for scope, _ in actor.limits if is_key(scope)]
        if actor.via and self._database.shared:
            # Nobody changes grants from here on.
            await spending.lock_service(connection)
            version = await grants_store.version(connection)
            scopes += await self._granting.sets.of(connection, version, actor.via)
        return scopes

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
            and self._is_unalerted(scope, now_ms)
        )

    def _near_limit(
        self,
        lamports: int,
        scopes: tuple[tuple[str, ScopeLimits], ...],
        usages: Mapping[str, ScopeUsage],
        now_ms: int,
    ) -> tuple[str, ...]:
        """As `_near_ceiling`, of the SOL that scopes may spend in a day."""
        return tuple(
            scope
            for scope, limits in scopes
            if lamports
            and alerts.is_near(usages[scope].lamports_last_day + lamports, limits.daily_lamports)
            and self._is_unalerted(f"sol:{scope}", now_ms)
        )

    @contextlib.asynccontextmanager
    async def _alerts(self) -> AsyncIterator[list[str]]:
        """Alerts marked in the block are unmarked where the block fails: none was raised then.

        Reservations that share a commit know of each other's alerts before it.
        """
        alerted: list[str] = []
        try:
            yield alerted
        except BaseException:
            for key in alerted:
                self._alerted_ms.pop(key, None)
            raise

    def _mark_alerted(self, alerted: list[str], key: str, now_ms: int) -> None:
        alerted.append(key)
        recent = {each: at for each, at in self._alerted_ms.items() if now_ms - at < DAY_MS}
        self._alerted_ms = recent | {key: now_ms}

    def _is_unalerted(self, key: str, now_ms: int) -> bool:
        """Whether this process raised no such alert in the last day."""
        return now_ms - self._alerted_ms.get(key, -DAY_MS) >= DAY_MS

    async def _verdict(
        self,
        connection: AsyncConnection,
        question: Question,
        switches: tuple[str | None, int],
        scopes: tuple[tuple[str, ScopeLimits], ...],
        effects: TransactionEffects | None,
        now: Moment,
        prices: Prices,
    ) -> _Found:
        """What the built-in rules and then the grants say.

        Args:
            switches: why it is frozen, None where it is not, and the version of the grants.

        Raises:
            BidTooHigh: a lower bid would fit.
        """
        frozen, version = switches
        verdict, usages = await self._built_in(
            connection, frozen, scopes, question.intent, effects, now
        )
        if not verdict.allowed:
            found = await self._refused(connection, question, verdict, version, now, prices)
            found = replace(found, usages=usages)
        else:
            granted = await self._granting.judge(connection, question, version, now, prices)
            if granted is not None:
                verdict = granted.applied_to(verdict)
            found = _Found(verdict, usages, granted)
        if effects is not None:
            found.check_bid(question.bid_lamports, scopes, effects)
        return found

    async def _refused(
        self,
        connection: AsyncConnection,
        question: Question,
        verdict: Verdict,
        version: int,
        now: Moment,
        prices: Prices,
    ) -> _Found:
        """A refusal that stands; what was judged is noted with what grants refused it by."""
        granted = await self._granting.judge(
            connection, question, version, now, prices, is_refused=verdict.rule != GRANTS_RULE
        )
        return _Found(verdict, {}, granted)

    async def _built_in(
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
        numbers: RefusalNumbers | None = None,
        approval: HoldRow | None = None,
    ) -> None:
        if actor.idempotency is not None:
            await claim_record(connection, actor.idempotency, record, approval)
        action_key = actor.action_key
        failed = record.status is not TransactionStatus.PENDING and actor.approval is None
        if action_key is not None and failed and approval is None:
            waiting = await hold_of(connection, actor)
            if waiting is not None and waiting.hold.state.is_open:
                # The hold's end is the action's: a try that came to nothing meanwhile is not.
                action_key = None
        await store.insert_record(
            connection,
            record,
            action_key=action_key,
            held_lamports=held_lamports,
            owner=self._owner if record.status is TransactionStatus.PENDING else None,
            trace=actor.trace,
            plugin=third_party(actor.via),
            refusal_numbers=None if numbers is None else numbers.to_json(),
        )
