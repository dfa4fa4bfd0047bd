"""The entries that plugins store for wallets, and the limits of their number and size.

Each function works inside the caller's transaction; writers hold the wallet's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.records import insert_or_set, new_value
from solward.database.tables import plugin_entries, plugin_stores, transactions
from solward.support import jsontext
from solward.types.entries import Entry, Put, value_text
from solward.types.errors import InvalidRequest, SkillError
from solward.types.record import TransactionStatus

_PLUGIN = "plugin:"
_OWN = "solward"
# Sorts after every character that a key may have.
_LAST = "\x7f"


@dataclass(frozen=True, slots=True)
class StoreBounds:
    """Bounds of the entries that one plugin's distribution keeps for one wallet.

    Attributes:
        keys: maximum number of entries.
        value_bytes: maximum bytes of a value as JSON in UTF-8.
        total_bytes: maximum bytes of all keys and values.
        writes_a_minute: maximum writes in a minute in one process, for all wallets together.
    """

    keys: int = 256
    value_bytes: int = 8_192
    total_bytes: int = 262_144
    writes_a_minute: int = 3_000

    def check_values(self, puts: Sequence[Put]) -> None:
        """Raise `InvalidRequest` for a value that is too large."""
        for put in puts:
            size = len(value_text(put.value).encode())
            if size > self.value_bytes:
                raise InvalidRequest(
                    f"The value of {put.key!r} has {size} bytes as JSON; the maximum is"
                    f" {self.value_bytes} (PLUGIN_STORE_MAX_VALUE_BYTES)"
                )


DEFAULT_BOUNDS: Final = StoreBounds()

_ENTRY: tuple[Any, ...] = (
    plugin_entries.c.key,
    plugin_entries.c.value,
    plugin_entries.c.version,
    plugin_entries.c.changed_ms,
    plugin_entries.c.transaction_id,
    transactions.c.status,
)
_ENTRIES = select(*_ENTRY).select_from(
    plugin_entries.outerjoin(transactions, transactions.c.id == plugin_entries.c.transaction_id)
)


_COUNT_UP = insert_or_set(
    plugin_stores,
    ("wallet_id", "plugin"),
    version=plugin_stores.c.version + new_value(plugin_stores, "version"),
).returning(plugin_stores.c.version)
_WRITE = insert_or_set(
    plugin_entries,
    ("wallet_id", "plugin", "key"),
    *("value", "bytes", "version", "transaction_id", "changed_ms"),
)


def plugin_of(via: Sequence[str]) -> str | None:
    """Return the distribution of the plugin that runs for a caller; None if no plugin runs."""
    named = (each.removeprefix(_PLUGIN) for each in via if each.startswith(_PLUGIN))
    return next(named, None)


def third_party(via: Sequence[str]) -> str | None:
    """Return the plugin's distribution as records store it: None for Solward's own plugins."""
    found = plugin_of(via)
    return None if found == _OWN else found


def _own_entries(wallet_id: str, plugin: str) -> tuple[Any, ...]:
    return plugin_entries.c.wallet_id == wallet_id, plugin_entries.c.plugin == plugin


async def get(connection: AsyncConnection, wallet_id: str, plugin: str, key: str) -> Entry | None:
    """Return one entry."""
    wanted = _ENTRIES.where(*_own_entries(wallet_id, plugin), plugin_entries.c.key == key)
    row = (await connection.execute(wanted)).first()
    return None if row is None else _read_entry(row)


async def list_entries(
    connection: AsyncConnection,
    wallet_id: str,
    plugin: str,
    *,
    prefix: str = "",
    after: str | None = None,
    limit: int,
) -> tuple[Entry, ...]:
    """Return the entries whose keys begin with `prefix` and come after `after`, by key."""
    key = plugin_entries.c.key
    wanted = _ENTRIES.where(*_own_entries(wallet_id, plugin), key >= prefix, key < prefix + _LAST)
    if after is not None:
        wanted = wanted.where(key > after)
    rows = await connection.execute(wanted.order_by(key).limit(limit))
    return tuple(map(_read_entry, rows))


async def write(
    connection: AsyncConnection,
    wallet_id: str,
    plugin: str,
    puts: Sequence[Put],
    bounds: StoreBounds,
    changed_ms: int,
    transaction_id: str | None = None,
) -> tuple[Entry, ...]:
    """Write entries, each with a version of its own, and return them.

    Args:
        transaction_id: the id of the pending record that is stored with them.

    Raises:
        SkillError: `store_changed` or `store_full`; the caller's transaction must end.
        InvalidRequest: a value is too large.
    """
    bounds.check_values(puts)
    own = {"wallet_id": wallet_id, "plugin": plugin}
    counted = await connection.execute(_COUNT_UP, own | {"version": len(puts)})
    last = int(counted.scalar_one())
    await _check_versions(connection, wallet_id, plugin, puts)
    status = None if transaction_id is None else TransactionStatus.PENDING
    written = []
    for version, put in enumerate(puts, last - len(puts) + 1):
        text = value_text(put.value)
        fields = {
            "key": put.key,
            "value": text,
            "bytes": len(put.key) + len(text.encode()),
            "version": version,
            "transaction_id": transaction_id,
            "changed_ms": changed_ms,
        }
        await connection.execute(_WRITE, own | fields)
        value = jsontext.loads(text)
        written.append(Entry(put.key, value, version, changed_ms, transaction_id, status))
    await _check_bounds(connection, wallet_id, plugin, bounds)
    return tuple(written)


async def remove(
    connection: AsyncConnection, wallet_id: str, plugin: str, key: str, version: int | None = None
) -> bool:
    """Delete an entry; returns whether it existed.

    Raises:
        SkillError: `store_changed`.
    """
    if version is not None:
        await _check_versions(connection, wallet_id, plugin, [Put(key, None, version)])
    removed = await connection.execute(
        delete(plugin_entries).where(*_own_entries(wallet_id, plugin), plugin_entries.c.key == key)
    )
    return bool(removed.rowcount)


async def purge(connection: AsyncConnection, plugin: str) -> int:
    """Delete the entries of every wallet; returns their number.

    Version numbers do not restart at 1, because a hold may refer to an earlier version.
    """
    statement = delete(plugin_entries).where(plugin_entries.c.plugin == plugin)
    removed = await connection.execute(statement)
    return int(removed.rowcount)


async def clear(connection: AsyncConnection, plugin: str, wallet_id: str, prefix: str = "") -> int:
    """Delete the entries whose keys begin with `prefix`; returns their number."""
    key = plugin_entries.c.key
    found = *_own_entries(wallet_id, plugin), key >= prefix, key < prefix + _LAST
    removed = await connection.execute(delete(plugin_entries).where(*found))
    return int(removed.rowcount)


async def _check_versions(
    connection: AsyncConnection, wallet_id: str, plugin: str, puts: Sequence[Put]
) -> None:
    asked = {put.key: put.version for put in puts if put.version is not None}
    if not asked:
        return
    wanted = select(plugin_entries.c.key, plugin_entries.c.version).where(
        *_own_entries(wallet_id, plugin), plugin_entries.c.key.in_(asked)
    )
    found = {row.key: int(row.version) for row in await connection.execute(wanted)}
    for key, version in asked.items():
        now = found.get(key, 0)
        if now != version:
            stands = f"has version {now}" if now else "does not exist"
            raise SkillError(
                "store_changed",
                f"The entry {key!r} {stands}, but version {version} was expected: another call"
                " changed the entry, and this call changed nothing",
            )


async def _check_bounds(
    connection: AsyncConnection, wallet_id: str, plugin: str, bounds: StoreBounds
) -> None:
    wanted = select(func.count(), func.sum(plugin_entries.c.bytes))
    count, total = (await connection.execute(wanted.where(*_own_entries(wallet_id, plugin)))).one()
    for what, there, most, setting in (
        ("keys", int(count), bounds.keys, "PLUGIN_STORE_MAX_KEYS"),
        ("bytes", int(total or 0), bounds.total_bytes, "PLUGIN_STORE_MAX_BYTES"),
    ):
        if there > most:
            raise SkillError(
                "store_full",
                f"The plugin's store for this wallet would have {there} {what}; the maximum is"
                f" {most} ({setting})",
            )


def _read_entry(row: Sequence[Any]) -> Entry:
    key, text, version, changed_ms, transaction_id, status = row
    stands = None if status is None else TransactionStatus(status)
    return Entry(key, jsontext.loads(text), version, changed_ms, transaction_id, stands)
