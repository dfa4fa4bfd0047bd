"""How SQLite runs the statements of a test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.vault.store.database import Database


async def query_plans(
    database: Database, everything: Callable[[AsyncConnection], Awaitable[None]]
) -> list[tuple[str, list[str]]]:
    """Each statement that `everything` executes, with the steps of its plan."""
    seen: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, _x: Any, many: bool) -> None:
        seen.append((statement, parameters[0] if many else parameters))

    async with database.write() as connection:
        event.listen(connection.sync_connection, "before_cursor_execute", note)
        await everything(connection)
        event.remove(connection.sync_connection, "before_cursor_execute", note)
        plans = []
        for statement, parameters in seen:
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append((statement, [row.detail for row in plan]))
    return plans
