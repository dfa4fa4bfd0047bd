"""Statements on wallets with their sealed keys, and on the keystore's versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Select, Text, bindparam, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import principal, record_act
from solward.database.database import lock_exclusive
from solward.database.prepared import Prepared, Row
from solward.database.tables import keystore, wallets
from solward.types.events import EventKind
from solward.types.money import lamports_to_sol

Fields = dict[str, Any]

# The only ceiling that is no amount of SOL.
RATE_CEILING = "maxTransactionsPerMinute"

_INSERT = Prepared(insert(wallets))
_ONE = select(wallets).where(wallets.c.id == bindparam("b_id"))
_REWRAP = (
    update(wallets)
    .where(wallets.c.id == bindparam("b_id"), wallets.c.kek_version == bindparam("b_old"))
    .values(kek_version=bindparam("b_new"), wrapped_data_key=bindparam("b_wrapped"))
)


async def insert_wallet(
    connection: AsyncConnection, row: Fields, *, imported: bool = False
) -> None:
    """Store a wallet created by the current principal, and record the event.

    Args:
        row: the values of the table's columns.
        imported: whether the wallet's key was made elsewhere.

    Raises:
        sqlalchemy.exc.IntegrityError: the public key is stored already.
    """
    await _INSERT.run(connection, row | {"created_by": principal()})
    after = {"tags": row["tags"], "imported": imported}
    record_act(connection, EventKind.WALLET_CREATED, _wallet_subject(row), after=after)


def _wallet_subject(row: Fields) -> Fields:
    return {"walletId": row["id"], "name": row["name"], "address": row["public_key"]}


async def get_wallet(connection: AsyncConnection, wallet_id: str) -> Fields | None:
    """Return one wallet by its id; None if no wallet has the id."""
    row = (await connection.execute(_ONE, {"b_id": wallet_id})).mappings().first()
    return None if row is None else dict(row)


async def made_by(connection: AsyncConnection, principal: str) -> int:
    """Count the wallets that a principal created; lock the count until the transaction ends."""
    await lock_exclusive(connection, f"wallets-of:{principal}")
    statement = select(func.count()).where(wallets.c.created_by == principal)
    return int((await connection.execute(statement)).scalar_one())


_SHOWN = select(
    wallets.c.id,
    wallets.c.name,
    wallets.c.public_key,
    wallets.c.tags,
    wallets.c.created_ms,
    wallets.c.created_by,
    wallets.c.ceilings,
)
_LISTED = _SHOWN.limit(bindparam("b_limit"))
_PLACE = tuple_(wallets.c.created_ms, wallets.c.id)
_OF_ONE = tuple_(
    select(wallets.c.created_ms).where(wallets.c.id == bindparam("b_id")).scalar_subquery(),
    bindparam("b_id", type_=Text()),
)
_OLDEST = _LISTED.order_by(wallets.c.created_ms, wallets.c.id)
_NEWEST = _LISTED.order_by(wallets.c.created_ms.desc(), wallets.c.id.desc())
_FIRST, _AFTER = Prepared(_OLDEST), Prepared(_OLDEST.where(_PLACE > _OF_ONE))
_LAST, _BEFORE = Prepared(_NEWEST), Prepared(_NEWEST.where(_PLACE < _OF_ONE))


async def list_wallets(connection: AsyncConnection) -> list[Fields]:
    """Return every wallet without its sealed key, oldest first."""
    return await _wallet_rows(connection, _SHOWN.order_by(wallets.c.created_ms, wallets.c.id))


async def _wallet_rows(connection: AsyncConnection, statement: Select[Any]) -> list[Fields]:
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def oldest_wallets(
    connection: AsyncConnection, limit: int, after: str | None = None
) -> list[Row]:
    """Return wallets newer than the wallet `after`, without their sealed keys, oldest first."""
    if after is None:
        return await _FIRST.all(connection, {"b_limit": limit})
    return await _AFTER.all(connection, {"b_limit": limit, "b_id": after})


async def newest_wallets(
    connection: AsyncConnection, limit: int, before: str | None = None
) -> list[Row]:
    """Return wallets older than the wallet `before`, without their sealed keys, newest first."""
    if before is None:
        return await _LAST.all(connection, {"b_limit": limit})
    return await _BEFORE.all(connection, {"b_limit": limit, "b_id": before})


async def set_tags(connection: AsyncConnection, wallet_id: str, tags: Sequence[str]) -> None:
    """Replace a wallet's tags, and record an event if the tags change."""
    await _change(connection, wallet_id, "tags", lambda _: list(tags), list)


async def set_ceilings(
    connection: AsyncConnection, wallet_id: str, changes: Mapping[str, int | None]
) -> None:
    """Set a wallet's own ceilings, or lift those that are None, and record an event if any changes.

    This waits for reservations that were judged by the old ceilings. Every reservation after this
    commit is judged by the new ones.

    Args:
        changes: name -> lamports, or transactions.
    """

    def changed(now: Mapping[str, int]) -> dict[str, int]:
        whole = {**now, **changes}
        return {name: units for name, units in whole.items() if units is not None}

    await _change(connection, wallet_id, "ceilings", changed, ceilings_json)


def ceilings_json(ceilings: Mapping[str, int]) -> dict[str, Decimal | int]:
    """Return stored ceilings as the API has them, with amounts in SOL."""
    return {
        name: units if name == RATE_CEILING else lamports_to_sol(units)
        for name, units in ceilings.items()
    }


async def _change(
    connection: AsyncConnection,
    wallet_id: str,
    column: str,
    changed: Callable[[Any], Any],
    shown: Callable[[Any], Any],
) -> None:
    """Change one column of a wallet by its value, and record an event if the value changes.

    Args:
        shown: returns a value as the event has it.
    """
    statement = select(wallets).where(wallets.c.id == wallet_id).with_for_update()
    row = (await connection.execute(statement)).mappings().first()
    if row is None or (new := changed(row[column])) == row[column]:
        return
    before, after = {column: shown(row[column])}, {column: shown(new)}
    record_act(connection, EventKind.WALLET_CHANGED, _wallet_subject(dict(row)), before, after)
    await connection.execute(update(wallets).where(wallets.c.id == wallet_id).values({column: new}))


async def wallets_under(
    connection: AsyncConnection, kek_version: int, after: str, limit: int
) -> list[Fields]:
    """Return up to `limit` wallets still under a KEK version, with ids after `after`, by id."""
    statement = (
        select(wallets)
        .where(wallets.c.id > after, wallets.c.kek_version == kek_version)
        .order_by(wallets.c.id)
        .limit(limit)
    )
    return await _wallet_rows(connection, statement)


async def rewrap(
    connection: AsyncConnection, old: int, new: int, wrapped: Sequence[tuple[str, bytes]]
) -> None:
    """Store each (wallet id, newly wrapped data key) if the wallet is still under version `old`."""
    await connection.execute(
        _REWRAP,
        [
            {"b_id": wallet_id, "b_old": old, "b_new": new, "b_wrapped": data_key}
            for wallet_id, data_key in wrapped
        ],
    )


async def keystore_rows(connection: AsyncConnection) -> list[Fields]:
    """Return the keystore's versions, newest first."""
    return await _wallet_rows(connection, select(keystore).order_by(keystore.c.kek_version.desc()))


async def insert_keystore(connection: AsyncConnection, fields: Fields) -> None:
    """Add a keystore version."""
    await connection.execute(insert(keystore).values(**fields))


async def end_version(connection: AsyncConnection, old: int, new: int, kdf: Fields) -> None:
    """End a rotation: delete version `old`, and delete its KEK from the `kdf` of version `new`."""
    await connection.execute(delete(keystore).where(keystore.c.kek_version == old))
    await connection.execute(update(keystore).where(keystore.c.kek_version == new).values(kdf=kdf))
