"""The outcome of each Idempotency-Key. Rows are never deleted: a deleted key would pay again."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.errors import IdempotencyInFlight, IdempotencyMismatch
from solward.vault.store import processes
from solward.vault.store.tables import idempotency


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One key's first request; `status_code` and `body` are None until it was answered."""

    fingerprint: str
    transaction_id: str
    status_code: int | None
    body: str | None
    owner: str | None


_LOOKUP = select(
    idempotency.c.fingerprint,
    idempotency.c.transaction_id,
    idempotency.c.status_code,
    idempotency.c.body,
    idempotency.c.owner,
).where(idempotency.c.scope == bindparam("b_scope"))
_LOCK = _LOOKUP.with_for_update()
# Waits for a transaction that claims the same key; a conflict error would end the transaction on
# PostgreSQL.
_CLAIM = {
    name: statement.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    for name, statement in (
        ("sqlite", sqlite.insert(idempotency)),
        ("postgresql", postgresql.insert(idempotency)),
    )
}
_TAKE = (
    update(idempotency)
    .where(idempotency.c.scope == bindparam("b_scope"))
    .values(owner=bindparam("b_owner"))
)
_FINISH = (
    update(idempotency)
    .where(idempotency.c.scope == bindparam("b_scope"), idempotency.c.status_code.is_(None))
    .values(status_code=bindparam("b_status"), body=bindparam("b_body"))
)


async def lookup(connection: AsyncConnection, scope: str) -> StoredResponse | None:
    """The key's row, None when it was never used for a transaction."""
    row = (await connection.execute(_LOOKUP, {"b_scope": scope})).first()
    return None if row is None else StoredResponse(*row)


async def claim(
    connection: AsyncConnection,
    scope: str,
    fingerprint: str,
    transaction_id: str,
    now_ms: int,
    *,
    owner: str | None = None,
) -> None:
    """Bind a key to its transaction, in the transaction that stores it.

    Args:
        owner: the process that runs a request of several transactions (`take_over`).

    Raises:
        IdempotencyInFlight, IdempotencyMismatch: another request claimed the key first.
    """
    claimed = await connection.execute(
        _CLAIM[connection.dialect.name],
        {
            "scope": scope,
            "fingerprint": fingerprint,
            "transaction_id": transaction_id,
            "created_ms": now_ms,
            "owner": owner,
        },
    )
    if claimed.rowcount == 1:
        return
    first = await lookup(connection, scope)
    if first is not None and first.fingerprint != fingerprint:
        raise IdempotencyMismatch
    raise IdempotencyInFlight


async def take_over(connection: AsyncConnection, scope: str, owner: str) -> StoredResponse:
    """Make `owner` the owner of a claimed key without an answer; returns the key's row.

    A key that was answered meanwhile is unchanged.

    Raises:
        IdempotencyInFlight: another living process runs it.
    """
    row = (await connection.execute(_LOCK, {"b_scope": scope})).one()
    stored = StoredResponse(*row)
    if stored.body is not None:
        return stored
    if stored.owner not in (None, owner) and await processes.alive(connection, str(stored.owner)):
        raise IdempotencyInFlight
    await connection.execute(_TAKE, {"b_scope": scope, "b_owner": owner})
    return stored


async def finish(connection: AsyncConnection, scope: str, status_code: int, body: str) -> bool:
    """Store the answer unless there is one; returns whether it was stored."""
    parameters = {"b_scope": scope, "b_status": status_code, "b_body": body}
    return (await connection.execute(_FINISH, parameters)).rowcount == 1
