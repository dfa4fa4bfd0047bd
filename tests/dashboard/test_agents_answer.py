"""What the agents' pages make of the service's answers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from nicegui import Client, ui
from nicegui.page import page

from solward.client import Agent, Decision
from solward_dashboard.pages.agents import (
    action_text,
    find_agents,
    limit_bars,
    observation_text,
    usage_text,
)
from solward_dashboard.wording import interval_text

WRAPPED = "So11111111111111111111111111111111111111112"


def agent(**fields: Any) -> Agent:
    return Agent.of(
        {
            "id": "a1",
            "name": "saver",
            "walletId": "w1",
            "status": "running",
            "llmProvider": "openai",
            "llmModel": "gpt-5.2",
            "strategy": "save",
            "loopIntervalMs": 60_000,
            "guardrails": {},
            "llmOptions": {},
            "llmBudget": {},
            "isLlm": True,
            "createdAt": "2026-11-21T10:00:00.000Z",
        }
        | fields
    )


def decision(**fields: Any) -> Decision:
    return Decision.of(
        {
            "agentId": "a1",
            "cycle": 1,
            "observations": {},
            "reasoning": "because",
            "action": "wait({})",
            "outcome": "Waited.",
            "timestamp": "2026-11-21T10:00:00.000Z",
        }
        | fields
    )


def limits(
    spent: str = "0", reserved: str = "0", limit: str | None = "10", **model: Any
) -> dict[str, Any]:
    most = None if limit is None else Decimal(limit)
    return {
        "dailySpendingLimitSol": {
            "limit": most,
            "spent": Decimal(spent),
            "reserved": Decimal(reserved),
        },
        "model": {"budget": {}, "lastDay": {"tokens": 0, "usd": 0}} | model,
    }


def bars(limits: dict[str, Any]) -> list[tuple[str, float]]:
    """The text and the share of each bar."""
    with Client(page("/agents")):
        shown = limit_bars()
        shown.show(limits)
    found = shown.element.descendants()
    return [(each.props["aria-label"], each.value) for each in found
            if isinstance(each, ui.linear_progress)]  # fmt: skip


def test_a_bar_counts_what_is_reserved_and_says_it() -> None:
    said = "Spent in 24 hours: 1.000000001 of 10 SOL, 1.5 reserved, 7.499999999 left"
    assert bars(limits("1.000000001", "1.5")) == [(said, 0.1000000001)]


@pytest.mark.parametrize(
    ("spent", "limit", "said", "share"),
    [
        ("0", "10", "0 of 10 SOL, 10 left", 0.0),
        ("12", "10", "12 of 10 SOL, 0 left", 1.0),
        ("0", "0", "0 of 0 SOL, 0 left", 1.0),
        ("3", None, "3 SOL, no limit", 0.0),
    ],
)
def test_a_bar_is_full_at_its_limit(spent: str, limit: str | None, said: str, share: float) -> None:
    assert bars(limits(spent, limit=limit)) == [(f"Spent in 24 hours: {said}", share)]


def test_a_model_has_bars_for_the_limits_it_has() -> None:
    budget = {"maxTokensPerCycle": 5, "maxTokensPerDay": 2_000, "maxUsdPerDay": Decimal("0.5")}
    used = {"tokens": 500, "usd": Decimal("0.000161"), "unpricedTokens": 0}
    _day, tokens, price = bars(limits(budget=budget, lastDay=used))
    assert tokens == ("Model's tokens in a day: 500 of 2,000, 1,500 left", 0.25)
    assert price[0] == "USD for the model in a day: 0.000161 of 0.5 USD, 0.499839 left"


def test_agents_are_found_by_all_that_names_them() -> None:
    one = agent()
    two = agent(id="a2", name="Trader", walletId="w2", status="stopped", llmModel="grok-4")
    wallets = {"w1": "till", "w2": "vault"}
    for search, found in (
        ("", [one, two]),
        ("TRADER", [two]),
        ("till running", [one]),
        ("grok", [two]),
        ("openai stopped", [two]),
        ("till stopped", []),
    ):
        assert find_agents([one, two], wallets, search) == found


def test_an_action_without_parameters_is_its_skill() -> None:
    assert action_text(decision()) == "wait"
    assert action_text(decision(action='swap({"amount":1})')) == 'swap({"amount":1})'
    assert action_text(decision(action=None)) == "no action"


def test_usage_is_told_with_its_price_where_that_is_known() -> None:
    used = {"inputTokens": 9_120, "outputTokens": 41, "costUsd": Decimal("0.000161")}
    assert usage_text(used) == "9,120 + 41 tokens, about 0.000161 USD"
    assert usage_text(used | {"costUsd": None}) == "9,120 + 41 tokens"
    assert usage_text(None) == ""


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (1_000, "every 1 s"),
        (90_000, "every 90 s"),
        (60_000, "every 1 min"),
        (7_200_000, "every 2 h"),
        (1_500, "every 1,500 ms"),
    ],
)
def test_an_interval_is_told_in_its_largest_whole_unit(milliseconds: int, said: str) -> None:
    assert interval_text(milliseconds) == said


def test_an_observation_is_told_a_line_each() -> None:
    seen = {
        "walletName": "till",
        "walletAddress": "4iPF56vgAzPvChzSEQNKfUG7zvPE3RTkwu2S5aNtRjBy",
        "solBalance": Decimal("1.000000001"),
        "tokenBalances": [
            {"mint": WRAPPED, "symbol": "SOL", "uiBalance": Decimal("0.05")},
            {"mint": "Mint111", "uiBalance": 7},
        ],
        "recentTransactions": [
            {
                "type": "token_launch",
                "status": "confirmed",
                "details": {"mint": "CHzb3y3x8jXJ1ynC6wRfjjh9HxRrU488nehKS7sR93LE", "decimals": 6},
            }
        ],
    }
    assert observation_text(seen).splitlines() == [
        "till (4iPF56vgAzPvChzSEQNKfUG7zvPE3RTkwu2S5aNtRjBy)",
        "1.000000001 SOL",
        "0.05 wSOL",
        "7 Mint111",
        "Last transactions:",
        "- token launch confirmed: mint CHzb…93LE, decimals 6",
    ]


def test_an_observation_that_failed_says_why() -> None:
    assert observation_text({"error": "no ledger", "cycle": 1}) == (
        "The wallet could not be observed: no ledger"
    )
