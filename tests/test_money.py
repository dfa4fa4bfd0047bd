from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solward.support import jsontext
from solward.types.errors import InvalidRequest
from solward.types.money import (
    COUNTED_MAX,
    U64_MAX,
    format_sol,
    from_units,
    lamports_to_sol,
    sol_to_lamports,
    to_units,
)


@given(st.integers(1, U64_MAX), st.integers(0, 18))
def test_units_survive_the_way_out_and_back(units: int, decimals: int) -> None:
    assert to_units(from_units(units, decimals), decimals, "amount") == units


@given(st.integers(1, COUNTED_MAX))
def test_lamports_survive_json(lamports: int) -> None:
    text = jsontext.dumps({"amount": lamports_to_sol(lamports)})
    assert sol_to_lamports(jsontext.loads(text)["amount"]) == lamports


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "greater than 0"),
        (-1, "greater than 0"),
        (Decimal("-0.5"), "greater than 0"),
        (True, "must be a number"),
        ("1", "must be a number"),
        (1.5, "must be a number"),
        (None, "must be a number"),
        (Decimal("NaN"), "finite"),
        (Decimal("Infinity"), "finite"),
        (Decimal("1e999999999"), "out of range"),
        (Decimal("1e-999999999"), "out of range"),
        (Decimal("0.0000000001"), "more than 9 decimals"),
        (lamports_to_sol(COUNTED_MAX + 1), "larger than the ledger can hold"),
    ],
)
def test_a_bad_amount_names_its_field_and_what_is_wrong(value: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^stake ") as caught:
        sol_to_lamports(value, "stake")
    assert said in str(caught.value)


def test_sol_is_shown_exactly_or_cut_never_rounded_up() -> None:
    assert format_sol(1_999_999_999) == "1.999999999"
    assert format_sol(1_999_999_999, 4) == "1.9999"
    assert format_sol(2 * 10**11) == "200"
    assert format_sol(0, 4) == "0.0000"
