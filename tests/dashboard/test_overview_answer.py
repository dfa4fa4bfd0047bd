"""What the overview makes of the API's answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from solward_dashboard.pages.overview import (
    WALLETS,
    Overview,
    latest_decisions,
    most_active,
    running_first,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def wallet(number: int) -> Any:
    made = NOW + timedelta(minutes=number)
    return SimpleNamespace(id=f"w{number}", name=f"wallet {number}", created_at=made)


def limits(spent: str, reserved: str = "0") -> tuple[str, dict[str, Any]]:
    day = {"spent": Decimal(spent), "reserved": Decimal(reserved), "limit": Decimal(10)}
    return "payroll", {"dailySpendingLimitSol": day, "frozen": False}


def test_of_many_wallets_the_active_ones_are_shown_by_age() -> None:
    wallets = [wallet(number) for number in range(30)]
    moved = [SimpleNamespace(wallet_id=f"w{number}") for number in (29, 3, 29, 17)]
    chosen = [each.id for each in most_active(wallets, moved)]
    assert len(chosen) == WALLETS
    assert {"w3", "w17", "w29"} <= set(chosen)
    assert chosen == sorted(chosen, key=lambda each: int(each[1:]))


def test_running_agents_come_first() -> None:
    agents: Any = [SimpleNamespace(status=each) for each in ("stopped", "running", "error")]
    assert running_first(agents)[0].status == "running"


def test_the_newest_decisions_of_all_agents_bear_their_names() -> None:
    one, two = SimpleNamespace(name="one"), SimpleNamespace(name="two")
    at: Any = [SimpleNamespace(timestamp=NOW + timedelta(seconds=each)) for each in range(6)]
    decided: Any = [(one, (at[4], at[1])), (two, (at[5], at[0]))]
    found = latest_decisions(decided, 3)
    assert found == [("two", at[5]), ("one", at[4]), ("one", at[1])]


@pytest.mark.parametrize(
    ("wallets", "said"),
    [(1, "by 1 wallet"), (2, "by 2 wallets"), (1200, "by the 2 most active of 1,200 wallets")],
)
def test_the_sum_says_whose_it_is(wallets: int, said: str) -> None:
    nothing: Any = None
    some = [limits("1"), limits("0.5", "0.000000001")][: min(wallets, 2)]
    seen = Overview(nothing, wallets, some, (), (), nothing, nothing, (), nothing)
    assert seen.spent_by == said
    # What is reserved counts as spent.
    assert seen.spent == (1 if wallets == 1 else Decimal("1.500000001"))
