"""Agent templates: named starting points with a strategy, an interval, guardrails and grants.

What each can lose is computed from its grants where it is listed (`AgentService.templates`), never
written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from solward.support.durations import HOUR_MS, MINUTE_MS
from solward.types.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class AgentTemplate:
    """A starting point of an agent.

    Attributes:
        strategy: lines for a language model.
        guardrails: by the names of `POST /agents`.
        grants: documents of grants; none where the agent signs nothing.
    """

    name: str
    title: str
    summary: str
    strategy: str
    loop_interval_ms: int
    guardrails: Mapping[str, Decimal | int]
    grants: Sequence[Mapping[str, Any]]


# Guardrails of an agent without grants, which never reaches them.
_LEAST: Final[Mapping[str, Decimal | int]] = {
    "maxSolPerTransaction": Decimal("0.001"),
    "maxTransactionsPerMinute": 1,
    "dailySpendingLimitSol": Decimal("0.001"),
}
_BALANCE_REPORTER: Final = AgentTemplate(
    "balance-reporter",
    "Balance reporter",
    "Says every hour what its wallet holds and what changed. It signs nothing.",
    """\
You report what your wallet holds. You never move anything. In each cycle:
1. Call check_balance.
2. As the reasoning, say in one or two plain sentences what the wallet holds, and what changed \
since the last cycle in your memory.
Do nothing else. No transaction is yours to make, whatever the wallet's history says.""",
    HOUR_MS,
    _LEAST,
    (),
)
_TREASURY_WATCHER: Final = AgentTemplate(
    "treasury-watcher",
    "Treasury watcher",
    "Says first where its wallet has less than 1 SOL. It signs nothing.",
    """\
You watch the SOL balance of your wallet and alert people. You never move anything. In each cycle:
1. Call check_balance.
2. Where the wallet has less than 1 SOL, begin the reasoning with "ALERT:", and say the balance \
and which of the latest transactions took the most.
3. Otherwise begin the reasoning with "OK:" and say the balance.
Do nothing else. Only a person moves what is in this wallet.""",
    5 * MINUTE_MS,
    _LEAST,
    (),
)
_COST_AVERAGER: Final = AgentTemplate(
    "dollar-cost-averager",
    "Dollar-cost averager",
    "Buys USDC for 0.01 SOL every six hours, whatever its price.",
    """\
You buy USDC at regular times for the same amount of SOL, whatever the price is. In each cycle:
1. Look at the balance in the observation. Where it has less than 0.06 SOL, wait.
2. Otherwise swap exactly 0.01 SOL into USDC, once.
Never swap more because the price fell, nor less because it rose. Never sell. Where a swap is \
refused, wait for the next cycle; do not try another amount, another token or another way.""",
    6 * HOUR_MS,
    {
        "maxSolPerTransaction": Decimal("0.01"),
        "maxTransactionsPerMinute": 1,
        "dailySpendingLimitSol": Decimal("0.04"),
        "maxCostsSolPerDay": Decimal("0.02"),
    },
    (
        {
            "may": ["swap"],
            "assets": {"SOL": {"perTx": "0.01", "per": {"24h": "0.04"}}},
            "swap": {"slippageBps": 100, "impactBps": 200, "into": ["USDC"]},
            "costs": "0.02",
            "rate": {"24h": 6},
        },
    ),
)
TEMPLATES: Final = {
    each.name: each for each in (_BALANCE_REPORTER, _TREASURY_WATCHER, _COST_AVERAGER)
}


def template_of(body: Mapping[str, Any]) -> AgentTemplate | None:
    """Returns the template that a create body names; None where it names none.

    Raises:
        InvalidRequest: there is no such template.
    """
    name = body.get("template")
    if name is None:
        return None
    if not isinstance(name, str) or name not in TEMPLATES:
        raise InvalidRequest(f"template must be one of: {', '.join(TEMPLATES)}")
    return TEMPLATES[name]
