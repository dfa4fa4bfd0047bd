"""Statements on Idempotency-Keys. Rows are never deleted: a forgotten key could pay twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.records import Records, insert_new, insert_or_set
from solward.database.tables import idempotency
from solward.types.errors import IdempotencyInFlight, IdempotencyMismatch
from solward.types.record import ACTION
from solward.vault.store import processes


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The first request with an Idempotency-Key; `status_code` and `body` are None until its
    answer. `contract_status` is the status in the OpenAPI contract, if it differs."""

    fingerprint: str
    transaction_id: str
    status_code: int | None
    contract_status: int | None
    body: str | None
    owner: str | None


_RESPONSES = Records(StoredResponse, idempotency)
_SELECT = select(*_RESPONSES.columns).where(idempotency.c.scope == bindparam("b_scope"))
_LOOKUP = Prepared(_SELECT)
_LOCK = Prepared(_SELECT.with_for_update())
# The insert waits for a transaction that claims the same key. It ignores a conflict, because an
# error would end the transaction on PostgreSQL.
_CLAIM = Prepared(insert_new(idempotency))
_TAKE = Prepared(
    update(idempotency)
    .where(idempotency.c.scope == bindparam("b_scope"))
    .values(owner=bindparam("b_owner"))
)
_FINISH = Prepared(
    update(idempotency)
    .where(
        idempotency.c.scope == bindparam("b_scope"),
        idempotency.c.status_code.is_(None),
        # A key of a hold is answered with the hold's end, not with one earlier try's answer.
        idempotency.c.transaction_id.not_like(f"{ACTION}%"),
    )
    .values(
        status_code=bindparam("b_status"),
        contract_status=bindparam("b_contract"),
        body=bindparam("b_body"),
    )
)
_POINT = Prepared(
    insert_or_set(idempotency, ("scope",), "fingerprint", "transaction_id", "created_ms")
)


async def lookup(connection: AsyncConnection, scope: str) -> StoredResponse | None:
    """Return the key's row; None if it was never used for a transaction."""
    row = await _LOOKUP.first(connection, {"b_scope": scope})
    return None if row is None else _RESPONSES.read(row)


async def claim(
    connection: AsyncConnection,
    scope: str,
    fingerprint: str,
    transaction_id: str,
    now_ms: int,
    *,
    owner: str | None = None,
) -> None:
    """Bind a key to its transaction, in the same database transaction that stores the latter.

    Args:
        owner: the process that runs a request with several transactions (see `take_over`).

    Raises:
        IdempotencyInFlight, IdempotencyMismatch: another request claimed the key first.
    """
    row = _key_row(scope, fingerprint, transaction_id, now_ms, owner)
    if await _CLAIM.run(connection, row) == 1:
        return
    first = await lookup(connection, scope)
    if first is not None and first.fingerprint != fingerprint:
        raise IdempotencyMismatch
    raise IdempotencyInFlight


async def bind(
    connection: AsyncConnection, scope: str, fingerprint: str, transaction_id: str, now_ms: int
) -> None:
    """Bind a scope of the service to a transaction or a hold, and replace an older binding."""
    await _POINT.run(connection, _key_row(scope, fingerprint, transaction_id, now_ms, None))


def _key_row(
    scope: str, fingerprint: str, transaction_id: str, now_ms: int, owner: str | None
) -> dict[str, Any]:
    return {
        "scope": scope,
        "fingerprint": fingerprint,
        "transaction_id": transaction_id,
        "created_ms": now_ms,
        "owner": owner,
    }


async def take_over(connection: AsyncConnection, scope: str, owner: str) -> StoredResponse:
    """Make `owner` the owner of a claimed, unanswered key; return the key's row.

    A key that was answered meanwhile is unchanged.

    Raises:
        IdempotencyInFlight: another living process runs the request.
    """
    row = (await _LOCK.all(connection, {"b_scope": scope}))[0]
    stored = _RESPONSES.read(row)
    if stored.body is not None:
        return stored
    if stored.owner not in (None, owner) and await processes.alive(connection, str(stored.owner)):
        raise IdempotencyInFlight
    await _TAKE.run(connection, {"b_scope": scope, "b_owner": owner})
    return stored


async def finish(
    connection: AsyncConnection, scope: str, status: int, body: str, contract: int | None = None
) -> bool:
    """Store the answer unless the key has an answer or a hold; return whether it was stored."""
    parameters = {"b_scope": scope, "b_status": status, "b_contract": contract, "b_body": body}
    return await _FINISH.run(connection, parameters) == 1
