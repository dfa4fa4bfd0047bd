"""A refusal tells what was found, what is allowed, and what is left, so that it can be acted on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from tests.vault.guardrails.attacks import burn
from tests.vault.guardrails.bank import SOL, Bank

from solward.types.errors import GuardrailBlocked
from solward.types.guardrail import AuthorityChange, Intent, Outflow, TransactionEffects
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import (
    BUILT_IN,
    LimitRule,
    Policy,
    PolicyRule,
    ScopeLimits,
    ScopeUsage,
    judge,
)
from solward.vault.money.outcomes import refusal

WALLET = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
OTHER = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"
MINT = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
ACCOUNT = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
WSOL = "So11111111111111111111111111111111111111112"
UNLIMITED, UNUSED = ScopeLimits(), ScopeUsage()
POLICY = Policy(blocked_addresses=frozenset({OTHER}))
INTENT = Intent(type="transfer", wallet=WALLET, lamports_out=SOL)
EFFECTS = TransactionEffects(lamports_out=SOL, fee_lamports=5_000, decimals={MINT: 6})


@dataclass(frozen=True, slots=True)
class Case:
    """What is refused, and every word of the refusal."""

    rule: str
    text: str
    limits: ScopeLimits = UNLIMITED
    usage: ScopeUsage = UNUSED
    intent: Intent = INTENT
    effects: TransactionEffects | None = EFFECTS
    scope: str = "wallet:w"
    policy: Policy = POLICY


def day(scope: str, rule: str, whose: str) -> list[Case]:
    """A day of SOL, and one of a mint whose decimals are known, or not."""
    tokens = replace(INTENT, tokens_out={MINT: 6_500_000})
    limits = ScopeLimits(daily_tokens={MINT: 10_000_000})
    spent = ScopeUsage(tokens_last_day={MINT: 4_000_000})
    wrapped = ScopeLimits(daily_tokens={WSOL: SOL})
    return [
        Case(
            rule,
            "1 SOL is more than the 0.75 SOL left of the 10 SOL allowed in 24 hours; "
            f"9.25 SOL is spent or reserved{whose}",
            ScopeLimits(daily_lamports=10 * SOL),
            ScopeUsage(lamports_last_day=9_250_000_000),
            scope=scope,
        ),
        Case(
            rule,
            "1 SOL is more than the 0 SOL left of the 2 SOL allowed in 24 hours; "
            f"3 SOL is spent or reserved{whose}",
            ScopeLimits(daily_lamports=2 * SOL),
            ScopeUsage(lamports_last_day=3 * SOL),
            scope=scope,
        ),
        Case(
            rule,
            f"6.5 tokens of mint {MINT} are more than the 6 left of the 10 allowed in 24 hours; "
            f"4 are spent or reserved{whose}",
            limits,
            spent,
            tokens,
            scope=scope,
        ),
        Case(
            rule,
            f"6500000 smallest units of mint {MINT} are more than the 6000000 left of the "
            f"10000000 allowed in 24 hours; 4000000 are spent or reserved{whose}",
            limits,
            spent,
            tokens,
            None,
            scope=scope,
        ),
        Case(
            rule,
            f"1.5 tokens of mint {WSOL} are more than the 1 left of the 1 allowed in 24 hours; "
            f"0 are spent or reserved{whose}",
            wrapped,
            intent=replace(INTENT, tokens_out={WSOL: SOL * 3 // 2}),
            scope=scope,
        ),
    ]


CASES = [
    Case(
        "max_per_tx",
        "2.1 SOL is more than the 2 SOL allowed per transaction (limit of the agent)",
        ScopeLimits(max_lamports_per_tx=2 * SOL),
        intent=replace(INTENT, lamports_out=2_100_000_000),
        scope="agent:a",
    ),
    Case(
        "rate_limit",
        "the last minute had 5 of the 5 allowed transactions; the next is possible in "
        "42 s (limit of the wallet)",
        ScopeLimits(max_tx_per_minute=5),
        ScopeUsage(tx_last_minute=5, next_tx_ms=41_001),
    ),
    Case(
        "rate_limit",
        "the last minute had 0 of the 0 allowed transactions (limit of the API key)",
        ScopeLimits(max_tx_per_minute=0),
        scope="key:k",
    ),
    *day("wallet:w", "daily_limit", " (limit of the wallet)"),
    *day("agent:a", "daily_limit", " (limit of the agent)"),
    Case(
        "program_allowlist",
        "instruction 3 of SPL Token is not allowed with the wallet's key",
        effects=replace(
            EFFECTS,
            violations=(
                (
                    "program_allowlist",
                    "instruction 3 of SPL Token is not allowed with the wallet's key",
                ),
            ),
        ),
    ),
    Case(
        "simulated_effects",
        "1.5 SOL could leave the wallet, but only 1 SOL is declared",
        effects=replace(EFFECTS, outflow=Outflow(1_500_000_000, 5_000, 0)),
    ),
    Case(
        "simulated_effects",
        f"1.5 tokens of mint {MINT} could leave the wallet, but only 1 are declared",
        intent=replace(INTENT, tokens_out={MINT: 1_000_000}),
        effects=replace(EFFECTS, outflow=Outflow(0, 5_000, 0, {MINT: 1_500_000})),
    ),
    Case(
        "fee_limit",
        "rent of up to 0.03 SOL is more than the 0.02 SOL allowed for new accounts",
        effects=replace(EFFECTS, outflow=Outflow(0, 5_000, 30_000_000)),
    ),
    Case(
        "costs_limit",
        "fees and rent of up to 0.002 SOL are more than the 0.0015 SOL left of the 0.05 SOL "
        "allowed in 24 hours; 0.0485 SOL is spent or reserved; MAX_COSTS_SOL_PER_DAY (or "
        "maxCostsSolPerDay of the wallet, agent or key) sets this limit (limit of the wallet)",
        ScopeLimits(daily_costs_lamports=50_000_000),
        ScopeUsage(costs_last_day=48_500_000),
        effects=replace(EFFECTS, outflow=Outflow(0, 0, 2_000_000)),
    ),
    Case(
        "daily_limit",
        f"1.5 tokens of mint {MINT} are more than the 1 left of the 1 allowed in 24 hours; "
        "0 are spent or reserved (limit of the wallet)",
        # Only limits that are a ceiling of the wallet's are called one.
        ScopeLimits(daily_tokens={MINT: 10**6}).within({"dailySpendingLimitSol": SOL}),
        intent=replace(INTENT, tokens_out={MINT: 1_500_000}),
    ),
    Case(
        "swap_bounds",
        "the swap would move the price by 501 basis points, more than the 500 allowed; "
        "MAX_PRICE_IMPACT_BPS sets this limit",
        intent=replace(INTENT, price_impact_bps=501),
    ),
    Case(
        "spending_limit_check",
        "a key that may spend 0 SOL cannot sign a transaction (limit of the API key)",
        ScopeLimits(daily_lamports=0),
        scope="key:k",
        effects=replace(EFFECTS, fee_lamports=5_000),
    ),
    Case(
        "blocked_address",
        f"blocked address {OTHER} is the wallet or a destination",
        intent=replace(INTENT, destinations=frozenset({OTHER})),
        effects=None,
    ),
    Case(
        "blocked_address",
        f"blocked address {OTHER} is an account of the transaction, or the owner of an account",
        effects=replace(EFFECTS, addresses=frozenset({OTHER})),
    ),
    *day("key:k", "spending_limit_check", " (limit of the API key)"),
    Case(
        "fee_limit",
        "a network fee of 0.0015 SOL is more than the 0.001 SOL allowed; "
        "MAX_NETWORK_FEE_SOL sets this limit",
        effects=replace(EFFECTS, fee_lamports=1_500_000),
    ),
    Case(
        "fee_limit",
        "rent of 0.00203928 SOL is more than the 0.001 SOL declared for new accounts",
        intent=replace(INTENT, rent_lamports=1_000_000),
        effects=replace(EFFECTS, rent_lamports=2_039_280),
    ),
    Case(
        "fee_limit",
        "rent of 0.03 SOL is more than the 0.02 SOL allowed for new accounts",
        intent=replace(INTENT, rent_lamports=50_000_000),
        effects=replace(EFFECTS, rent_lamports=30_000_000),
    ),
    Case(
        "fee_limit",
        "malformed compute budget",
        effects=replace(EFFECTS, violations=(("fee_limit", "malformed compute budget"),)),
    ),
    Case(
        "fee_limit",
        "5 new accounts are more than the 4 allowed in one transaction",
        effects=replace(EFFECTS, accounts_created=5),
    ),
    Case(
        "simulated_effects",
        "1.5 SOL would leave the wallet, but only 1 SOL is declared",
        effects=replace(EFFECTS, lamports_out=1_500_000_000),
    ),
    Case(
        "simulated_effects",
        f"1.5 tokens of mint {MINT} would leave the wallet, but only 1 are declared",
        intent=replace(INTENT, tokens_out={MINT: 1_000_000}),
        effects=replace(EFFECTS, tokens_out={MINT: 1_500_000}),
    ),
    Case(
        "simulated_effects",
        f"7 smallest units of mint {OTHER} would leave the wallet, but only 0 are declared",
        effects=replace(EFFECTS, tokens_out={OTHER: 7}),
        policy=Policy(),
    ),
    Case(
        "simulated_effects",
        f"only 0.5 tokens of mint {MINT} would arrive; at least 1 are required",
        intent=replace(INTENT, tokens_in={MINT: 1_000_000}),
        effects=replace(EFFECTS, tokens_in={MINT: 500_000}),
    ),
    Case(
        "simulated_effects",
        f"account {ACCOUNT} would be closed to {OTHER}, which is not the wallet {WALLET}",
        effects=replace(EFFECTS, closed={ACCOUNT: OTHER}),
    ),
    Case(
        "simulated_effects",
        f"account {ACCOUNT} would be closed, but the transaction declares that it closes {MINT}",
        intent=replace(INTENT, may_close=frozenset({MINT})),
        effects=replace(EFFECTS, closed={ACCOUNT: WALLET}),
    ),
    Case(
        "simulated_effects",
        f"the wallet would pay for account {ACCOUNT} of {OTHER}, but the transaction declares only "
        f"{WALLET}",
        effects=replace(EFFECTS, created={ACCOUNT: OTHER}),
    ),
    Case(
        "authority_change",
        f"delegate of {ACCOUNT} would pass to {OTHER}; the transaction may only give up the mint "
        "or freeze authority of its declared mints: none",
        effects=replace(EFFECTS, authority_changes=(AuthorityChange("delegate", ACCOUNT, OTHER),)),
    ),
    Case(
        "authority_change",
        f"close_authority of {MINT} would pass to nobody; the transaction may only give up the "
        f"mint or freeze authority of its declared mints: {MINT}",
        intent=replace(INTENT, may_revoke=frozenset({MINT})),
        effects=replace(
            EFFECTS, authority_changes=(AuthorityChange("close_authority", MINT, None),)
        ),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.text[:40]}")
def test_a_rule_says_what_it_found_and_what_it_allows(case: Case) -> None:
    scopes = [(case.scope, case.limits, case.usage)]
    judged = judge(case.intent, case.effects, scopes, case.policy)
    assert (judged.rule, judged.reason) == (case.rule, case.text)


@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.name)
def test_every_rule_there_is_has_its_words_here(rule: LimitRule | PolicyRule) -> None:
    assert rule.name in {case.rule for case in CASES}


@pytest.mark.parametrize(
    "rule", [rule for rule in BUILT_IN if isinstance(rule, LimitRule)], ids=lambda rule: rule.name
)
def test_a_rule_of_limits_names_the_limit_it_was_given(rule: LimitRule) -> None:
    """Whatever rule of scopes is registered: two limits give two refusals, each with its own."""
    told = []
    for most in (3, 4):
        limits = ScopeLimits(most * SOL, most, most * SOL, {MINT: most * 10**6}, most * SOL)
        usage = ScopeUsage(most, most * SOL, {MINT: most * 10**6})
        intent = replace(INTENT, lamports_out=5 * SOL, tokens_out={MINT: 5 * 10**6})
        effects = replace(EFFECTS, outflow=Outflow(0, 5_000, 5 * SOL))
        refusal = rule.check(intent, effects, limits, usage)
        assert refusal is not None
        assert f" {most} " in refusal.reason, refusal
        assert refusal.numbers is not None
        assert refusal.numbers.limit == str(most)
        told.append(refusal.reason)
    assert told[0] != told[1]


def test_a_refusal_names_its_rule_wherever_it_is_read() -> None:
    judged = judge(INTENT, EFFECTS, [("wallet:w", ScopeLimits(1), ScopeUsage())], POLICY)
    record = TransactionRecord(
        "t",
        "w",
        "transfer",
        TransactionStatus.BLOCKED,
        {},
        judged.applied,
        0,
        error=judged.reason,
        principal="admin",
    )
    error = refusal(record)
    assert isinstance(error, GuardrailBlocked)
    assert str(error) == (
        "Transaction blocked by guardrail max_per_tx: 1 SOL is more than the 0.000000001 SOL "
        "allowed per transaction (limit of the wallet)"
    )


def test_an_amount_is_told_in_the_decimals_the_mint_itself_has(bank: Bank) -> None:
    effects = bank.effects(bank.build(burn(bank)))
    assert effects.decimals == {str(bank.mint): 6}
    judged = judge(Intent("burn", bank.address), effects, [], Policy())
    assert judged.reason == (
        f"0.0005 tokens of mint {bank.mint} would leave the wallet, but only 0 are declared"
    )
