"""A key's row says what is used of its limits, and when it and its former secret end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from solward.client import KeyDetails
from solward.resources.shared import DayUse, RateUse
from solward_dashboard.pages.credentials import limits_text
from solward_dashboard.wording import day

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DETAILS = KeyDetails(
    expires_at=None,
    rotated_at=None,
    previous_secret_until=None,
    rate_limit=RateUse.of({"limit": 10, "used": 3, "left": 7}),
    spending_limit_sol=DayUse.of({"limit": 5, "spent": "0.4", "reserved": "0.1", "left": "4.5"}),
    max_costs_sol_per_day=DayUse.of({"limit": "0.05", "spent": 0, "reserved": 0, "left": 0}),
    grants=None,
    sentences=(),
    raw={},
)
USED = "0.5 of 5 SOL in 24 hours; 0 of 0.05 SOL of fees and rent; 3 of 10 requests in a minute"


def test_what_is_reserved_is_used_already() -> None:
    assert limits_text(DETAILS, NOW) == USED


def test_ends_are_told_while_they_matter() -> None:
    soon, past = NOW + timedelta(hours=1), NOW - timedelta(hours=1)
    until = replace(DETAILS, expires_at=soon, previous_secret_until=soon)
    told = f"{USED}; expires {day(soon)}; the former secret works until {day(soon)}"
    assert limits_text(until, NOW) == told
    since = replace(DETAILS, expires_at=past, previous_secret_until=past)
    assert limits_text(since, NOW) == f"{USED}; expired {day(past)}"
