"""Random grants and random transactions: the promises that hold of all of them.

Beside `decide` an oracle rules, which tries every way to share lines out over grants, and keeps a
ledger of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.promises import promise
from tests.support.examples import examples
from tests.vault.grants.cases import (
    AGENT,
    BONK,
    DAY,
    HOUR,
    KEY,
    MINUTE,
    NOON,
    OTHER_SITE,
    OWN_TOKEN,
    SAVINGS,
    SITE,
    SKILL,
    STRANGER,
    USDC,
    VENDOR,
    WALLET,
    Policy,
    case,
    grant,
    launched,
    limit,
    paid,
)
from tests.vault.grants.oracle import Ledger, charges, rule

from solward.types.guardrail import COSTS, SOL, Operation
from solward.vault.grants.decide import compile_grants, decide
from solward.vault.grants.model import (
    ANY_ASSET,
    USD,
    AssetLimit,
    Case,
    Decision,
    Grant,
    Hours,
    NewRecipient,
    SwapBounds,
    SwapTerms,
    Window,
)

PRINCIPALS: Final = (WALLET, AGENT, KEY, SKILL, SITE)
# What an asset is worth, in micro-dollars a unit.
WORTH: Final = {SOL: 3, USDC: 1, BONK: 2, OWN_TOKEN: 0}
LINES: Final = (
    paid(1, SOL), paid(1, SOL, to=STRANGER), paid(1, SOL, to=SAVINGS, operation="fund"),
    paid(1), paid(1, to=STRANGER), paid(1, to=SAVINGS, operation="fund"),
    paid(1, BONK), paid(1, BONK, to=STRANGER),
    paid(1, to="venue:pool", operation="swap"), paid(1, SOL, to="venue:pool", operation="swap"),
    paid(1, OWN_TOKEN, to=None, operation="burn"), paid(1, BONK, to=None, operation="burn"),
    paid(1, SOL, to=SAVINGS, operation="stake"), paid(1, SOL, to=SAVINGS, operation="wrap"),
)  # fmt: skip

LISTS: Final = (*[("any",)] * 7, ("@vendors",), ("own", STRANGER), ("@vendors", "own"))
# Of requests that are paid for: the seller's, and a split that goes to an own wallet.
PAID_LINES: Final = tuple(
    replace(each, operation=Operation.PAY)
    for each in LINES
    if each.operation in (Operation.TRANSFER, Operation.FUND)
)
EVERY_OPERATION: Final = "transfer launch wrap stake burn swap pay"
MAY: Final = (
    *[EVERY_OPERATION] * 6, "transfer", "transfer burn", "fund stake", "swap transfer", "pay", "pay"
)  # fmt: skip


def a_limit(rng: Random, asset: str) -> AssetLimit:
    lengths = rng.choice([(DAY,), (HOUR,), (HOUR, DAY), (MINUTE, HOUR, DAY)])
    return limit(
        asset,
        *[(length, rng.randint(2, 20) * (at + 1)) for at, length in enumerate(lengths)],
        per_tx=rng.choice([None, None, rng.randint(1, 12)]),
        hold=rng.choice([None, rng.randint(0, 8)]),
    )


def a_grant(rng: Random, who: str, name: str) -> Grant:
    assets = rng.sample([SOL, USDC, BONK, ANY_ASSET], rng.choice([1, 2, 3, 4, 4]))
    may = "pay" if who == SITE else rng.choice(MAY)
    sites = [(), (SITE,), (OTHER_SITE,), (OTHER_SITE, SITE)]
    return grant(
        name,
        *[a_limit(rng, asset) for asset in assets],
        who=who,
        may=may,
        via=rng.choice(sites) if may == "pay" and who != SITE else (),
        wallet=rng.choice([None] * 6 + ["w", "pocket"]),
        to=rng.choice(LISTS),
        new=rng.choice([*[NewRecipient.ALLOW] * 4, *NewRecipient]),
        costs_lamports=rng.choice([0, 3, 10, 10**6, 10**6, 10**6]),
        rates=rng.choice([(), (), (), (Window(MINUTE, 2), Window(HOUR, 9))]),
        hours=rng.choice([None, None, None, None, Hours(360, 1_200), Hours(1_200, 840)]),
        until_ms=rng.choice([None, None, None, NOON + 2 * DAY]),
        swap=rng.choice([None, None, SwapBounds(100, 50), SwapBounds(into=frozenset({SOL, USDC}))]),
    )


def a_policy(rng: Random) -> Policy:
    """One principal has grants, others may have some."""
    counts = {who: rng.choice([None, None, None, None, 0, 1, 2, 3]) for who in PRINCIPALS}
    counts[rng.choice(PRINCIPALS)] = rng.randint(1, 5)
    listed = [
        a_grant(rng, who, f"{who[0]}{number}")
        for who, count in counts.items()
        for number in range(count or 0)
    ]
    return Policy(*listed, empty=[who for who, count in counts.items() if count is not None])


def a_transaction(rng: Random) -> tuple[int, Case]:
    """How long after the one before it comes, and what it is."""
    count = rng.choice([0, 1, 1, 1, 1, 2, 2, 3, 4])
    is_payment = rng.random() < 0.3
    few = rng.sample(PAID_LINES if is_payment else LINES, 2)
    lines = [replace(rng.choice(few), units=rng.randint(1, 5)) for _ in range(count)]
    if lines and rng.random() < 0.05:
        lines[0] = replace(lines[0], decimals=7)
    if rng.random() < 0.1:
        lines.append(launched())
    caller: tuple[str, ...] = rng.choice([(AGENT,), (AGENT,), (KEY,), (KEY,), (AGENT, SKILL), ()])
    site = rng.choice([SITE, SITE, OTHER_SITE]) if is_payment else None
    price = rng.choice([None, 1, 1, 1, 1, 1, 1, 2])
    return (
        rng.choice([0, 1, MINUTE // 2, MINUTE, HOUR // 3, HOUR, 9 * HOUR]),
        case(
            *lines,
            chain=(WALLET, *caller, *((site,) if site else ())),
            costs_lamports=rng.choice([0, 1, 1, 5]),
            swap=SwapTerms(
                rng.choice([50, 150, None]), rng.choice([20, 90, None]), rng.choice([SOL, BONK])
            ),
            is_admins=not caller,
            is_approved=rng.random() < 0.1,
            own=frozenset({SAVINGS}),
            paid=rng.choice([frozenset(), frozenset({VENDOR, SAVINGS})]),
            launched=frozenset({OWN_TOKEN}),
            listed=rng.choice([None, None, frozenset({USDC})]),
            dollars=tuple(
                "no price" if price is None else WORTH[each.asset] * each.units * price
                for each in lines
            ),
        ),
    )


def rank(verdict: Decision) -> int:
    if verdict.refused is not None:
        return 0
    return 1 if verdict.held else 2


OUTCOMES: Final = ("refused", "held", "allowed")


def _ids(way: tuple[Grant, ...]) -> tuple[str, ...]:
    return tuple(each.id for each in way)


class Run:
    """A sequence of transactions under one policy; what is allowed is reserved."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.ledger = Ledger()
        self.now = NOON
        self.seen: Counter[str] = Counter()
        # By principal (time, asset, units) of what left under it.
        self.left: dict[str, list[tuple[int, str, int]]] = {
            who: [] for who in (*PRINCIPALS, OTHER_SITE)
        }

    def step(self, after: int, judged: Case) -> None:
        self.now += after
        judged = replace(judged, now_ms=(self.now, self.now + 1))
        used = self.policy.used(judged)
        verdict = decide(self.policy.sets, judged, used)
        ruling = rule(self.policy.grants, judged, self.ledger)
        assert OUTCOMES[rank(verdict)] == ruling.outcome, (verdict, ruling)
        self._check_charges(verdict, judged, charges(ruling, judged))
        self._check_fewer(verdict, judged)
        if len(judged.lines) <= 1:
            self._check_order(verdict, judged)
        if ruling.ways or not rank(verdict):
            self.seen[ruling.outcome] += 1
        self.seen["shared out"] += any(
            len(set(each)) > 1 for each in map(_ids, ruling.ways.values())
        )
        if rank(verdict) == 2:
            self._reserve(verdict, judged, charges(ruling, judged))

    def _check_charges(
        self, verdict: Decision, judged: Case, expected: dict[tuple[str, str], int]
    ) -> None:
        found: dict[tuple[str, str], int] = {}
        for each in verdict.charges:
            asset = {USD: "usd", COSTS: "costs"}.get(each.asset, each.asset)
            assert (each.scope, asset) not in found
            found[each.scope, asset] = each.units
        slots = {(scope, "tx"): 1 for scope, asset in found if asset == SOL}
        known = {key: number for key, number in found.items() if number or key[1] != SOL}
        assert {**known, **slots} == expected
        scopes = {each.scope for each in verdict.charges}
        assert {(scope, SOL) for scope in scopes} <= found.keys()

    def _check_fewer(self, verdict: Decision, judged: Case) -> None:
        """Without any one grant, at the same sums, no more is allowed."""
        for who, listed in self.policy.grants.items():
            if who not in judged.chain:
                continue
            for number in range(len(listed)):
                fewer = compile_grants([*listed[:number], *listed[number + 1 :]])
                sets = {**self.policy.sets, who: fewer}
                assert rank(decide(sets, judged, self.policy.used(judged))) <= rank(verdict)

    def _check_order(self, verdict: Decision, judged: Case) -> None:
        for who, listed in self.policy.grants.items():
            if who not in judged.chain or len(listed) < 2:
                continue
            orders = [listed[::-1]] if len(listed) > 3 else permutations(listed)
            for order in orders:
                sets = {**self.policy.sets, who: compile_grants(order)}
                assert rank(decide(sets, judged, self.policy.used(judged))) == rank(verdict)

    def _reserve(
        self, verdict: Decision, judged: Case, expected: dict[tuple[str, str], int]
    ) -> None:
        self.policy.reserve(verdict.charges, self.now)
        self.ledger.rows += [
            (scope, asset, self.now, number) for (scope, asset), number in expected.items()
        ]
        for who in judged.chain:
            self.left[who] += [(self.now, line.asset, line.units) for line in judged.lines]

    def check_bound(self) -> None:
        """In no window did more leave than the principal's grants add up to."""
        for who, listed in self.policy.grants.items():
            for asset in (SOL, USDC, BONK, OWN_TOKEN):
                for length in (MINUTE, HOUR, DAY):
                    most = self._bound(listed, asset, length)
                    for end, *_ in self.left[who]:
                        moved = sum(
                            number
                            for at, what, number in self.left[who]
                            if what == asset and end - length < at <= end
                        )
                        assert most is None or moved <= most, (who, asset, length)

    def _bound(self, listed: list[Grant], asset: str, length: int) -> int | None:
        total = 0
        for each in listed:
            found = each.assets.get(asset) or each.assets.get(ANY_ASSET)
            if found is None:
                continue
            most = min(window.most * -(-length // window.length_ms) for window in found.windows)
            if found.asset == ANY_ASSET:
                # At the lowest price of a unit that was ever counted.
                if not WORTH[asset]:
                    return None
                most //= WORTH[asset]
            total += most
        return total


def check(rng: Random, transactions: int) -> Counter[str]:
    """What became of a sequence under one policy."""
    run = Run(a_policy(rng))
    for _ in range(transactions):
        run.step(*a_transaction(rng))
    run.check_bound()
    return run.seen


@promise("more-grants-only-allow-more", "grants-bind-every-principal")
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False))
def test_grants_are_a_bound_that_more_grants_and_their_order_keep(rng: Random) -> None:
    check(rng, 10)


@pytest.mark.more
@pytest.mark.parametrize("policies", [100, pytest.param(400, marks=pytest.mark.long)])
def test_50_transactions_under_each_of_many_policies(policies: int) -> None:
    seen = sum((check(Random(seed), 50) for seed in range(policies)), Counter[str]())
    # Much of each kind was under grants.
    assert seen["allowed"] > 5 * policies
    assert seen["held"] > policies / 2
    assert seen["refused"] > 5 * policies
    assert seen["shared out"] > policies / 4
