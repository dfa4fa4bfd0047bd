"""Transaction requests of API keys in the last minute, counted by several processes together.

PostgreSQL's alone: on SQLite one process serves, and counts in memory.
"""

from __future__ import annotations

from sqlalchemy import delete, text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.store.tables import key_requests
from solward.vault.store import locks

# One statement, so that clock, window and place are one moment's. Of the newest `most` requests the
# oldest is the one whose end makes room.
_TAKE = text(
    """
    WITH clock AS MATERIALIZED (
        SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
    ), gone AS (
        DELETE FROM key_requests USING clock WHERE key_id = :key AND created_ms <= ms - :window
    ), full_since AS MATERIALIZED (
        SELECT created_ms FROM key_requests, clock
        WHERE key_id = :key AND created_ms > ms - :window
        ORDER BY created_ms DESC OFFSET :most - 1 LIMIT 1
    ), taken AS (
        INSERT INTO key_requests (key_id, created_ms)
        SELECT :key, ms FROM clock WHERE NOT EXISTS (SELECT FROM full_since)
    )
    SELECT created_ms + :window - ms FROM full_since, clock
    """
)


async def take(connection: AsyncConnection, key_id: str, most: int, window_ms: int) -> int | None:
    """Count one request of a key, unless `most` were made in the last `window_ms` milliseconds by
    the database's clock.

    Returns:
        None where it was counted, else milliseconds until there is room.
    """
    # Taken before the statement, which then sees what every earlier holder committed.
    await locks.exclusive(connection, f"key-requests:{key_id}")
    asked = {"key": key_id, "most": most, "window": window_ms}
    return (await connection.execute(_TAKE, asked)).scalar_one_or_none()


async def forget(connection: AsyncConnection, key_id: str) -> None:
    """Drop a revoked key's requests."""
    await connection.execute(delete(key_requests).where(key_requests.c.key_id == key_id))
