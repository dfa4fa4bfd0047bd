"""Budgets of models: reserved before a model's completion, and settled to its usage afterwards.

So simultaneous completions of chats and cycles, in all processes, cannot exceed a day's limit
together. A reservation that is never settled stays counted: the process ended, or the vendor's
charge is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from solward.agents import provider_call, store
from solward.agents.agent import NOTHING_USED, UNLIMITED, Agent, TokenBudget, TokensUsed, usd_of
from solward.agents.batch import Batcher
from solward.database.database import Database
from solward.plugins import Registry
from solward.support import jsontext
from solward.support.durations import HOUR_MS
from solward.types.errors import ProviderError, TokenBudgetReached
from solward.types.provider import CompletionRequest, ModelPrice, Usage

# Prompt text has about four bytes a token, JSON about three (tokenizers of all four vendors,
# 2026); the smaller number estimates more tokens.
_BYTES_PER_TOKEN = 3

# The maximum tokens reserved for an answer if its provider does not state its maximum length.
_MOST_OUTPUT = 8_192

_NOTHING = Usage(cost_nanousd=0)


@dataclass(frozen=True, slots=True)
class BudgetReservation:
    """A reservation in a model's budget for one completion.

    Attributes:
        hour: the hour in which usage is counted, in hours since the epoch.
        is_llm: False if the provider is not a model; it then uses no tokens unless it reports some.
    """

    agent_id: str
    hour: int
    tokens: int
    nanousd: int
    is_llm: bool

    @property
    def row(self) -> dict[str, Any]:
        """The row to add to `agent_usage`."""
        usage = Usage(self.tokens, 0, self.nanousd)
        return usage_row(self.agent_id, self.hour * HOUR_MS, usage)

    def change_to(self, usage: Usage | None) -> dict[str, Any] | None:
        """Return the row that changes the reserved amount to `usage`; None if no row is needed."""
        if usage is None:
            if self.is_llm:
                return None
            usage = _NOTHING
        row = usage_row(self.agent_id, self.hour * HOUR_MS, usage)
        row["tokens"] -= self.tokens
        row["cost_nanousd"] -= self.nanousd
        return row


def usage_row(agent_id: str, ms: int, usage: Usage) -> dict[str, Any]:
    """Return the row to add to `agent_usage` for a completion at `ms`."""
    return {
        "agent_id": agent_id,
        "hour": ms // HOUR_MS,
        "tokens": usage.tokens,
        "cost_nanousd": usage.cost_nanousd or 0,
        "unpriced_tokens": usage.tokens if usage.cost_nanousd is None else 0,
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
    """Reserves and settles the model budgets of all agents."""

    def __init__(self, database: Database, registry: Callable[[], Registry]) -> None:
        # `registry` returns the plugins that are loaded now.
        self._database = database
        self._registry = registry
        self._reserving: Batcher[
            _BudgetRequest, tuple[int, BudgetReservation] | TokenBudgetReached
        ] = Batcher(self._store_reservations)
        self._settling: Batcher[dict[str, Any], None] = Batcher(self._store_settlements)

    async def reserve(
        self, agent: Agent, request: CompletionRequest
    ) -> tuple[CompletionRequest, BudgetReservation | None]:
        """Reserve budget; return the request with a limited answer, and the reservation.

        The reservation is None if the agent has no limit per day.

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
        is_llm = provider_call.installed_provider(self._registry(), agent).spec.is_llm
        wanted = _BudgetRequest(agent.id, budget, request.model, prompt, price, is_llm)
        answer = await self._reserving(wanted)
        if isinstance(answer, TokenBudgetReached):
            raise answer
        most, reserved = answer
        return replace(request, max_output_tokens=most), reserved

    async def settle_failed(self, reserved: BudgetReservation | None, error: BaseException) -> None:
        """Release a reservation if the failed call costs nothing."""
        if reserved is not None and isinstance(error, ProviderError) and not error.may_cost:
            await self.settle(reserved, _NOTHING)

    async def settle(self, reserved: BudgetReservation, usage: Usage | None) -> None:
        """Replace a reservation by the actual usage."""
        row = reserved.change_to(usage)
        if row is not None:
            await self._settling(row)

    async def _store_settlements(self, rows: Sequence[dict[str, Any]]) -> list[None]:
        async with self._database.write() as connection:
            await store.add_usage(connection, rows)
        return [None] * len(rows)

    async def _store_reservations(
        self, requests: Sequence[_BudgetRequest]
    ) -> list[tuple[int, BudgetReservation] | TokenBudgetReached]:
        ids = {each.agent_id for each in requests}
        answers: list[tuple[int, BudgetReservation] | TokenBudgetReached] = []
        async with self._database.write() as connection:
            await store.lock_agents(connection, sorted(ids))
            # A model's budget is money too, so a fast clock must not drop the day's usage.
            moment = await self._database.moment(connection)
            used = await store.usage_by_agent(connection, list(ids), moment.window_ms // HOUR_MS)
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
                assert most is not None, "a daily budget limits the answer"
                nanousd = 0 if each.price is None else each.price.cost(each.prompt, most)
                hour = moment.reserved_ms // HOUR_MS
                one = BudgetReservation(
                    each.agent_id, hour, each.prompt + most, nanousd, each.is_llm
                )
                used[each.agent_id] = TokensUsed(
                    so_far.tokens + one.tokens, so_far.nanousd + nanousd, so_far.unpriced
                )
                reserved.append(one.row)
                answers.append((most, one))
            await store.add_usage(connection, reserved)
        return answers


def output_allowance(
    budget: TokenBudget, used: TokensUsed, model: str, prompt: int, price: ModelPrice | None
) -> int | None:
    """Return the maximum tokens of the model's answer; None if the budget sets no limit.

    Args:
        used: the usage of the last day, including reservations.
        prompt: the number of tokens in the prompt.
        price: the model's price; None if it is not known.

    Raises:
        TokenBudgetReached: there is no room for this request.
    """
    rooms = [budget.max_tokens_per_cycle]
    if budget.max_tokens_per_day is not None:
        rooms.append(budget.max_tokens_per_day - used.tokens)
    room = min((each for each in rooms if each is not None), default=None)
    by_price = _affordable_tokens(budget, used, model, prompt, price)
    if room is not None and room <= prompt:
        raise TokenBudgetReached(
            f"The token budget has no room: the prompt has about {prompt} tokens, "
            f"{max(room, 0)} are left ({used.tokens} used in the last day; {_limits_text(budget)})"
        )
    most = None if room is None else room - prompt
    if budget.max_nanousd_per_day is not None or budget.max_tokens_per_day is not None:
        longest = _MOST_OUTPUT if price is None else price.max_output_tokens
        most = min(each for each in (most, by_price, longest) if each is not None)
    return most


def _affordable_tokens(
    budget: TokenBudget, used: TokensUsed, model: str, prompt: int, price: ModelPrice | None
) -> int | None:
    """Return how many answer tokens the remaining dollars can buy; None if this is not known."""
    limit = budget.max_nanousd_per_day
    if limit is None:
        return None
    if used.unpriced and not budget.usd_by_default:
        raise TokenBudgetReached(
            f"The price of {model!r} is not known, so maxUsdPerDay cannot be enforced; "
            "set maxTokensPerDay instead"
        )
    left = limit - used.nanousd
    if price is not None:
        left -= price.cost(prompt, 0)
    affordable = None
    if price is not None and price.output_nanousd > 0:
        affordable = left * 10**6 // price.output_nanousd
    if left <= 0 or affordable == 0:
        raise TokenBudgetReached(
            f"The day's model budget has no room: {usd_of(used.nanousd):f} of {usd_of(limit):f} "
            "USD are used"
        )
    if price is None:
        return None
    return price.max_output_tokens if affordable is None else affordable


def estimated_tokens(request: CompletionRequest) -> int:
    """Return a high estimate of the tokens in a request's prompt."""
    tools = [[tool.name, tool.description, dict(tool.parameters)] for tool in request.tools]
    texts = [request.system, *(message.content for message in request.messages)]
    size = sum(len(text.encode()) for text in texts) + len(jsontext.dumps(tools).encode())
    return -(-size // _BYTES_PER_TOKEN)


def _limits_text(budget: TokenBudget) -> str:
    return ", ".join(f"{name} {value}" for name, value in budget.to_json().items())
