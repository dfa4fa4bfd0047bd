"""What is left of a wallet's limits after a transaction, as text; pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from solward_dashboard.wording import exact


def left_texts(
    limits: Mapping[str, Any],
    sol: Decimal,
    costs: Decimal,
    tokens: Mapping[str, tuple[int, str, int]] | None = None,
) -> list[str]:
    """`6.7 of 10 SOL in 24 hours`, a text for each limit that it counts against.

    Args:
        limits: of `GET /wallets/:id/limits`.
        sol: leaves; fee and rent are `costs`.
        tokens: mint -> smallest units that leave, the token's symbol and its decimals.
    """
    found = []
    if sol:
        found.append(_left(limits["dailySpendingLimitSol"], sol, "SOL in 24 hours"))
    for mint, (units, symbol, decimals) in (tokens or {}).items():
        day = limits.get("dailyTokens", {}).get(mint)
        if day is None:
            found.append(f"nothing limits the {symbol} of a day in this wallet")
            continue
        whole = {
            name: Decimal(day[name]).scaleb(-decimals) for name in ("limit", "spent", "reserved")
        }
        found.append(_left(whole, Decimal(units).scaleb(-decimals), f"{symbol} in 24 hours"))
    found.append(_left(limits["maxCostsSolPerDay"], costs, "SOL of fees and rent in 24 hours"))
    return found


def _left(limit: Mapping[str, Any], taken: Decimal, unit: str) -> str:
    if limit["limit"] is None:
        return f"no limit of {unit}"
    most = Decimal(limit["limit"])
    left = most - Decimal(limit["spent"]) - Decimal(limit["reserved"]) - taken
    if left < 0:
        return f"{exact(-left)} too much for the {exact(most)} {unit}"
    return f"{exact(left)} of {exact(most)} {unit}"
