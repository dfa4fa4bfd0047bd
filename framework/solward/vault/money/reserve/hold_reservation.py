"""Holds transactions for a person: computes the terms that the person sees, checks that a
transaction still keeps to them, and decides whether to hold, carry out or refuse it."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit import alerts
from solward.audit.acts import SERVICE
from solward.database.window_clock import Moment
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.support import jsontext
from solward.types.errors import HoldDecided, IdempotencyInFlight, IdempotencyMismatch
from solward.types.guardrail import SOL, Intent, Line, Operation
from solward.types.money import SOL_DECIMALS, amount_text, format_sol
from solward.types.record import (
    GENERATED_KEY,
    Hold,
    HoldState,
    TransactionRecord,
    TransactionStatus,
    TransactionType,
)
from solward.types.site import SITE
from solward.vault.grants.sentences import fixed_details, hold_sentence
from solward.vault.guardrails.rules import Usages, Verdict
from solward.vault.money.judge.grant_case import VENUE, addresses, is_to_pocket
from solward.vault.money.judge.granting import GrantJudge, GrantRuling, Question, names_of
from solward.vault.money.plugin_entries import REMEMBER, entries_to_json
from solward.vault.money.request import Actor, HoldTaken, IdempotencyKey, PocketUse
from solward.vault.store import holds, idempotency, recipients
from solward.vault.store.holds import GRANTS_RULE, MAX_OPEN, HoldRow

# Replaces a pocket's address, because another try uses another pocket.
_POCKET: Final = "pocket"
# Operations whose recipient, by the bytes, is the wallet's own account, a new account, or nobody.
_TO_NOBODY: Final = frozenset({Operation.STAKE, Operation.WRAP, Operation.BURN, Operation.LAUNCH})

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a transaction by rules and grants, with its time and each scope's usage.

    Attributes:
        usages: scopes with limits and usage; empty if a switch or an earlier refusal decided.
        granted: the verdict of grants; None if the bytes do not bound the outflow.
        error: why the transaction fails although no rule refuses it.
        approval: the hold whose approval the transaction uses.
        held: the hold that is stored in place of the transaction's record.
    """

    verdict: Verdict
    now: Moment
    usages: Usages
    granted: GrantRuling | None = None
    error: str | None = None
    approval: HoldRow | None = None
    held: Hold | None = None

    @property
    def is_allowed(self) -> bool:
        """True if the transaction is to be reserved."""
        return self.held is None and self.verdict.allowed and self.error is None

    def with_refusal(self, reason: str, rule: str = GRANTS_RULE) -> Judgement:
        """Return the judgement refused by `rule`, which becomes the last applied rule."""
        applied = (*(r for r in self.verdict.applied if r != rule), rule)
        return replace(self, verdict=Verdict(applied, rule, reason))

    def apply_to(self, record: TransactionRecord) -> TransactionRecord:
        """Return the record with the judgement's time, status, error and applied rules."""
        verdict, status, error = self.verdict, TransactionStatus.PENDING, self.error
        if not verdict.allowed:
            status, error = TransactionStatus.BLOCKED, verdict.reason
        elif error is not None:
            status = TransactionStatus.FAILED
        return replace(
            record,
            created_ms=self.now.database_ms,
            status=status,
            guardrails_applied=verdict.applied,
            error=error,
            retry_after_s=verdict.retry_after_s,
            cause=verdict.cause,
        )


@dataclass(frozen=True, slots=True)
class HoldTerms:
    """The terms of a transaction as a person sees them.

    Attributes:
        costs: in lamports, including `fee`, the network fee.
        arrives: mint -> the minimum units that must arrive.
        least: `arrives` as lines, with their decimals.
    """

    lines: tuple[Line, ...]
    costs: int
    fee: int
    arrives: Mapping[str, int]
    least: tuple[Line, ...] = ()

    @classmethod
    def from_judgement(cls, judged: Judgement, question: Question) -> HoldTerms:
        """Return the terms that the bytes state, with the same name for every pocket."""
        effects, pocket = question.effects, question.pocket
        assert effects is not None
        arrives: dict[str, int] = {}
        # A token launch is left out, because each plan has a new mint.
        if question.intent.type != TransactionType.TOKEN_LAUNCH:
            # Tokens arrive in this transaction, or in a later step of a pocket.
            arrives = {**question.intent.tokens_in, **({} if pocket is None else pocket.returns)}
        least = with_decimals(
            [
                Line(Operation.SWAP, SOL if mint == WRAPPED_SOL_MINT else mint, units)
                for mint, units in arrives.items()
                if units
            ],
            effects.decimals,
        )
        if judged.granted is None:
            return cls((), effects.fee_lamports, effects.fee_lamports, arrives, least)
        case = judged.granted.case
        lines = case.lines
        if pocket is not None:
            address = pocket.pocket.address
            lines = tuple(
                replace(line, account=_POCKET, owner=None) if is_to_pocket(line, address) else line
                for line in lines
            )
        lines = with_decimals(lines, effects.decimals)
        return cls(lines, case.costs_lamports, effects.fee_lamports, arrives, least)


@dataclass(frozen=True, slots=True)
class HoldReserver:
    """Holds transactions and uses approvals, in the database transaction that reserves.

    Attributes:
        granting: the judge by grants, which has the symbols of tokens.
        hold_ms: how long a held transaction waits for a person.
        max_fee_lamports: the minimum network fee that a person is shown, or 0. The fee may rise
            until they decide, and a transaction that costs more than shown is not carried out.
    """

    granting: GrantJudge
    hold_ms: int
    max_fee_lamports: int = 0

    async def decide_hold(
        self,
        connection: AsyncConnection,
        judged: Judgement,
        record: TransactionRecord,
        question: Question,
    ) -> Judgement:
        """Decide whether a transaction is carried out with an approval, refused because it differs
        from what was shown, or held in place of a record.

        A request for a payment that an open hold shows already, in any spelling, gets that hold,
        because a person might approve both of two holds. It gets the hold even if no rule would
        hold it now: otherwise it would be paid now, and again after an approval. This is for
        declared operations. A plugin's transaction, and one that only its caller can repeat, is
        recognised only by its digest.

        Raises:
            IdempotencyInFlight, IdempotencyMismatch, HoldTaken: the request's key belongs to a hold
                that ended meanwhile and answers the request, or to another request.
            HoldDecided: the key belongs to another call's hold, or was approved for less.
        """
        actor = question.actor
        waiting: list[HoldRow] = []
        named = None
        if actor.approval is None:
            named = await _open_hold_of(connection, actor, judged.now)
            if not judged.is_allowed:
                return judged
            if not actor.is_admins:
                waiting = await holds.open_rows(connection, actor.principal)
            if judged.verdict.hold is None and not waiting and named is None:
                return judged
        shown = HoldTerms.from_judgement(judged, question)
        if actor.approval is not None:
            approval = await approval_of(connection, actor.approval, judged.now)
            return _judge_approved(judged, approval, question, shown)
        digest = digest_of(question, shown.lines)
        if named is not None:
            return _judge_repetition(judged, named, digest, question, shown)
        by_digest = await holds.by_digest(connection, digest)
        known = [] if by_digest is None else [by_digest]
        keyless = is_keyless(actor)
        recipe = None if actor.recipe is None else actor.recipe()
        if question.payment is None and keyless and is_declared(recipe):
            known += [
                each
                for each in waiting
                if each.keyless
                and is_declared(each.recipe)
                and is_same_payment(each.hold, record, shown.lines, shown.arrives)
            ]
        for row in known:
            # An expired hold does not answer the request, but the next hold may.
            if await holds.expire(connection, row, judged.now):
                continue
            if row.hold.state is HoldState.APPROVED and row.hold.repeats:
                return _judge_approved(judged, row, question, shown)
            return replace(judged, held=row.hold)
        reason = judged.verdict.hold
        if reason is None:
            return judged
        most = await holds.count_open(connection, actor.principal)
        if most >= MAX_OPEN:
            return judged.with_refusal(
                f"{most} transactions of {actor.principal} wait for a person already, and this"
                f" transaction would have to wait too: {reason}"
            )
        # A declared operation needs no digest, because its sentence states everything.
        opaque = "" if is_declared(recipe) else digest
        hold = await self._new_hold(connection, judged, record, question, shown, opaque)
        if recipe is not None and actor.remember:
            # Carrying out the hold also writes the entries, which the digest does not cover.
            recipe = {**recipe, REMEMBER: entries_to_json(actor.remember)}
        applied = judged.verdict.applied
        row = HoldRow(hold, digest, actor.action_key, recipe, applied, actor.trace, keyless)
        await holds.add(connection, row)
        if most + 1 == MAX_OPEN:
            said = {"most": MAX_OPEN, "principal": hold.principal}
            alerts.raise_alert(
                connection, alerts.Alert.HOLDS_FULL, hold.to_json(), actor.trace, **said
            )
        return replace(judged, held=hold)

    async def _new_hold(
        self,
        connection: AsyncConnection,
        judged: Judgement,
        record: TransactionRecord,
        question: Question,
        shown: HoldTerms,
        opaque: str,
    ) -> Hold:
        """Return a new hold; `opaque` is the argument `digest` of `hold_sentence`."""
        actor, chain, lines = question.actor, question.chain, shown.lines
        found = await recipients.own_wallets(connection, addresses(lines))
        own = {address: row.id for address, row in found.items()}
        named = (*chain, *(f"wallet:{each}" for each in own.values()))
        names = await names_of(connection, self.granting.tokens, named)
        sites = [each for each in chain if each.startswith(SITE)]
        reason = judged.verdict.hold or ""
        wanted = hold_sentence(
            actor.principal, record.wallet_id, lines, names, question.intent,
            sites=sites, own=own, arrives=shown.least, digest=opaque,
        )  # fmt: skip
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
            lines=lines_to_json(lines),
            costs_lamports=shown.costs + max(0, self.max_fee_lamports - shown.fee),
            arrives=shown.arrives,
            details=record.details,
            repeats=actor.recipe is None,
            created_ms=judged.now.window_ms,
            expires_ms=judged.now.window_ms + self.hold_ms,
        )


async def hold_of(connection: AsyncConnection, actor: Actor) -> HoldRow | None:
    """Return the hold, open or ended, that an earlier try bound to the request's key: the request's
    own hold, or another request's with the same terms.

    Raises:
        IdempotencyMismatch: the key was used for another request.
    """
    key = actor.merged_key
    if key is None:
        return None
    if actor.idempotency is None and actor.action_key is not None:
        row = await holds.by_action_key(connection, actor.action_key)
        if row is not None:
            return row
    scope, fingerprint = key
    row, first = await holds.find_by_key(connection, scope)
    if row is None or first == fingerprint:
        return row
    if actor.idempotency is None:
        # The hold belongs to an earlier cycle of the agent.
        return None
    raise IdempotencyMismatch


async def _open_hold_of(connection: AsyncConnection, actor: Actor, now: Moment) -> HoldRow | None:
    """Return the hold that `hold_of` finds if it is open; raise if the hold has ended."""
    row = await hold_of(connection, actor)
    if row is None or (row.hold.state.is_open and row.hold.expires_ms > now.window_ms):
        return row
    # The next try gets the record with which the hold ended.
    raise HoldTaken if actor.idempotency is None else IdempotencyInFlight


def _judge_repetition(
    judged: Judgement, row: HoldRow, digest: str, question: Question, shown: HoldTerms
) -> Judgement:
    """Judge a request whose key belongs to an open hold: it waits, or uses that hold's approval. A
    request that does not match is refused without a record, so the key stays the hold's."""
    actor, payment = question.actor, question.payment
    is_its_own = actor.idempotency is None and row.action_key == actor.action_key
    if is_its_own and payment is None and row.digest != digest:
        raise HoldDecided(f"{_ANOTHER}: it is another call")
    if row.hold.state is HoldState.HELD or not row.hold.repeats:
        return replace(judged, held=row.hold)
    if row.digest != digest:
        # A paid request's digest has the price, which may change. The key covers the whole request.
        if payment is None or actor.idempotency is None:
            raise HoldDecided(f"{_ANOTHER}: it is another call")
        changed = excess_over(row.hold, question.intent, shown)
        if changed is not None:
            raise HoldDecided(f"{_ANOTHER}: {changed}")
    return _judge_approved(judged, row, question, shown)


_ANOTHER: Final = "Nothing was sent; this is not the transaction that a person was shown"


def _judge_approved(
    judged: Judgement, approval: HoldRow, question: Question, shown: HoldTerms
) -> Judgement:
    judged = replace(judged, approval=approval)
    if not judged.is_allowed:
        return judged
    changed = excess_over(approval.hold, question.intent, shown)
    if changed is None:
        return judged
    return judged.with_refusal(f"this is not the transaction that was approved: {changed}")


async def approval_of(connection: AsyncConnection, hold_id: str, now: Moment) -> HoldRow:
    """Return the hold of an unused approval; raise `HoldTaken` if it was used or has ended."""
    row = await holds.get(connection, hold_id)
    if row is None or row.hold.state is not HoldState.APPROVED:
        raise HoldTaken
    if row.hold.expires_ms <= now.window_ms:
        raise HoldTaken
    return row


async def use_approval(
    connection: AsyncConnection, record: TransactionRecord, approval: HoldRow | None
) -> None:
    """Use up an approval in the transaction that stores its outcome, so that it is used only once.

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


async def claim_key(connection: AsyncConnection, actor: Actor, hold: Hold, now: Moment) -> None:
    """Bind the request's key to the outcome of a hold, which may be another request's hold."""
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
        await idempotency.bind(connection, scope, fingerprint, hold.action, now.database_ms)


async def claim_record(
    connection: AsyncConnection,
    key: IdempotencyKey,
    record: TransactionRecord,
    approval: HoldRow | None = None,
) -> None:
    """Bind the caller's Idempotency-Key to a record.

    A key that is bound to a hold stays bound: its caller repeats the request after the approval,
    and the hold names the record with which it ended. So no other payment may use that key.

    Args:
        approval: the hold whose approval the record uses.

    Raises:
        IdempotencyInFlight, IdempotencyMismatch: another request claimed the key first, or the key
            belongs to a hold that has ended.
    """
    try:
        await idempotency.claim(
            connection, key.scope, key.fingerprint, record.id, record.created_ms
        )
    except IdempotencyInFlight:
        row, _ = await holds.find_by_key(connection, key.scope)
        if row is None:
            raise
        is_its_own = approval is not None and approval.hold.id == row.hold.id
        is_refused = record.status is not TransactionStatus.PENDING and row.hold.state.is_open
        if not (is_its_own or is_refused):
            raise


def with_decimals(lines: Sequence[Line], decimals: Mapping[str, int]) -> tuple[Line, ...]:
    """Return lines with decimals, from `decimals` if the bytes do not state them.

    Args:
        decimals: mint -> its decimals, as a node states them.
    """
    known = {**decimals, SOL: SOL_DECIMALS}
    return tuple(
        replace(line, decimals=known.get(line.asset)) if line.decimals is None else line
        for line in lines
    )


def lines_to_json(lines: Sequence[Line]) -> tuple[dict[str, Any], ...]:
    """Return lines in the form that a hold stores."""
    names = ("account", "owner", "decimals")
    return tuple(
        {"operation": line.operation.value, "asset": line.asset, "units": str(line.units)}
        | {name: value for name in names if (value := getattr(line, name)) is not None}
        for line in lines
    )


def digest_of(question: Question, lines: Sequence[Line]) -> str:
    """Hash a request and the amounts that it takes, so that a repetition has the same digest.

    A request that only its caller can repeat is identified by the digest alone: any request with
    that digest may use the approval. The key of an agent's request is left out, because it differs
    in each cycle, and the same payment in the next cycle is not a second payment. A paid request is
    identified by its content and its amounts, whichever route or skill makes it.
    """
    actor, intent, payment = question.actor, question.intent, question.payment
    key = None
    if not is_keyless(actor):
        key = [str(actor.action_key)]
        if actor.idempotency is not None:
            key = [actor.idempotency.scope, actor.idempotency.fingerprint]
    if actor.recipe is not None:
        recipe = actor.recipe()
        asked = recipe.get("fields", recipe)
    else:
        asked = {**_declared_terms(intent, question.pocket), "call": actor.call}
    lefts = _sum_lines([_without_venue(line) for line in lines], actor.recipe is None)
    left = sorted([*each, str(units)] for each, units in lefts.items())
    chain = question.chain
    whole = ["hold", question.wallet_id, list(chain), intent.type, key, asked, left]
    if payment is not None:
        # The fingerprint covers the whole request, so that only the approved purchase is made.
        request = [payment.url, payment.method, payment.fingerprint]
        payers = [each for each in chain if not each.startswith(("skill:", "plugin:"))]
        whole = ["hold", question.wallet_id, payers, intent.type, key, request, left]
    return hashlib.sha256(jsontext.dumps(whole, canonical=True).encode()).hexdigest()


def is_keyless(actor: Actor) -> bool:
    """Return whether the caller chose no key; a chosen key makes the request a separate payment."""
    if actor.idempotency is not None:
        return actor.idempotency.is_generated
    key = actor.action_key
    return actor.run is not None or key is None or key.startswith(GENERATED_KEY)


def is_same_payment(
    hold: Hold, record: TransactionRecord, lines: Sequence[Line], arrives: Mapping[str, int]
) -> bool:
    """Return whether a transaction makes the payment that a hold shows: from the same wallet, to
    the same recipients, for the same assets. The request's route, skill and spelling do not matter.

    Args:
        arrives: compared only by mint, because each quote has other amounts.
    """
    if not lines or (hold.wallet_id, hold.type) != (record.wallet_id, record.type):
        return False
    if hold.arrives.keys() != arrives.keys():
        return False
    fixed = fixed_details(record.type)
    if any(hold.details.get(name) != record.details.get(name) for name in fixed):
        return False
    if any(line.operation is Operation.LAUNCH for line in lines):
        # The lines of a launch do not name its token.
        return False
    shown = [_without_venue(_line_from_json(each)) for each in hold.lines]
    taken = [_without_venue(each) for each in lines]
    return _sum_lines(shown, hold.repeats) == _sum_lines(taken, hold.repeats)


def is_declared(recipe: Mapping[str, Any] | None) -> bool:
    """Return whether a recipe repeats a declared operation, whose lines state all its effects. A
    plugin's own instructions may have other effects."""
    return recipe is not None and "operation" in recipe


def venue_of(hold: Hold) -> str | None:
    """Return the venue of a held swap as it was shown; None if the hold is no swap."""
    accounts = (str(line.get("account", "")) for line in hold.lines)
    return next((each.removeprefix(VENUE) for each in accounts if each.startswith(VENUE)), None)


def _without_venue(line: Line) -> Line:
    """Remove the venue's name, because the best venue changes from one request to the next."""
    at_venue = (line.account or "").startswith(VENUE)
    return replace(line, account=VENUE) if at_venue else line


def excess_over(hold: Hold, intent: Intent, now: HoldTerms) -> str | None:
    """Return how a transaction exceeds what a hold shows, in words; None if it does not.

    Lines may take no more than shown, with the same recipients and decimals, and costs may be no
    higher than shown. A swap must bring at least the minimum shown.
    """
    lines, costs, arrives = now.lines, now.costs, now.arrives
    if intent.type != hold.type:
        return f"its type is {intent.type} now"
    for name in fixed_details(hold.type):
        shown, asked = hold.details.get(name), intent.details.get(name)
        if asked != shown:
            return f"{name} is {asked} now, and {shown} was shown"
    exact = hold.repeats
    before = [_line_from_json(each) for each in hold.lines]
    were, are = _sum_lines(before, exact), _sum_lines(lines, exact)
    stated = {line.asset: line.decimals for line in before if line.decimals is not None}
    for key, units in are.items():
        line = next(each for each in lines if _line_key(each, exact) == key)
        decimals = line.decimals
        if decimals is None:
            decimals = stated.get(line.asset)
        if stated.get(line.asset, decimals) != decimals:
            return f"{line.asset} has {decimals} decimals now, not {stated[line.asset]}"
        if units > were.get(key, 0) or key not in were:
            return (
                f"{_amount_text(line.asset, units, decimals)} would leave by {line.operation.value}"
                f"{_receiver_text(line)} now, and"
                f" {_amount_text(line.asset, were.get(key, 0), decimals)} was shown"
            )
    if costs > hold.costs_lamports:
        return (
            f"fee and rent may be {format_sol(costs)} SOL now, and"
            f" {format_sol(hold.costs_lamports)} SOL was shown"
        )
    for mint, least in hold.arrives.items():
        if arrives.get(mint, 0) < least:
            return (
                f"at least {arrives.get(mint, 0)} units of {mint} would arrive now, and"
                f" {least} was shown"
            )
    return None


def _declared_terms(intent: Intent, pocket: PocketUse | None) -> dict[str, Any]:
    """Return the declaration without quote minimum and pocket, which differ between tries."""
    address, use = None, {}
    if pocket is not None:
        address = pocket.pocket.address
        use = {
            "mints": sorted(pocket.mints),
            "program": pocket.program,
            "position": pocket.position,
            "stays": pocket.stays,
            "returns": {mint: str(units) for mint, units in pocket.returns.items()},
        }
    hidden = () if pocket is None else ("pocket",)
    details = {name: it for name, it in intent.details.items() if name not in hidden}
    return {
        "details": details,
        "pocket": use,
        "lamportsOut": intent.lamports_out,
        "tokensOut": {mint: str(units) for mint, units in intent.tokens_out.items()},
        "destinations": sorted(_POCKET if to == address else to for to in intent.destinations),
        "mayClose": sorted(intent.may_close),
        "mayRevoke": sorted(intent.may_revoke),
        "slippageBps": intent.slippage_bps,
    }


def _sum_lines(lines: Sequence[Line], exact: bool) -> Counter[Key]:
    sums: Counter[Key] = Counter()
    for line in lines:
        sums[_line_key(line, exact)] += line.units
    return sums


def _line_key(line: Line, exact: bool) -> Key:
    """Return the key under which a line is summed; `exact` includes the mint of a launch."""
    is_new = line.operation is Operation.LAUNCH and not exact
    account = None if line.operation in _TO_NOBODY else line.account
    return line.operation.value, "" if is_new else line.asset, account or ""


def _line_from_json(shown: Mapping[str, Any]) -> Line:
    return Line(
        Operation(shown["operation"]),
        shown["asset"],
        int(shown["units"]),
        shown.get("account"),
        shown.get("owner"),
        shown.get("decimals"),
    )


def _amount_text(asset: str, units: int, decimals: int | None) -> str:
    if asset == SOL:
        return f"{format_sol(units)} SOL"
    if decimals is None:
        return f"{units} units of {asset}"
    return f"{amount_text(units, decimals)} {asset}"


def _receiver_text(line: Line) -> str:
    receiver = line.owner or line.account
    return "" if receiver is None or line.operation in _TO_NOBODY else f" to {receiver}"
