"""What becomes of a judged transaction where a person decides: held, carried out, refused."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import SERVICE
from solward.database.window_clock import Moment
from solward.types.errors import HoldDecided, IdempotencyInFlight, IdempotencyMismatch
from solward.types.guardrail import Intent, Line, TransactionEffects
from solward.types.hold import Hold, HoldState
from solward.types.record import TransactionRecord, TransactionStatus
from solward.types.site import SITE
from solward.vault.grants.sentences import hold_sentence
from solward.vault.guardrails import (
    ScopeUsage,
)
from solward.vault.money.judge.grant_case import addresses
from solward.vault.money.judge.granting import Granted, Granting
from solward.vault.money.plugin_entries import REMEMBER, remember_json
from solward.vault.money.request import Actor, HoldTaken, IdempotencyKey, Payment, PocketUse
from solward.vault.money.reserve import holding
from solward.vault.refusal import RefusalNumbers
from solward.vault.store import alerts, holds, idempotency, recipients
from solward.vault.store.holds import GRANTS_RULE, MOST_OPEN, HoldRow


@dataclass(frozen=True, slots=True)
class Judged:
    """A record with its verdict, under the locks of its scopes.

    Attributes:
        hold: why it waits for a person.
        now: when it was judged.
        usages: what each scope had used by then where the rules need it.
        approval: the hold whose approval it takes.
        held: the hold that stands in its place.
        granted: what grants say of it; None where its bytes say nothing.
        numbers: of its refusal, by the rule that stands last.
    """

    record: TransactionRecord
    hold: str | None
    now: Moment
    usages: Mapping[str, ScopeUsage]
    granted: Granted | None = None
    approval: HoldRow | None = None
    held: Hold | None = None
    numbers: RefusalNumbers | None = None

    @property
    def is_allowed(self) -> bool:
        """Whether it is to be reserved."""
        return self.held is None and self.record.status is TransactionStatus.PENDING

    def blocked(self, reason: str, rule: str = GRANTS_RULE) -> Judged:
        """Refused by a rule, that of grants where none is named, which stands last then."""
        applied = (*(r for r in self.record.guardrails_applied if r != rule), rule)
        record = replace(
            self.record,
            status=TransactionStatus.BLOCKED,
            guardrails_applied=applied,
            error=reason,
            retry_after_s=None,
        )
        return replace(self, record=record, numbers=None)


@dataclass(frozen=True, slots=True)
class _Leaving:
    """What a person is shown: lines with their decimals, costs, and what must arrive."""

    lines: tuple[Line, ...]
    costs: int
    arrives: Mapping[str, int]

    @classmethod
    def of(
        cls,
        judged: Judged,
        intent: Intent,
        effects: TransactionEffects,
        pocket: PocketUse | None,
    ) -> _Leaving:
        """By the bytes, as grants count it."""
        arrives = holding.arrives_of(intent, pocket)
        if judged.granted is None:
            return cls((), effects.fee_lamports, arrives)
        case = judged.granted.case
        lines = holding.with_decimals(holding.lines_of(case.lines, pocket), effects.decimals)
        return cls(lines, case.costs_lamports, arrives)


class HoldReserver:
    """Holds transactions, and lets through what was approved; in the reserving database
    transaction."""

    def __init__(self, granting: Granting, hold_ms: int) -> None:
        """Args:
        granting: knows what principals are called.
        hold_ms: how long a held transaction waits for a person.
        """
        self._granting = granting
        self._hold_ms = hold_ms

    async def weigh(
        self,
        connection: AsyncConnection,
        judged: Judged,
        actor: Actor,
        intent: Intent,
        effects: TransactionEffects,
        pocket: PocketUse | None,
        payment: Payment | None = None,
    ) -> Judged:
        """What becomes of it where a person decides: carried out with an approval, refused because
        it is not what was shown, or held in place of a record.

        What waits already is the hold that waits, whichever its spelling: of two holds both may be
        approved. So it is where nothing would hold it any more: paid beside its hold, and approved
        then, it would be paid twice. That holds of declared operations: what a plugin made, and
        what only its caller can make again, is one hold by its digest alone.

        Raises:
            IdempotencyInFlight, IdempotencyMismatch, HoldTaken: the request's key stands for a hold
                that ended meanwhile, which is its answer; or for another request's.
            HoldDecided: it stands for a hold of another call, or was approved for less.
        """
        waiting: list[HoldRow] = []
        named = None
        if actor.approval is None:
            named = await _named(connection, actor, judged.now)
            if not judged.is_allowed:
                return judged
            if not actor.is_admins:
                waiting = await holds.open_rows(connection, actor.principal)
            if judged.hold is None and not waiting and named is None:
                return judged
        leaving = _Leaving.of(judged, intent, effects, pocket)
        if actor.approval is not None:
            approval = await approval_of(connection, actor.approval, judged.now)
            return _approved(judged, approval, intent, leaving)
        chain = actor.chain(judged.record.wallet_id)
        digest = holding.digest_of(
            judged.record.wallet_id, chain, actor, intent, leaving.lines, pocket, payment
        )
        if named is not None:
            return _again(judged, named, digest, actor, intent, leaving, payment)
        by_digest = await holds.by_digest(connection, digest)
        known = [] if by_digest is None else [by_digest]
        keyless = holding.is_keyless(actor)
        recipe = None if actor.recipe is None else actor.recipe()
        if payment is None and keyless and holding.is_declared(recipe):
            known += [
                each
                for each in waiting
                if each.keyless
                and holding.is_declared(each.recipe)
                and holding.is_same_payment(
                    each.hold, judged.record, leaving.lines, leaving.arrives
                )
            ]
        for row in known:
            # One whose time is over stands for nothing, and another may.
            if await holds.expire(connection, row, judged.now):
                continue
            if row.hold.state is HoldState.APPROVED and row.hold.repeats:
                return _approved(judged, row, intent, leaving)
            return replace(judged, held=row.hold)
        if judged.hold is None:
            return judged
        most = await holds.count_open(connection, actor.principal)
        if most >= MOST_OPEN:
            return judged.blocked(
                f"{most} transactions of {actor.principal} wait for a person already, and this one"
                f" would have to wait too: {judged.hold}"
            )
        hold = await self._hold(connection, judged, actor, leaving)
        applied = judged.record.guardrails_applied
        if recipe is not None and actor.remember:
            # What makes it again writes them too; the digest is of what is asked alone.
            recipe = {**recipe, REMEMBER: remember_json(actor.remember)}
        row = HoldRow(hold, digest, actor.action_key, recipe, applied, actor.trace, keyless)
        await holds.add(connection, row)
        if most + 1 == MOST_OPEN:
            alerts.holds_full(connection, hold, MOST_OPEN, actor.trace)
        return replace(judged, held=hold)

    async def _hold(
        self, connection: AsyncConnection, judged: Judged, actor: Actor, leaving: _Leaving
    ) -> Hold:
        record, reason = judged.record, judged.hold or ""
        chain = actor.chain(record.wallet_id)
        own = await recipients.own_ids(connection, addresses(leaving.lines))
        named = (*chain, *(f"wallet:{each}" for each in own.values()))
        names = await self._granting.names(connection, named)
        sites = [each for each in chain if each.startswith(SITE)]
        lines, wallet = leaving.lines, record.wallet_id
        wanted = hold_sentence(actor.principal, wallet, lines, (), names, sites, own)
        return Hold(
            id=str(uuid.uuid4()),
            wallet_id=record.wallet_id,
            agent_id=actor.agent_id,
            principal=actor.principal,
            chain=chain,
            type=record.type,
            state=HoldState.HELD,
            sentence=f"{wanted} {reason}",
            reasons=(reason,),
            lines=holding.shown_lines(leaving.lines),
            costs_lamports=leaving.costs,
            arrives=leaving.arrives,
            details=record.details,
            repeats=actor.recipe is None,
            created_ms=judged.now.window_ms,
            expires_ms=judged.now.window_ms + self._hold_ms,
        )


async def hold_of(connection: AsyncConnection, actor: Actor) -> HoldRow | None:
    """The hold that the request's key stands for since an earlier try, in whatever state: its own,
    or another request's; raises `IdempotencyMismatch` where the key is another request's."""
    key = actor.merged_key
    if key is None:
        return None
    if actor.idempotency is None and actor.action_key is not None:
        row = await holds.by_action_key(connection, actor.action_key)
        if row is not None:
            return row
    scope, fingerprint = key
    row, first = await holds.named_by(connection, scope)
    if row is None or first == fingerprint:
        return row
    if actor.idempotency is None:
        # Of an earlier cycle.
        return None
    raise IdempotencyMismatch


async def _named(connection: AsyncConnection, actor: Actor, now: Moment) -> HoldRow | None:
    """As `hold_of`, while it is open; raises where it has ended."""
    row = await hold_of(connection, actor)
    if row is None or (row.hold.state.is_open and row.hold.expires_ms > now.window_ms):
        return row
    # Asked again, the key is answered with what the hold ended in.
    raise HoldTaken if actor.idempotency is None else IdempotencyInFlight


def _again(
    judged: Judged,
    row: HoldRow,
    digest: str,
    actor: Actor,
    intent: Intent,
    leaving: _Leaving,
    payment: Payment | None,
) -> Judged:
    """A request whose key stands for an open hold: it waits, or takes that hold's approval. What
    does not fit is refused without a record, so that the hold and its key stay as they are."""
    is_its_own = actor.idempotency is None and row.action_key == actor.action_key
    if is_its_own and payment is None and row.digest != digest:
        raise HoldDecided(f"{_ANOTHER}: it is another call")
    if row.hold.state is HoldState.HELD or not row.hold.repeats:
        return replace(judged, held=row.hold)
    if row.digest != digest:
        # A paid request's digest has the price, and the caller's key has all of the request.
        if payment is None or actor.idempotency is None:
            raise HoldDecided(f"{_ANOTHER}: it is another call")
        changed = holding.change(row.hold, intent, leaving.lines, leaving.costs, leaving.arrives)
        if changed is not None:
            raise HoldDecided(f"{_ANOTHER}: {changed}")
    return _approved(judged, row, intent, leaving)


_ANOTHER: Final = "Nothing was sent; it is not what a person is asked about, or has approved"


def _approved(judged: Judged, approval: HoldRow, intent: Intent, leaving: _Leaving) -> Judged:
    judged = replace(judged, approval=approval)
    if not judged.is_allowed:
        return judged
    changed = holding.change(approval.hold, intent, leaving.lines, leaving.costs, leaving.arrives)
    if changed is None:
        return judged
    return judged.blocked(f"it is not what was approved: {changed}")


async def approval_of(connection: AsyncConnection, hold_id: str, now: Moment) -> HoldRow:
    """The hold of an approval that is not used; raises `HoldTaken` where it was, or has ended."""
    row = await holds.get(connection, hold_id)
    if row is None or row.hold.state is not HoldState.APPROVED:
        raise HoldTaken
    if row.hold.expires_ms <= now.window_ms:
        raise HoldTaken
    return row


async def use_approval(
    connection: AsyncConnection, record: TransactionRecord, approval: HoldRow | None
) -> None:
    """Use an approval up in the transaction that stores what comes of it: single use.

    Raises:
        HoldTaken: another process used it.
    """
    if approval is None:
        return
    pending = record.status is TransactionStatus.PENDING
    state = HoldState.EXECUTED if pending else HoldState.REFUSED
    moved = await holds.move(
        connection, approval.hold.id, (HoldState.APPROVED,), state,
        by=SERVICE, transaction_id=record.id, owner=None,
    )  # fmt: skip
    if moved is None:
        raise HoldTaken


async def claim(connection: AsyncConnection, actor: Actor, hold: Hold, now: Moment) -> None:
    """Let the request's key answer what becomes of a hold, its own or another request's."""
    key = actor.merged_key
    if key is None:
        return
    if actor.run is None and await idempotency.lookup(connection, key[0]) is not None:
        return
    if actor.idempotency is None and actor.action_key is not None:
        row = await holds.by_action_key(connection, actor.action_key)
        if row is not None and row.hold.id == hold.id:
            return
    scope, fingerprint = key
    if actor.run is None:
        await idempotency.claim(connection, scope, fingerprint, hold.action, now.database_ms)
    else:
        await idempotency.point(connection, scope, fingerprint, hold.action, now.database_ms)


async def claim_record(
    connection: AsyncConnection,
    key: IdempotencyKey,
    record: TransactionRecord,
    approval: HoldRow | None = None,
) -> None:
    """Let the caller's Idempotency-Key stand for a record.

    A key that stands for a hold goes on to: its caller asks again once a person approved it, and
    the hold says which record it ended in. So nothing else may be paid under it.

    Args:
        approval: the hold whose approval the record takes.

    Raises:
        IdempotencyInFlight, IdempotencyMismatch: another request claimed the key first, or it
            stands for a hold that has ended.
    """
    try:
        await idempotency.claim(
            connection, key.scope, key.fingerprint, record.id, record.created_ms
        )
    except IdempotencyInFlight:
        row, _ = await holds.named_by(connection, key.scope)
        if row is None:
            raise
        is_its_own = approval is not None and approval.hold.id == row.hold.id
        is_refused = record.status is not TransactionStatus.PENDING and row.hold.state.is_open
        if not (is_its_own or is_refused):
            raise
