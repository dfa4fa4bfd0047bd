"""Judges and reserves in one database transaction; releases reservations never signed for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit import alerts
from solward.audit.alerts import Alert
from solward.database.database import Database
from solward.database.plugin_entries import DEFAULT_BOUNDS, StoreBounds, third_party
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
from solward.types.money import amount_text
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.types.roles import is_key
from solward.vault.grants.dollars import AssetPrice
from solward.vault.grants.judged import ALLOWED, HELD
from solward.vault.grants.model import Reason
from solward.vault.guardrails.rules import (
    CLOCK_RULE,
    COSTS_RULE,
    FREEZE_RULE,
    RATE_LIMIT,
    PluginGuardrail,
    Policy,
    ScopeLimits,
    ScopeUsage,
    Usages,
    Verdict,
    counted_costs,
    counted_lamports,
    counted_tokens,
    judge,
    max_debit,
)
from solward.vault.money.judge.grant_case import is_within
from solward.vault.money.judge.granting import (
    GrantJudge,
    GrantRuling,
    PricesMissing,
    Question,
    find_grants_near_end,
)
from solward.vault.money.judge.plugin_rules import PluginRules, join_reasons
from solward.vault.money.plugin_entries import write_entries
from solward.vault.money.request import Actor, HoldWaits, PocketTaken, PocketUse
from solward.vault.money.reserve.hold_reservation import (
    HoldReserver,
    Judgement,
    approval_of,
    claim_key,
    claim_record,
    hold_of,
    use_approval,
)
from solward.vault.store import attempts as attempt_store
from solward.vault.store import grants as grants_store
from solward.vault.store import payments as payment_store
from solward.vault.store import pockets, spending
from solward.vault.store import recipients as recipient_store
from solward.vault.store import transactions as store
from solward.vault.store.attempts import Settlement
from solward.vault.store.holds import GRANTS_RULE
from solward.vault.store.payments import PaymentRow
from solward.vault.store.pockets import PocketRow, PocketState
from solward.vault.store.spending import Binding

# The rule that a record's `guardrailsApplied` names if a payment's terms refused it.
PAYMENT_RULE = "simulated_effects"
# Costs and exchange rates change a seller's price by less than this. A larger jump is a mistake, or
# an attack on an agent that pays any price.
MAX_RISE_PERCENT: Final = 20
# How often a request is judged again if changed grants need other prices, or rules changed.
_PRICE_TRIES = 3
_RULE_TRIES = 3
# The rules that use rolling windows.
_WINDOWED = (RATE_LIMIT, "daily_limit", "spending_limit_check")


# A blockhash that is older than this cannot land any more, however slow slots are. A lying node's
# false slot blocks purchases no longer than this.
_LANDED_LATELY_MS = 2 * BLOCKHASH_BLOCKS * MOST_SLOT_MS

_T = TypeVar("_T")
Prices = Mapping[str, AssetPrice]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A judged record, with the scopes in which it counts and the reserved amounts.

    Attributes:
        held_lamports: the reserved debit.
        units: asset -> the units that count in each scope.
        outflow: the maximum that the bytes can take.
        landed_slot: for a purchase, the last slot in which a transaction of the wallet landed.
    """

    record: TransactionRecord
    scopes: tuple[str, ...]
    held_lamports: int
    units: Mapping[str, int] = field(default_factory=dict)
    approved: bool = False
    outflow: Outflow | None = None
    payment: PaymentRow | None = None
    trace: str | None = None
    landed_slot: int = 0


@dataclass(frozen=True, slots=True)
class _PluginAnswer:
    """The answer of the plugins' rules, computed before the write transaction.

    Attributes:
        verdict: by built-in rules, grants and plugins' rules; None if there are no plugins' rules.
        hold: why plugins' rules want a person to decide.
    """

    rules: PluginRules
    verdict: Verdict | None = None
    hold: str | None = None


class BidTooHigh(Exception):
    """Raised if only costs exceed a limit; a fee bid lower by `excess_lamports` would fit."""

    def __init__(self, excess_lamports: int) -> None:
        super().__init__(excess_lamports)
        self.excess_lamports = excess_lamports


class _RulesChanged(Exception):
    """Raised if the plugins' rules were replaced after their answer."""


def _single_scope_units(
    actor: Actor, granted: GrantRuling | None, units: Mapping[str, int]
) -> list[tuple[str, str, int]]:
    """Return the units that count only for a grant, skill or plugin, in the order of the locks."""
    counted = {(via, spending.SOL_ASSET): units[spending.SOL_ASSET] for via in actor.via}
    charges = () if granted is None else granted.decision.charges
    for charge in charges:
        counted.setdefault((charge.scope, spending.SOL_ASSET), 0)
        key = charge.scope, charge.asset
        counted[key] = counted.get(key, 0) + charge.units
    return [(scope, asset, counted[scope, asset]) for scope, asset in sorted(counted)]


async def _apply_payment_rules(
    connection: AsyncConnection, judged: Judgement, question: Question
) -> Judgement:
    """Apply the rules for payments: the sponsor must not be a wallet or pocket of this service, and
    a person decides if the price rose."""
    payment = question.payment
    if payment is None or not judged.is_allowed:
        return judged
    sponsor = payment.fee_payer
    if sponsor is not None and await recipient_store.own_addresses(connection, [sponsor]):
        reason = f"the sponsor {sponsor} is a wallet of this service, or a pocket of one"
        return judged.with_refusal(reason, PAYMENT_RULE)
    hold = join_reasons(judged.verdict.hold, await _price_change(connection, question))
    return replace(judged, verdict=replace(judged.verdict, hold=hold))


async def _price_change(connection: AsyncConnection, question: Question) -> str | None:
    """Return why a person is asked about a payment's price; None if the price has not risen.

    A price has risen if it is more than `MAX_RISE_PERCENT` above the wallet's last payment to the
    same URL in the same asset, landed or not. The operator is not asked.
    """
    payment = question.payment
    if payment is None or question.actor.is_admins:
        return None
    last = await payment_store.last_paid(connection, question.wallet_id, payment.url, payment.asset)
    if last is None or payment.units * 100 <= last * (100 + MAX_RISE_PERCENT):
        return None
    now, before = (amount_text(units, payment.decimals) for units in (payment.units, last))
    return (
        f"the price of {payment.url} is {now} now, more than {MAX_RISE_PERCENT}% above the"
        f" {before} paid last in {payment.asset}"
    )


def _is_refused_for_now(judged: Judgement, actor: Actor) -> bool:
    """Return whether a refusal is temporary, so that it does not use up an approval. Raise
    `HoldWaits` if the service carries out an approval, because the service tries again."""
    verdict = judged.verdict
    passes = verdict.passing or verdict.rule == RATE_LIMIT
    if passes and actor.approval is not None:
        raise HoldWaits(verdict.reason or RATE_LIMIT)
    return passes


def _check_bid(judged: Judgement, question: Question) -> None:
    """Raise `BidTooHigh` if only the costs exceed a limit, and would not with a lower bid."""
    excess, rule, granted = 0, judged.verdict.rule, judged.granted
    if rule == COSTS_RULE and question.effects is not None:
        costs = counted_costs(question.effects)
        excess = max(
            costs + usage.costs_last_day - limits.daily_costs_lamports
            for _, limits, usage in judged.usages
            if limits.daily_costs_lamports is not None
        )
    elif rule == GRANTS_RULE and granted is not None:
        finding = granted.decision.refused
        if finding is not None and finding.why is Reason.COSTS:
            used, limit = finding.used or 0, finding.limit or 0
            excess = (finding.requested or 0) + used - limit if limit else 0
    if 0 < excess <= question.bid_lamports:
        raise BidTooHigh(excess)


async def _use_pocket(
    connection: AsyncConnection, record: TransactionRecord, use: PocketUse
) -> str | None:
    """Store the pocket with the reservation, or return why it cannot be used now. The wallet's lock
    makes the checks final. Only one transaction at a time uses a position's pocket."""
    pocket = use.pocket
    error = _reason_to_wait(use, await pockets.read_in_use(connection, pocket.wallet_id))
    if error:
        return error
    known = await _position_pocket(connection, use)
    if known is not None:
        if known.address != pocket.address:
            raise PocketTaken
        last = None
        if known.transaction_id is not None:
            last = await store.get(connection, known.transaction_id)
        if last is not None and last.status is TransactionStatus.PENDING:
            return f"The pocket of position {use.position} is in use; nothing was sent"
        await pockets.mark_used_again(connection, known, record.id, use.mints)
        return None
    if await pockets.is_used(connection, pocket.wallet_id, pocket.counter):
        raise PocketTaken
    row = PocketRow(
        wallet_id=pocket.wallet_id,
        counter=pocket.counter,
        address=pocket.address,
        transaction_id=record.id,
        program=use.program,
        position=use.position,
        mints=use.mints,
        output_mint=use.output_mint,
        state=PocketState.FUNDING if use.leaves else PocketState.SINGLE,
        created_ms=record.created_ms,
        opened_by=record.principal,
    )
    await pockets.add(connection, row)
    return None


def _reason_to_wait(use: PocketUse, now: pockets.PocketsInUse) -> str:
    """Return why the pocket cannot be used now; empty if it can.

    A swap in one transaction asserts a sum on the wallet's own account. Tokens that another pocket
    returns to the account before the swap lands would count for that sum, and a market could then
    take all that the swap pays.
    """
    if use.output_mint in now.bought:
        return f"Another swap into {use.output_mint} has not ended yet; nothing was sent"
    if use.asserted is not None and now.brings_home:
        return "A pocket's return to the wallet is open and would count for this swap;" + _LATER
    if use.leaves and now.asserts:
        return "A swap of the wallet has not ended, and this return would count for it;" + _LATER
    return ""


_LATER = " nothing was sent, ask again once that transaction has ended"


async def _ownership_refusal(
    connection: AsyncConnection, record: TransactionRecord, use: PocketUse
) -> str | None:
    """Return why the requester may not use a position; None if it may. A call risks the position's
    whole contents, so only the operator and the principal that opened it may use it."""
    known = await _position_pocket(connection, use)
    if known is None or known.opened_by == record.principal:
        return None
    return (
        f"position {use.position} is {known.opened_by or 'the operator'}'s; only its owner and the"
        " operator may use it"
    )


async def _position_pocket(connection: AsyncConnection, use: PocketUse) -> PocketRow | None:
    """Return the pocket of a position if it was used before; None for any other pocket."""
    if use.program is None or use.position is None:
        return None
    return await pockets.by_position(connection, use.pocket.wallet_id, use.program, use.position)


def _is_within(rebuilt: Outflow | None, judged: Outflow | None) -> bool:
    """Return whether rebuilt bytes take no more than the judged bytes."""
    if rebuilt is None or judged is None:
        return rebuilt is judged
    return rebuilt.costs <= judged.costs and is_within(rebuilt.lines, judged.lines)


def _rule_request(question: Question, granted: GrantRuling | None) -> Request:
    actor = question.actor
    charged = []
    for charge in () if granted is None else granted.decision.charges:
        who, _, grant = charge.scope.removeprefix(GRANT_SCOPE).rpartition("#")
        charged.append(Charged(who, grant, charge.asset, charge.units))
    kind, _, key = actor.principal.partition(":")
    via = {kind: name for kind, _, name in (each.partition(":") for each in actor.via)}
    return Request(
        wallet=question.wallet_id,
        agent=actor.agent_id,
        key=key if kind == "key" else None,
        skill=via.get("skill"),
        plugin=via.get("plugin"),
        charged=tuple(charged),
    )


class Reserver:
    """Judges intents by limits and usage, and stores verdict and reservation together."""

    def __init__(
        self,
        database: Database,
        policy: Policy,
        wallet_limits: ScopeLimits,
        plugin_guardrails: Sequence[PluginGuardrail] = (),
        owner: str | None = None,
        hold_ms: int = HOUR_MS,
        granting: GrantJudge | None = None,
        store_bounds: StoreBounds = DEFAULT_BOUNDS,
        held_fee_lamports: int = 0,
    ) -> None:
        """Create a reserver; `held_fee_lamports` is `max_fee_lamports` of `HoldReserver`."""
        self._database = database
        self._granting = GrantJudge() if granting is None else granting
        self._holds = HoldReserver(self._granting, hold_ms, held_fee_lamports)
        self._store_bounds = store_bounds
        self._owner = owner
        self._policy = policy
        self._wallet_limits = wallet_limits
        self.use_guardrails(plugin_guardrails)
        # Key of an alert -> when it was raised. In memory, because a repeated alert after a restart
        # costs less than a query of the audit log under the reservation's locks.
        self._alerted_ms: dict[str, int] = {}

    def use_guardrails(self, guardrails: Sequence[PluginGuardrail]) -> None:
        """Replace the plugins' guardrails, for reservations in progress too."""
        self._plugin_rules = PluginRules(guardrails)

    async def reserve(
        self, record: TransactionRecord, question: Question, row: PaymentRow | None = None
    ) -> Reservation:
        """Judge a simulated transaction and store its record: pending, blocked, or failed if its
        pocket cannot be used now, such as while another purchase of the mint is in flight.

        Args:
            row: the payment to store.

        Raises:
            IdempotencyInFlight, IdempotencyMismatch: another request claimed the key first.
            TakenOver, KeyRevoked, SkillError: the requester has ended: another run has the agent's
                or schedule's fencing token, the agent was stopped, the schedule was paused, the API
                key was revoked, or the skill's call is over. Or the skill's entries do not fit.
            PocketTaken: another process used the pocket first.
            Held: a person decides; the hold is stored in place of a record.
            HoldTaken: the approval was used, or has ended.
            BidTooHigh: the transaction would fit with a lower fee bid; nothing was stored.
        """
        for _ in range(_RULE_TRIES):
            answer = _PluginAnswer(self._plugin_rules)
            if answer.rules.names:
                # Plugins run before the write transaction, so that they never hold its locks.
                answer = await self._ask_plugins(question)
            reserve = partial(self._reserve, record, question, row, answer)
            with contextlib.suppress(_RulesChanged):
                return await self._use_prices(question, reserve)
        raise StoreError("The plugins' guardrails changed during each try; try again")

    async def _use_prices(self, question: Question, judge: Callable[[Prices], Awaitable[_T]]) -> _T:
        """Judge with the prices that grants need, and again if changed grants need other prices."""
        assets: frozenset[str] = frozenset()
        for _ in range(_PRICE_TRIES):
            # Prices are read before the database transaction, so that sources never hold its locks.
            prices = await self._granting.prices_for(question, assets)
            try:
                return await judge(prices)
            except PricesMissing as missing:
                assets |= missing.assets
        raise StoreError("The grants changed during each try; try again")

    async def _reserve(
        self,
        record: TransactionRecord,
        question: Question,
        row: PaymentRow | None,
        answer: _PluginAnswer,
        prices: Prices,
    ) -> Reservation:
        actor, intent, pocket = question.actor, question.intent, question.pocket
        effects = question.effects
        assert effects is not None
        landed_slot = 0
        async with self._mark_alerts() as is_first, self._database.write() as connection:
            if answer.rules is not self._plugin_rules:
                raise _RulesChanged
            await self._lock(connection, question)
            judged = await self._judge(connection, question, prices, answer)
            if judged.is_allowed and pocket is not None and not actor.is_admins:
                refusal = await _ownership_refusal(connection, record, pocket)
                judged = judged if refusal is None else judged.with_refusal(refusal)
            judged = await _apply_payment_rules(connection, judged, question)
            judged = await self._holds.decide_hold(connection, judged, record, question)
            now = judged.now
            if judged.is_allowed and pocket is not None:
                error = await _use_pocket(connection, judged.apply_to(record), pocket)
                judged = replace(judged, error=error)
                if pocket.asserted is not None:
                    # No other purchase is in flight, so all landed purchases have stored slots.
                    landed_slot = await attempt_store.last_landed_slot(
                        connection, record.wallet_id, now.database_ms - _LANDED_LATELY_MS
                    )
            stored = judged.apply_to(record)
            if judged.held is None and not _is_refused_for_now(judged, actor):
                await use_approval(connection, stored, judged.approval)
            debit = max_debit(intent, effects) if judged.is_allowed else 0
            if judged.held is None:
                await self._insert_record(connection, stored, judged, actor, debit)
            else:
                await claim_key(connection, actor, judged.held, now)
            units: dict[str, int] = {}
            scopes = tuple(scope for scope, _, _ in judged.usages)
            if judged.is_allowed:
                if row is not None:
                    row = replace(row, created_ms=stored.created_ms)
                    await payment_store.add(connection, row, actor.principal)
                await write_entries(connection, stored, actor, self._store_bounds)
                units = {spending.SOL_ASSET: counted_lamports(intent, effects)}
                units |= counted_tokens(intent, effects)
                costs = counted_costs(effects)
                if costs:
                    units[spending.COSTS_ASSET] = costs
                await spending.reserve(
                    connection,
                    record.id,
                    scopes,
                    units,
                    now.reserved_ms,
                    _single_scope_units(actor, judged.granted, units),
                )
                for key, alert, said in self._near_limit_alerts(judged, units):
                    if is_first(key, now.database_ms):
                        alerts.raise_alert(connection, alert, stored, actor.trace, **said)
            if judged.is_allowed or judged.held is not None:
                await self._database.store_ledger_time(connection)
            if judged.granted is not None and stored.status is not TransactionStatus.FAILED:
                # A held transaction has no record, so its effects belong to the hold.
                outcome = HELD if judged.held is not None else judged.verdict.rule or ALLOWED
                own_id = record.id if judged.held is None else judged.held.id
                await judged.granted.note(connection, own_id, record.type, outcome)
        if judged.held is not None:
            raise Held(judged.held)
        approved = judged.approval is not None
        return Reservation(
            stored, scopes, debit, units, approved, effects.outflow, row, actor.trace, landed_slot
        )

    async def fail(
        self, record: TransactionRecord, actor: Actor, intent: Intent, error: str
    ) -> TransactionRecord:
        """Store an intent that cannot be sent, without a reservation. The record is blocked if the
        declaration alone breaks a rule, and failed otherwise."""
        question = Question(record.wallet_id, actor, intent)
        async with self._database.write() as connection:
            await self._lock(connection, question)
            judged = replace(await self._judge(connection, question, {}), error=error)
            stored = judged.apply_to(record)
            _is_refused_for_now(judged, actor)
            if actor.approval is not None:
                approval = await approval_of(connection, actor.approval, judged.now)
                await use_approval(connection, stored, approval)
            await self._insert_record(connection, stored, judged, actor)
        return stored

    async def trial(self, question: Question) -> Verdict:
        """Judge as `reserve` would now, and change nothing; this may raise `BidTooHigh` too."""
        verdict = (await self._ask_plugins(question)).verdict
        assert verdict is not None
        if question.payment is not None and verdict.allowed:
            async with self._database.read() as connection:
                risen = await _price_change(connection, question)
            verdict = replace(verdict, hold=join_reasons(verdict.hold, risen))
        return verdict

    async def _ask_plugins(self, question: Question) -> _PluginAnswer:
        """Return the verdict of all rules, including the plugins' current rules."""
        rules, effects = self._plugin_rules, question.effects

        async def judge(prices: Prices) -> Judgement:
            async with self._database.read() as connection:
                return await self._judge(connection, question, prices)

        found = await self._use_prices(question, judge)
        verdict = found.verdict
        if effects is not None:
            effects = replace(effects, request=_rule_request(question, found.granted))
        judged = await rules.judge(replace(verdict, hold=None), question.intent, effects)
        plugin_hold = None if question.actor.is_admins else judged.hold
        judged = replace(judged, hold=join_reasons(verdict.hold, plugin_hold))
        return _PluginAnswer(rules, judged, plugin_hold)

    async def release(
        self,
        record: TransactionRecord,
        error: str,
        *,
        key_failure: str | None = None,
        trace: str | None = None,
    ) -> TransactionRecord:
        """Release a reservation for which no bytes were signed.

        Args:
            key_failure: why the wallet's key could not be opened, if that is the reason.

        Returns:
            The stored record; another process that took it over may have ended it.
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
        """Judge rebuilt bytes of an intent that already has a reservation.

        Raises:
            PermissionError: the bytes cost more than was reserved, or break a rule.
        """
        limits = [(scope, ScopeLimits(), ScopeUsage()) for scope in reservation.scopes]
        verdict = judge(intent, effects, limits, self._policy)
        verdict = await self._plugin_rules.judge(verdict, intent, effects)
        if effects is None or not verdict.allowed:
            raise PermissionError(verdict.reason or "the rebuilt transaction would fail")
        if verdict.hold is not None and not reservation.approved:
            raise PermissionError(verdict.hold)
        if not _is_within(effects.outflow, reservation.outflow):
            raise PermissionError("the rebuilt transaction takes more than was judged")
        if max_debit(intent, effects) > reservation.held_lamports:
            # An added memo costs no lamports, so the ledger's answers must have changed meanwhile.
            raise PermissionError("the rebuilt transaction costs more than was reserved")

    def _scopes(
        self, question: Question, ceilings: Mapping[str, int]
    ) -> tuple[tuple[str, ScopeLimits], ...]:
        wallet_id, limits = question.wallet_id, self._wallet_limits.within(ceilings)
        own = f"wallet:{wallet_id}", limits
        if question.intent.type == TransactionType.AIRDROP:
            # The faucet pays, so airdrops must not use up the wallet's own rate.
            most, named = limits.max_tx_per_minute, limits.ceilings
            own = f"faucet:{wallet_id}", ScopeLimits(max_tx_per_minute=most, ceilings=named)
        return own, *question.actor.limits

    async def _lock(self, connection: AsyncConnection, question: Question) -> None:
        """Lock the wallet, and the scopes whose windows span several wallets: the API key, and any
        skill or plugin with grants."""
        actor = question.actor
        scopes = [scope for scope, _ in actor.limits if is_key(scope)]
        if actor.via and self._database.shared:
            # From here on nobody can change grants, so their version stays valid.
            await spending.lock_service(connection)
            version = await grants_store.version(connection)
            scopes += await self._granting.sets.read(connection, version, actor.via)
        agent = actor.agent_id if actor.approval is not None else None
        try:
            await actor.lock(connection, question.wallet_id, scopes, agent)
        except TakenOver:
            metrics.FENCED.labels("reserve").inc()
            raise

    async def _judge(
        self,
        connection: AsyncConnection,
        question: Question,
        prices: Prices,
        answer: _PluginAnswer | None = None,
    ) -> Judgement:
        """Return the judgement of the built-in rules and then of the grants.

        Args:
            answer: the earlier verdict, which includes plugins' rules. A refusal is final. If it
                allows, the built-in rules judge again, because the usage may have changed.

        Raises:
            BidTooHigh: a lower fee bid would fit.
            PricesMissing: read the missing prices, and judge again.
        """
        binding = await spending.read_binding(connection, question.wallet_id)
        # The time is read under the lock, so that records and windows are in the judgements' order.
        now = await self._database.moment(connection)
        verdict = None if answer is None else answer.verdict
        stands = verdict is not None and not verdict.allowed
        usages: Usages = ()
        if verdict is None or verdict.allowed:
            verdict, usages = await self._judge_built_in(connection, question, binding, now)
        is_refused = verdict.rule not in (None, GRANTS_RULE)
        granted = await self._granting.judge(
            connection, question, binding.version, now, prices, is_refused=is_refused
        )
        if granted is not None:
            verdict = granted.add_to_verdict(verdict)
        judged = Judgement(verdict, now, usages, granted)
        if not stands:
            _check_bid(judged, question)
        if answer is None or not verdict.allowed:
            return judged
        applied = verdict.applied + answer.rules.names
        hold = join_reasons(verdict.hold, answer.hold)
        return replace(judged, verdict=replace(verdict, applied=applied, hold=hold))

    def _near_limit_alerts(
        self, judged: Judgement, units: Mapping[str, int]
    ) -> Iterator[tuple[str, Alert, dict[str, Any]]]:
        """Yield the key, the alert and its fields for each cost ceiling, daily SOL limit and grant
        that a reservation of `units` brings near its end."""
        costs, lamports = units.get(spending.COSTS_ASSET, 0), units[spending.SOL_ASSET]
        for scope, limits, usage in judged.usages:
            total = usage.costs_last_day + costs
            if costs and alerts.is_near_ceiling(total, limits.daily_costs_lamports):
                yield scope, Alert.COSTS_NEAR_CEILING, {"scope": scope}
            total = usage.lamports_last_day + lamports
            if lamports and alerts.is_near_ceiling(total, limits.daily_lamports):
                yield f"sol:{scope}", Alert.DAILY_LIMIT_NEAR, {"scope": scope}
        if judged.granted is not None:
            for key, detail in find_grants_near_end(judged.granted, self._granting.tokens):
                yield key, Alert.GRANT_NEAR_END, {"detail": detail}

    @contextlib.asynccontextmanager
    async def _mark_alerts(self) -> AsyncIterator[Callable[[str, int], bool]]:
        """Yield a function that tells whether an alert is this process's first with its key in a
        day, and marks the alert as raised. If the block fails, the marks are removed.

        Reservations in the same commit see each other's marks.
        """
        alerted: list[str] = []

        def is_first(key: str, now_ms: int) -> bool:
            recent = {each: at for each, at in self._alerted_ms.items() if now_ms - at < DAY_MS}
            self._alerted_ms = {key: now_ms} | recent
            if key not in recent:
                alerted.append(key)
            return key not in recent

        try:
            yield is_first
        except BaseException:
            for key in alerted:
                self._alerted_ms.pop(key, None)
            raise

    async def _judge_built_in(
        self, connection: AsyncConnection, question: Question, binding: Binding, now: Moment
    ) -> tuple[Verdict, Usages]:
        """Return the built-in rules' verdict, and each scope's usage if limits were judged."""
        frozen = binding.frozen
        if frozen is not None:
            reason = "transactions are frozen" + (f": {frozen}" if frozen else "")
            return Verdict((FREEZE_RULE,), FREEZE_RULE, reason), ()
        behind = f"the ledger's time, {now.behind_ms // 1000} s behind the database's clock"
        if now.behind_ms > MOST_BEHIND_MS and question.effects is not None:
            reason = f"the limits' windows end at {behind}; a day is the maximum"
            return Verdict((CLOCK_RULE,), CLOCK_RULE, reason), ()
        window_ms, scopes = now.window_ms, self._scopes(question, binding.ceilings)
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
        verdict = judge(question.intent, question.effects, judged, self._policy)
        if now.behind_ms and verdict.rule in _WINDOWED:
            verdict = replace(verdict, reason=f"{verdict.reason}; windows end at {behind}")
        return verdict, judged

    async def _insert_record(
        self,
        connection: AsyncConnection,
        record: TransactionRecord,
        judged: Judgement,
        actor: Actor,
        held_lamports: int = 0,
    ) -> None:
        numbers, approval = judged.verdict.numbers, judged.approval
        if actor.idempotency is not None:
            await claim_record(connection, actor.idempotency, record, approval)
        action_key = actor.action_key
        failed = record.status is not TransactionStatus.PENDING and actor.approval is None
        if action_key is not None and failed and approval is None:
            waiting = await hold_of(connection, actor)
            if waiting is not None and waiting.hold.state.is_open:
                # The action ends with its hold, so an earlier failed try gets no action key.
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
