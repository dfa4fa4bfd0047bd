"""A refusal's numbers are read from its sentence as the rule that wrote it had them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solward.durations import DAY_MS, HOUR_MS, MINUTE_MS
from solward.guardrail import COSTS, SOL, Intent, Line, Operation, Outflow, TransactionEffects
from solward.record import TransactionType
from solward.solana.token_list import token_list
from solward.vault.guardrails import Policy, ScopeLimits, ScopeUsage, judge
from solward.vault.guardrails.grants.model import RATE, USD, Finding, Why
from solward.vault.guardrails.grants.sentences import finding_sentence
from solward.vault.guardrails.refusal_numbers import numbers_of
from solward.vault.transactions.principal_names import KnownNames

WALLET = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
MINT = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
INTENT = Intent(type=TransactionType.TRANSFER, wallet=WALLET, details={}, rent_lamports=10**8)
EFFECTS = TransactionEffects(lamports_out=0, fee_lamports=5_000)


def said(
    intent: Intent = INTENT,
    effects: TransactionEffects = EFFECTS,
    limits: ScopeLimits | None = None,
    usage: ScopeUsage | None = None,
) -> dict[str, str]:
    """The numbers of what the built-in rules refuse."""
    scope = "wallet:w", limits or ScopeLimits(), usage or ScopeUsage()
    verdict = judge(intent, effects, [scope], Policy())
    assert verdict.rule is not None
    assert verdict.reason is not None
    return dict(numbers_of(verdict.rule, verdict.reason))


def test_per_transaction() -> None:
    found = said(replace(INTENT, lamports_out=3_000_000_001), limits=ScopeLimits(2_000_000_000))
    assert found == {"asked": "3.000000001", "limit": "2", "unit": "SOL"}


def test_the_rate() -> None:
    found = said(limits=ScopeLimits(max_tx_per_minute=5), usage=ScopeUsage(5, next_tx_ms=41_100))
    assert found == {"limit": "5", "used": "5", "unit": "transactions", "window": "minute"}


def test_the_day_of_sol_and_of_a_token() -> None:
    day = ScopeLimits(daily_lamports=10_000_000_000, daily_tokens={MINT: 500})
    used = ScopeUsage(lamports_last_day=9_250_000_000, tokens_last_day={MINT: 480})
    found = said(replace(INTENT, lamports_out=10**9), limits=day, usage=used)
    assert found == {
        "asked": "1", "limit": "10", "left": "0.75", "used": "9.25", "unit": "SOL",
        "window": "24 hours",
    }  # fmt: skip
    intent = replace(INTENT, tokens_out={MINT: 30})
    found = said(intent, replace(EFFECTS, decimals={MINT: 1}), day, used)
    assert found == {
        "asked": "3", "limit": "50", "left": "2", "used": "48", "unit": f"tokens of mint {MINT}",
        "window": "24 hours",
    }  # fmt: skip
    assert said(intent, EFFECTS, day, used)["unit"] == f"smallest units of mint {MINT}"


def test_fees_rent_and_costs() -> None:
    found = said(effects=replace(EFFECTS, fee_lamports=2_000_000))
    assert found == {"asked": "0.002", "limit": "0.001", "unit": "SOL"}
    found = said(effects=replace(EFFECTS, rent_lamports=30_000_000))
    assert found == {"asked": "0.03", "limit": "0.02", "unit": "SOL"}
    possible = Outflow(0, fee_lamports=5_000, rent_lamports=30_000_000)
    found = said(effects=replace(EFFECTS, outflow=possible))
    assert found == {"asked": "0.03", "limit": "0.02", "unit": "SOL"}
    found = said(effects=replace(EFFECTS, accounts_created=7))
    assert found == {"asked": "7", "limit": "4", "unit": "new accounts"}
    found = said(
        limits=ScopeLimits(daily_costs_lamports=50_000_000),
        usage=ScopeUsage(costs_last_day=49_999_000),
    )
    assert found == {
        "asked": "0.000005", "limit": "0.05", "left": "0.000001", "used": "0.049999", "unit": "SOL",
        "window": "24 hours",
    }  # fmt: skip


def test_what_is_not_declared() -> None:
    assert said(effects=replace(EFFECTS, lamports_out=10**9)) == {
        "asked": "1", "limit": "0", "unit": "SOL",
    }  # fmt: skip
    found = said(effects=replace(EFFECTS, tokens_out={MINT: 25}, decimals={MINT: 1}))
    assert found == {"asked": "2.5", "limit": "0", "unit": f"tokens of mint {MINT}"}


def test_the_price_of_a_swap() -> None:
    found = said(replace(INTENT, price_impact_bps=700))
    assert found == {"asked": "700", "limit": "500", "unit": "basis points"}


NAMES = KnownNames(token_list("mainnet-beta"), {})
SENT = Line(Operation.TRANSFER, USDC, 4_000_000, account=WALLET, decimals=6)
# Names that would say numbers of their own, if they were read as words.
WHO = ("agent:scout", 'agent:a" has 5 of 6 USDC left in 24 hours; 7 are asked.')


@pytest.mark.parametrize("who", WHO, ids=["plain", "forging"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"why": Why.PER_TX, "line": SENT, "requested": 6_000_000, "limit": 5_000_000},
            {"asked": "6", "limit": "5", "unit": "USDC"},
        ),
        (
            {
                "why": Why.WINDOW, "line": SENT, "requested": 4_000_000, "limit": 8_000_000,
                "used": 5_000_000, "window_ms": HOUR_MS,
            },
            {"asked": "4", "limit": "8", "left": "3", "unit": "USDC", "window": "an hour"},
        ),
        (
            {
                "why": Why.WINDOW, "line": SENT, "requested": 9_000_000, "limit": 8_000_000,
                "used": 0, "window_ms": DAY_MS,
            },
            {"asked": "9", "limit": "8", "unit": "USDC", "window": "24 hours"},
        ),
        (
            {
                "why": Why.WINDOW, "line": SENT, "requested": 4_000_000, "limit": 5_000_000,
                "used": 4_500_000, "window_ms": DAY_MS, "counted_as": USD,
            },
            {"asked": "$4", "limit": "$5", "left": "$0.5", "window": "24 hours"},
        ),
        (
            {
                "why": Why.RATE, "limit": 3, "used": 3, "window_ms": MINUTE_MS, "counted_as": RATE,
                "decimals": 0,
            },
            {"limit": "3", "used": "3", "unit": "transactions", "window": "a minute"},
        ),
        (
            {
                "why": Why.COSTS, "requested": 20_000_000, "limit": 50_000_000, "decimals": 9,
                "used": 45_000_000, "window_ms": DAY_MS, "counted_as": COSTS,
            },
            {
                "asked": "0.02", "limit": "0.05", "left": "0.005",
                "unit": "SOL of fees and rent", "window": "24 hours",
            },
        ),
        (
            {"why": Why.SLIPPAGE, "requested": 250, "limit": 100},
            {"asked": "2.5%", "limit": "1%", "unit": "slippage"},
        ),
        ({"why": Why.NO_GRANT, "line": SENT}, {}),
    ],
    ids=["at once", "window", "never", "dollars", "rate", "costs", "slippage", "none"],
)  # fmt: skip
def test_grants(who: str, values: dict[str, Any], expected: dict[str, str]) -> None:
    whole: dict[str, Any] = {"number": 1, "decimals": 6} | values
    assert numbers_of("grants", finding_sentence(Finding(who=who, **whole), NAMES)) == expected


@pytest.mark.parametrize(
    "reason",
    [
        f"address {WALLET} is blocked; here it is the wallet or a destination",
        "transactions are frozen: 3 SOL is more than the 2 SOL allowed per transaction",
        "",
        f"{SOL} is not for sale",
    ],
    ids=["address", "freeze", "nothing", "words"],
)
def test_others_say_none(reason: str) -> None:
    assert numbers_of("max_per_tx", reason) == {}


def test_a_plugins_sentence_that_is_written_like_ours_says_none() -> None:
    ours = "5 SOL is more than the 2 SOL allowed per transaction (limit of the wallet)"
    assert numbers_of("max_per_tx", ours) == {"asked": "5", "limit": "2", "unit": "SOL"}
    assert numbers_of("plugins_own", ours) == {}
