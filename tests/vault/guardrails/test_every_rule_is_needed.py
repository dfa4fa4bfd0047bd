"""With any one rule turned off, attacks pass that it alone refuses, and no others.

So no rule stands in for another, and a rule that is lost turns its tests red.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from tests.promises import promise
from tests.vault.guardrails.attacks import ATTACKS, move_tokens, pay
from tests.vault.guardrails.bank import POLICY, SOL, WALLET_LIMITS, Bank
from tests.vault.guardrails.mixes import DECLARED, intent

from solward.types.guardrail import Intent, TransactionEffects
from solward.vault.guardrails import rules
from solward.vault.guardrails.rules import RULES, Policy, ScopeLimits, ScopeUsage, Verdict, judge

Scopes = Sequence[tuple[str, ScopeLimits, ScopeUsage]]


@dataclass(frozen=True)
class Case:
    """One attack as the judge sees it."""

    name: str
    rule: str
    intent: Intent
    effects: TransactionEffects
    scopes: Scopes = (("wallet:w", WALLET_LIMITS, ScopeUsage()),)
    policy: Policy = POLICY

    def judged(self) -> Verdict:
        return judge(self.intent, self.effects, self.scopes, self.policy)


@contextmanager
def without(rule: str) -> Iterator[None]:
    """The judge with one rule turned off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "BUILT_IN", tuple(r for r in rules.BUILT_IN if r.name != rule))
        yield


def cases() -> Iterator[Case]:
    """The named attacks at top level, and those that limits and the operator's lists refuse."""
    for attack in ATTACKS:
        bank = Bank()
        wire = bank.build(attack.make(bank), attack.signers(bank))
        seen = bank.effects if attack.simulated else bank.bounded
        effects = seen(wire, must_run=attack.runs)
        yield Case(attack.name, attack.rule, intent(bank), effects)
    bank = Bank()
    declared = intent(bank)
    paid = bank.effects(bank.build([pay(bank, DECLARED)]))

    def spent(scope: str, limits: ScopeLimits, used: ScopeUsage) -> Scopes:
        return ((scope, limits, used),)

    drained = bank.effects(bank.build([pay(bank, 90 * SOL)]))
    yield Case(
        "a declared drain", "max_per_tx", replace(declared, lamports_out=90 * SOL), drained,
        spent("wallet:w", ScopeLimits(max_lamports_per_tx=2 * SOL), ScopeUsage()),
    )  # fmt: skip
    yield Case(
        "26 split requests", "rate_limit", declared, paid,
        spent("wallet:w", WALLET_LIMITS, ScopeUsage(tx_last_minute=5)),
    )  # fmt: skip
    yield Case(
        "26 a spent day", "daily_limit", declared, paid,
        spent("agent:a", WALLET_LIMITS, ScopeUsage(lamports_last_day=10 * SOL)),
    )  # fmt: skip
    moved = bank.effects(bank.build([move_tokens(bank)]))
    mint, thief = str(bank.mint), str(bank.stranger.pubkey())
    gives = replace(declared, lamports_out=0, tokens_out={mint: 500})
    yield Case(
        "18 declared tokens beyond the mint's day", "daily_limit", gives, moved,
        spent("wallet:w", ScopeLimits(daily_tokens={mint: 499}), ScopeUsage()),
    )  # fmt: skip
    yield Case(
        "26 many wallets of one key", "spending_limit_check", declared, paid,
        spent("key:k", ScopeLimits(daily_lamports=SOL), ScopeUsage(lamports_last_day=SOL)),
    )  # fmt: skip
    yield Case(
        "rent of many accounts in a day", "costs_limit", declared,
        bank.bounded(bank.build([pay(bank, DECLARED)])),
        spent("key:k", ScopeLimits(daily_costs_lamports=9_999), ScopeUsage(costs_last_day=5_000)),
    )  # fmt: skip
    yield Case(
        "a swap that drains its pool", "swap_bounds",
        replace(declared, type="swap", price_impact_bps=9_000), paid,
    )  # fmt: skip
    blocking = replace(POLICY, blocked_addresses=frozenset({thief}))
    table = bank.put_table([bank.stranger.pubkey()])
    loaded = bank.effects(bank.build([pay(bank, DECLARED)], version="0", tables=[table]))
    hiding = replace(declared, destinations=frozenset())
    yield Case("05 behind a table", "blocked_address", hiding, loaded, policy=blocking)
    owned = replace(gives, destinations=frozenset())
    yield Case("24 a blocked owner", "blocked_address", owned, moved, policy=blocking)
    budget = [set_compute_unit_limit(1_400_000), set_compute_unit_price(1_000_000)]
    priced = bank.effects(bank.build([*budget, pay(bank, DECLARED)]))
    yield Case("10 a unit price", "fee_limit", declared, priced)
    tipped = bank.effects(bank.build([pay(bank, DECLARED)], version="1", priority_fee=10**15))
    yield Case("11 a priority fee", "fee_limit", declared, tipped)


@pytest.fixture(scope="module")
def attacks() -> list[Case]:
    return list(cases())


def test_with_every_rule_each_is_refused_by_its_own(attacks: list[Case]) -> None:
    assert {case.rule for case in attacks} == set(RULES)
    for case in attacks:
        assert case.judged().rule == case.rule, case.name


# Nothing but the one rule stands between these and a signature.
NEEDED = {
    "max_per_tx": {"a declared drain"},
    "rate_limit": {"26 split requests"},
    "daily_limit": {"26 a spent day", "18 declared tokens beyond the mint's day"},
    "program_allowlist": {"09 program off the list", "21 vote authorize", "20 advance nonce"},
    "blocked_address": {"05 behind a table", "24 a blocked owner"},
    "spending_limit_check": {"26 many wallets of one key"},
    "fee_limit": {"10 a unit price", "11 a priority fee"},
    "simulated_effects": {"01 many small transfers", "18 burn", "15 undeclared close"},
    "costs_limit": {"rent of many accounts in a day"},
    "swap_bounds": {"a swap that drains its pool"},
    "authority_change": {"13 approve", "14 token owner", "21 stake authorize"},
}


@promise("each-rule-stands-alone")
@pytest.mark.parametrize("rule", RULES)
def test_turning_one_rule_off_lets_its_attacks_through_and_no_others(
    attacks: list[Case], rule: str
) -> None:
    with without(rule):
        verdicts = {case.name: case.judged() for case in attacks}
    passing = {name for name, judged in verdicts.items() if judged.allowed}
    own = {case.name for case in attacks if case.rule == rule}
    assert NEEDED[rule] <= passing <= own
    for case in attacks:
        if case.rule != rule:
            assert verdicts[case.name].rule == case.rule, case.name
        else:
            assert verdicts[case.name].rule != rule
