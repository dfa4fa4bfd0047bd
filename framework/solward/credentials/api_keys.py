"""API keys, and what each requested in the last minute; keys are stored as hashes only.

Each function works inside the caller's transaction and returns rows as dicts, named as the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.credentials.standing import is_usable
from solward.database.database import clock, lock_exclusive
from solward.database.prepared import Prepared, Row
from solward.database.tables import api_keys, grant_sets, key_requests, key_traffic

Fields = dict[str, Any]

_BY_HASH = Prepared(
    select(api_keys).where(
        or_(api_keys.c.hash == bindparam("b_hash"), api_keys.c.previous_hash == bindparam("b_hash"))
    )
)
# One row for each key under grants, and one for all others with the same ceilings: what can leave a
# wallet is the sum over all keys that may use it, however many there are.
_OF_WALLET = Prepared(
    select(
        grant_sets.c.principal,
        api_keys.c.spending_limit_lamports,
        api_keys.c.max_costs_lamports,
        func.count().label("keys"),
    )
    .select_from(
        api_keys.outerjoin(grant_sets, grant_sets.c.principal == literal("key:") + api_keys.c.id)
    )
    .where(or_(api_keys.c.wallet_id.is_(None), api_keys.c.wallet_id == bindparam("b_wallet")))
    .group_by(
        grant_sets.c.principal,
        api_keys.c.spending_limit_lamports,
        api_keys.c.max_costs_lamports,
    )
    .order_by(func.min(api_keys.c.created_ms), func.min(api_keys.c.id))
)
_RECORD_USE = (
    update(api_keys)
    .where(
        api_keys.c.id == bindparam("key_id"),
        # Another process may have stored a later use.
        func.coalesce(api_keys.c.last_used_ms, 0) < bindparam("used_ms"),
    )
    .values(last_used_ms=bindparam("used_ms"))
)

# PostgreSQL only: on SQLite one process serves, and counts in memory. One statement, so that clock,
# window and count are of one moment. The oldest of the newest `most` requests leaves the window
# first, so it says when the next may start.
_COUNT_REQUEST = text(
    """
    WITH clock AS MATERIALIZED (
        SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
    ), expired AS (
        DELETE FROM key_requests USING clock WHERE key_id = :key AND created_ms <= ms - :window
    ), full_since AS MATERIALIZED (
        SELECT created_ms FROM key_requests, clock
        WHERE key_id = :key AND created_ms > ms - :window
        ORDER BY created_ms DESC OFFSET :most - 1 LIMIT 1
    ), counted AS (
        INSERT INTO key_requests (key_id, created_ms)
        SELECT :key, ms FROM clock WHERE NOT EXISTS (SELECT FROM full_since)
    )
    SELECT created_ms + :window - ms FROM full_since, clock
    """
)


# As above, of all requests: one row a second, because there are many. What is lost of them in a
# crash of the database is the last half second's, so no request waits for the disk.
_COUNT_TRAFFIC = text(
    """
    WITH clock AS MATERIALIZED (
        SELECT floor(extract(epoch FROM clock_timestamp()))::bigint AS now
    ), expired AS (
        DELETE FROM key_traffic USING clock WHERE key_id = :key AND second < now - :window
    ), counted AS MATERIALIZED (
        SELECT coalesce(sum(requests), 0) AS requests, min(second) AS oldest
        FROM key_traffic, clock WHERE key_id = :key AND second >= now - :window
    ), added AS (
        INSERT INTO key_traffic (key_id, second, requests)
        SELECT :key, now, 1 FROM clock, counted WHERE counted.requests < :most
        ON CONFLICT (key_id, second) DO UPDATE SET requests = key_traffic.requests + 1
    )
    SELECT CASE WHEN counted.requests >= :most THEN oldest + :window + 1 - now END,
        set_config('synchronous_commit', 'off', true)
    FROM counted, clock
    """
)


async def insert_key(connection: AsyncConnection, fields: Mapping[str, Any]) -> None:
    """Store a new key; `fields` are the columns of the table."""
    await connection.execute(insert(api_keys).values(**fields))


async def key_by_hash(connection: AsyncConnection, hash_: str) -> Fields | None:
    """The key whose secret has this hash, or None; also where the secret does not work any more."""
    row = await _BY_HASH.first(connection, {"b_hash": hash_})
    if row is None:
        return None
    fields: Fields = row._asdict()
    return fields if await is_usable(connection, fields, hash_) else None


async def get_key(connection: AsyncConnection, key_id: str, *, lock: bool = False) -> Fields | None:
    """One key, or None; `lock` locks its row until the transaction ends."""
    statement = select(api_keys).where(api_keys.c.id == key_id)
    if lock:
        statement = statement.with_for_update()
    row = (await connection.execute(statement)).mappings().first()
    return None if row is None else dict(row)


async def update_key(
    connection: AsyncConnection, key_id: str, fields: Mapping[str, Any]
) -> Fields | None:
    """Change columns of a key; returns the new row, None when there is none."""
    statement = update(api_keys).where(api_keys.c.id == key_id).values(**fields)
    row = (await connection.execute(statement.returning(api_keys))).mappings().first()
    return None if row is None else dict(row)


async def list_keys(connection: AsyncConnection) -> list[Fields]:
    """All keys, oldest first."""
    rows = await connection.execute(select(api_keys).order_by(api_keys.c.created_ms, api_keys.c.id))
    return [dict(row) for row in rows.mappings()]


async def of_wallet(connection: AsyncConnection, wallet_id: str) -> list[Row]:
    """The keys that may use a wallet: `principal`, of a key under grants, or None for `keys` others
    that have the same `spending_limit_lamports` and `max_costs_lamports`; oldest first."""
    return await _OF_WALLET.all(connection, {"b_wallet": wallet_id})


async def delete_key(connection: AsyncConnection, key_id: str) -> Fields | None:
    """Delete a key; returns what it was, None when there is none."""
    statement = delete(api_keys).where(api_keys.c.id == key_id).returning(api_keys)
    row = (await connection.execute(statement)).mappings().first()
    return None if row is None else dict(row)


async def record_uses(connection: AsyncConnection, uses: Mapping[str, int]) -> None:
    """Store when keys were last used: id -> milliseconds since the Unix epoch."""
    # Sorted, so that two processes cannot deadlock on each other's rows.
    rows = [{"key_id": key_id, "used_ms": ms} for key_id, ms in sorted(uses.items())]
    await connection.execute(_RECORD_USE, rows)


async def count_request(
    connection: AsyncConnection, key_id: str, most: int, window_ms: int
) -> int | None:
    """Count one request of a key, unless `most` were made in the last `window_ms` milliseconds by
    the database's clock.

    Returns:
        None where it was counted, else milliseconds until the next may start.
    """
    # Locked before the statement, which then sees the commits of every earlier holder.
    await lock_exclusive(connection, f"key-requests:{key_id}")
    parameters = {"key": key_id, "most": most, "window": window_ms}
    return (await connection.execute(_COUNT_REQUEST, parameters)).scalar_one_or_none()


async def count_traffic(
    connection: AsyncConnection, key_id: str, most: int, window_s: int
) -> int | None:
    """As `count_request`, of all requests of a key; whole seconds, also of what it returns.

    In no `window_s` seconds more than `most` are counted; by up to a second fewer, because the
    second in which the window begins counts whole.
    """
    await lock_exclusive(connection, f"key-traffic:{key_id}")
    parameters = {"key": key_id, "most": most, "window": window_s}
    wait_s = (await connection.execute(_COUNT_TRAFFIC, parameters)).scalar_one()
    return None if wait_s is None else int(wait_s)


async def requests_counted(connection: AsyncConnection, window_ms: int) -> dict[str, int]:
    """key id -> its counted requests of the last `window_ms` milliseconds."""
    since = await clock(connection) - window_ms
    statement = (
        select(key_requests.c.key_id, func.count().label("requests"))
        .where(key_requests.c.created_ms > since)
        .group_by(key_requests.c.key_id)
    )
    return {row.key_id: row.requests for row in await connection.execute(statement)}


async def delete_requests(connection: AsyncConnection, key_id: str) -> None:
    """Delete a revoked key's counted requests."""
    for table in (key_requests, key_traffic):
        await connection.execute(delete(table).where(table.c.key_id == key_id))
