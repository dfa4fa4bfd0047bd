"""Rows for tests of agents and their cycles."""

from __future__ import annotations

from typing import Any

WALLET: dict[str, Any] = {
    "id": "w1",
    "name": "w",
    "public_key": "k",
    "tags": [],
    "created_ms": 0,
    "kek_version": 1,
    "wrapped_data_key": b"",
    "sealed_key": b"",
}


def fields(agent_id: str = "a1", **changes: Any) -> dict[str, Any]:
    return {
        "id": agent_id,
        "name": "Ada",
        "wallet_id": "w1",
        "llm_provider": "rules",
        "llm_model": "rules",
        "strategy": "always do wait",
        "guardrails": "{}",
        "loop_interval_ms": 1000,
        "status": "running",
        "desired_state": "running",
        "created_ms": 1,
        "next_run_ms": 5,
        "cycle_no": 1,
        "fence": 0,
        "failures": 0,
        "error": None,
    } | changes


def decision(agent_id: str, cycle: int) -> dict[str, Any]:
    return {
        "agent_id": agent_id,
        "cycle": cycle,
        "observations": "{}",
        "reasoning": "r",
        "action": None,
        "outcome": "o",
        "created_ms": cycle,
        "input_tokens": None,
        "output_tokens": None,
        "cost_nanousd": None,
    }
