"""Judges transactions by grants, in the database transaction that reserves them. Finds grants near
their end: an amount is nearly used up, or their date is near. Grants are read once per version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database import names as name_store
from solward.database.database import Database
from solward.database.window_clock import Moment
from solward.solana.token_list import TokenList
from solward.support.clock import iso
from solward.support.durations import DAY_MS
from solward.types.errors import RateReached
from solward.types.guardrail import SOL, Intent, Operation, TransactionEffects
from solward.vault.grants import judged as judged_form
from solward.vault.grants.decide import CompiledGrants, Need, compile_grants, decide, needed, priced
from solward.vault.grants.dollars import AssetPrice, line_dollars
from solward.vault.grants.judged import ALLOWED, GRANTS_RULE, JudgedCase
from solward.vault.grants.model import (
    RATE,
    Case,
    Decision,
    Finding,
    Grant,
    Reason,
    Window,
    from_stored,
)
from solward.vault.grants.sentences import finding_refusal, left_sentence, reason_sentence
from solward.vault.grants.spelling import Names
from solward.vault.guardrails.rules import Verdict
from solward.vault.money.judge.grant_case import (
    Outgoings,
    addresses,
    find_outgoings,
    mark_funding,
    recipients,
)
from solward.vault.money.judge.prices import Prices
from solward.vault.money.request import Actor, Payment, PocketUse
from solward.vault.refusal import RefusalNumbers
from solward.vault.store import grants as store
from solward.vault.store import judged as judged_store
from solward.vault.store import recipients as recipient_store
from solward.vault.store import transactions as transaction_store
from solward.vault.store import window_sums

Book = Mapping[str, frozenset[str]]

# The kinds of principals with stored names; other principals are called by their id.
STORED_KINDS: Final = ("agent", "key", "schedule", "wallet")
_NO_TOKENS: Final = TokenList(())
# The maximum number of cached principals: a service has one for each agent, key and wallet.
_MOST_KEPT = 10_000

# Refusals that end with time alone, without another transaction or other grants.
_PASSING: Final = frozenset({Reason.PRICE, Reason.RATE})

NEAR_END_PERCENT: Final = 90
"""The used percentage of a window at which its grant is near its end."""
ENDS_WITHIN_MS: Final = DAY_MS
"""The time before a grant's end date from which the grant is near its end."""


class PricesMissing(Exception):
    """Raised if changed grants count dollars of assets whose prices were not read.

    The caller must read the prices outside the database transaction, and judge again.
    """

    def __init__(self, assets: Collection[str]) -> None:
        super().__init__("prices are missing")
        self.assets = frozenset(assets)


@dataclass(frozen=True, slots=True)
class Question:
    """A request to judge: the actor, the intent, and the simulated effects.

    Attributes:
        effects: None if nothing was simulated.
        payment: the payment, if a seller is paid for an HTTP request.
        bid_lamports: the lamports by which the network fee can be lowered.
        leaving: the amounts that the bytes let leave. None for bytes without a bound, which are
            refused, and for an airdrop, whose bytes are the faucet's.
    """

    wallet_id: str
    actor: Actor
    intent: Intent
    effects: TransactionEffects | None = None
    pocket: PocketUse | None = None
    payment: Payment | None = None
    bid_lamports: int = 0
    leaving: Outgoings | None = field(init=False)

    def __post_init__(self) -> None:
        outflow = None if self.effects is None else self.effects.outflow
        leaving = None if outflow is None else find_outgoings(outflow, self.intent, self.pocket)
        object.__setattr__(self, "leaving", leaving)

    @property
    def chain(self) -> tuple[str, ...]:
        """All principals that must be allowed to make the request, the wallet first."""
        return self.actor.chain(self.wallet_id)


@dataclass(frozen=True, slots=True)
class GrantRuling:
    """The verdict of grants on a transaction.

    Attributes:
        reason: the sentences that say why the transaction is refused or held.
        numbers: the numbers in the reason of a refusal, if there are any.
        used: the windows' sums before the transaction.
        version: the version of the grants.
        is_asked: whether grants were consulted; if not, `decision` is empty.
        charged: the grants to charge: principal, number in the principal's list, grant.
    """

    case: Case
    decision: Decision
    version: int
    prices: Mapping[str, AssetPrice] = field(default_factory=dict)
    used: Mapping[Need, int] = field(default_factory=dict)
    reason: str | None = None
    numbers: RefusalNumbers | None = None
    is_asked: bool = True
    charged: tuple[tuple[str, int, Grant], ...] = ()

    def add_to_verdict(self, verdict: Verdict) -> Verdict:
        """Return the verdict of the built-in rules with the decision of grants added."""
        if not verdict.allowed or not self.decision.is_judged:
            return verdict
        verdict = replace(verdict, applied=(*verdict.applied, GRANTS_RULE))
        if self.decision.refused is not None:
            return replace(
                verdict,
                rule=GRANTS_RULE,
                reason=self.reason,
                numbers=self.numbers,
                passing=self.decision.refused.why in _PASSING,
                cause=RateReached if self.decision.refused.why is Reason.RATE else None,
            )
        return replace(verdict, hold=self.reason) if self.decision.held else verdict

    async def note(self, connection: AsyncConnection, own_id: str, kind: str, outcome: str) -> None:
        """Store the judged transaction, and its recipients if it is allowed.

        Args:
            own_id: id of the record, or of the hold.
            kind: the record's type.
            outcome: `ALLOWED`, `HELD`, or the rule that refused it.
        """
        judged = JudgedCase(
            own_id,
            kind,
            self.case,
            outcome,
            self.version,
            self.prices,
            self.used,
            judged_form.grants_outcome(self.decision) if self.is_asked else None,
        )
        await judged_store.note_judged(connection, judged_form.to_row(judged))
        if outcome == ALLOWED:
            paid = recipients(self.case.lines)
            await recipient_store.note_paid(connection, self.case.wallet_id, paid, own_id)


@dataclass(slots=True)
class _CachedGrants:
    """The grants and the address book of one version; None for a principal without grants."""

    version: int
    sets: dict[str, CompiledGrants | None] = field(default_factory=dict)
    book: Book | None = None


class GrantSets:
    """A cache of principals' grants, which are read when they are needed."""

    def __init__(self) -> None:
        self._kept = _CachedGrants(-1)

    async def read(
        self, connection: AsyncConnection, version: int, principals: Collection[str]
    ) -> dict[str, CompiledGrants]:
        """Return grants by principal, without the principals that have no grants.

        Args:
            version: version of the grants, as this database transaction sees it.
        """
        kept = self._cache_for(version)
        missing = [each for each in principals if each not in kept.sets]
        if missing:
            if len(kept.sets) + len(missing) > _MOST_KEPT:
                kept.sets.clear()
                missing = list(principals)
            found = await store.sets_of(connection, missing)
            for each in missing:
                rows = found.get(each)
                kept.sets[each] = (
                    None if rows is None else compile_grants(list(map(from_stored, rows)))
                )
        return self._pick_grants(kept, principals)

    async def book(self, connection: AsyncConnection, version: int) -> Book:
        """Return the address book: name -> addresses."""
        kept = self._cache_for(version)
        if kept.book is None:
            found = await name_store.groups(connection)
            kept.book = {name: frozenset(addresses) for name, addresses in found.items()}
        return kept.book

    def cached_grants(self, principals: Collection[str]) -> dict[str, CompiledGrants]:
        """Return the cached grants of the principals, which may be out of date."""
        return self._pick_grants(self._kept, principals)

    def _cache_for(self, version: int) -> _CachedGrants:
        if self._kept.version != version:
            self._kept = _CachedGrants(version)
        return self._kept

    @staticmethod
    def _pick_grants(kept: _CachedGrants, principals: Collection[str]) -> dict[str, CompiledGrants]:
        found = ((each, kept.sets.get(each)) for each in principals)
        return {each: grants for each, grants in found if grants is not None}


class GrantJudge:
    """Judges transactions by the current grants.

    Attributes:
        sets: the grants of principals.
        tokens: token symbols for the texts of refusals.
    """

    def __init__(
        self,
        prices: Prices | None = None,
        tokens: TokenList | None = None,
        listed: frozenset[str] | None = None,
    ) -> None:
        """Create a judge. Principals without grants may buy the `listed` mints; None allows all."""
        self.sets = GrantSets()
        self._prices = Prices(()) if prices is None else prices
        self.tokens = _NO_TOKENS if tokens is None else tokens
        self._listed = listed

    async def prices_for(
        self, question: Question, more: Collection[str] = ()
    ) -> dict[str, AssetPrice]:
        """Return prices of the assets that cached grants of the chain may count in dollars. Call
        this before the database transaction."""
        assets = set(more)
        if question.leaving is not None and any(
            each.counts_dollars for each in self.sets.cached_grants(question.chain).values()
        ):
            assets.update(line.asset for line in question.leaving.lines if line.units)
        return await self._prices.prices(assets) if assets else {}

    async def judge(
        self,
        connection: AsyncConnection,
        question: Question,
        version: int,
        now: Moment,
        prices: Mapping[str, AssetPrice],
        *,
        is_refused: bool = False,
    ) -> GrantRuling | None:
        """Judge a request now; return None if the bytes do not bound the amounts that leave.

        Args:
            version: version of the grants, as this database transaction sees it.
            prices: the result of `prices_for`.
            is_refused: whether a rule refused the request already, so that grants do not matter.

        Raises:
            PricesMissing: call `prices_for` with the missing assets, and judge again.
        """
        leaving = question.leaving
        if leaving is None:
            return None
        case = Case(
            wallet_id=question.wallet_id,
            chain=question.chain,
            lines=leaving.lines,
            costs_lamports=leaving.costs_lamports,
            now_ms=(now.database_ms, now.window_ms),
            swap=leaving.swap,
            is_admins=question.actor.is_admins,
            is_approved=question.actor.approval is not None,
            listed=self._listed,
        )
        if is_refused:
            return GrantRuling(case, Decision(False), version, is_asked=False)
        under = await self.sets.read(connection, version, question.chain)
        if under:
            case = await self._with_facts(connection, case, under, version)
        elif not case.is_admins:
            case = await _with_launched(connection, case)
        timely = self._prices.timely(prices)
        wanted = {case.lines[at].asset for at in priced(under, case)}
        if wanted - timely.keys():
            raise PricesMissing(wanted)
        if wanted:
            case = replace(case, dollars=line_dollars(case.lines, timely))
        counted = await window_uses(connection, needed(under, case), now.window_ms)
        decision = decide(under, case, counted)
        granted = GrantRuling(
            case,
            decision,
            version,
            {asset: timely[asset] for asset in wanted},
            counted,
            charged=_charged_grants(decision, under),
        )
        return await self._with_reason(connection, granted, under)

    async def _with_facts(
        self,
        connection: AsyncConnection,
        case: Case,
        under: Mapping[str, CompiledGrants],
        version: int,
    ) -> Case:
        own = frozenset(await recipient_store.own_wallets(connection, addresses(case.lines)))
        case = replace(case, own=own, lines=mark_funding(case.lines, own))
        if any(each.uses_book for each in under.values()):
            case = replace(case, book=await self.sets.book(connection, version))
        if any(each.asks_new for each in under.values()):
            paid = recipients(case.lines)
            known, alike = await recipient_store.paid_before(connection, case.wallet_id, paid)
            case = replace(case, paid=known, lookalikes=alike)
        if len(under) < len(case.chain):
            case = await _with_launched(connection, case)
        return case

    async def _with_reason(
        self, connection: AsyncConnection, granted: GrantRuling, under: Mapping[str, CompiledGrants]
    ) -> GrantRuling:
        refused = granted.decision.refused
        if refused is not None:
            refused = await _with_room(connection, refused, under, granted.case.now_ms[-1])
            granted = replace(granted, decision=replace(granted.decision, refused=refused))
        findings = granted.decision.held if refused is None else (refused,)
        if not findings:
            return granted
        names = await names_in(connection, self.tokens, findings)
        if refused is not None:
            refusal = finding_refusal(refused, names)
            return replace(granted, reason=refusal.reason, numbers=refusal.numbers)
        reason = " ".join(reason_sentence(each, names) for each in findings)
        return replace(granted, reason=reason)


async def _with_launched(connection: AsyncConnection, case: Case) -> Case:
    """Return the case with the mints that it burns and that its wallet launched."""
    burned = [line.asset for line in case.lines if line.operation == Operation.BURN]
    launched = await transaction_store.launched(connection, case.wallet_id, burned)
    return replace(case, launched=launched)


async def names_of(
    connection: AsyncConnection, tokens: TokenList, principals: Iterable[str]
) -> Names:
    """Return the names of these agents, keys, schedules and wallets, for sentences."""
    wanted: dict[str, set[str]] = {}
    for each in principals:
        kind, _, own_id = each.partition(":")
        if kind in STORED_KINDS:
            wanted.setdefault(kind, set()).add(own_id)
    rows = {
        kind: await name_store.names_of_kind(connection, kind, ids) for kind, ids in wanted.items()
    }
    return Names(tokens, rows)


async def names_in(
    connection: AsyncConnection, tokens: TokenList, findings: Sequence[Finding]
) -> Names:
    """Return the names in the sentences of these findings."""
    named = [each.who for each in findings]
    named += [f"wallet:{each.detail}" for each in findings if each.why == Reason.WALLET]
    return await names_of(connection, tokens, named)


def _charged_grants(
    decision: Decision, under: Mapping[str, CompiledGrants]
) -> tuple[tuple[str, int, Grant], ...]:
    scopes = {each.scope for each in decision.charges}
    if not scopes:
        return ()
    return tuple(
        (who, number, grant)
        for who, each in under.items()
        for number, grant in enumerate(each.grants, 1)
        if grant.scope in scopes
    )


async def window_uses(
    connection: AsyncConnection, needs: Collection[Need], now_ms: int
) -> dict[Need, int]:
    """Return the units used in each window that ends now; for `RATE`, the transactions."""
    stored = {need: _stored_need(need) for need in needs}
    found = await window_sums.sum_windows(connection, frozenset(stored.values()), now_ms)
    return {
        need: found[key].transactions if need[1] == RATE else found[key].units
        for need, key in stored.items()
    }


async def room_at(connection: AsyncConnection, need: Need, excess: int, now_ms: int) -> int | None:
    """Return the Unix milliseconds at which `excess` units have left the window; None if never."""
    is_rate = need[1] == RATE
    return await window_sums.room_at(
        connection, *_stored_need(need), excess, now_ms, transactions=is_rate
    )


def _stored_need(need: Need) -> Need:
    """Return the need as stored, where a rate is counted from the rows of SOL."""
    scope, asset, length = need
    return scope, SOL if asset == RATE else asset, length


async def _with_room(
    connection: AsyncConnection,
    finding: Finding,
    under: Mapping[str, CompiledGrants],
    now_ms: int,
) -> Finding:
    """Add to the finding of a full window the time at which the transaction will fit."""
    limit, counted, asked = finding.limit, finding.used, finding.requested
    length, number = finding.window_ms, finding.number
    if finding.who not in under or length is None or number is None:
        return finding
    if limit is None or counted is None or asked is None or asked > limit:
        return finding
    need = under[finding.who].grants[number - 1].scope, finding.counted_as or SOL, length
    at = await room_at(connection, need, counted + asked - limit, now_ms)
    return replace(finding, room_ms=at, now_ms=now_ms)


def find_grants_near_end(granted: GrantRuling, tokens: TokenList) -> Iterator[tuple[str, str]]:
    """Yield a key and a sentence for each grant that a transaction brings near its end. Grant and
    limit determine the key."""
    now_ms, names = max(granted.case.now_ms), Names(tokens, {})
    charged: Counter[tuple[str, str]] = Counter()
    for each in granted.decision.charges:
        charged[each.scope, each.asset] += each.units
    for who, number, grant in granted.charged:
        called = f"Grant {number} of {who}"
        for need, decimals, window in _limit_windows(grant):
            if need[:2] not in charged or need not in granted.used:
                continue
            counted = granted.used[need] + charged[need[:2]]
            if is_nearly_used(counted, window.most):
                left = left_sentence(need[1], decimals, window, counted, names)
                yield f"{grant.scope}#{need[1]}#{window.length_ms}", f"{called}: {left}"
        if is_ending(grant, now_ms):
            assert grant.until_ms is not None
            yield f"{grant.scope}#until", f"{called} ends at {iso(grant.until_ms)}"


def is_nearly_used(used: int, most: int) -> bool:
    """Return whether a window is nearly used up; a window that allows nothing never is."""
    return most > 0 and used * 100 >= most * NEAR_END_PERCENT


def is_ending(grant: Grant, now_ms: int) -> bool:
    """Return whether a grant has not ended yet and ends within `ENDS_WITHIN_MS`."""
    return grant.until_ms is not None and now_ms < grant.until_ms <= now_ms + ENDS_WITHIN_MS


def _limit_windows(grant: Grant) -> Iterator[tuple[Need, int, Window]]:
    """Yield the windows of amounts and costs. Rates are left out: they have room again soon."""
    for counted, decimals, window in grant.limits():
        if counted != RATE:
            yield (grant.scope, counted, window.length_ms), decimals, window


class GrantEndCounter:
    """Counts stored grants that are near their end, and parses them once for each version."""

    def __init__(self) -> None:
        self._version = -1
        self._grants: tuple[Grant, ...] = ()

    async def count(self, database: Database, connection: AsyncConnection) -> tuple[int, int]:
        """Return how many grants have a window nearly used up, and how many end soon."""
        version = await store.version(connection)
        if version != self._version:
            sets = await store.all_sets(connection)
            self._grants = tuple(from_stored(each) for found in sets.values() for each in found)
            self._version = version
        now = await database.moment(connection)
        clock = max(now.database_ms, now.window_ms)
        in_force = [g for g in self._grants if g.until_ms is None or clock < g.until_ms]
        ending = sum(is_ending(each, clock) for each in in_force)
        moved = await window_sums.grants_that_count(connection)
        windows = {
            need: window
            for grant in in_force
            if grant.scope in moved
            for need, _, window in _limit_windows(grant)
        }
        counted = await window_sums.sum_windows(connection, windows, now.window_ms)
        used_up = {n[0] for n, w in windows.items() if is_nearly_used(counted[n].units, w.most)}
        return len(used_up), ending
