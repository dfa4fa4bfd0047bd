"""Each rule refuses what it alone guards, by name, in the order the record shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.promises import promise
from tests.vault.guardrails.bank import SOL

from solward.types.guardrail import AuthorityChange, Intent, Outflow, TransactionEffects
from solward.vault.guardrails.rules import (
    RULES,
    Policy,
    ScopeLimits,
    ScopeUsage,
    counted_lamports,
    counted_tokens,
    judge,
    max_debit,
)

WALLET = "So11111111111111111111111111111111111111112"
OTHER = "Stake11111111111111111111111111111111111111"
MINT = "Vote111111111111111111111111111111111111111"
POLICY = Policy(blocked_addresses=frozenset({OTHER}))
INTENT = Intent(type="transfer", wallet=WALLET, lamports_out=SOL)
EFFECTS = TransactionEffects(lamports_out=SOL, fee_lamports=5_000)

REFUSED = {
    "max_per_tx": (ScopeLimits(max_lamports_per_tx=SOL - 1), ScopeUsage(), INTENT, EFFECTS),
    "rate_limit": (ScopeLimits(max_tx_per_minute=5), ScopeUsage(tx_last_minute=5), INTENT, EFFECTS),
    "daily_limit": (
        ScopeLimits(daily_lamports=10 * SOL),
        ScopeUsage(lamports_last_day=9 * SOL + 1),
        INTENT,
        EFFECTS,
    ),
    "program_allowlist": (
        ScopeLimits(),
        ScopeUsage(),
        INTENT,
        replace(EFFECTS, violations=(("program_allowlist", "not decoded"),)),
    ),
    "blocked_address": (
        ScopeLimits(),
        ScopeUsage(),
        replace(INTENT, destinations=frozenset({OTHER})),
        EFFECTS,
    ),
    "fee_limit": (ScopeLimits(), ScopeUsage(), INTENT, replace(EFFECTS, fee_lamports=1_000_001)),
    "simulated_effects": (
        ScopeLimits(),
        ScopeUsage(),
        INTENT,
        replace(EFFECTS, lamports_out=SOL + 1),
    ),
    "costs_limit": (
        ScopeLimits(daily_costs_lamports=5_000),
        ScopeUsage(costs_last_day=1),
        INTENT,
        EFFECTS,
    ),
    "swap_bounds": (ScopeLimits(), ScopeUsage(), replace(INTENT, price_impact_bps=501), EFFECTS),
    "authority_change": (
        ScopeLimits(),
        ScopeUsage(),
        INTENT,
        replace(EFFECTS, authority_changes=(AuthorityChange("delegate", MINT, OTHER),)),
    ),
}


@promise("rules-in-their-order")
@pytest.mark.parametrize("rule", REFUSED)
def test_a_rule_refuses_and_ends_the_list(rule: str) -> None:
    limits, usage, intent, effects = REFUSED[rule]
    judged = judge(intent, effects, [("wallet:w", limits, usage)], POLICY)
    assert judged.rule == rule
    assert judged.applied == RULES[: RULES.index(rule) + 1]


@pytest.mark.parametrize(("impact", "most"), [(500, 500), (0, 0), (None, 0)])
def test_a_swap_up_to_the_bound_and_what_is_no_swap_pass(impact: int | None, most: int) -> None:
    policy = replace(POLICY, max_price_impact_bps=most)
    assert judge(replace(INTENT, price_impact_bps=impact), EFFECTS, [], policy).allowed


@promise("ceiling-binds-everyone", "strictest-scope-binds")
def test_the_strictest_scope_binds_whatever_the_order() -> None:
    loose = ("wallet:w", ScopeLimits(2 * SOL), ScopeUsage())
    strict = ("agent:a", ScopeLimits(SOL // 2), ScopeUsage())
    for scopes in ([loose, strict], [strict, loose]):
        judged = judge(INTENT, EFFECTS, scopes, POLICY)
        assert judged.reason == (
            "1 SOL is more than the 0.5 SOL allowed per transaction (limit of the agent)"
        )


def test_a_declaration_is_judged_before_the_simulation() -> None:
    judged = judge(INTENT, None, [("wallet:w", ScopeLimits(SOL, 1, SOL), ScopeUsage())], POLICY)
    assert judged.allowed
    assert judged.applied == ("max_per_tx", "rate_limit", "daily_limit", "blocked_address",
                              "spending_limit_check")  # fmt: skip
    assert (
        judge(INTENT, None, [("wallet:w", ScopeLimits(1), ScopeUsage())], POLICY).rule
        == "max_per_tx"
    )


@promise("airdrop-spends-nothing")
def test_an_airdrop_spends_nothing_and_passes_a_spent_day() -> None:
    airdrop = Intent(type="airdrop", wallet=WALLET)
    spent = ScopeUsage(lamports_last_day=11 * SOL)
    limits = ScopeLimits(2 * SOL, 5, 10 * SOL)
    assert judge(airdrop, None, [("wallet:w", limits, spent)], POLICY).allowed
    rate = judge(airdrop, None, [("wallet:w", limits, ScopeUsage(tx_last_minute=5))], POLICY)
    assert (rate.rule, rate.reason) == (
        "rate_limit",
        "the last minute had 5 of the 5 allowed transactions (limit of the wallet)",
    )


@promise("sol-limits", "limits-count-bytes")
def test_ten_transfers_of_1_pass_a_day_of_10_and_2_passes_a_limit_of_2() -> None:
    limits = ScopeLimits(2 * SOL, None, 10 * SOL)
    for done in range(10):
        usage = ScopeUsage(lamports_last_day=done * SOL)
        assert judge(INTENT, EFFECTS, [("wallet:w", limits, usage)], POLICY).allowed
    usage = ScopeUsage(lamports_last_day=10 * SOL)
    assert not judge(INTENT, EFFECTS, [("wallet:w", limits, usage)], POLICY).allowed
    two = replace(INTENT, lamports_out=2 * SOL)
    effects = replace(EFFECTS, lamports_out=2 * SOL)
    assert judge(two, effects, [("wallet:w", limits, ScopeUsage())], POLICY).allowed


def test_what_is_simulated_counts_where_it_is_more_than_declared() -> None:
    effects = replace(EFFECTS, lamports_out=3 * SOL, rent_lamports=7, tokens_out={MINT: 4})
    intent = replace(INTENT, tokens_out={MINT: 3, OTHER: 2})
    assert counted_lamports(intent, effects) == 3 * SOL
    assert counted_lamports(intent, replace(EFFECTS, lamports_out=0)) == SOL
    assert counted_tokens(intent, effects) == {MINT: 4, OTHER: 2}
    assert max_debit(intent, effects) == 3 * SOL + 5_007


def bounded(lamports: int = 0, fee: int = 0, rent: int = 0, **tokens: int) -> TransactionEffects:
    return replace(EFFECTS, outflow=Outflow(lamports, fee, rent, tokens))


@promise("node-lowers-nothing", "simulation-lowers-nothing", "limits-count-bytes")
def test_limits_count_what_the_bytes_can_take_not_what_was_simulated() -> None:
    declared = replace(INTENT, lamports_out=SOL)
    effects = bounded(2 * SOL)
    judged = judge(declared, effects, [("wallet:w", ScopeLimits(SOL), ScopeUsage())], POLICY)
    assert judged.rule == "max_per_tx"
    assert "2 SOL" in (judged.reason or "")
    assert counted_lamports(declared, effects) == 2 * SOL
    assert counted_tokens(declared, bounded(**{MINT: 7})) == {MINT: 7}
    assert max_debit(declared, bounded(2 * SOL, fee=5, rent=6)) == 2 * SOL + 11


@promise("undeclared-effects-refused")
def test_what_the_bytes_can_take_beyond_the_declaration_is_refused() -> None:
    judged = judge(INTENT, bounded(INTENT.lamports_out + 1), [], POLICY)
    assert judged.rule == "simulated_effects"
    judged = judge(INTENT, bounded(**{MINT: 7}), [], POLICY)
    assert judged.rule == "simulated_effects"
    assert "7 smallest units" in (judged.reason or "")


@promise("daily-costs-capped")
@pytest.mark.parametrize("scope", ["wallet:w", "agent:a", "key:k"])
def test_fees_and_rent_have_a_ceiling_of_their_own(scope: str) -> None:
    limits = ScopeLimits(daily_costs_lamports=100)
    effects = bounded(fee=30, rent=40)
    assert judge(INTENT, effects, [(scope, limits, ScopeUsage(costs_last_day=30))], POLICY).allowed
    judged = judge(INTENT, effects, [(scope, limits, ScopeUsage(costs_last_day=31))], POLICY)
    assert judged.rule == "costs_limit"
    assert "MAX_COSTS_SOL_PER_DAY" in (judged.reason or "")


@promise("empty-grants-sign-nothing")
def test_a_key_that_may_spend_nothing_signs_nothing() -> None:
    nothing = [("key:k", ScopeLimits(daily_lamports=0), ScopeUsage())]
    free = Intent("close_account", WALLET)
    judged = judge(free, TransactionEffects(0, 5_000), nothing, POLICY)
    assert judged.rule == "spending_limit_check"
    # The faucet signs its own transactions.
    assert judge(Intent("airdrop", WALLET), TransactionEffects(0, 0), nothing, POLICY).allowed


@promise("authority-kept")
def test_a_revoke_may_be_declared_but_not_a_gift() -> None:
    intent = replace(INTENT, may_revoke=frozenset({MINT}))
    policy = Policy()
    for change, passes in (
        (AuthorityChange("mint_authority", MINT, None), True),
        (AuthorityChange("freeze_authority", MINT, None), True),
        (AuthorityChange("mint_authority", MINT, OTHER), False),
        (AuthorityChange("close_authority", MINT, None), False),
        (AuthorityChange("mint_authority", OTHER, None), False),
    ):
        effects = replace(EFFECTS, authority_changes=(change,))
        assert judge(intent, effects, [], policy).allowed is passes, change
