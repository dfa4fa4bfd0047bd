"""How SQLite runs the statements of a test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database

# What a sum of windows is asked for, and its parts: no table (`window_sums.counted`).
OF_NEEDS = ("SCAN json_each", "SCAN needs", "SCAN parts")


async def query_plans(
    database: Database, everything: Callable[[AsyncConnection], Awaitable[None]]
) -> list[tuple[str, list[str]]]:
    """Each statement that `everything` executes, with the steps of its plan."""
    seen: list[str] = []
    async with database.write() as connection:
        # The driver's own note of each statement, with its values: not all go through SQLAlchemy.
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        driver.set_trace_callback(seen.append)
        await everything(connection)
        driver.set_trace_callback(None)
        plans = []
        for statement in seen:
            plan = driver.execute(f"EXPLAIN QUERY PLAN {statement}")
            plans.append((statement, [detail for *_, detail in plan]))
    return plans
