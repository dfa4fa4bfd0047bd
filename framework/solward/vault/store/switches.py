"""The freeze switch: `service` stops every new transaction, `wallet:<id>` one wallet's."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.clock import now_ms
from solward.vault.store import locks, spending
from solward.vault.store.tables import switches


async def frozen(connection: AsyncConnection, scopes: Collection[str]) -> bool:
    """Whether any of the scopes is frozen."""
    statement = (
        select(switches.c.scope)
        .where(switches.c.scope.in_(scopes), switches.c.frozen.is_(True))
        .limit(1)
    )
    return (await connection.execute(statement)).first() is not None


async def set_frozen(
    connection: AsyncConnection, scope: str, is_frozen: bool, reason: str | None = None
) -> None:
    """Set one scope's switch; `reason` is shown to whoever is refused.

    Reservations that were judged before it are waited for: when this is committed, every later one
    is judged by it.
    """
    if scope == spending.SERVICE_SCOPE:
        await locks.exclusive(connection, scope)
    else:
        await locks.shared(connection, spending.SERVICE_SCOPE)
        await spending.lock_wallet(connection, scope.removeprefix("wallet:"))
    await connection.execute(delete(switches).where(switches.c.scope == scope))
    await connection.execute(
        insert(switches).values(scope=scope, frozen=is_frozen, reason=reason, changed_ms=now_ms())
    )
