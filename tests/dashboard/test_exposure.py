"""What the overview says about sums of balances, and what of them can leave."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.promises import promise

from solward.resources.totals import AssetTotal
from solward_dashboard.pages.overview import leaving_text


def total(**given: Any) -> AssetTotal:
    units = dict.fromkeys(("held", "wrapped", "bounded", "costs", "atWorst"), "0")
    raw = {"asset": "SOL", "symbol": "SOL", "decimals": 9, "dollars": 0, "unbounded": 0}
    return AssetTotal.of(raw | units | given)


@promise("most-that-can-leave-shown")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"held": "46000000000", "atWorst": "46000000000", "bounded": "2314000000000"},
         "all 46 SOL can leave"),
        ({"held": "46000000000", "atWorst": "1500000000", "bounded": "1500000000"},
         "at most 1.5 SOL ($3.00) can leave"),
        ({"held": "46000000000"}, "nothing can leave"),
        # Of a token that no wallet holds.
        ({"dollars": 20}, "at most 20 dollars' worth can leave"),
        ({"unbounded": 1, "reason": "keys may swap"}, "not bounded in 1 wallet: keys may swap"),
        ({"held": "1", "atWorst": "1", "unbounded": 2, "reason": "keys may swap"},
         "all 0.000000001 SOL can leave, not bounded in 2 wallets: keys may swap"),
    ],
)  # fmt: skip
def test_what_can_leave_is_said(given: dict[str, Any], said: str) -> None:
    assert leaving_text(total(**given), "SOL", Decimal(2)) == said
