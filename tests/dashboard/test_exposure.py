"""What the overview adds up over wallets: balances per asset, and what of them can leave."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.promises import promise

from solward.client import Balance
from solward_dashboard.pages.overview import Exposures, sum_exposures

USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
PAPER = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
WRAPPED = "So11111111111111111111111111111111111111112"
LOOSE = {"most": None, "reason": "keys without grants may swap any token"}


def balance(sol: str, **tokens: str) -> Balance:
    mints = {"USDC": (USDC, "USDC"), "PAPER": (PAPER, None), "WSOL": (WRAPPED, "SOL")}
    rows = []
    for name, amount in tokens.items():
        mint, symbol = mints[name]
        row = {
            "mint": mint,
            "uiBalance": Decimal(amount),
            "rawBalance": str(int(Decimal(amount) * 10**6)),
            "decimals": 6,
        }
        rows.append(row | ({} if symbol is None else {"symbol": symbol}))
    return Balance.of({"sol": Decimal(sol), "tokens": rows})


def limits(*, frozen: bool = False, **assets: Any) -> dict[str, Any]:
    given = {"SOL": {"most": "10"}, "COSTS": {"most": "0.05"}, "*": {"most": "0"}}
    named = {{"other": "*"}.get(name, name): each for name, each in assets.items()}
    return {"frozen": frozen, "canLeave": {"assets": given | named}}


def of(found: Exposures) -> dict[str, Any]:
    return {each.name: each for each in found.assets}


@promise("most-that-can-leave-shown")
def test_sums_are_exact_and_wrapped_sol_is_sol() -> None:
    rows = [
        (balance("0.100000001", WSOL="0.05", USDC="0.1"), limits(USDC={"most": "5"})),
        (balance("0.2", USDC="0.2"), limits(USDC={"most": "0.15"})),
    ]
    found = of(sum_exposures(rows, 2))
    assert found.keys() == {"SOL", "USDC"}
    assert found["SOL"].held == Decimal("0.350000001")
    assert found["SOL"].wrapped == Decimal("0.05")
    # A tenth and two tenths, which no float adds up to three.
    assert found["USDC"].held == Decimal("0.3")
    assert found["USDC"].most == Decimal("5.15")
    # All of the first, and of the second what may leave it.
    assert found["USDC"].at_worst == Decimal("0.25")


def test_of_sol_what_can_leave_at_worst_is_what_is_held_or_allowed_with_fees() -> None:
    found = of(sum_exposures([(balance("0.5"), limits()), (balance("30"), limits())], 2))["SOL"]
    assert found.most_text == "at most 20 SOL and 0.1 SOL of fees and rent"
    assert found.at_worst == Decimal("10.55")


@promise("most-that-can-leave-shown")
def test_what_nothing_bounds_is_said_with_why_and_comes_first() -> None:
    rows = [
        (balance("1", USDC="3", PAPER="7"), limits(USDC={"most": "1"}, other=LOOSE)),
        (balance("1", USDC="3"), limits(USDC={"most": "1"})),
    ]
    whole = sum_exposures(rows, 2)
    assert [each.name for each in whole.assets] == ["SOL", "Cnfs…4KZ8", "USDC"]
    paper = whole.assets[1]
    assert paper.most_text == "not bounded in 1 wallet: keys without grants may swap any token"
    assert paper.at_worst == paper.held == 7
    assert whole.others == paper.most_text


def test_a_bound_in_dollars_takes_all_that_is_held() -> None:
    rows = [
        (balance("1", PAPER="7"), limits(other={"most": "20"})),
        (balance("1", USDC="4"), limits(USDC={"most": "1", "dollarsBeside": "5"})),
    ]
    found = of(sum_exposures(rows, 2))
    assert found["Cnfs…4KZ8"].most_text == "at most 20 dollars' worth"
    assert found["Cnfs…4KZ8"].at_worst == 7
    assert found["USDC"].most_text == "at most 1 USDC and 25 dollars' worth"
    assert found["USDC"].at_worst == 4


def test_what_may_not_leave_says_so() -> None:
    sol = limits(SOL={"most": "0"}, COSTS={"most": "0"})
    found = of(sum_exposures([(balance("1"), sol)], 1))["SOL"]
    assert (found.most_text, found.at_worst) == ("nothing may leave", 0)


def test_costs_that_nothing_bounds_leave_sol_unbounded() -> None:
    found = of(sum_exposures([(balance("1"), limits(COSTS=LOOSE))], 1))["SOL"]
    assert found.most is None
    assert found.at_worst == 1


@promise("most-that-can-leave-shown")
def test_wallets_that_are_left_out_are_said() -> None:
    rows = [(balance("1"), limits(frozen=each)) for each in (True, False)]
    assert sum_exposures(rows, 2).of_text == "across 2 wallets"
    more = sum_exposures(rows, 1_200)
    assert (more.of_text, more.frozen) == ("across the 2 oldest of 1,200 wallets", 1)
    assert sum_exposures(rows[:1], 1).of_text == "across 1 wallet"
