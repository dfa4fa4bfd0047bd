"""Wallets with their sealed keys, and the keystore's versions: every statement about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import principal, record_act
from solward.events import EventKind
from solward.vault.store.database import lock_exclusive
from solward.vault.store.tables import keystore, wallets

Fields = dict[str, Any]

_ONE = select(wallets).where(wallets.c.id == bindparam("b_id"))
_REWRAP = (
    update(wallets)
    .where(wallets.c.id == bindparam("b_id"), wallets.c.kek_version == bindparam("b_old"))
    .values(kek_version=bindparam("b_new"), wrapped_data_key=bindparam("b_wrapped"))
)


async def insert_wallets(
    connection: AsyncConnection,
    rows: Sequence[Fields],
    principals: Sequence[str] | None = None,
    *,
    imported: bool = False,
) -> None:
    """Store wallets and record an event for each; `rows` are columns of the table.

    Args:
        principals: who made each of them; None where whoever acts now made all.
        imported: their keys were made elsewhere.

    Raises:
        sqlalchemy.exc.IntegrityError: a public key is stored already.
    """
    made_by = principals or [principal()] * len(rows)
    created = [row | {"created_by": by} for row, by in zip(rows, made_by, strict=True)]
    await connection.execute(insert(wallets), created)
    for row, by in zip(rows, made_by, strict=True):
        after = {"tags": row["tags"], "imported": imported}
        record_act(connection, EventKind.WALLET_CREATED, _subject(row), after=after, by=by)


def _subject(row: Fields) -> Fields:
    return {"walletId": row["id"], "name": row["name"], "address": row["public_key"]}


async def get_wallet(connection: AsyncConnection, wallet_id: str) -> Fields | None:
    """One wallet, or None."""
    row = (await connection.execute(_ONE, {"b_id": wallet_id})).mappings().first()
    return None if row is None else dict(row)


async def made_by(connection: AsyncConnection, principal: str) -> int:
    """How many wallets a principal made, counted under a lock until the transaction ends."""
    await lock_exclusive(connection, f"wallets-of:{principal}")
    statement = select(func.count()).where(wallets.c.created_by == principal)
    return int((await connection.execute(statement)).scalar_one())


_SHOWN = select(
    wallets.c.id, wallets.c.name, wallets.c.public_key, wallets.c.tags, wallets.c.created_ms
)
_place = tuple_(wallets.c.created_ms, wallets.c.id)


async def list_wallets(
    connection: AsyncConnection, *, after: tuple[int, str] | None = None, limit: int | None = None
) -> list[Fields]:
    """Wallets without their sealed keys, oldest first.

    Args:
        after: creation time and id of a wallet: only what follows it.
    """
    statement = _SHOWN.order_by(wallets.c.created_ms, wallets.c.id).limit(limit)
    if after is not None:
        statement = statement.where(_place > tuple_(*after))
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def newest_wallets(
    connection: AsyncConnection, limit: int, before: tuple[int, str] | None
) -> list[Fields]:
    """Wallets without their sealed keys, newest first, made before one by its time and id."""
    newest = _SHOWN.order_by(wallets.c.created_ms.desc(), wallets.c.id.desc()).limit(limit)
    if before is not None:
        newest = newest.where(_place < tuple_(*before))
    return [dict(row) for row in (await connection.execute(newest)).mappings()]


async def set_tags(connection: AsyncConnection, wallet_id: str, tags: Sequence[str]) -> None:
    """Replace a wallet's tags, and record it unless they stay the same."""
    statement = select(wallets).where(wallets.c.id == wallet_id).with_for_update()
    row = (await connection.execute(statement)).mappings().first()
    if row is None or list(tags) == row["tags"]:
        return
    before, after = {"tags": row["tags"]}, {"tags": list(tags)}
    record_act(connection, EventKind.WALLET_CHANGED, _subject(dict(row)), before, after)
    await connection.execute(
        update(wallets).where(wallets.c.id == wallet_id).values(tags=list(tags))
    )


async def wallets_under(
    connection: AsyncConnection, kek_version: int, after: str, limit: int
) -> list[Fields]:
    """Up to `limit` wallets still under a KEK version, by id after `after`."""
    statement = (
        select(wallets)
        .where(wallets.c.id > after, wallets.c.kek_version == kek_version)
        .order_by(wallets.c.id)
        .limit(limit)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def rewrap(
    connection: AsyncConnection, old: int, new: int, wrapped: Sequence[tuple[str, bytes]]
) -> None:
    """Store (wallet id, newly wrapped data key) for wallets that are still under `old`."""
    await connection.execute(
        _REWRAP,
        [
            {"b_id": wallet_id, "b_old": old, "b_new": new, "b_wrapped": data_key}
            for wallet_id, data_key in wrapped
        ],
    )


async def keystore_rows(connection: AsyncConnection) -> list[Fields]:
    """The keystore's versions, newest first."""
    statement = select(keystore).order_by(keystore.c.kek_version.desc())
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def insert_keystore(connection: AsyncConnection, fields: Fields) -> None:
    """Add a keystore version."""
    await connection.execute(insert(keystore).values(**fields))


async def change_keystore(
    connection: AsyncConnection, version: int, kdf: Mapping[str, Any], verifier: bytes
) -> None:
    """Replace a version's parameters and verifier."""
    await connection.execute(
        update(keystore)
        .where(keystore.c.kek_version == version)
        .values(kdf=dict(kdf), verifier=verifier)
    )


async def leave_version(connection: AsyncConnection, old: int, new: int, kdf: Fields) -> None:
    """End a rotation: delete version `old`, and its KEK from the `kdf` of `new`."""
    await connection.execute(delete(keystore).where(keystore.c.kek_version == old))
    await connection.execute(update(keystore).where(keystore.c.kek_version == new).values(kdf=kdf))
