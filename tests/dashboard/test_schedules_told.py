"""When a schedule runs next, as its wallet's page tells it."""

from __future__ import annotations

from typing import Any

import pytest

from solward.client import Schedule
from solward.resources.declare import moment
from solward_dashboard.pages.wallet_actions import next_run
from solward_dashboard.wording import day

RAW = {
    "id": "s1", "name": "dca", "walletId": "w1", "skill": "swap", "parameters": {}, "every": "1h",
    "missed": "skip", "maxRuns": None, "status": "active", "reason": None, "principal": "admin",
    "madeBy": "admin", "createdAt": "2026-11-23T22:00:00.000Z", "isRunning": False, "runs": 0,
    "failures": 0, "nextRunAt": "2026-11-23T23:00:00.123Z",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, f"runs next {day(moment('2026-11-23T23:00:00.123+00:00'))}"),
        ({"isRunning": True}, "runs now"),
        ({"isRunning": True, "nextRunAt": None}, "runs now"),
    ],
    ids=["waiting", "running", "the last run"],
)
def test_it_is_told_as_other_times_are(changed: dict[str, Any], said: str) -> None:
    assert next_run(Schedule.of(RAW | changed)) == said
