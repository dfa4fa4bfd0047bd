"""Counted tokens in dollars."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.support.llm_providers import VENDORS

from solward import Usage
from solward_plugins.llm.usage import usage_of

PRICES = {
    "m": {
        "litellm_provider": "openai",
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-07,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
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


def test_a_vendor_that_counts_nothing_has_no_usage() -> None:
    assert usage_of(VENDORS["openai"], "m", None, PRICES) is None
