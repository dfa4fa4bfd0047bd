"""The texts a model is given: the system prompt, the cycle's message and the chat's message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from solward import jsontext
from solward.agents.model import Agent, MemoryEntry
from solward.money import format_sol

NO_MEMORY = "No previous actions are recorded."

_MAINNET = "mainnet-beta"

_DEVELOPMENT = "You act on {network}, a development network: there are no real funds."
_REAL_FUNDS = "You act on {network}: the funds are real, and losses cannot be undone."

_RULES = (
    "Analyze the state of the wallet before you decide.",
    "Decide by your strategy.",
    "Use exactly one skill per cycle, or wait.",
    "Give the reasoning for your decision.",
    "Be conservative.",
    "Check the balance before swaps or transfers.",
)
_AIRDROP_RULE = "Consider an airdrop when SOL is low."


def system_prompt(agent: Agent, network: str) -> str:
    """Contract 1.1 rule 1: who the agent is, its strategy, its limits, the network, the rules."""
    guardrails = agent.guardrails
    mainnet = network == _MAINNET
    place = (_REAL_FUNDS if mainnet else _DEVELOPMENT).format(network=network)
    rules = _RULES if mainnet else (*_RULES, _AIRDROP_RULE)
    return "\n".join(
        (
            f"You are {agent.name}, an autonomous agent that manages a Solana wallet.",
            "",
            "Your strategy:",
            agent.strategy,
            "",
            "Your guardrails, enforced on every transaction:",
            f"- at most {format_sol(guardrails.max_lamports_per_transaction)} SOL per transaction",
            f"- at most {guardrails.max_transactions_per_minute} transactions per minute",
            f"- at most {format_sol(guardrails.daily_lamports)} SOL spent per day",
            "",
            place,
            "",
            "How you behave:",
            *(f"- {rule}" for rule in rules),
        )
    )


def cycle_message(observation: Mapping[str, Any], memory: Sequence[MemoryEntry]) -> str:
    """What the model is told each cycle; `memory` is newest first, as the store gives it."""
    return "\n\n".join(
        (
            f"Current state:\n{jsontext.dumps(dict(observation))}",
            memory_text(memory),
            "Decide what to do in this cycle: call one skill, or none to wait.",
        )
    )


def chat_message(message: str, memory: Sequence[MemoryEntry]) -> str:
    """What the model is told when a person writes to the agent."""
    return f"{memory_text(memory)}\n\nA message for you:\n{message}"


def memory_text(memory: Sequence[MemoryEntry]) -> str:
    """Memory entries (newest first) as the model reads them, oldest first."""
    if not memory:
        return NO_MEMORY
    lines = (
        f"- cycle {entry.cycle}: {entry.action or 'no action'} -> {entry.outcome} "
        f"(reasoning: {entry.reasoning})"
        for entry in reversed(memory)
    )
    return "Your previous actions:\n" + "\n".join(lines)
