"""Agents, what they decide and what they remember."""

from __future__ import annotations

from solward.agents.model import AgentStatus
from solward_server.openapi.schema import (
    Schema,
    address,
    array,
    choice,
    closed,
    flag,
    identifier,
    nullable,
    number,
    ref,
    sol,
    text,
    timestamp,
    whole,
)

_MEMORY: dict[str, Schema] = {
    "cycle": whole("From 1.", 1),
    "reasoning": text("The model's."),
    "action": nullable(text("The skill with its parameters; null where none ran.")),
    "outcome": text("What came of it."),
    "timestamp": timestamp("When the cycle ended."),
}

AGENT_SCHEMAS: dict[str, Schema] = {
    "Guardrails": closed(
        {
            "maxSolPerTransaction": sol("SOL in one transaction."),
            "maxTransactionsPerMinute": whole("In any 60 seconds.", 1),
            "dailySpendingLimitSol": sol("SOL in any 24 hours."),
        }
    ),
    "LlmBudget": closed(
        {
            "maxTokensPerCycle": whole("Tokens of prompt and answer in a cycle.", 1),
            "maxTokensPerDay": whole("Tokens in a day.", 1),
            "maxUsdPerDay": number("Estimated US dollars in a day.", exclusiveMinimum=0),
        },
        optional=["maxTokensPerCycle", "maxTokensPerDay", "maxUsdPerDay"],
        description="What is absent has no limit.",
    ),
    "AgentStatus": choice("See docs/agents.md.", *AgentStatus),
    "Agent": closed(
        {
            "id": identifier("The agent."),
            "name": text("For people."),
            "walletId": identifier("The wallet it uses."),
            "llmProvider": text("The provider's name."),
            "llmModel": text("The model's name."),
            "llmOptions": {"type": "object", "description": "By the provider's own schema."},
            "llmBudget": ref("LlmBudget"),
            "isLlm": flag("False for the rule-based demo provider."),
            "strategy": text("What it is to do."),
            "guardrails": ref("Guardrails"),
            "loopIntervalMs": whole("From the start of a cycle to the next.", 1000),
            "status": ref("AgentStatus"),
            "createdAt": timestamp("When it was made."),
            "error": text("Why its last cycle failed; only then."),
        },
        optional=["error"],
    ),
    "MemoryEntry": closed(_MEMORY),
    "Observation": {
        "oneOf": [
            closed(
                {
                    "walletName": text("The wallet's."),
                    "walletAddress": address("The wallet's."),
                    "solBalance": sol("SOL."),
                    "tokenBalances": array(
                        closed(
                            {
                                "mint": address("The mint."),
                                "symbol": text("Where the mint is known."),
                                "uiBalance": number("Whole tokens.", minimum=0),
                            },
                            optional=["symbol"],
                        )
                    ),
                    "recentTransactions": array({"type": "object"}, "The 5 newest.", 5),
                    "cycle": whole("From 1.", 1),
                    "timestamp": timestamp("When it was observed."),
                }
            ),
            closed(
                {
                    "error": text("Why the wallet could not be observed."),
                    "cycle": whole("From 1.", 1),
                    "timestamp": timestamp("When."),
                }
            ),
        ]
    },
    "Decision": closed(
        {"agentId": identifier("The agent."), "observations": ref("Observation")}
        | _MEMORY
        | {
            "usage": closed(
                {
                    "inputTokens": whole("Of the prompt.", 0),
                    "outputTokens": whole("Of the answer.", 0),
                    "costUsd": nullable(number("Estimated; null where the price is not known.")),
                }
            )
        },
        optional=["usage"],
    ),
}
