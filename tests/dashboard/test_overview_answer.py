"""What the overview makes of the API's answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from solward_dashboard.pages.overview import latest_decisions, running_first

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_running_agents_come_first() -> None:
    agents: Any = [SimpleNamespace(status=each) for each in ("stopped", "running", "error")]
    assert running_first(agents)[0].status == "running"


def test_the_newest_decisions_of_all_agents_bear_their_names() -> None:
    one, two = SimpleNamespace(name="one"), SimpleNamespace(name="two")
    at: Any = [SimpleNamespace(timestamp=NOW + timedelta(seconds=each)) for each in range(6)]
    decided: Any = [(one, (at[4], at[1])), (two, (at[5], at[0]))]
    found = latest_decisions(decided, 3)
    assert found == [("two", at[5]), ("one", at[4]), ("one", at[1])]
