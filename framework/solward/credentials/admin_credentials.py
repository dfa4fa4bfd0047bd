"""Admin credentials: named, each with a role; stored as hashes only.

Each function works inside the caller's transaction and returns rows as dicts, named as the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import clock
from solward.database.prepared import Prepared
from solward.database.tables import admin_credentials

Fields = dict[str, Any]

_BY_HASH = Prepared(
    select(admin_credentials).where(admin_credentials.c.hash == bindparam("b_hash"))
)
_RECORD_USE = (
    update(admin_credentials)
    .where(
        admin_credentials.c.id == bindparam("credential_id"),
        # Another process may have stored a later use.
        func.coalesce(admin_credentials.c.last_used_ms, 0) < bindparam("used_ms"),
    )
    .values(last_used_ms=bindparam("used_ms"))
)


async def insert_credential(connection: AsyncConnection, fields: Mapping[str, Any]) -> None:
    """Store a new credential; `fields` are the columns of the table."""
    await connection.execute(insert(admin_credentials).values(**fields))


async def usable(connection: AsyncConnection, hash_: str) -> Fields | None:
    """The credential whose secret has this hash, None where there is none or it has expired."""
    row = await _BY_HASH.first(connection, {"b_hash": hash_})
    if row is None:
        return None
    if row.expires_ms is not None and row.expires_ms <= await clock(connection):
        return None
    return dict(row._asdict())


async def is_named(connection: AsyncConnection, name: str) -> bool:
    """Whether a credential has this name."""
    found = select(admin_credentials.c.id).where(admin_credentials.c.name == name)
    return (await connection.execute(found)).first() is not None


async def count(connection: AsyncConnection) -> int:
    """How many there are."""
    found = await connection.execute(select(func.count()).select_from(admin_credentials))
    return int(found.scalar_one())


async def list_credentials(connection: AsyncConnection) -> list[Fields]:
    """All credentials, oldest first."""
    rows = await connection.execute(
        select(admin_credentials).order_by(admin_credentials.c.created_ms, admin_credentials.c.id)
    )
    return [dict(row) for row in rows.mappings()]


async def delete_credential(connection: AsyncConnection, credential_id: str) -> Fields | None:
    """Delete a credential; returns what it was, None when there is none."""
    statement = (
        delete(admin_credentials)
        .where(admin_credentials.c.id == credential_id)
        .returning(admin_credentials)
    )
    row = (await connection.execute(statement)).mappings().first()
    return None if row is None else dict(row)


async def record_uses(connection: AsyncConnection, uses: Mapping[str, int]) -> None:
    """Store when credentials were last used: id -> milliseconds since the Unix epoch."""
    # Sorted, so that two processes cannot deadlock on each other's rows.
    rows = [{"credential_id": each, "used_ms": ms} for each, ms in sorted(uses.items())]
    await connection.execute(_RECORD_USE, rows)
