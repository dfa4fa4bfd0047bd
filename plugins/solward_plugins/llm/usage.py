"""Tokens and their estimated price, from the price list that litellm ships."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from solward import ModelPrice, Usage
from solward_plugins.llm.vendor import Vendor

_NANOUSD = 10**9
# What a rate's name ends with where it is that of prompts above a size.
_OF_SIZE = re.compile(r"_above_\d+k_tokens$")
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


def usage_of(vendor: Vendor, model: str, counted: Any, prices: Mapping[str, Any]) -> Usage | None:
    """The usage of a completion, None where the vendor reported none.

    Args:
        counted: litellm's `Usage`; its prompt tokens include the cached ones.
        prices: litellm's `model_cost`, US dollars a token by model.
    """
    prompt, answer = (
        _count(counted, "prompt_tokens"),
        _count(counted, "completion_tokens"),
    )
    # xAI counts reasoning in the total only.
    answer = max(answer, _count(counted, "total_tokens") - prompt)
    if prompt == answer == 0:
        return None
    price = _price_list(vendor, model, prices)
    return Usage(
        prompt,
        answer,
        None if price is None else _nanousd(price, counted, prompt, answer),
    )


def price_of(vendor: Vendor, model: str, prices: Mapping[str, Any], most: int) -> ModelPrice | None:
    """The dearest rates of a model, None where the list lacks the base prices.

    Args:
        most: tokens of an answer.
    """
    listed = _price_list(vendor, model, prices)
    if listed is None or not {"input_cost_per_token", "output_cost_per_token"} <= listed.keys():
        return None

    def dearest(*names: str) -> int:
        rates = [
            Decimal(repr(value))
            for name, value in listed.items()
            if isinstance(value, int | float) and _OF_SIZE.sub("", name) in names
        ]
        return int((max(rates) * _NANOUSD * 10**6).to_integral_value(ROUND_CEILING))

    return ModelPrice(
        dearest("input_cost_per_token", "cache_creation_input_token_cost"),
        dearest("output_cost_per_token"),
        most,
    )


def _price_list(vendor: Vendor, model: str, prices: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for name in (f"{vendor.prefix}/{model}", model):
        found = prices.get(name)
        if isinstance(found, Mapping) and found.get("litellm_provider") == vendor.prefix:
            return found
    return None


def _nanousd(price: Mapping[str, Any], counted: Any, prompt: int, answer: int) -> int | None:
    """Billionths of a dollar, rounded up once; None where the list lacks the base prices."""
    tiers = [int(found[1]) for name in price if (found := _TIER.fullmatch(name))]
    over = max((tier for tier in tiers if prompt > tier * 1000), default=None)
    suffix = "" if over is None else f"_above_{over}k_tokens"

    def of(name: str) -> Decimal | None:
        value = price.get(name + suffix, price.get(name))
        # The list is JSON, and a float's repr is the number written there.
        return None if value is None else Decimal(repr(value))

    fresh, output = of("input_cost_per_token"), of("output_cost_per_token")
    if fresh is None or output is None:
        return None
    details = getattr(counted, "prompt_tokens_details", None)
    cached = min(prompt, _count(details, "cached_tokens"))
    written = min(prompt - cached, _count(details, "cache_creation_tokens"))
    read_price = of("cache_read_input_token_cost")
    write_price = of("cache_creation_input_token_cost")
    total = (
        (prompt - cached - written) * fresh
        + cached * (fresh if read_price is None else read_price)
        + written * (fresh if write_price is None else write_price)
        + answer * output
    )
    return int((total * _NANOUSD).to_integral_value(ROUND_CEILING))


def _count(counted: Any, name: str) -> int:
    value = getattr(counted, name, None)
    return value if isinstance(value, int) and value > 0 else 0
