"""What saving an agent's form changes: fields, widened bounds, lines of the strategy."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from solward.client import Agent, Event
from solward_dashboard.pages.agent_form import changes, diff, earlier_strategies

AGENT = Agent.of(
    {
        "id": "a1",
        "name": "saver",
        "walletId": "w1",
        "status": "idle",
        "llmProvider": "openai",
        "llmModel": "m",
        "llmOptions": {"temperature": Decimal("0.2")},
        "llmBudget": {"maxTokensPerDay": 1_000, "maxUsdPerDay": 5},
        "strategy": "save",
        "loopIntervalMs": 5_000,
        "guardrails": {
            "maxSolPerTransaction": Decimal("0.5"),
            "maxTransactionsPerMinute": 2,
            "dailySpendingLimitSol": 3,
        },
        "isLlm": True,
        "createdAt": "2026-11-21T10:00:00.000Z",
    }
)
SAME: dict[str, Any] = {
    "name": "saver",
    "llm_provider": "openai",
    "llm_model": "m",
    "loop_interval_ms": 5_000,
    "llm_options": {"temperature": Decimal("0.2")},
    "llm_budget": {"maxTokensPerDay": 1_000, "maxUsdPerDay": Decimal("5")},
    "max_sol_per_transaction": Decimal("0.5"),
    "max_transactions_per_minute": 2,
    "daily_spending_limit_sol": 3,
}


def test_nothing_changed_is_nothing() -> None:
    assert changes(AGENT, SAME) == []


@pytest.mark.parametrize(
    ("part", "field", "value", "text"),
    [
        ("", "daily_spending_limit_sol", 5,
         "Most SOL in 24 hours: 3 becomes 5, which is wider"),
        ("", "daily_spending_limit_sol", 2, "Most SOL in 24 hours: 3 becomes 2"),
        ("", "max_sol_per_transaction", Decimal("0.500000001"),
         "Most SOL in a transaction: 0.5 becomes 0.500000001, which is wider"),
        ("", "max_costs_sol_per_day", Decimal("0.01"),
         "Most SOL of fees and rent in 24 hours: no limit of its own becomes 0.01"),
        ("llm_budget", "maxTokensPerDay", None,
         "Most tokens in a day: 1,000 becomes no limit of its own, which is wider"),
        ("llm_budget", "maxTokensPerCycle", 50,
         "Most tokens in a cycle: no limit of its own becomes 50"),
        ("llm_options", "temperature", None,
         "The model's temperature: 0.2 becomes the model's default"),
    ],
    ids=range(7),
)  # fmt: skip
def test_a_bound_that_is_widened_says_so(part: str, field: str, value: Any, text: str) -> None:
    changed = {field: value}
    if part:
        whole = SAME[part] | changed
        changed = {part: {name: each for name, each in whole.items() if each is not None}}
    (found,) = changes(AGENT, SAME | changed)
    assert (found.text, found.is_wider) == (text, "wider" in text)


def test_a_guardrail_that_is_left_out_stays() -> None:
    values = {name: each for name, each in SAME.items() if name != "daily_spending_limit_sol"}
    assert changes(AGENT, values) == []


def test_name_model_and_interval_are_named() -> None:
    values = SAME | {
        "name": "spender",
        "llm_model": "m-2",
        "loop_interval_ms": 60_000,
    }
    assert [each.text for each in changes(AGENT, values)] == [
        "Name: saver becomes spender",
        "Model: m becomes m-2",
        "Cycle: every 5 s becomes every 1 min",
    ]


def test_the_lines_that_differ_are_shown_with_those_around() -> None:
    before = "\n".join(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    after = before.replace("one", "1").replace("nine", "9")
    assert diff(before, after) == [
        ("-", "one"), ("+", "1"), (" ", "two"), (" ", "three"), (" ", "four"), ("…", ""),
        (" ", "six"), (" ", "seven"), (" ", "eight"), ("-", "nine"), ("+", "9"),
    ]  # fmt: skip
    assert diff(before, before) == []
    # A line that looks like a sign of the diff is a line.
    assert diff("-- a", "++ b") == [("-", "-- a"), ("+", "++ b")]
    assert diff("a", "a\n") == [(" ", "a"), ("+", "")]


def test_earlier_strategies_are_told_once_and_the_present_one_never() -> None:
    def entry(seq: int, **data: Any) -> Event:
        raw = {"seq": seq, "event": "agent:changed", "timestamp": "2026-11-21T10:00:00.000Z"}
        return Event.of(raw | {"data": {"agentId": "a1", "principal": "admin"} | data})

    entries = [
        entry(9, before={"strategy": "save"}, after={"strategy": "spend"}),
        entry(8, before={"loopIntervalMs": 1}, after={"loopIntervalMs": 2}),
        entry(7, before={"strategy": "spend"}, after={"strategy": "save"}),
        entry(6, before={"strategy": "save"}, after={"strategy": "spend"}),
        entry(5, after={"strategy": "save"}),
    ]
    found = earlier_strategies(entries, "spend")
    assert [(event.seq, text) for event, text in found] == [(9, "save")]
