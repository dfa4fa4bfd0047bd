"""Statements on the grants of principals, and on the version that grants and address book share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.tables import grant_sets, grant_version
from solward.support import jsontext

VERSION = select(grant_version.c.version).where(grant_version.c.id == 1).scalar_subquery()
"""The number of changes to grants and address book so far."""
_VERSION = Prepared(select(VERSION))
_COUNT_UP = (
    update(grant_version)
    .values(version=grant_version.c.version + 1)
    .returning(grant_version.c.version)
)
_SETS = select(grant_sets.c.principal, grant_sets.c.grants)
_SETS_OF = Prepared(
    _SETS.where(grant_sets.c.principal.in_(bindparam("principals", expanding=True)))
)


async def version(connection: AsyncConnection) -> int:
    """Read how often grants or address book changed; a cache of another version may be wrong."""
    return int(await _VERSION.scalar(connection))


async def raise_version(connection: AsyncConnection) -> int:
    """Increase the version, which invalidates all caches of grants; return the new version."""
    return int((await connection.execute(_COUNT_UP)).scalar_one())


async def sets_of(
    connection: AsyncConnection, principals: Collection[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the stored grants by principal; principals without grants are left out."""
    rows = await _SETS_OF.all(connection, {"principals": list(principals)})
    return {row.principal: jsontext.loads(row.grants) for row in rows}


async def all_sets(connection: AsyncConnection) -> dict[str, list[dict[str, Any]]]:
    """Return the stored grants of every principal that has any, sorted by principal."""
    rows = await connection.execute(_SETS.order_by(grant_sets.c.principal))
    return {row.principal: jsontext.loads(row.grants) for row in rows}


async def put_set(
    connection: AsyncConnection,
    principal: str,
    grants: Sequence[Mapping[str, Any]] | None,
    changed_ms: int,
) -> None:
    """Replace a principal's grants; None removes them all, so that no grants bind the principal."""
    await connection.execute(delete(grant_sets).where(grant_sets.c.principal == principal))
    if grants is not None:
        row = {
            "principal": principal,
            "grants": jsontext.dumps([dict(each) for each in grants]),
            "changed_ms": changed_ms,
        }
        await connection.execute(insert(grant_sets), [row])
