"""Replays judged transactions under a draft of the policy, to show what it would have changed.

The facts stay the same: the request, its principal and time, its worth, the recipients paid before,
and the result on the ledger. Verdicts and counters depend on the policy; the vault's `decide`
computes both. The policy in force and the draft are replayed side by side:

- A transaction that the policy in force judged is stored with the sums used then. The policy in
  force uses them again, so its verdict is the same, whatever was released, credited or carried over
  to an edited grant since. For a grant of both policies, the draft uses them too, less what the
  policy in force charged within the window, plus what the draft charged.
- Every other sum, of a grant that the draft adds or of a transaction that an older policy judged,
  is what the replay itself charged.

So replaying the policy in force shows no change. A transaction that an older policy judged is
marked; the draft's verdict is compared with that of the policy in force, not with the old one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.tables import holds, judged_effects, reservations, transactions
from solward.operations.policies.changes import read_policy
from solward.operations.policies.grant_documents import GrantPolicy
from solward.resources.policy import MAX_DAYS, MOST_CHANGES, ReplayVerdict
from solward.solana.token_list import TokenList
from solward.support.clock import iso
from solward.support.durations import DAY_MS
from solward.types.errors import InvalidRequest
from solward.types.guardrail import COSTS, Operation
from solward.types.record import HoldState, TransactionStatus
from solward.vault.grants import judged as judged_form
from solward.vault.grants.decide import CompiledGrants, Need, compile_grants, decide, needed
from solward.vault.grants.dollars import NOT_ASKED, line_dollars
from solward.vault.grants.judged import ALLOWED, JudgedCase, from_row
from solward.vault.grants.model import RATE, Case, Charge, Decision, Finding, Grant, Reason
from solward.vault.grants.sentences import finding_sentence, reason_sentence
from solward.vault.money.judge.grant_case import addresses, mark_funding, recipients
from solward.vault.money.judge.granting import names_in
from solward.vault.store import grants
from solward.vault.store import recipients as recipient_store
from solward.vault.store import transactions as transaction_store

MOST_REPLAYED: Final = 200_000
"""The maximum number of transactions in one replay, which judges about 1,000 a second."""


class CountedPart(StrEnum):
    """The part of a transaction that still counts in the limits."""

    ALL = "all"
    COSTS = "costs"
    """Only fee and rate slot count, because the transaction failed on the ledger."""
    NOTHING = "nothing"
    """Nothing counts, because the transaction never landed."""


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """All principals' grants, and the address book: name -> addresses."""

    sets: Mapping[str, CompiledGrants]
    book: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def compile(
        cls, sets: Mapping[str, Sequence[Grant]], book: Mapping[str, Sequence[str]]
    ) -> CompiledPolicy:
        """Compile a policy: principal -> its grants in written order, name -> addresses."""
        return cls(
            {who: compile_grants(grants) for who, grants in sets.items()},
            {name: frozenset(addresses) for name, addresses in book.items()},
        )

    def of_chain(self, case: Case) -> list[CompiledGrants]:
        """Return the grants of those principals in a transaction's chain that are under grants."""
        return [self.sets[who] for who in case.chain if who in self.sets]

    @property
    def longest_ms(self) -> int:
        """The longest window of any grant, in milliseconds."""
        grants = (grant for each in self.sets.values() for grant in each.grants)
        return max((grant.longest_ms for grant in grants), default=0)


@dataclass(frozen=True, slots=True)
class PastRecord:
    """A stored transaction that a replay judges.

    Attributes:
        kept: the part that still counts. After a hold's approval only the transaction that was made
            counts, not the hold.
        facts: its case with all facts of its time that are known now, even if no grant needed them
            then; None if the stored case has them.
    """

    judged: JudgedCase
    kept: CountedPart = CountedPart.ALL
    facts: Case | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A transaction on which the draft and the policy in force have different verdicts.

    Attributes:
        then: the verdict when the transaction was judged.
        in_force: the verdict of the policy in force; `then`, unless an older policy judged it.
        now: the draft's verdict.
        findings: why the draft refuses or holds it, or, if the draft allows it, why the policy in
            force does not.
        is_older: whether an older policy judged it.
    """

    judged: JudgedCase
    then: ReplayVerdict
    in_force: ReplayVerdict
    now: ReplayVerdict
    findings: tuple[Finding, ...]
    is_older: bool


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay; the numbers count transactions.

    Attributes:
        judged: transactions that were judged by grants.
        others: transactions that an earlier rule refused, so that grants do not matter.
        older: transactions of `judged` that an older policy judged.
        older_differ: transactions of `older` whose verdict is different under the policy in force.
        changed: transactions whose verdict is different under the draft.
        changes: the first of the changed transactions.
    """

    judged: int = 0
    others: int = 0
    older: int = 0
    older_differ: int = 0
    changed: int = 0
    changes: tuple[Change, ...] = ()


class Replay:
    """One run over stored transactions, given in the order in which they were judged.

    Args:
        version: the version of the policy in force.
        report_from_ms: earlier transactions are not reported, and only fill the windows.
        max_changes: the maximum number of changes in the result; all are counted.
    """

    def __init__(
        self,
        in_force: CompiledPolicy,
        version: int,
        draft: CompiledPolicy,
        *,
        report_from_ms: int = 0,
        max_changes: int = 1_000,
    ) -> None:
        self._in_force = _Track(in_force)
        self._draft = _Track(draft)
        self._version = version
        self._report_from_ms = report_from_ms
        self._max_changes = max_changes
        self._counts = ReplayResult()
        self._changes: list[Change] = []

    def add(self, past: Iterable[PastRecord]) -> None:
        """Judge the next transactions."""
        for each in past:
            self._judge_record(each)

    def result(self) -> ReplayResult:
        """Return the result so far."""
        return replace(self._counts, changes=tuple(self._changes))

    def _judge_record(self, past: PastRecord) -> None:
        judged, counts = past.judged, self._counts
        is_reported = judged.case.now_ms[0] >= self._report_from_ms
        if judged.said is None:
            self._counts = replace(counts, others=counts.others + is_reported)
            return
        is_older = judged.version != self._version
        then = ReplayVerdict(judged.said)
        known = judged.case if past.facts is None else past.facts
        if is_older:
            live = self._in_force.judge(known, judged, {}, None)
            draft = self._draft.judge(known, judged, {}, None)
        else:
            facts = _combined_case(self._in_force.policy, judged.case, known)
            live = self._in_force.judge(judged.case, judged, judged.used, None)
            draft = self._draft.judge(facts, judged, judged.used, self._in_force)
        in_force, now = _verdict_of(live), _verdict_of(draft)
        # With the same verdict the transaction ends as it really did: a plugin may have refused it,
        # or a person approved it.
        is_made = judged.outcome == ALLOWED if in_force == then else in_force == ALLOWED
        self._in_force.charge(judged.case, live, past.kept, is_made)
        is_made = is_made if now == in_force else now == ALLOWED
        self._draft.charge(judged.case, draft, past.kept, is_made)
        if not is_reported:
            return
        before = in_force if is_older else then
        self._counts = replace(
            counts,
            judged=counts.judged + 1,
            older=counts.older + is_older,
            older_differ=counts.older_differ + (is_older and in_force != then),
            changed=counts.changed + (now != before),
        )
        if now != before and len(self._changes) < self._max_changes:
            findings = _findings_of(live if now == ALLOWED else draft)
            self._changes.append(Change(judged, then, before, now, findings, is_older))


def _combined_case(policy: CompiledPolicy, stored: Case, known: Case) -> Case:
    """Return a case with stored facts that the policy used, and otherwise facts known now.

    Stored facts are exact, such as the recipients that the wallet had paid by then.
    """
    under = policy.of_chain(stored)
    if under:
        known = replace(known, lines=stored.lines, own=stored.own)
    if any(each.asks_new for each in under):
        known = replace(known, paid=stored.paid, lookalikes=stored.lookalikes)
    if len(under) < len(stored.chain) and Operation.BURN in {
        line.operation for line in stored.lines
    }:
        known = replace(known, launched=stored.launched)
    return known


class _Track:
    """A policy, and the sums that it charged in the replay."""

    def __init__(self, policy: CompiledPolicy) -> None:
        self.policy = policy
        self._counters: dict[tuple[str, str], _Counter] = {}

    def judge(
        self, facts: Case, judged: JudgedCase, stored: Mapping[Need, int], in_force: _Track | None
    ) -> Decision:
        """Decide by the stored sums if there are any, otherwise by the sums of this track.

        Args:
            in_force: the track to which the stored sums belong; None for this track.
        """
        case = replace(
            facts, book=self.policy.book, dollars=line_dollars(facts.lines, judged.prices)
        )
        ends_ms = case.now_ms[-1]
        used: dict[Need, int] = {}
        for need in needed(self.policy.sets, case):
            known = stored.get(need)
            if known is None:
                used[need] = self._window_sum(need, ends_ms)
            elif in_force is None:
                used[need] = known
            else:
                more = self._window_sum(need, ends_ms) - in_force._window_sum(need, ends_ms)
                used[need] = max(0, known + more)
        return decide(self.policy.sets, case, used)

    def charge(self, case: Case, decision: Decision, kept: CountedPart, is_made: bool) -> None:
        """Count the part of a made transaction that still counts."""
        if not is_made or kept == CountedPart.NOTHING:
            return
        # The later time of both clocks is used, as in a reservation.
        at_ms = max(case.now_ms)
        for charge in decision.charges:
            if kept == CountedPart.ALL or charge.asset == COSTS:
                self._count_charge(charge, at_ms)
        for scope in {charge.scope for charge in decision.charges}:
            self._count_charge(Charge(scope, RATE, 1), at_ms)

    def _count_charge(self, charge: Charge, at_ms: int) -> None:
        counter = self._counters.setdefault((charge.scope, charge.asset), _Counter())
        counter.add(at_ms, charge.units)

    def _window_sum(self, need: Need, ends_ms: int) -> int:
        scope, asset, length_ms = need
        counter = self._counters.get((scope, asset))
        return 0 if counter is None else counter.since(ends_ms - length_ms)


class _Counter:
    """Units by time, which can be summed since any time; times are added nearly in order."""

    __slots__ = ("_sums", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._sums = [0]

    def add(self, at_ms: int, units: int) -> None:
        place = bisect_right(self._times, at_ms)
        self._times.insert(place, at_ms)
        self._sums.insert(place + 1, self._sums[place])
        for index in range(place + 1, len(self._sums)):
            self._sums[index] += units

    def since(self, before_ms: int) -> int:
        """Return the sum of the units later than `before_ms`."""
        return self._sums[-1] - self._sums[bisect_right(self._times, before_ms)]


def _verdict_of(decision: Decision) -> ReplayVerdict:
    refused = decision.refused
    if refused and refused.why == Reason.PRICE and refused.detail == NOT_ASKED.reason:
        return ReplayVerdict.UNKNOWN
    return ReplayVerdict(judged_form.grants_outcome(decision))


def _findings_of(decision: Decision) -> tuple[Finding, ...]:
    return decision.held if decision.refused is None else (decision.refused,)


async def replay_stored(
    database: Database,
    tokens: TokenList,
    days: int,
    draft: GrantPolicy | None = None,
    newest: int | None = None,
) -> dict[str, Any]:
    """Return as JSON the decisions of the last `days` that a draft or the current policy changes.

    A transaction whose record cannot be read is counted, and stops no other.

    Args:
        newest: the number of transactions to judge; None for all.

    Raises:
        InvalidRequest: `days` is out of range, or more than `MOST_REPLAYED` transactions were
            judged.
    """
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MAX_DAYS:
        raise InvalidRequest(f"days must be a whole number from 1 to {MAX_DAYS}")
    async with database.read() as connection:
        policy = await read_policy(connection)
        version = await grants.version(connection)
        in_force = CompiledPolicy.compile(policy.sets, policy.book)
        drafted = in_force if draft is None else CompiledPolicy.compile(draft.sets, draft.book)
        from_ms = (await database.moment(connection)).database_ms - days * DAY_MS
        longest_ms = max(in_force.longest_ms, drafted.longest_ms)
        seq, count = await first_judged(connection, from_ms - longest_ms)
        omitted = 0
        if newest is not None and count > newest:
            seq = int(await connection.scalar(_NEWEST, {"b_offset": newest - 1}) or seq)
            _, of_days = await first_judged(connection, from_ms)
            omitted = max(0, of_days - newest)
    if newest is None and count > MOST_REPLAYED:
        raise InvalidRequest(
            f"days must be fewer: {count} transactions were judged in these days and the longest"
            f" window before, and at most {MOST_REPLAYED} are replayed"
        )
    run = Replay(in_force, version, drafted, report_from_ms=from_ms, max_changes=MOST_CHANGES)
    unread = 0
    while seq:
        async with database.read() as connection:
            page, seq, wrong = await judged_page(connection, seq)
            past = await _add_facts(connection, page)
        unread += wrong
        await asyncio.to_thread(run.add, past)
    found = run.result()
    async with database.read() as connection:
        sentences = [await _change_sentence(connection, tokens, each) for each in found.changes]
    counted = {"omitted": omitted, "unread": unread}
    return _json(days, version, found, sentences) | counted


# The number of transactions in one query.
_PAGE: Final = 500
_FIRST_JUDGED = select(func.min(judged_effects.c.seq), func.count()).where(
    judged_effects.c.created_ms > bindparam("b_after")
)
_NEWEST = (
    select(judged_effects.c.seq)
    .order_by(judged_effects.c.seq.desc())
    .limit(1)
    .offset(bindparam("b_offset"))
)
_PAGE_JUDGED = (
    select(judged_effects, transactions.c.status, holds.c.state)
    .outerjoin(transactions, transactions.c.id == judged_effects.c.transaction_id)
    .outerjoin(holds, holds.c.id == judged_effects.c.transaction_id)
    .where(judged_effects.c.seq >= bindparam("b_seq"))
    .order_by(judged_effects.c.seq)
    .limit(bindparam("b_size"))
)
_KEPT_BY_FAILED = select(
    reservations.c.transaction_id, reservations.c.asset, reservations.c.units
).where(
    reservations.c.transaction_id.in_(bindparam("ids", expanding=True)),
    reservations.c.scope.startswith("wallet:"),
)


async def first_judged(connection: AsyncConnection, after_ms: int) -> tuple[int, int]:
    """Return the first `seq` judged after a time, and the count since; 0, 0 if none."""
    row = (await connection.execute(_FIRST_JUDGED, {"b_after": after_ms})).one()
    return int(row[0] or 0), int(row[1])


async def judged_page(
    connection: AsyncConnection, seq: int, size: int = _PAGE
) -> tuple[list[PastRecord], int, int]:
    """Return up to `size` transactions from `seq` on, in the order in which they were judged.

    The second value is the `seq` of the next page, 0 if there is none; the third is the number of
    records that cannot be read, which are left out.
    """
    found = await connection.execute(_PAGE_JUDGED, {"b_seq": seq, "b_size": size})
    rows = [dict(row._mapping) for row in found]
    failed = [
        row["transaction_id"] for row in rows if row["status"] == TransactionStatus.FAILED.value
    ]
    counted: dict[str, dict[str, int]] = {id_: {} for id_ in failed}
    if failed:
        for id_, asset, units in await connection.execute(_KEPT_BY_FAILED, {"ids": failed}):
            counted[id_][asset] = int(units)
    past: list[PastRecord] = []
    unread = 0
    for row in rows:
        left, kept = counted.get(row["transaction_id"]), CountedPart.ALL
        if row["state"] == HoldState.EXECUTED.value:
            # The transaction made after the approval was judged too, and counts itself.
            kept = CountedPart.NOTHING
        elif left is not None and not any(left[asset] for asset in left if asset != COSTS):
            kept = CountedPart.COSTS if left else CountedPart.NOTHING
        try:
            past.append(PastRecord(from_row(row), kept))
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ):
            unread += 1
    return past, int(rows[-1]["seq"]) + 1 if rows else 0, unread


class _KnownFacts(NamedTuple):
    """Facts that are known now about some transactions.

    Attributes:
        wallets: address of a wallet of this service -> when it was made.
        paid: wallet and address -> when the wallet paid it first, and by which transaction.
        launched: wallets, each with a mint that it launched.
    """

    wallets: Mapping[str, int]
    paid: Mapping[tuple[str, str], tuple[int, str]]
    launched: Collection[tuple[str, str]]

    def case_of(self, past: PastRecord) -> Case:
        """Return a transaction's case with the facts of its time."""
        case = past.judged.case
        at_ms = case.now_ms[0]
        own = {each for each in addresses(case.lines) if self.wallets.get(each, at_ms + 1) <= at_ms}
        lines = mark_funding(case.lines, own)
        paid = set(case.paid)
        for each in recipients(lines):
            when, by = self.paid.get((case.wallet_id, each), (at_ms, ""))
            if when < at_ms and by != past.judged.transaction_id:
                paid.add(each)
        launched = {mint for mint in _burned_mints(case) if (case.wallet_id, mint) in self.launched}
        return replace(
            case,
            lines=lines,
            own=case.own | own,
            paid=frozenset(paid),
            launched=case.launched | launched,
        )


async def _add_facts(connection: AsyncConnection, past: Sequence[PastRecord]) -> list[PastRecord]:
    cases = [each.judged.case for each in past]
    named = dict.fromkeys(address for case in cases for address in addresses(case.lines))
    burned = {(case.wallet_id, mint) for case in cases for mint in _burned_mints(case)}
    own = await recipient_store.own_wallets(connection, named)
    facts = _KnownFacts(
        {address: row.created_ms for address, row in own.items()},
        await recipient_store.first_payments(
            connection, {(case.wallet_id, each) for case in cases for each in addresses(case.lines)}
        ),
        {
            (wallet_id, mint)
            for wallet_id, mint in burned
            if await transaction_store.launched(connection, wallet_id, [mint])
        },
    )
    return [replace(each, facts=facts.case_of(each)) for each in past]


def _burned_mints(case: Case) -> set[str]:
    return {line.asset for line in case.lines if line.operation == Operation.BURN}


async def _change_sentence(connection: AsyncConnection, tokens: TokenList, change: Change) -> str:
    names = await names_in(connection, tokens, change.findings)
    said = change.in_force if change.now is ReplayVerdict.ALLOWED else change.now
    sentence = reason_sentence if said is ReplayVerdict.HELD else finding_sentence
    return " ".join(sentence(each, names) for each in change.findings)


def _json(days: int, version: int, found: ReplayResult, sentences: Iterable[str]) -> dict[str, Any]:
    return {
        "days": days,
        "version": version,
        "judged": found.judged,
        "refusedByOtherRules": found.others,
        "judgedByOlderPolicy": found.older,
        "changedSinceThen": found.older_differ,
        "changed": found.changed,
        "changes": [
            {
                "transactionId": each.judged.transaction_id,
                "walletId": each.judged.case.wallet_id,
                "timestamp": iso(each.judged.case.now_ms[0]),
                "type": each.judged.type,
                "chain": list(each.judged.case.chain),
                "then": each.then.value,
                "inForce": each.in_force.value,
                "now": each.now.value,
                "sentence": sentence,
                "olderPolicy": each.is_older,
            }
            for each, sentence in zip(found.changes, sentences, strict=True)
        ],
    }
