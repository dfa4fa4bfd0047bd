"""API keys in the service's database, for `API_KEY_STORE=database`: hashes only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Row, bindparam, delete, func, insert, select, update

from solward.store.tables import api_keys
from solward.vault.store.database import Database
from solward_server.http.api_keys import ApiKey, key_not_found


class DatabaseKeys:
    """Keys that outlive the process, read at every request, so that a revoked one ends at once.

    Uses are noted in memory and written together by `flush`, not one write a request.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._uses: dict[str, int] = {}

    async def add(self, key: ApiKey) -> None:
        """Keep a new key."""
        async with self._database.write() as connection:
            await connection.execute(
                insert(api_keys).values(
                    id=key.id,
                    hash=key.hash,
                    name=key.name,
                    wallet_id=key.wallet_id,
                    permissions=list(key.permissions),
                    rate_limit=key.rate_limit,
                    spending_limit_lamports=key.spending_limit_lamports,
                    created_ms=key.created_ms,
                )
            )

    async def find(self, hash_: str) -> ApiKey | None:
        """The key with this hash."""
        async with self._database.read() as connection:
            row = (
                await connection.execute(select(api_keys).where(api_keys.c.hash == hash_))
            ).first()
        return None if row is None else self._key(row)

    async def list(self) -> list[ApiKey]:
        """Every key, oldest first."""
        async with self._database.read() as connection:
            rows = (
                await connection.execute(
                    select(api_keys).order_by(api_keys.c.created_ms, api_keys.c.id)
                )
            ).all()
        return [self._key(row) for row in rows]

    async def revoke(self, key_id: str) -> None:
        """Forget a key."""
        async with self._database.write() as connection:
            result = await connection.execute(delete(api_keys).where(api_keys.c.id == key_id))
        self._uses.pop(key_id, None)
        if not result.rowcount:
            raise key_not_found()

    def used(self, key: ApiKey, ms: int) -> None:
        """Note the use of a key; written by the next `flush`."""
        self._uses[key.id] = ms

    async def flush(self) -> None:
        """Write the noted uses in one transaction; kept for the next time when that fails."""
        if not self._uses:
            return
        uses, self._uses = self._uses, {}
        statement = (
            update(api_keys)
            .where(
                api_keys.c.id == bindparam("key_id"),
                # Another process may have noted a later one.
                func.coalesce(api_keys.c.last_used_ms, 0) < bindparam("used_ms"),
            )
            .values(last_used_ms=bindparam("used_ms"))
        )
        # In one order, so that two processes never wait for each other's rows.
        rows = [{"key_id": key_id, "used_ms": ms} for key_id, ms in sorted(uses.items())]
        try:
            async with self._database.write() as connection:
                await connection.execute(statement, rows)
        except BaseException:
            self._uses = uses | self._uses
            raise

    def _key(self, row: Row[Any]) -> ApiKey:
        fields = dict(row._mapping)
        fields["permissions"] = tuple(fields["permissions"])
        key = ApiKey(**fields)
        noted = self._uses.get(key.id, 0)
        return replace(key, last_used_ms=noted) if noted > (key.last_used_ms or 0) else key
