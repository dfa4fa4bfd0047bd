"""What a model is told."""

from __future__ import annotations

from tests.agents.agents_support import AGENT

from solward.agents.model import MemoryEntry
from solward.agents.prompt import cycle_message, memory_text, system_prompt


def test_the_system_prompt_states_all_that_the_contract_lists() -> None:
    prompt = system_prompt(AGENT, "localnet")
    for part in (
        "You are Ada",
        "Keep half a SOL.",
        "at most 2 SOL per transaction",
        "at most 5 transactions per minute",
        "at most 10 SOL spent per day",
        "development network: there are no real funds",
        "Analyze the state",
        "Decide by your strategy",
        "exactly one skill per cycle, or wait",
        "Give the reasoning",
        "Be conservative",
        "Check the balance before swaps or transfers",
        "Consider an airdrop when SOL is low",
    ):
        assert part in prompt


def test_on_mainnet_the_prompt_says_that_funds_are_real() -> None:
    prompt = system_prompt(AGENT, "mainnet-beta")
    assert "the funds are real" in prompt
    assert "no real funds" not in prompt
    assert "airdrop" not in prompt


def test_without_memory_the_model_is_told_so() -> None:
    assert "No previous actions are recorded." in cycle_message({"cycle": 1}, ())


def test_memory_is_told_oldest_first() -> None:
    newest_first = [
        MemoryEntry(2, "Low.", 'airdrop({"amount":1})', "Got 1 SOL.", 0),
        MemoryEntry(1, "Fine.", None, "No action was taken.", 0),
    ]
    assert memory_text(newest_first) == (
        "Your previous actions:\n"
        "- cycle 1: no action -> No action was taken. (reasoning: Fine.)\n"
        '- cycle 2: airdrop({"amount":1}) -> Got 1 SOL. (reasoning: Low.)'
    )
