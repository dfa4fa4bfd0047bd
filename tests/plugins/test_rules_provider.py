"""The rule-based demo provider."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from solward import CompletionRequest, Message, ProviderError, ToolDefinition
from solward_plugins.providers import rules

MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SKILLS = ("airdrop", "transfer", "swap", "wait")


def seen(sol: str = "1", cycle: int = 1, **balances: str) -> dict[str, Any]:
    return {
        "solBalance": Decimal(sol),
        "tokenBalances": [
            {"mint": MINT, "symbol": symbol, "uiBalance": Decimal(amount)}
            for symbol, amount in balances.items()
        ],
        "cycle": cycle,
    }


def chosen(strategy: str, observation: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    completion = rules.decide(rules.parse_rules(strategy, SKILLS), observation)
    if not completion.tool_calls:
        return None
    [call] = completion.tool_calls
    return call.name, call.arguments


def test_it_declares_itself_a_demo_and_no_language_model() -> None:
    spec = rules.provider_spec()
    assert (spec.name, spec.is_llm, spec.demo, spec.secret_env) == ("rules", False, True, None)


@pytest.mark.parametrize(
    ("line", "observation", "expected"),
    [
        ("when balance.SOL < 0.5 do airdrop amount=1", seen("0.4"), ("airdrop", {"amount": 1})),
        ("when balance.SOL < 0.5 do airdrop amount=1", seen("0.5"), None),
        ("when balance.SOL <= 0.5 do airdrop", seen("0.5"), ("airdrop", {})),
        ("when balance.SOL == 0.5 do airdrop", seen("0.50"), ("airdrop", {})),
        ("when balance.SOL != 0.5 do airdrop", seen("0.5"), None),
        ("when balance.SOL > 1 and balance.SOL < 2 do wait", seen("1.5"), ("wait", {})),
        ("when balance.SOL > 1 and balance.SOL < 2 do wait", seen("2"), None),
        ("when balance.USDC >= 2.5 do wait", seen(USDC="2.5"), ("wait", {})),
        (f"when balance.{MINT} >= 2.5 do wait", seen(USDC="2.5"), ("wait", {})),
        ("when balance.BONK < 1 do wait", seen(USDC="2.5"), ("wait", {})),
        ("when cycle > 2 do wait", seen(cycle=3), ("wait", {})),
        ("when cycle > 2 do wait", seen(cycle=2), None),
        ("every 3 cycles do wait", seen(cycle=6), ("wait", {})),
        ("every 3 cycles do wait", seen(cycle=7), None),
        ("every 1 cycle do wait", seen(cycle=7), ("wait", {})),
        ("every 3 cycles when balance.SOL > 1 do wait", seen("2", cycle=3), ("wait", {})),
        ("every 3 cycles when balance.SOL > 1 do wait", seen("1", cycle=3), None),
        ("always do wait", seen(), ("wait", {})),
        ("do wait", seen(), ("wait", {})),
        ('do wait reason="no rush"', seen(), ("wait", {"reason": "no rush"})),
        (
            f"do transfer to={MINT} amount=0.01",
            seen(),
            ("transfer", {"to": MINT, "amount": Decimal("0.01")}),
        ),
    ],
)
def test_a_line_matches_exactly_what_it_says(
    line: str, observation: dict[str, Any], expected: Any
) -> None:
    assert chosen(line, observation) == expected


def test_the_first_matching_line_wins() -> None:
    strategy = "# demo\n\nwhen balance.SOL < 1 do airdrop\nevery 2 cycles do swap\nalways do wait"
    assert chosen(strategy, seen("0", cycle=2)) == ("airdrop", {})
    assert chosen(strategy, seen("1", cycle=2)) == ("swap", {})
    assert chosen(strategy, seen("1", cycle=3)) == ("wait", {})


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("", "has no rule"),
        ("# only a remark", "has no rule"),
        ("Buy low and sell high.", "is not a rule"),
        ("always do wait\nThen do whatever seems best", "'Then do whatever seems best'"),
        ("do steal", "no skill named 'steal'"),
        ("when the price falls do wait", "cannot read the condition 'the price falls'"),
        ("when balance.SOL < 1 or cycle > 2 do wait", "cannot read the condition"),
        ("when balance.SOL < much do wait", "cannot read the condition"),
        ("when balance.SOL < 1e3 do wait", "cannot read the condition"),
        ("every 0 cycles do wait", "must be at least 1"),
        ("do transfer 1", "expected name=value, not '1'"),
        ("do transfer amount=1 amount=2", "amount is given twice"),
        ('do wait reason="open', "a quote is not closed"),
        ("always when cycle > 1 do wait", "is not a rule"),
    ],
)
def test_anything_else_is_refused_with_its_line(strategy: str, why: str) -> None:
    with pytest.raises(ProviderError) as refused:
        rules.parse_rules(strategy, SKILLS)
    assert why in str(refused.value)


def request(strategy: str, observation: Mapping[str, Any]) -> CompletionRequest:
    return CompletionRequest(
        model="rules",
        system="",
        messages=(Message("user", "What now?"),),
        tools=tuple(ToolDefinition(name, "", {}) for name in SKILLS) if observation else (),
        observation=observation,
        strategy=strategy,
    )


async def test_the_reason_is_the_matched_line_and_says_it_is_no_model() -> None:
    line = "when balance.SOL < 0.5 do airdrop amount=1"
    completion = await rules.provider_complete(request(line, seen("0")), {})
    assert completion.text is not None
    assert line in completion.text
    assert "not a language model" in completion.text


async def test_no_match_is_waiting() -> None:
    completion = await rules.provider_complete(request("when cycle > 5 do wait", seen()), {})
    assert completion.tool_calls == ()
    assert completion.text == "No rule matched; waiting (rule-based demo, not a language model)."


async def test_it_waits_at_a_rule_it_cannot_judge_rather_than_skip_it() -> None:
    strategy = "when balance.SOL < 1 do airdrop\nalways do swap"
    failed = {"error": "away", "cycle": 4}
    completion = await rules.provider_complete(request(strategy, failed), {})
    assert completion.tool_calls == ()
    assert completion.text is not None
    assert "the wallet could not be observed" in completion.text


async def test_a_question_is_answered_with_what_it_is() -> None:
    completion = await rules.provider_complete(request("always do wait", {}), {})
    assert completion.text == (
        "I am a rule-based demo, not a language model. My rules are:\nalways do wait"
    )
