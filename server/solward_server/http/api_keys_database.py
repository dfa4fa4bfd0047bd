"""API keys in the service's database, for `API_KEY_STORE=database`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from solward.credentials import api_keys as store
from solward.database import outbox
from solward.database.database import Database, clock
from solward.operations.policies.grant_report import WalletKeys
from solward.types.events import EventKind
from solward.vault.money.request import Actor
from solward_server.http.api_keys import (
    ApiKey,
    changed,
    created,
    key_limits,
    key_not_found,
    revoked,
)
from solward_server.http.noted_uses import NotedUses

_OF_SECRETS = ("hash", "rotated_ms", "previous_hash", "previous_until_ms")


class DatabaseKeys:
    """Keys that outlive the process, read at every request, so that a revoked one ends at once.

    Uses are collected in memory and written together by `flush`, not one write a request.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._uses = NotedUses(database, store.record_uses)

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""
        async with self._database.write() as connection:
            await store.insert_key(connection, asdict(key) | {"permissions": list(key.permissions)})
            outbox.record(connection, EventKind.KEY_CREATED, created(key))

    async def find(self, hash_: str) -> ApiKey | None:
        """The key whose secret has this hash."""
        async with self._database.read() as connection:
            row = await store.key_by_hash(connection, hash_)
        return None if row is None else self._key(row)

    async def get(self, key_id: str) -> ApiKey | None:
        """The key with this id."""
        async with self._database.read() as connection:
            row = await store.get_key(connection, key_id)
        return None if row is None else self._key(row)

    async def list(self) -> list[ApiKey]:
        """Every key, oldest first."""
        async with self._database.read() as connection:
            return [self._key(row) for row in await store.list_keys(connection)]

    async def of_wallet(self, wallet_id: str) -> WalletKeys:
        """Every key that may use a wallet."""
        async with self._database.read() as connection:
            rows = await store.of_wallet(connection, wallet_id)
        found = [
            (row, key_limits(row.spending_limit_lamports, row.max_costs_lamports)) for row in rows
        ]
        return WalletKeys(
            [(row.principal, limits) for row, limits in found if row.principal is not None],
            [(limits, row.keys) for row, limits in found if row.principal is None],
        )

    async def rotate(
        self, key_id: str, hash_: str, overlap_s: int, until_ms: int | None = None
    ) -> ApiKey:
        """Give a key another secret."""
        async with self._database.write() as connection:
            row = await store.get_key(connection, key_id, lock=True)
            if row is None:
                raise key_not_found()
            was = self._key(row)
            key = was.rotated(hash_, await clock(connection), overlap_s, until_ms)
            fields = {name: getattr(key, name) for name in _OF_SECRETS}
            await store.update_key(connection, key_id, fields)
            outbox.record(connection, EventKind.KEY_CHANGED, changed(was, key))
        return key

    async def revoke(self, key_id: str) -> None:
        """Delete a key."""
        async with self._database.write() as connection:
            row = await store.delete_key(connection, key_id)
            if row is not None:
                outbox.record(connection, EventKind.KEY_REVOKED, revoked(self._key(row)))
        self._uses.forget(key_id)
        if row is None:
            raise key_not_found()

    def used(self, key: ApiKey, ms: int) -> None:
        """Note the use of a key; written by the next `flush`."""
        self._uses.note(key.id, ms)

    async def flush(self) -> None:
        """Write the noted uses in one transaction; kept for the next time when that fails."""
        await self._uses.flush()

    def bind(self, actor: Actor, hash_: str) -> Actor:
        """Checked by the vault, in the database transaction that reserves."""
        return replace(actor, api_key=hash_)

    def _key(self, row: Mapping[str, Any]) -> ApiKey:
        key = ApiKey(**{**row, "permissions": tuple(row["permissions"])})
        return replace(key, last_used_ms=self._uses.latest(key.id, key.last_used_ms))
