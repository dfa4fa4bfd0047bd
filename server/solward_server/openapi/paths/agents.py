"""Agents: made, changed, started and stopped; what they decided and remember."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from solward_server.http.auth import Access
from solward_server.openapi.errors import NO_AGENT, NO_WALLET
from solward_server.openapi.operation import Operation, answers, operation, takes
from solward_server.openapi.parameters import (
    AGENT,
    AGENT_ID,
    BEFORE_CYCLE,
    LIMIT,
    MEMORY_LIMIT,
    WALLET,
)
from solward_server.openapi.schema import (
    Schema,
    amount,
    array,
    asked,
    choice,
    closed,
    flag,
    identifier,
    number,
    ref,
    text,
    whole,
)

_GUARDRAILS: dict[str, Schema] = {
    "maxSolPerTransaction": amount("SOL in one transaction."),
    "maxTransactionsPerMinute": whole("In any 60 seconds.", 1, 1_000_000),
    "dailySpendingLimitSol": amount("SOL in any 24 hours."),
}
_BUDGET = asked(
    {
        "maxTokensPerCycle": whole("Tokens of prompt and answer.", 1, 10**12),
        "maxTokensPerDay": whole("Tokens of prompt and answer.", 1, 10**12),
        "maxUsdPerDay": number("US dollars; 9 decimals.", exclusiveMinimum=0, maximum=10**6),
    },
    additionalProperties=False,
)
_FIELDS: dict[str, Schema] = {
    "name": text("1 to 100 printable characters.", 100),
    "llmModel": text("The model's name.", 200),
    "strategy": text("What it is to do.", 20_000),
    "loopIntervalMs": whole("Between cycles.", 1000, 2**31 - 1, default=60_000),
    "llmOptions": {"type": "object", "description": "By the provider's own schema."},
    "llmBudget": _BUDGET,
    "guardrails": asked(_GUARDRAILS) | {"description": "What is left out is the service's."},
} | _GUARDRAILS

_AGENT: dict[str, Any] = {
    "id": AGENT,
    "name": "saver",
    "walletId": WALLET,
    "llmProvider": "rules",
    "llmModel": "rules",
    "llmOptions": {},
    "llmBudget": {},
    "isLlm": False,
    "strategy": "always do wait",
    "guardrails": {
        "maxSolPerTransaction": 0.5,
        "maxTransactionsPerMinute": 5,
        "dailySpendingLimitSol": 10,
    },
    "loopIntervalMs": 5000,
    "status": "idle",
    "createdAt": "2026-11-21T10:49:52.500Z",
}
_MEMORY = {
    "cycle": 9,
    "reasoning": "Matched rule: always do wait (rule-based demo, not a language model).",
    "action": "wait({})",
    "outcome": "Waited: no action this cycle.",
    "timestamp": "2026-11-21T10:34:50.412Z",
}
_OBSERVED = {
    "walletName": "docs",
    "walletAddress": "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh",
    "solBalance": 2.39794572,
    "tokenBalances": [],
    "recentTransactions": [],
    "cycle": 9,
    "timestamp": "2026-11-21T10:34:50.401Z",
}


def agent_paths(providers: Collection[str]) -> dict[str, dict[str, Operation]]:
    """The routes of agents, which can think with these providers."""
    provider = choice("A loaded provider.", *sorted(providers))
    return _collection(provider) | {"/agents/{agentId}": _one(provider)} | _ORDERS | _READ


def _collection(provider: Schema) -> dict[str, dict[str, Operation]]:
    body = asked(
        {"walletId": text("The wallet it uses.", 100), "llmProvider": provider} | _FIELDS,
        required=["name", "strategy"],
        anyOf=[
            {
                "title": "On a wallet",
                "required": ["walletId", "llmProvider", "llmModel"],
                "properties": {
                    name: {"type": "string"} for name in ("walletId", "llmProvider", "llmModel")
                },
            },
            {
                "title": "With a wallet made for it",
                "required": ["maxSolPerTransaction"],
                "properties": {"walletId": {"type": "null"}},
            },
        ],
    )
    example = {
        "name": "saver",
        "walletId": WALLET,
        "llmProvider": "rules",
        "llmModel": "rules",
        "strategy": "always do wait",
        "guardrails": {"maxSolPerTransaction": 0.5},
    }
    made = closed(
        {
            "id": identifier("The agent."),
            "name": text("As given."),
            "status": choice("Not started.", "idle"),
            "walletId": identifier("Its wallet."),
        }
    )
    return {
        "/agents": {
            "get": operation(
                "listAgents",
                "List agents",
                tag="agents",
                access=Access.KEY,
                answer=answers(closed({"agents": array(ref("Agent"))}), {"agents": [_AGENT]}),
            ),
            "post": operation(
                "createAgent",
                "Create an agent",
                tag="agents",
                access=Access.ADMIN,
                description="Without `walletId` and with `maxSolPerTransaction` at the top level, "
                "a wallet is made for it, and provider and model may come from the defaults.",
                body=takes(body, example),
                answer=answers(
                    made, {"id": AGENT, "name": "saver", "status": "idle", "walletId": WALLET}
                ),
                errors={400: "name is required", 404: NO_WALLET},
            ),
        }
    }


def _one(provider: Schema) -> dict[str, Operation]:
    # A change names what it changes: null there is no value.
    firm = {name: _FIELDS[name] for name in ("name", "llmModel", "strategy")}
    change = asked({"llmProvider": provider} | _FIELDS)
    change["properties"] |= firm | {"llmProvider": provider, "walletId": False}
    return {
        "get": operation(
            "getAgent",
            "One agent",
            tag="agents",
            access=Access.KEY,
            parameters=[AGENT_ID],
            answer=answers(ref("Agent"), _AGENT),
            errors={404: NO_AGENT},
        ),
        "patch": operation(
            "changeAgent",
            "Change an agent; a running one goes by it from its next cycle",
            tag="agents",
            access=Access.ADMIN,
            parameters=[AGENT_ID],
            body=takes(change, {"loopIntervalMs": 5000}, required=False),
            answer=answers(ref("Agent"), _AGENT),
            errors={
                400: "walletId cannot be changed; create another agent for another wallet",
                404: NO_AGENT,
            },
        ),
        "delete": operation(
            "deleteAgent",
            "Delete an agent with its decisions and memory",
            tag="agents",
            access=Access.ADMIN,
            parameters=[AGENT_ID],
            answer=answers(
                closed({"id": identifier("The agent's."), "deleted": flag("True.", const=True)}),
                {"id": AGENT, "deleted": True},
            ),
            errors={404: NO_AGENT},
        ),
    }


def _order(name: str, summary: str, status: str, bad: str | None) -> dict[str, Operation]:
    refused = {} if bad is None else {400: bad}
    return {
        "post": operation(
            f"{name}Agent",
            summary,
            tag="agents",
            access=Access.ADMIN,
            parameters=[AGENT_ID],
            answer=answers(closed({"status": choice("Done.", status)}), {"status": status}),
            errors={404: NO_AGENT} | refused,
        )
    }


_ORDERS = {
    "/agents/{agentId}/start": _order(
        "start",
        "Start an agent, from any status",
        "started",
        "Set OPENAI_API_KEY to start an agent of the provider 'openai'",
    ),
    "/agents/{agentId}/stop": _order(
        "stop", "Stop an agent, once what it pays is recorded", "stopped", None
    ),
    "/agents/{agentId}/pause": _order(
        "pause", "Set a running agent aside", "paused", "Agent is not running"
    ),
}
_READ = {
    "/agents/{agentId}/decisions": {
        "get": operation(
            "listDecisions",
            "What an agent decided",
            tag="agents",
            access=Access.KEY,
            parameters=[AGENT_ID, LIMIT, BEFORE_CYCLE],
            answer=answers(
                closed({"decisions": array(ref("Decision"), "Newest first.")}),
                {"decisions": [{"agentId": AGENT, "observations": _OBSERVED} | _MEMORY]},
            ),
            errors={400: "limit must be a whole number from 1 to 500", 404: NO_AGENT},
        )
    },
    "/agents/{agentId}/memory": {
        "get": operation(
            "listMemory",
            "What an agent remembers",
            tag="agents",
            access=Access.KEY,
            parameters=[AGENT_ID, MEMORY_LIMIT],
            answer=answers(
                closed({"memory": array(ref("MemoryEntry"), "Newest first.")}),
                {"memory": [_MEMORY]},
            ),
            errors={400: "limit must be a whole number from 1 to 100", 404: NO_AGENT},
        )
    },
    "/agents/{agentId}/limits": {
        "get": operation(
            "getAgentLimits",
            "An agent's own limits, and what is spent of them",
            tag="agents",
            access=Access.KEY,
            parameters=[AGENT_ID],
            answer=answers(
                ref("AgentLimits"),
                {
                    "agentId": AGENT,
                    "walletId": WALLET,
                    "model": {
                        "budget": {"maxTokensPerDay": 500000},
                        "lastDay": {"tokens": 9530, "usd": 0.001610, "unpricedTokens": 0},
                    },
                    "maxSolPerTransaction": {"limit": 0.5},
                    "maxTransactionsPerMinute": {"limit": 5, "used": 0, "left": 5},
                    "dailySpendingLimitSol": {
                        "limit": 10,
                        "spent": 0,
                        "reserved": 0,
                        "left": 10,
                    },
                    "dailyTokens": {},
                },
            ),
            errors={404: NO_AGENT},
        )
    },
}
