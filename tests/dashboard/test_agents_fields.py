"""What makes an agent: as it is asked for, and as the API takes it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from solward.client import Plugin
from solward_dashboard.pages import agent_form as fields


def provider(name: str, **more: Any) -> Plugin:
    raw = {"kind": "provider", "name": name, "distribution": "solward", "version": "1"}
    return Plugin.of(raw | {"manifest": None, "secrets": []} | more)


OPENAI = provider("openai", secretEnv="OPENAI_API_KEY", configured=False)
GROK = provider("grok", secretEnv="XAI_API_KEY", configured=True)
RULES = provider("rules", isLlm=False)


def test_a_provider_without_its_key_is_offered_and_says_what_is_missing() -> None:
    offered = fields.provider_choices({each.name: each for each in (OPENAI, GROK, RULES)})
    assert offered == {
        "openai": "openai (no key set)",
        "grok": "grok",
        "rules": "rules (not a language model)",
    }
    assert fields.provider_hint(OPENAI).startswith("Set OPENAI_API_KEY")
    assert "first rule that" in fields.provider_hint(RULES)
    assert "your own words" in fields.provider_hint(GROK)


@pytest.mark.parametrize(
    ("installed", "first"),
    [
        ((OPENAI, RULES, GROK), "grok"),
        ((OPENAI, RULES), "rules"),
        ((OPENAI,), "openai"),
        ((), None),
    ],
)
def test_what_can_be_started_is_offered_first(
    installed: tuple[Plugin, ...], first: str | None
) -> None:
    assert fields.first_choice({each.name: each for each in installed}) == first


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(60, 60_000), (Decimal("1.5"), 1_500), (Decimal("1.001"), 1_001), (Decimal("1.0001"), None)],
)
def test_seconds_are_whole_milliseconds(seconds: Any, milliseconds: int | None) -> None:
    assert fields.milliseconds(seconds) == milliseconds


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(5_000, "5"), (1_500, "1.5"), (1_001, "1.001"), (10_000, "10")]
)
def test_an_interval_comes_back_as_it_was_typed(milliseconds: int, seconds: str) -> None:
    assert fields.seconds_text(milliseconds) == seconds
    assert fields.milliseconds(Decimal(seconds)) == milliseconds


def test_guardrails_begin_with_the_settings() -> None:
    set_to = {"MAX_SOL_PER_TRANSACTION": "0.5", "MAX_TRANSACTIONS_PER_MINUTE": "3"}
    settings = set_to | {"DAILY_SPENDING_LIMIT_SOL": None, "MAX_COSTS_SOL_PER_DAY": "0.01"}
    assert fields.default_limits(settings) == {
        "maxSolPerTransaction": Decimal("0.5"),
        "maxTransactionsPerMinute": 3,
    }


def test_a_copied_grant_is_the_new_agents() -> None:
    grants = fields.grants_to_copy([{"who": "agent:a1", "may": ["launch"]}])
    assert grants == [{"may": ["launch"]}]
