"""Counted tokens in dollars."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.support.models import VENDORS

from solward import ModelPrice, Usage
from solward_plugins.llm.call import price_of, usage_of

PRICES = {
    "m": {
        "litellm_provider": "openai",
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-07,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
        "input_cost_per_token_priority": 1.0,
    },
    "free": {"litellm_provider": "openai", "input_cost_per_token": 0, "output_cost_per_token": 0},
    "half": {"litellm_provider": "openai", "input_cost_per_token": 1e-06},
    "third": {
        "litellm_provider": "openai",
        "input_cost_per_token": 3e-10,
        "output_cost_per_token": 0.0,
    },
    "other": {
        "litellm_provider": "azure",
        "input_cost_per_token": 1e-06,
        "output_cost_per_token": 1e-06,
    },
}

# What a million tokens cost above the size at which the rates go up; 7 is the answer's length.
DEAREST = ModelPrice(2_500_000_000, 15_000_000_000, 7)


@pytest.mark.parametrize(
    ("model", "asked", "cached", "said", "total", "expected"),
    [
        ("m", 1_000, 0, 10, 1_010, Usage(1_000, 10, 1_350_000)),
        ("m", 1_000, 800, 10, 1_010, Usage(1_000, 10, 450_000)),
        # xAI leaves its reasoning out of the completion's tokens.
        ("m", 1_000, 0, 10, 1_110, Usage(1_000, 110, 2_350_000)),
        ("m", 200_001, 0, 10, 0, Usage(200_001, 10, 500_152_500)),
        ("free", 5, 0, 5, 10, Usage(5, 5, 0)),
        ("third", 1, 0, 1, 2, Usage(1, 1, 1)),
        ("half", 5, 0, 5, 10, Usage(5, 5, None)),
        ("other", 5, 0, 5, 10, Usage(5, 5, None)),
        ("unknown", 5, 0, 5, 10, Usage(5, 5, None)),
        ("m", 0, 0, 0, 0, None),
    ],
)
def test_the_price_is_exact_and_of_the_right_list(
    model: str, asked: int, cached: int, said: int, total: int, expected: Usage | None
) -> None:
    counted = SimpleNamespace(
        prompt_tokens=asked,
        completion_tokens=said,
        total_tokens=total,
        prompt_tokens_details=SimpleNamespace(cached_tokens=cached),
    )
    usage = usage_of(VENDORS["openai"], model, counted, PRICES)
    assert usage == expected
    assert usage is None or isinstance(usage.cost_nanousd, int | None)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("m", DEAREST),
        ("free", ModelPrice(0, 0, 7)),
        ("third", ModelPrice(300_000, 0, 7)),
        ("half", None),
        ("other", None),
        ("unknown", None),
    ],
)
def test_the_price_beforehand_is_the_dearest_there_may_be(
    model: str, expected: ModelPrice | None
) -> None:
    assert price_of(VENDORS["openai"], model, PRICES, 7) == expected


def test_no_usage_costs_more_than_its_price_beforehand() -> None:
    price = price_of(VENDORS["openai"], "m", PRICES, 10)
    assert price is not None
    for asked, cached in ((1_000, 0), (1_000, 800), (200_000, 0), (200_001, 0), (900_000, 1)):
        counted = SimpleNamespace(
            prompt_tokens=asked,
            completion_tokens=10,
            total_tokens=asked + 10,
            prompt_tokens_details=SimpleNamespace(cached_tokens=cached),
        )
        usage = usage_of(VENDORS["openai"], "m", counted, PRICES)
        assert usage is not None
        assert usage.cost_nanousd is not None
        assert usage.cost_nanousd <= price.cost(asked, 10)


def test_a_vendor_that_counts_nothing_has_no_usage() -> None:
    assert usage_of(VENDORS["openai"], "m", None, PRICES) is None
