"""Credentials in the service's database: created, found by their secrets, rotated, revoked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.credentials.credential import (
    Credential,
    changed,
    created,
    not_found,
    revoked,
    usable_at,
)
from solward.database import outbox
from solward.database.database import Database, clock, lock_exclusive
from solward.database.prepared import Prepared, Row
from solward.database.tables import credentials as table
from solward.database.tables import grant_sets
from solward.types.errors import InvalidRequest, KeyRevoked
from solward.types.roles import KEY_PRINCIPAL_PREFIX

MOST_ADMINS: Final = 100
_ADMINS_LOCK = "admin-credentials"

_HAS_SECRET = or_(table.c.hash == bindparam("b_hash"), table.c.previous_hash == bindparam("b_hash"))
_BY_SECRET = Prepared(select(table).where(_HAS_SECRET))
# Revocation and rotation wait for this lock; storing the time of a use does not.
_LOCK = Prepared(
    select(table.c.hash, table.c.expires_ms, table.c.previous_hash, table.c.previous_until_ms)
    .where(_HAS_SECRET)
    .with_for_update(read=True, key_share=True)
)
_OF_SECRETS = ("hash", "rotated_ms", "previous_hash", "previous_until_ms")
_RECORD_USE = (
    update(table)
    .where(
        table.c.id == bindparam("b_id"),
        # Another process may have stored a later use.
        func.coalesce(table.c.last_used_ms, 0) < bindparam("used_ms"),
    )
    .values(last_used_ms=bindparam("used_ms"))
)
_IS_KEY = table.c.role.is_(None)
# One row for each key under grants, and one for all others with the same ceilings: what can leave a
# wallet is the sum over all keys that may use it, however many there are.
_OF_WALLET = Prepared(
    select(
        grant_sets.c.principal,
        table.c.spending_limit_lamports,
        table.c.max_costs_lamports,
        func.count().label("keys"),
    )
    .select_from(
        table.outerjoin(
            grant_sets, grant_sets.c.principal == literal(KEY_PRINCIPAL_PREFIX) + table.c.id
        )
    )
    .where(_IS_KEY, or_(table.c.wallet_id.is_(None), table.c.wallet_id == bindparam("b_wallet")))
    .group_by(grant_sets.c.principal, table.c.spending_limit_lamports, table.c.max_costs_lamports)
    .order_by(func.min(table.c.created_ms), func.min(table.c.id))
)


async def lock_credential(connection: AsyncConnection, hash_: str) -> None:
    """Lock a credential by its secret: it can be revoked or rotated only after the transaction.

    Args:
        hash_: SHA-256 of the secret, hex.

    Raises:
        KeyRevoked: no credential has this secret, or it no longer works.
    """
    if await _usable(connection, _LOCK, hash_) is None:
        raise KeyRevoked


class Credentials:
    """Stores API keys and admin credentials. Every request reads them from the database, so a
    revocation takes effect at once in every process.

    Uses are collected in memory and written together by `flush`, not one write a request.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._uses: dict[str, int] = {}

    async def add(self, new: Credential) -> None:
        """Store a new credential.

        Raises:
            InvalidRequest: another admin credential has its name, or there are `MOST_ADMINS`.
        """
        async with self._database.write() as connection:
            if new.role is not None:
                await _check_admins(connection, new.name)
            await connection.execute(insert(table).values(**_fields(new)))
            outbox.record(connection, *created(new))

    async def find(self, hash_: str) -> Credential | None:
        """The credential whose secret has this hash; None if the secret no longer works."""
        async with self._database.read() as connection:
            row = await _usable(connection, _BY_SECRET, hash_)
        return None if row is None else self._credential(row)

    async def key(self, key_id: str) -> Credential | None:
        """The API key with this id."""
        async with self._database.read() as connection:
            row = (await connection.execute(_key(key_id))).first()
        return None if row is None else self._credential(row._asdict())

    async def keys(self) -> list[Credential]:
        """Every API key, expired ones too, oldest first."""
        return await self._list(_IS_KEY)

    async def names(self) -> dict[str, str]:
        """id -> name of every API key."""
        return {key.id: key.name for key in await self.keys()}

    async def admins(self) -> list[Credential]:
        """Every admin credential, expired ones too, oldest first."""
        return await self._list(~_IS_KEY)

    async def _list(self, kind: ColumnElement[bool]) -> list[Credential]:
        statement = select(table).where(kind).order_by(table.c.created_ms, table.c.id)
        async with self._database.read() as connection:
            rows = (await connection.execute(statement)).all()
        return [self._credential(row._asdict()) for row in rows]

    async def of_wallet(self, wallet_id: str) -> list[Row]:
        """The keys that may use a wallet: `principal`, of a key under grants, or None for `keys`
        others that have the same `spending_limit_lamports` and `max_costs_lamports`; oldest
        first."""
        async with self._database.read() as connection:
            return await _OF_WALLET.all(connection, {"b_wallet": wallet_id})

    async def rotate(
        self, key_id: str, hash_: str, overlap_s: int, until_ms: int | None = None
    ) -> Credential:
        """Give a key another secret: `Credential.rotated`; raises `NotFound` too."""
        async with self._database.write() as connection:
            row = (await connection.execute(_key(key_id).with_for_update())).first()
            if row is None:
                raise not_found(is_admins=False)
            was = self._credential(row._asdict())
            now = was.rotated(hash_, await clock(connection), overlap_s, until_ms)
            fields = {name: getattr(now, name) for name in _OF_SECRETS}
            await connection.execute(update(table).where(table.c.id == key_id).values(**fields))
            outbox.record(connection, *changed(was, now))
        return now

    async def revoke(self, credential_id: str, *, is_admins: bool) -> Credential:
        """Delete an API key or an admin credential at once; raises `NotFound`."""
        kind = ~_IS_KEY if is_admins else _IS_KEY
        statement = delete(table).where(table.c.id == credential_id, kind).returning(table)
        async with self._database.write() as connection:
            row = (await connection.execute(statement)).first()
            if row is None:
                raise not_found(is_admins=is_admins)
            was = self._credential(row._asdict())
            outbox.record(connection, *revoked(was))
        self._uses.pop(credential_id, None)
        return was

    def used(self, credential: Credential, ms: int) -> None:
        """Note a use; written by the next `flush`."""
        self._uses[credential.id] = ms

    async def flush(self) -> None:
        """Write the noted uses in one transaction; a failed write is retried at the next flush."""
        if not self._uses:
            return
        uses, self._uses = self._uses, {}
        try:
            async with self._database.write() as connection:
                await record_uses(connection, uses)
        except BaseException:
            self._uses = uses | self._uses
            raise

    def _credential(self, row: Mapping[str, Any]) -> Credential:
        found = Credential.of(row)
        noted = self._uses.get(found.id)
        if noted is None:
            return found
        return replace(found, last_used_ms=max(noted, found.last_used_ms or 0))


async def record_uses(connection: AsyncConnection, uses: Mapping[str, int]) -> None:
    """Store when credentials were last used: id -> milliseconds since the Unix epoch."""
    # Sorted, so that two processes cannot deadlock on each other's rows.
    rows = [{"b_id": each, "used_ms": ms} for each, ms in sorted(uses.items())]
    await connection.execute(_RECORD_USE, rows)


async def _usable(
    connection: AsyncConnection, statement: Prepared, hash_: str
) -> Mapping[str, Any] | None:
    row = await statement.first(connection, {"b_hash": hash_})
    if row is None:
        return None
    fields: dict[str, Any] = row._asdict()
    # Most credentials end here, without a query of the database's clock.
    if fields["expires_ms"] is None and fields["hash"] == hash_:
        return fields
    return fields if usable_at(fields, hash_, await clock(connection)) else None


async def _check_admins(connection: AsyncConnection, name: str) -> None:
    # The lock keeps the names and their number unchanged until the commit.
    await lock_exclusive(connection, _ADMINS_LOCK)
    names = set(await connection.scalars(select(table.c.name).where(~_IS_KEY)))
    if name in names:
        raise InvalidRequest(f"name: an admin credential is named {name} already; revoke it first")
    if len(names) >= MOST_ADMINS:
        raise InvalidRequest(f"There are at most {MOST_ADMINS} admin credentials; revoke one")


def _key(key_id: str) -> Select[Any]:
    return select(table).where(table.c.id == key_id, _IS_KEY)


def _fields(credential: Credential) -> dict[str, Any]:
    role = None if credential.role is None else credential.role.value
    return asdict(credential) | {"role": role, "permissions": list(credential.permissions)}
