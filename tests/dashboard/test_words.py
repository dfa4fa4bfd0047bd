"""Amounts are exact or cut, never more than there is; times are short."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from solward_dashboard.wording import (
    ago,
    counted,
    dollars,
    local_times,
    plain,
    short,
    sol,
    value_text,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (Decimal("1.99999"), "1.9999 SOL"),
        (Decimal("0.00009"), "0.0000 SOL"),
        (Decimal("1234567.5"), "1,234,567.5000 SOL"),
        (0, "0.0000 SOL"),
    ],
)
def test_sol_is_cut_and_never_rounded_up(amount: Decimal | int, said: str) -> None:
    assert sol(amount) == said


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (Decimal("0.000000001"), "0.000000001"),
        (Decimal("1E+3"), "1,000"),
        (Decimal("18446744073709551615"), "18,446,744,073,709,551,615"),
        (7, "7"),
    ],
)
def test_plain_has_every_digit(amount: Decimal | int, said: str) -> None:
    assert plain(amount) == said


@pytest.mark.parametrize(
    ("amount", "price", "said"),
    [
        (Decimal("1.5"), Decimal("140.22"), " ($210.33)"),
        (Decimal("0.00001"), Decimal("140.22"), " (less than $0.01)"),
        (0, Decimal(2), " ($0.00)"),
        (Decimal("1.5"), None, ""),
        # A whole supply at the highest price, digit by digit.
        (2**64 - 1, Decimal(10**9), " ($18,446,744,073,709,551,615,000,000,000.00)"),
    ],
)
def test_dollars_follow_an_amount_where_there_is_a_price(
    amount: Decimal | int, price: Decimal | None, said: str
) -> None:
    assert dollars(amount, price) == said


def test_short_leaves_out_the_middle_and_only_where_that_is_shorter() -> None:
    assert short("abcdefghij") == "abcd…ghij"
    assert short("abcdefghi") == "abcdefghi"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "now"),
        (0, "now"),
        (1, "1 s ago"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86_400, "1 d ago"),
        (900_000, "10 d ago"),
    ],
)
def test_ago_is_in_the_largest_unit_that_fits(seconds: int, said: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == said


def test_told_writes_values_as_people_do() -> None:
    assert [value_text(value) for value in (True, False, Decimal("0.5"), 3, "x")] == [
        "yes",
        "no",
        "0.5",
        "3",
        "x",
    ]


def test_times_in_a_text_are_of_the_machines_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        told = local_times("from 2026-12-31T22:30:00Z until 2026-12-31T22:30:00.731Z, then not")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert told == "from 2027-01-01 07:30:00 JST until 2027-01-01 07:30:00 JST, then not"


@pytest.mark.parametrize(
    "text",
    ["", "2026-13-31T00:00:00Z", "0000-01-01T00:00:00Z", "2026-12-31", "x2026-12-31T00:00:00Z"],
)
def test_what_is_no_time_stays_in_a_text(text: str) -> None:
    assert local_times(text) == text


@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_that_a_zone_cannot_tell_stays(year: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = "00" if year == 1 else "23"
    text = f"{year:04d}-{'01-01' if year == 1 else '12-31'}T{hour}:00:00Z"
    monkeypatch.setenv("TZ", "Etc/GMT+12" if year == 1 else "Etc/GMT-14")
    time.tzset()
    try:
        assert local_times(text) == text
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 entries"), (1, "1 entry"), (2_000, "2,000 entries")]
)
def test_one_of_them_is_not_counted_in_the_plural(count: int, said: str) -> None:
    assert counted(count, "entry", "entries") == said
    assert counted(count, "key") == said.replace("entries", "keys").replace("entry", "key")
