"""What became of each Idempotency-Key. Rows are never deleted: a forgotten key would pay again."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.store.tables import idempotency


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One key's first request; `status_code` and `body` are None until it was answered."""

    fingerprint: str
    transaction_id: str
    status_code: int | None
    body: str | None


async def lookup(connection: AsyncConnection, scope: str) -> StoredResponse | None:
    """The key's row, None when it was never used for a transaction."""
    row = (
        await connection.execute(
            select(
                idempotency.c.fingerprint,
                idempotency.c.transaction_id,
                idempotency.c.status_code,
                idempotency.c.body,
            ).where(idempotency.c.scope == scope)
        )
    ).first()
    return None if row is None else StoredResponse(*row)


async def claim(
    connection: AsyncConnection, scope: str, fingerprint: str, transaction_id: str, now_ms: int
) -> None:
    """Bind a key to its transaction, in the transaction that stores it.

    Raises:
        sqlalchemy.exc.IntegrityError: another request claimed the key first.
    """
    await connection.execute(
        insert(idempotency).values(
            scope=scope,
            fingerprint=fingerprint,
            transaction_id=transaction_id,
            created_ms=now_ms,
        )
    )


async def finish(connection: AsyncConnection, scope: str, status_code: int, body: str) -> None:
    """Keep the answer; the first one stays."""
    await connection.execute(
        update(idempotency)
        .where(idempotency.c.scope == scope, idempotency.c.status_code.is_(None))
        .values(status_code=status_code, body=body)
    )
