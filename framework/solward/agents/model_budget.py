"""A model's budget is reserved before the model is asked, and settled to what it used afterwards.

So completions at the same time, of chats and cycles and in any process, cannot pass a day's limit
together. What is never settled, because the process ended or nobody knows what the vendor charged,
stays counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from solward.agents import provider_call
from solward.agents.agent import Agent
from solward.agents.batch import Batcher
from solward.agents.budget import (
    NOTHING_USED,
    UNLIMITED,
    TokenBudget,
    TokensUsed,
    estimated_tokens,
    output_allowance,
)
from solward.agents.store import agents as store
from solward.database.database import Database
from solward.plugins import Registry
from solward.support.durations import HOUR_MS
from solward.types.errors import ProviderError, TokenBudgetReached
from solward.types.provider import CompletionRequest, ModelPrice, Usage

_NOTHING = Usage(cost_nanousd=0)


@dataclass(frozen=True, slots=True)
class Reserved:
    """What one completion may use.

    Attributes:
        hour: since the epoch, in which it is counted.
        is_llm: False where the provider is no model, and uses nothing unless it says so.
    """

    agent_id: str
    hour: int
    tokens: int
    nanousd: int
    is_llm: bool

    @property
    def row(self) -> dict[str, Any]:
        """What it adds to `agent_usage`."""
        return _row(self.agent_id, self.hour, self.tokens, self.nanousd, 0)

    def settled(self, usage: Usage | None) -> dict[str, Any] | None:
        """What is to be added once the usage is known; None where it is not, and stays counted."""
        if usage is None:
            if self.is_llm:
                return None
            usage = _NOTHING
        cost = usage.cost_nanousd
        return _row(
            self.agent_id,
            self.hour,
            usage.tokens - self.tokens,
            (cost or 0) - self.nanousd,
            usage.tokens if cost is None else 0,
        )


def usage_row(agent_id: str, ms: int, usage: Usage) -> dict[str, Any]:
    """What a completion at `ms`, of which nothing was reserved, adds to `agent_usage`."""
    cost = usage.cost_nanousd
    unpriced = usage.tokens if cost is None else 0
    return _row(agent_id, ms // HOUR_MS, usage.tokens, cost or 0, unpriced)


def _row(agent_id: str, hour: int, tokens: int, nanousd: int, unpriced: int) -> dict[str, Any]:
    return {
        "agent_id": agent_id,
        "hour": hour,
        "tokens": tokens,
        "cost_nanousd": nanousd,
        "unpriced_tokens": unpriced,
    }


@dataclass(frozen=True, slots=True)
class _BudgetRequest:
    agent_id: str
    budget: TokenBudget
    model: str
    prompt: int
    price: ModelPrice | None
    is_llm: bool


class ModelBudget:
    """The budgets of all agents' models."""

    def __init__(self, database: Database, registry: Callable[[], Registry]) -> None:
        """Args:
        registry: gives the plugins as they are loaded now.
        """
        self._database = database
        self._registry = registry
        self._reserving: Batcher[_BudgetRequest, tuple[int, Reserved] | TokenBudgetReached] = (
            Batcher(self._reserve)
        )
        self._settling: Batcher[dict[str, Any], None] = Batcher(self._settle)

    async def reserve(
        self, agent: Agent, request: CompletionRequest
    ) -> tuple[CompletionRequest, Reserved | None]:
        """The request with its answer limited to what is reserved; None where no day is limited.

        Raises:
            ProviderError: the agent's provider is not installed.
            TokenBudgetReached: there is no room for this request.
        """
        budget = agent.llm_budget
        if budget == UNLIMITED:
            return request, None
        price = None
        if budget.max_nanousd_per_day is not None:
            price = await provider_call.price(self._registry(), agent)
            if price is None and budget.usd_by_default:
                budget = replace(budget, max_nanousd_per_day=None, usd_by_default=False)
        prompt = estimated_tokens(request)
        if budget.max_tokens_per_day is None and budget.max_nanousd_per_day is None:
            most = output_allowance(budget, NOTHING_USED, request.model, prompt, None)
            return replace(request, max_output_tokens=most), None
        is_llm = provider_call.installed(self._registry(), agent).spec.is_llm
        wanted = _BudgetRequest(agent.id, budget, request.model, prompt, price, is_llm)
        answer = await self._reserving(wanted)
        if isinstance(answer, TokenBudgetReached):
            raise answer
        most, reserved = answer
        return replace(request, max_output_tokens=most), reserved

    async def failed(self, reserved: Reserved | None, error: BaseException) -> None:
        """Give back what is reserved where the call failed in a way that costs nothing."""
        if reserved is not None and isinstance(error, ProviderError) and not error.may_cost:
            await self.settle(reserved, _NOTHING)

    async def settle(self, reserved: Reserved, usage: Usage | None) -> None:
        """Count what was used in place of what was reserved."""
        row = reserved.settled(usage)
        if row is not None:
            await self._settling(row)

    async def _settle(self, rows: Sequence[dict[str, Any]]) -> list[None]:
        async with self._database.write() as connection:
            await store.add_usage(connection, rows)
        return [None] * len(rows)

    async def _reserve(
        self, requests: Sequence[_BudgetRequest]
    ) -> list[tuple[int, Reserved] | TokenBudgetReached]:
        ids = {each.agent_id for each in requests}
        answers: list[tuple[int, Reserved] | TokenBudgetReached] = []
        async with self._database.write() as connection:
            await store.lock_agents(connection, sorted(ids))
            # A model's budget is money too: a clock that is ahead empties no day.
            moment = await self._database.moment(connection)
            used = await store.used(connection, list(ids), moment.window_ms // HOUR_MS)
            reserved: list[dict[str, Any]] = []
            for each in requests:
                so_far = used.get(each.agent_id, NOTHING_USED)
                try:
                    most = output_allowance(
                        each.budget, so_far, each.model, each.prompt, each.price
                    )
                except TokenBudgetReached as error:
                    answers.append(error)
                    continue
                assert most is not None, "a day is limited"
                nanousd = 0 if each.price is None else each.price.cost(each.prompt, most)
                hour = moment.reserved_ms // HOUR_MS
                one = Reserved(each.agent_id, hour, each.prompt + most, nanousd, each.is_llm)
                used[each.agent_id] = TokensUsed(
                    so_far.tokens + one.tokens, so_far.nanousd + nanousd, so_far.unpriced
                )
                reserved.append(one.row)
                answers.append((most, one))
            await store.add_usage(connection, reserved)
        return answers
