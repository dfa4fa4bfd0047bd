"""Limits on an agent's model: tokens, and their estimated price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solward.support import jsontext
from solward.types.errors import TokenBudgetReached
from solward.types.money import from_units
from solward.types.provider import CompletionRequest, ModelPrice

_USD_DECIMALS = 9
NANOUSD = 10**_USD_DECIMALS

# Prompt text has about four bytes a token, JSON about three (tokenizers of all four vendors,
# 2026); the smaller number estimates more tokens.
_BYTES_PER_TOKEN = 3

# Most tokens that are reserved of an answer where its provider does not say how long it can be.
_MOST_OUTPUT = 8_192


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Limits of one agent; None is no limit. A day is the last 24 full hours and this one.

    Attributes:
        usd_by_default: nobody chose the limit in dollars, so it does not stop a model whose price
            is not known.
    """

    max_tokens_per_cycle: int | None = None
    max_tokens_per_day: int | None = None
    max_nanousd_per_day: int | None = None
    usd_by_default: bool = False

    def to_json(self) -> dict[str, Any]:
        """`{maxTokensPerCycle, maxTokensPerDay, maxUsdPerDay}`, only those that are set."""
        usd = self.max_nanousd_per_day
        values = {
            "maxTokensPerCycle": self.max_tokens_per_cycle,
            "maxTokensPerDay": self.max_tokens_per_day,
            "maxUsdPerDay": None if usd is None else usd_of(usd),
        }
        return {name: value for name, value in values.items() if value is not None}

    def stored(self) -> dict[str, Any]:
        """As `to_json`, and whether the limit in dollars is the default."""
        return self.to_json() | ({"usdByDefault": True} if self.usd_by_default else {})


UNLIMITED = TokenBudget()
DEFAULT_BUDGET = TokenBudget(max_nanousd_per_day=5 * NANOUSD, usd_by_default=True)


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
    """A budget from its JSON, as `to_json` or `stored` give it."""
    usd = stored.get("maxUsdPerDay")
    return TokenBudget(
        stored.get("maxTokensPerCycle"),
        stored.get("maxTokensPerDay"),
        None if usd is None else int(Decimal(usd) * NANOUSD),
        stored.get("usdByDefault", False),
    )


def output_allowance(
    budget: TokenBudget, used: TokensUsed, model: str, prompt: int, price: ModelPrice | None
) -> int | None:
    """Most tokens of the model's answer; None is no limit, and only where no day is limited.

    Args:
        used: in the last day, with what is reserved.
        prompt: tokens of the prompt.
        price: of the model, None where it is not known.

    Raises:
        TokenBudgetReached: there is no room for this request.
    """
    rooms = [budget.max_tokens_per_cycle]
    if budget.max_tokens_per_day is not None:
        rooms.append(budget.max_tokens_per_day - used.tokens)
    room = min((each for each in rooms if each is not None), default=None)
    by_price = _affordable(budget, used, model, prompt, price)
    if room is not None and room <= prompt:
        raise TokenBudgetReached(
            f"The token budget has no room: the prompt has about {prompt} tokens, "
            f"{max(room, 0)} are left ({used.tokens} used in the last day; {_limits(budget)})"
        )
    most = None if room is None else room - prompt
    if budget.max_nanousd_per_day is not None or budget.max_tokens_per_day is not None:
        longest = _MOST_OUTPUT if price is None else price.max_output_tokens
        most = min(each for each in (most, by_price, longest) if each is not None)
    return most


def _affordable(
    budget: TokenBudget, used: TokensUsed, model: str, prompt: int, price: ModelPrice | None
) -> int | None:
    """Tokens of an answer that the dollars left pay for; None where that is not known."""
    limit = budget.max_nanousd_per_day
    if limit is None:
        return None
    if used.unpriced and not budget.usd_by_default:
        raise TokenBudgetReached(
            f"The price of {model!r} is not known, so maxUsdPerDay cannot be kept; "
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
    """An upper estimate of the tokens in a request's prompt."""
    tools = [[tool.name, tool.description, dict(tool.parameters)] for tool in request.tools]
    texts = [request.system, *(message.content for message in request.messages)]
    size = sum(len(text.encode()) for text in texts) + len(jsontext.dumps(tools).encode())
    return -(-size // _BYTES_PER_TOKEN)


def _limits(budget: TokenBudget) -> str:
    return ", ".join(f"{name} {value}" for name, value in budget.to_json().items())
