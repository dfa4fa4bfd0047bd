"""A scope's limits as JSON: allowed, spent, reserved and left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solward.database.database import Database
from solward.types.money import lamports_to_sol
from solward.vault.guardrails import ScopeLimits
from solward.vault.store import spending


async def limits_report(database: Database, scope: str, limits: ScopeLimits) -> dict[str, Any]:
    """One scope's limits as JSON: SOL as Decimal, a limit that is not set as None.

    `spent` is what ended in the rolling 24 hours, `reserved` what unfinished transactions hold,
    `left` what another transaction may take.
    """
    return (await limits_reports(database, {scope: limits}))[scope]


async def limits_reports(
    database: Database, limits: Mapping[str, ScopeLimits]
) -> dict[str, dict[str, Any]]:
    """scope -> its `limits_report`, all of one moment."""
    mints = {mint for each in limits.values() for mint in each.daily_tokens}
    async with database.read() as connection:
        now = (await database.moment(connection)).window_ms
        usage = await spending.usage(connection, limits, mints, now)
        held = await spending.reserved(connection, limits)
    return {scope: _report(each, usage[scope], held[scope]) for scope, each in limits.items()}


def _report(
    limits: ScopeLimits, spent: spending.Spent, held_units: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "maxSolPerTransaction": {"limit": _sol(limits.max_lamports_per_tx)},
        "maxTransactionsPerMinute": {
            "limit": limits.max_tx_per_minute,
            "used": spent.tx_last_minute,
            "left": _left(limits.max_tx_per_minute, spent.tx_last_minute),
        },
        "dailySpendingLimitSol": _day(limits.daily_lamports, spending.SOL_ASSET, spent, held_units),
        "maxCostsSolPerDay": _day(
            limits.daily_costs_lamports, spending.COSTS_ASSET, spent, held_units
        ),
        "dailyTokens": {
            mint: _tokens(limit, spent.units_last_day.get(mint, 0), held_units.get(mint, 0))
            for mint, limit in limits.daily_tokens.items()
        },
    }


def _day(
    limit: int | None, asset: str, spent: spending.Spent, held: Mapping[str, int]
) -> dict[str, Any]:
    counted, reserved = spent.units_last_day.get(asset, 0), held.get(asset, 0)
    return {
        "limit": _sol(limit),
        "spent": lamports_to_sol(counted - reserved),
        "reserved": lamports_to_sol(reserved),
        "left": _sol(_left(limit, counted)),
    }


def _tokens(limit: int, counted: int, reserved: int) -> dict[str, str]:
    return {
        "limit": str(limit),
        "spent": str(counted - reserved),
        "reserved": str(reserved),
        "left": str(_left(limit, counted)),
    }


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _sol(lamports: int | None) -> Any:
    return None if lamports is None else lamports_to_sol(lamports)
