"""Limits on an agent's model: tokens, and their estimated price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from solward import jsontext
from solward.errors import TokenBudgetReached
from solward.money import from_units
from solward.provider import CompletionRequest

_USD_DECIMALS = 9
NANOUSD = 10**_USD_DECIMALS

# Prompt text has about four bytes a token, JSON about three (tokenizers of all four vendors,
# 2026); the smaller number estimates more tokens.
_BYTES_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Limits of one agent; None is no limit. A day is the last 24 full hours and this one."""

    max_tokens_per_cycle: int | None = None
    max_tokens_per_day: int | None = None
    max_nanousd_per_day: int | None = None

    @property
    def daily(self) -> bool:
        """Whether a daily limit is set, so that earlier use counts."""
        return self.max_tokens_per_day is not None or self.max_nanousd_per_day is not None

    def to_json(self) -> dict[str, Any]:
        """`{maxTokensPerCycle, maxTokensPerDay, maxUsdPerDay}`, only those that are set."""
        usd = self.max_nanousd_per_day
        values = {
            "maxTokensPerCycle": self.max_tokens_per_cycle,
            "maxTokensPerDay": self.max_tokens_per_day,
            "maxUsdPerDay": None if usd is None else usd_of(usd),
        }
        return {name: value for name, value in values.items() if value is not None}


UNLIMITED = TokenBudget()


@dataclass(frozen=True, slots=True)
class TokensUsed:
    """Tokens an agent used in the last day, and their price.

    Attributes:
        nanousd: estimated price in billionths of a US dollar of the tokens whose price is known.
        unpriced: tokens whose price is not known.
    """

    tokens: int = 0
    nanousd: int = 0
    unpriced: int = 0

    def to_json(self) -> dict[str, Any]:
        """`{tokens, usd, unpricedTokens}`."""
        return {"tokens": self.tokens, "usd": usd_of(self.nanousd), "unpricedTokens": self.unpriced}


NOTHING_USED = TokensUsed()


def usd_of(nanousd: int) -> Decimal:
    """Billionths of a US dollar as dollars, exactly."""
    return from_units(nanousd, _USD_DECIMALS)


def budget_of(stored: Mapping[str, Any]) -> TokenBudget:
    """A budget from its JSON."""
    usd = stored.get("maxUsdPerDay")
    return TokenBudget(
        stored.get("maxTokensPerCycle"),
        stored.get("maxTokensPerDay"),
        None if usd is None else int(Decimal(usd) * NANOUSD),
    )


def within_budget(
    budget: TokenBudget, used: TokensUsed, request: CompletionRequest
) -> CompletionRequest:
    """The request, its answer limited to what the token budget leaves.

    Raises:
        TokenBudgetReached: there is no room for this request.
    """
    if budget == UNLIMITED:
        return request
    return replace(request, max_output_tokens=output_allowance(budget, used, request))


def output_allowance(
    budget: TokenBudget, used: TokensUsed, request: CompletionRequest
) -> int | None:
    """Most tokens of the model's answer; None is no limit.

    Raises:
        TokenBudgetReached: there is no room for this request.
    """
    price = budget.max_nanousd_per_day
    if price is not None and used.unpriced:
        raise TokenBudgetReached(
            f"The price of {request.model!r} is not known, so maxUsdPerDay cannot be kept; "
            "set maxTokensPerDay instead"
        )
    if price is not None and used.nanousd >= price:
        raise TokenBudgetReached(
            f"The day's model budget is used up: {usd_of(used.nanousd):f} of {usd_of(price):f} USD"
        )
    room = budget.max_tokens_per_cycle
    if budget.max_tokens_per_day is not None:
        left = budget.max_tokens_per_day - used.tokens
        room = left if room is None else min(room, left)
    if room is None:
        return None
    prompt = estimated_tokens(request)
    if room <= prompt:
        raise TokenBudgetReached(
            f"The token budget has no room: the prompt has about {prompt} tokens, "
            f"{max(room, 0)} are left ({used.tokens} used in the last day; {_limits(budget)})"
        )
    return room - prompt


def estimated_tokens(request: CompletionRequest) -> int:
    """An upper estimate of the tokens in a request's prompt."""
    tools = [[tool.name, tool.description, dict(tool.parameters)] for tool in request.tools]
    texts = [request.system, *(message.content for message in request.messages)]
    size = sum(len(text.encode()) for text in texts) + len(jsontext.dumps(tools).encode())
    return -(-size // _BYTES_PER_TOKEN)


def _limits(budget: TokenBudget) -> str:
    return ", ".join(f"{name} {value}" for name, value in budget.to_json().items())
