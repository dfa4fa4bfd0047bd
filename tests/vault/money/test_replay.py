"""A policy judged again over what was judged before, against a history that is simulated here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.promises import promise
from tests.support.examples import examples

from solward.operations.policies.replay import (
    CompiledPolicy,
    CountedPart,
    PastRecord,
    Replay,
    ReplayResult,
)
from solward.resources.policy import ReplayVerdict
from solward.types.guardrail import Line, Operation
from solward.vault.grants.decide import Need, decide, needed
from solward.vault.grants.dollars import Price, line_dollars
from solward.vault.grants.judged import (
    ALLOWED,
    GRANTS_RULE,
    HELD,
    REFUSED,
    JudgedCase,
    grants_outcome,
)
from solward.vault.grants.model import (
    ANY_ASSET,
    RATE,
    AssetLimit,
    Case,
    Charge,
    Grant,
    NewRecipient,
    Reason,
    Window,
)

MINT = "So1dTokenNobodyLists11111111111111111111111"
HOUR, DAY = 3_600_000, 86_400_000
START = 1_800_000_000_000
AGENT, KEY = "agent:a", "key:k"
SENT = frozenset({Operation.TRANSFER})


def replay(
    stored: Iterable[PastRecord],
    in_force: CompiledPolicy,
    version: int,
    draft: CompiledPolicy | None = None,
    *,
    report_from_ms: int = 0,
) -> ReplayResult:
    """`Replay` over everything at once; without a draft the policy in force is its own."""
    run = Replay(in_force, version, draft or in_force, report_from_ms=report_from_ms)
    run.add(stored)
    return run.result()


def grant(who: str = AGENT, name: str = "g", **changes: Any) -> Grant:
    """Up to 100 units of the mint a day, unless the test says otherwise."""
    most = changes.pop("most", 100)
    limit = AssetLimit(MINT, 6, (Window(DAY, most),), hold=changes.pop("hold", None))
    return structs.replace(Grant(name, who, SENT, assets={MINT: limit}), **changes)


def policy(*grants: Grant, book: Mapping[str, Sequence[str]] | None = None) -> CompiledPolicy:
    sets = {who: [each for each in grants if each.who == who] for who in {g.who for g in grants}}
    return CompiledPolicy.compile(sets, book or {})


@dataclass(slots=True)
class History:
    """A service's grants: judged by sums over rows of reservations, which come and go."""

    now: CompiledPolicy
    version: int = 1
    ms: int = START
    rows: dict[str, list[tuple[Charge, int]]] = field(default_factory=dict)
    past: list[PastRecord] = field(default_factory=list)

    def ask(
        self,
        units: int,
        who: Sequence[str] = (AGENT,),
        *,
        later_ms: int = 1_000,
        refused_by: str | None = None,
        becomes: str | None = None,
        prices: Mapping[str, Price] | None = None,
        **changes: Any,
    ) -> str:
        """Judge a transfer of the mint to `shop`; returns what becomes of it.

        Args:
            refused_by: a rule before grants, which are not asked then.
            becomes: what others than grants make of it.
        """
        self.ms += later_ms
        line = Line(Operation.TRANSFER, MINT, units, "shop", decimals=6)
        case = Case("w", ("wallet:w", *who), (line,), 5_000, (self.ms, self.ms), **changes)
        worth = line_dollars(case.lines, prices or {})
        seen = replace(case, book=self.now.book, dollars=worth)
        sets = self.now.sets
        used = {need: self.sum(need) for need in needed(sets, seen)}
        decision = decide(sets, seen, used)
        verdict: str | None = grants_outcome(decision)
        outcome = becomes or {REFUSED: GRANTS_RULE}.get(verdict, verdict)
        if refused_by is not None:
            outcome, verdict, used = refused_by, None, {}
        name = str(len(self.past))
        if outcome == ALLOWED:
            self.rows[name] = [(charge, self.ms) for charge in decision.charges]
        judged = JudgedCase(
            name, "transfer", case, outcome, self.version, prices or {}, used, verdict
        )
        self.past.append(PastRecord(judged))
        return outcome

    def sum(self, need: Need) -> int:
        scope, asset, length = need
        counts = [
            charge.units if asset != RATE else 1
            for row in self.rows.values()
            for charge, at in row
            if charge.scope == scope and at > self.ms - length
            if charge.asset == (asset if asset != RATE else "SOL")
        ]
        return sum(counts)

    def release(self, name: str) -> None:
        """It never landed."""
        self.rows.pop(name, None)
        index = int(name)
        self.past[index] = replace(self.past[index], kept=CountedPart.NOTHING)

    def edit(self, now: CompiledPolicy, version: int | None = None) -> None:
        self.now, self.version = now, version or self.version + 1

    def replayed(self, draft: CompiledPolicy | None = None, **options: Any) -> ReplayResult:
        return replay(self.past, self.now, self.version, draft, **options)


def test_a_lower_limit_refuses_what_is_beyond_it_and_nothing_else() -> None:
    history = History(policy(grant()))
    for units in (40, 30, 20, 5):
        assert history.ask(units) == ALLOWED
    found = history.replayed(policy(grant(name="lower", most=70)))
    assert (found.judged, found.changed) == (4, 2)
    twenty, five = found.changes
    assert [twenty.judged.transaction_id, five.judged.transaction_id] == ["2", "3"]
    assert (twenty.then, twenty.now) == (ReplayVerdict.ALLOWED, ReplayVerdict.REFUSED)
    (finding,) = twenty.findings
    assert (finding.why, finding.limit, finding.used, finding.requested) == (
        Reason.WINDOW,
        70,
        70,
        20,
    )


def test_a_higher_limit_allows_what_was_refused_and_counts_it() -> None:
    history = History(policy(grant()))
    assert [history.ask(60) for _ in range(4)] == [ALLOWED, *[GRANTS_RULE] * 3]
    found = history.replayed(policy(grant(name="higher", most=180)))
    # The fourth has no room beside the second and the third.
    assert [each.judged.transaction_id for each in found.changes] == ["1", "2"]
    assert {each.now for each in found.changes} == {ReplayVerdict.ALLOWED}
    # Why it was refused then.
    assert [each.findings[0].limit for each in found.changes] == [100, 100]


def test_a_grant_beside_an_unchanged_one_takes_what_was_refused_off_it() -> None:
    first = grant(most=50)
    history = History(policy(first))
    assert [history.ask(units) for units in (50, 30, 20)] == [ALLOWED, GRANTS_RULE, GRANTS_RULE]
    found = history.replayed(policy(first, grant(name="second", most=30)))
    assert [each.judged.transaction_id for each in found.changes] == ["1"]
    # Before it, it takes the first payment: the unchanged grant has room for the others.
    found = history.replayed(policy(grant(name="second", most=50), first))
    assert [each.judged.transaction_id for each in found.changes] == ["1", "2"]


@promise("draft-holds-count-nothing")
def test_what_would_be_held_is_not_counted_and_a_hold_lifted_is() -> None:
    history = History(policy(grant(hold=50)))
    assert [history.ask(units) for units in (60, 40, 60, 1)] == [HELD, ALLOWED, HELD, ALLOWED]
    found = history.replayed(policy(grant(name="no hold")))
    then_now = [(each.judged.transaction_id, each.then, each.now) for each in found.changes]
    assert then_now == [
        ("0", ReplayVerdict.HELD, ReplayVerdict.ALLOWED),
        ("2", ReplayVerdict.HELD, ReplayVerdict.REFUSED),
        ("3", ReplayVerdict.ALLOWED, ReplayVerdict.REFUSED),
    ]


def test_an_approved_payment_counts_once_where_nobody_need_be_asked() -> None:
    history = History(policy(grant(hold=50)))
    assert history.ask(60) == HELD
    assert history.ask(60, is_approved=True) == ALLOWED
    assert history.ask(40) == ALLOWED
    history.past[0] = replace(history.past[0], kept=CountedPart.NOTHING)
    found = history.replayed(policy(grant(name="no hold")))
    assert [each.judged.transaction_id for each in found.changes] == ["0"]


@promise("draft-holds-count-nothing")
def test_what_failed_takes_no_room_in_the_draft() -> None:
    history = History(policy(grant()))
    for units in (70, 70):
        assert history.ask(units) == ALLOWED
        history.release(str(len(history.past) - 1))
    assert history.ask(30) == ALLOWED
    lower = grant(name="lower", most=70, rates=(Window(HOUR, 1),), costs_lamports=5_000)
    assert history.replayed(policy(lower)).changed == 0


def test_what_failed_on_the_ledger_keeps_its_slot_and_its_costs() -> None:
    history = History(policy(grant()))
    assert [history.ask(90), history.ask(1)] == [ALLOWED, ALLOWED]
    history.past[0] = replace(history.past[0], kept=CountedPart.COSTS)
    assert history.replayed(policy(grant(name="lower", most=90))).changed == 0
    rated = grant(name="rated", rates=(Window(HOUR, 1),))
    assert history.replayed(policy(rated)).changes[0].findings[0].why == Reason.RATE
    cheap = grant(name="cheap", costs_lamports=9_999)
    assert history.replayed(policy(cheap)).changes[0].findings[0].why == Reason.COSTS


@promise("other-refusals-stay")
def test_no_grant_changes_what_another_rule_refused() -> None:
    history = History(policy(grant()))
    assert history.ask(90, refused_by="max_per_tx") == "max_per_tx"
    assert history.ask(90) == ALLOWED
    found = history.replayed(policy(grant(name="lower", most=90)))
    assert (found.others, found.judged, found.changed) == (1, 1, 0)


def test_what_others_made_of_it_is_neither_a_change_nor_counted_otherwise() -> None:
    """A plugin's rule refused or held it, a person's approval let it through, 20 were held."""
    history = History(policy(grant(hold=50)))
    assert history.ask(10, becomes="a plugin's rule") == "a plugin's rule"
    assert history.ask(10, becomes=HELD) == HELD
    assert history.ask(60, becomes=GRANTS_RULE) == GRANTS_RULE
    assert history.ask(60, becomes=ALLOWED) == ALLOWED
    assert history.ask(40) == ALLOWED
    assert history.replayed().changed == 0
    # The same lines, so what became of them is the same too.
    assert history.replayed(policy(grant(name="other", hold=50))).changed == 0
    found = history.replayed(policy(grant(name="one less", most=99, hold=50)))
    assert [each.judged.transaction_id for each in found.changes] == ["4"]


def test_a_fact_that_no_grant_looked_at_is_what_is_known_of_it_by_now() -> None:
    history = History(policy(grant()))
    assert [history.ask(10), history.ask(10)] == [ALLOWED, ALLOWED]
    known = replace(history.past[1].judged.case, paid=frozenset({"shop"}))
    history.past[1] = replace(history.past[1], facts=known)
    new = policy(grant(name="n", new=NewRecipient.REFUSE))
    assert [each.judged.transaction_id for each in history.replayed(new).changes] == ["0"]
    # What a grant looked at counts as it was: the payment before it had not landed yet.
    history = History(policy(grant(new=NewRecipient.HOLD)))
    assert history.ask(10) == HELD
    known = replace(history.past[0].judged.case, paid=frozenset({"shop"}))
    history.past[0] = replace(history.past[0], facts=known)
    assert history.replayed().changed == 0
    refuses = policy(grant(name="n", new=NewRecipient.REFUSE))
    assert history.replayed(refuses).changes[0].now == ReplayVerdict.REFUSED


@promise("unpriced-asset-unknown")
def test_an_asset_in_dollars_without_a_stored_price_is_not_known() -> None:
    dollars = AssetLimit(ANY_ASSET, 6, (Window(DAY, 1_000_000),))
    history = History(policy(grant()))
    price = Price(Fraction(1), 6, START)
    assert history.ask(100, prices={MINT: price}) == ALLOWED
    history.edit(policy(grant(most=200)), version=1)
    assert history.ask(100) == ALLOWED
    found = history.replayed(policy(grant(name="usd", assets={ANY_ASSET: dollars})))
    (change,) = found.changes
    assert (change.judged.transaction_id, change.now) == ("1", ReplayVerdict.UNKNOWN)


def test_the_drafts_address_book_is_used() -> None:
    shop = grant(to=("@vendors",))
    history = History(policy(shop, book={"vendors": ["shop"]}))
    assert history.ask(10) == ALLOWED
    (change,) = history.replayed(policy(shop, book={"vendors": []})).changes
    assert change.findings[0].why == Reason.RECIPIENT


@promise("older-policy-marked")
def test_what_an_older_policy_judged_is_no_change_of_the_draft() -> None:
    history = History(policy(grant(most=50)))
    assert [history.ask(60), history.ask(60)] == [GRANTS_RULE, GRANTS_RULE]
    history.edit(policy(grant(name="wider")))
    assert history.ask(20) == ALLOWED
    found = history.replayed()
    assert (found.changed, found.older, found.older_differ) == (0, 2, 1)
    # A draft is compared with the policy in force, which would have allowed the first.
    found = history.replayed(policy(grant(name="narrow", most=50)))
    (change,) = found.changes
    assert (change.then, change.in_force, change.now, change.is_older) == (
        ReplayVerdict.REFUSED,
        ReplayVerdict.ALLOWED,
        ReplayVerdict.REFUSED,
        True,
    )


def test_a_sum_of_an_older_policy_is_not_one_of_the_policy_in_force() -> None:
    kept = grant(name="kept")
    history = History(policy(grant(name="removed"), kept))
    assert [history.ask(60), history.ask(60)] == [ALLOWED, ALLOWED]
    history.edit(policy(kept))
    # All of it would have been charged to the one that is left.
    assert history.replayed().older_differ == 1


def test_what_is_older_than_the_report_fills_the_windows_and_is_not_reported() -> None:
    history = History(policy(grant()))
    assert history.ask(60) == ALLOWED
    from_ms = history.ms + 1
    assert history.ask(40) == ALLOWED
    found = history.replayed(policy(grant(name="lower", most=70)), report_from_ms=from_ms)
    assert (found.judged, found.changed) == (1, 1)
    assert found.changes[0].judged.transaction_id == "1"


def test_all_changes_are_counted_and_the_first_are_kept() -> None:
    history = History(policy(grant()))
    for _ in range(5):
        assert history.ask(1) == ALLOWED
    none = policy(structs.replace(grant(), may=frozenset({Operation.BURN})))
    run = Replay(history.now, 1, none, max_changes=2)
    run.add(history.past)
    assert (run.result().changed, len(run.result().changes)) == (5, 2)


def test_windows_end_at_their_own_clock_and_what_counts_is_stamped_by_the_later() -> None:
    history = History(policy(grant(most=1_000)))
    assert history.ask(60) == ALLOWED
    assert history.ask(60, later_ms=DAY) == ALLOWED
    draft = policy(grant(name="lower", most=60))
    assert history.replayed(draft).changed == 0
    # The database's clock was set a day ahead; windows did not follow.
    last = history.past[-1].judged
    behind = replace(last, case=replace(last.case, now_ms=(history.ms, START + 2_000)))
    history.past[-1] = PastRecord(behind)
    assert history.replayed(draft).changed == 1
    # What was judged with such a clock counts until its day after that time is over.
    first = history.past[0].judged
    ahead = replace(first, case=replace(first.case, now_ms=(history.ms - 1, START + 1_000)))
    history.past = [PastRecord(ahead), PastRecord(last)]
    assert history.replayed(draft).changed == 1


# Random histories.

LIMITS = st.integers(20, 120)
WINDOWS = st.lists(
    st.sampled_from([60_000, HOUR, DAY, 30 * DAY]), min_size=1, max_size=3, unique=True
)


@st.composite
def grants(draw: st.DrawFn) -> Grant:
    asset = draw(st.sampled_from([MINT, MINT, ANY_ASSET]))
    windows = tuple(Window(length, draw(LIMITS)) for length in sorted(draw(WINDOWS)))
    limit = AssetLimit(
        asset,
        6,
        windows,
        per_tx=draw(st.none() | LIMITS),
        hold=draw(st.none() | st.integers(10, 60)),
    )
    one = Grant(
        "",
        draw(st.sampled_from([AGENT, AGENT, KEY, "wallet:w"])),
        SENT,
        assets={asset: limit},
        to=draw(st.sampled_from([("any",), ("@vendors",), ("shop",)])),
        new=draw(st.sampled_from(NewRecipient)),
        costs_lamports=draw(st.sampled_from([10_000_000, 40_000])),
        rates=draw(st.sampled_from([(), (Window(HOUR, 4),)])),
    )
    return structs.replace(one, id=f"{crc32(repr(one).encode()):08x}")


@st.composite
def policies(draw: st.DrawFn) -> CompiledPolicy:
    listed = {each.scope: each for each in draw(st.lists(grants(), max_size=4))}
    book = {"vendors": sorted(draw(st.sets(st.sampled_from(["shop", "bar"]))))}
    return policy(*listed.values(), book=book)


asks = st.tuples(
    st.just("ask"),
    st.integers(1, 60),
    st.sampled_from([(AGENT,), (KEY,), (KEY, AGENT), ()]),
    st.sampled_from([0, 1, 30_000, HOUR, DAY]),
    st.sampled_from([None, None, None, "daily_limit"]),
    st.booleans(),
    st.sampled_from([None, None, None, ALLOWED, HELD, GRANTS_RULE, "a plugin's rule"]),
)
steps = st.one_of(asks, asks, asks, st.tuples(st.just("release"), st.integers(0, 10**6)))
edits = st.tuples(st.just("edit"), policies(), st.booleans())


def lived(history: History, events: Sequence[Any], *, others: bool = True) -> History:
    """The history after `events`; `others` than grants may have made something else of them."""
    for event in events:
        if event[0] == "ask":
            _, units, who, later, refused_by, flag, becomes = event
            if not others:
                becomes = None
            prices = {MINT: Price(Fraction(units % 3 + 1), 6, history.ms)}
            history.ask(
                units,
                who,
                later_ms=later,
                refused_by=refused_by,
                becomes=becomes,
                prices=prices,
                is_admins=not who,
                is_approved=flag and bool(who),
                paid=frozenset({"shop"}) if flag else frozenset(),
            )
        elif event[0] == "release" and history.rows:
            history.release(sorted(history.rows)[event[1] % len(history.rows)])
        elif event[0] == "edit":
            _, now, carries_over = event
            history.edit(now)
            if carries_over:
                # As a new grant starts with what was moved before it.
                scopes = {each.scope for each in scopes_of(now)}
                for row in history.rows.values():
                    row += [(Charge(scope, MINT, 7), at) for _, at in row[:1] for scope in scopes]
                    row += [(Charge(scope, "SOL", 0), at) for _, at in row[:1] for scope in scopes]
    return history


def scopes_of(given: CompiledPolicy) -> Sequence[Grant]:
    return [grant for each in given.sets.values() for grant in each.grants]


@promise("live-replay-changes-nothing")
@settings(max_examples=examples(60))
@given(policies(), st.lists(st.one_of(steps, steps, steps, edits), max_size=40))
def test_replay_of_the_live_policy_changes_nothing(start: CompiledPolicy, events: Any) -> None:
    history = lived(History(start), events)
    found = history.replayed()
    assert (found.changed, found.changes) == (0, ())
    # Nor does what was judged by it differ from what was said.
    young = [each for each in history.past if each.judged.version == history.version]
    assert replay(young, history.now, history.version).older_differ == 0
    assert found.judged + found.others == len(history.past)


@settings(max_examples=examples(60))
@given(policies(), st.lists(asks, max_size=40))
def test_the_replays_own_counters_are_the_services(start: CompiledPolicy, events: Any) -> None:
    history = lived(History(start), events)
    # As if another version had judged all of it: no stored sum is taken.
    found = replay(history.past, history.now, history.version + 1)
    assert found.older == found.judged
    assert found.older_differ == 0


@promise("draft-as-in-force")
@settings(max_examples=examples(60))
@given(policies(), policies(), st.lists(asks, max_size=40))
def test_a_draft_says_what_it_would_have_said_in_force(
    start: CompiledPolicy, draft: CompiledPolicy, events: Any
) -> None:
    """The replay of a draft is the history lived under it."""
    history = lived(History(start), events, others=False)
    other = lived(History(draft), events, others=False)
    expected = [
        (one.judged.transaction_id, two.judged.said)
        for one, two in zip(history.past, other.past, strict=True)
        if one.judged.said != two.judged.said
    ]
    found = history.replayed(draft)
    assert [(each.judged.transaction_id, each.now) for each in found.changes] == expected


def test_a_released_payment_gave_its_room_back_to_the_live_policy_alone_when_it_did() -> None:
    """In flight it took the room: what was refused meanwhile stays refused."""
    history = History(policy(grant()))
    assert [history.ask(100), history.ask(1)] == [ALLOWED, GRANTS_RULE]
    history.release("0")
    assert history.ask(100) == ALLOWED
    assert history.replayed().changed == 0


@pytest.mark.parametrize("units", [1, 100])
def test_a_grant_of_both_policies_keeps_its_stored_sum(units: int) -> None:
    """What was carried over to it is in its sum, and in no row of the replay."""
    kept = grant()
    history = History(policy(kept))
    history.rows["before"] = [(Charge(kept.scope, MINT, 60), START)]
    assert [history.ask(each) for each in (50, 30, 45)] == [GRANTS_RULE, ALLOWED, GRANTS_RULE]
    draft = policy(kept, grant(KEY, "other", most=units))
    assert history.replayed(draft).changed == 0
