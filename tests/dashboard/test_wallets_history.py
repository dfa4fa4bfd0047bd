"""A balance over time shows what is known exactly, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from solward.client import Decision, Transaction
from solward_dashboard.charts import (
    Balances,
    Point,
    history_chart,
    observed_points,
    points_from_records,
)

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
SIGNATURE = "5" * 88


def _at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def _record(
    minutes: int,
    kind: str,
    amount: str,
    status: str = "confirmed",
    signature: str | None = SIGNATURE,
) -> Transaction:
    raw: dict[str, Any] = {
        "id": f"record-{minutes}",
        "walletId": "wallet",
        "principal": "admin",
        "type": kind,
        "status": status,
        "details": {"amount": Decimal(amount)},
        "guardrailsApplied": [],
        "timestamp": _at(minutes).isoformat(),
    }
    return Transaction.of(raw | ({} if signature is None else {"signature": signature}))


AIRDROP = _record(1, "airdrop", "2")
TRANSFER = _record(2, "transfer", "0.300000001")
LEFT = Decimal("1.699994999")


def test_airdrops_and_transfers_that_add_up_are_the_whole_history() -> None:
    assert points_from_records(START, [TRANSFER, AIRDROP], LEFT) == (
        Point(START, Decimal(0)),
        Point(_at(1), Decimal(2)),
        Point(_at(2), LEFT),
    )


def test_what_was_refused_or_never_sent_changes_nothing() -> None:
    blocked = _record(3, "transfer", "9", "blocked", None)
    unsent = _record(4, "transfer", "1", "failed", None)
    assert points_from_records(START, [AIRDROP, TRANSFER, blocked, unsent], LEFT)[-1].sol == LEFT


@pytest.mark.parametrize("lamports", [1, -1])
def test_a_lamport_too_many_or_too_few_is_no_history(lamports: int) -> None:
    balance = LEFT + lamports * Decimal("0.000000001")
    assert points_from_records(START, [AIRDROP, TRANSFER], balance) == ()


@pytest.mark.parametrize(
    "other",
    [
        _record(3, "swap", "0"),
        _record(3, "transfer", "0", "pending"),
        _record(3, "transfer", "0", "failed", SIGNATURE),
    ],
)
def test_a_record_whose_cost_is_not_known_is_no_history(other: Transaction) -> None:
    assert points_from_records(START, [AIRDROP, TRANSFER, other], LEFT) == ()


def test_agents_observations_are_points_of_their_own_wallet() -> None:
    def decision(minutes: int, **seen: Any) -> Decision:
        return Decision.of(
            {
                "agentId": "agent",
                "cycle": minutes,
                "observations": {"timestamp": _at(minutes).isoformat(), **seen},
                "reasoning": "",
                "action": None,
                "outcome": "",
                "timestamp": _at(minutes).isoformat(),
            }
        )

    decisions = [
        decision(3, walletAddress="mine", solBalance=Decimal("0.1")),
        decision(2, walletAddress="another", solBalance=Decimal(9)),
        decision(1, walletAddress="mine", solBalance=2),
        decision(0, error="the ledger does not answer"),
    ]
    assert observed_points("mine", decisions) == (
        Point(_at(3), Decimal("0.1")),
        Point(_at(1), Decimal(2)),
    )


def test_of_a_balance_that_stays_only_its_ends_are_kept() -> None:
    seen = Balances()
    for minutes, sol in enumerate((1, 1, 1, 1, 2, 2, 2)):
        kept = seen.add("wallet", [Point(_at(minutes), Decimal(sol))])
    assert kept == [(_at(0), 1), (_at(3), 1), (_at(4), 2), (_at(6), 2)]
    assert seen.add("another", ()) == []


def test_what_is_kept_is_bounded() -> None:
    seen = Balances()
    many = [Point(_at(minutes), Decimal(minutes)) for minutes in range(5_000)]
    assert seen.add("busy", many) == many[3_000:]
    for number in range(49):
        seen.add(f"quiet {number}", [Point(START, Decimal(0))])
    assert len(seen.add("busy", ())) == 2_000
    for number in range(50):
        seen.add(f"other {number}", [Point(START, Decimal(0))])
    assert seen.add("busy", ()) == []


def test_points_are_kept_once_and_in_order_of_time() -> None:
    seen = Balances()
    seen.add("wallet", [Point(_at(2), Decimal(2)), Point(_at(1), Decimal(1))])
    both = seen.add("wallet", [Point(_at(2), Decimal(2)), Point(_at(3), Decimal(3))])
    assert [each.sol for each in both] == [1, 2, 3]


def test_the_chart_has_every_digit() -> None:
    points = [Point(_at(1), Decimal("1E+1")), Point(_at(2), Decimal("0.000000001"))]
    (series,) = history_chart(points)["series"]
    assert series["data"] == [
        [_at(1).isoformat(), "10"],
        [_at(2).isoformat(), "0.000000001"],
    ]
