"""What people call agents, API keys, schedules and wallets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    TableClause,
    bindparam,
    column,
    select,
    table,
)
from sqlalchemy.ext.asyncio import AsyncConnection

_NAMED = {
    "agent": table("agents", column("id"), column("name")),
    "key": table("api_keys", column("id"), column("name")),
    "schedule": table("schedules", column("id"), column("name")),
    "wallet": table("wallets", column("id"), column("name")),
}


def _called(of: TableClause) -> Any:
    same = of.alias("same")
    return (
        select(same.c.id, same.c.name)
        .join(of, of.c.name == same.c.name)
        .where(of.c.id.in_(bindparam("ids", expanding=True)))
    )


_CALLED = {kind: _called(of) for kind, of in _NAMED.items()}


async def called_the_same(
    connection: AsyncConnection, kind: str, ids: Collection[str]
) -> dict[str, str]:
    """id -> name, of agents, keys, schedules or wallets of these ids, and of those of equal names.

    Args:
        kind: `agent`, `key`, `schedule` or `wallet`.
    """
    rows = await connection.execute(_CALLED[kind], {"ids": list(ids)})
    return {row.id: row.name for row in rows}


async def all_names(connection: AsyncConnection, kind: str) -> dict[str, str]:
    """id -> name, of all agents, keys, schedules or wallets; `kind` as in `called_the_same`."""
    of = _NAMED[kind]
    rows = await connection.execute(select(of.c.id, of.c.name))
    return {row.id: row.name for row in rows}
