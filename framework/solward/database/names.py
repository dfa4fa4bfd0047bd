"""Names of recipients, agents, API keys, schedules and wallets: contacts, the policy's groups that
grants use, and the names that an object's creator chose."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared, Row
from solward.database.tables import address_book, agents, contacts, credentials, schedules, wallets
from solward.types.address_book import SHOWN, end_characters
from solward.types.roles import KEY_PRINCIPAL_PREFIX, is_key

CONTACTS_LOCK: Final = "contacts"
"""Name of a lock: exclusive to name a contact, shared to make wallets, so that names differ."""


class ContactRow(NamedTuple):
    """A named recipient: a contact, or as `@name` a member of a group of the policy.

    Attributes:
        created_ms: when the contact was named; None for a member of a group.
    """

    address: str
    name: str
    created_ms: int | None


_LISTED = Prepared(
    union_all(
        select(contacts.c.address, contacts.c.name, contacts.c.created_ms),
        select(address_book.c.address, literal("@") + address_book.c.name, null()),
    )
)
_LOOKS = Prepared(
    select(contacts.c.skeleton).where(
        contacts.c.skeleton.in_(bindparam("b_skeletons", expanding=True))
    )
)


async def address_book_rows(connection: AsyncConnection) -> list[ContactRow]:
    """Return every contact by name, and after them the members of groups."""
    rows = [ContactRow(*row) for row in await _LISTED.all(connection)]
    return sorted(rows, key=lambda each: (each.created_ms is None, each.name, each.address))


async def known_skeletons(connection: AsyncConnection, skeletons: Collection[str]) -> set[str]:
    """Return the skeletons that a contact's name has too: such names look the same to people."""
    rows = await _LOOKS.all(connection, {"b_skeletons": list(skeletons)})
    return {row[0] for row in rows}


async def put_contact(connection: AsyncConnection, row: ContactRow, skeleton: str) -> str | None:
    """Store a contact; returns the former name of its address."""
    before = await remove_contact(connection, row.address)
    await connection.execute(insert(contacts).values(**row._asdict(), skeleton=skeleton))
    return before


async def remove_contact(connection: AsyncConnection, address: str) -> str | None:
    """Delete the contact of an address and return its name; None if there is no such contact."""
    statement = delete(contacts).where(contacts.c.address == address).returning(contacts.c.name)
    return (await connection.execute(statement)).scalar()


async def groups(connection: AsyncConnection) -> dict[str, tuple[str, ...]]:
    """Return the policy's groups as name -> addresses, both sorted."""
    statement = select(address_book).order_by(address_book.c.name, address_book.c.address)
    found: dict[str, list[str]] = {}
    for row in await connection.execute(statement):
        found.setdefault(row.name, []).append(row.address)
    return {name: tuple(addresses) for name, addresses in found.items()}


async def put_groups(connection: AsyncConnection, book: Mapping[str, Sequence[str]]) -> None:
    """Replace the policy's groups; call it only to change the policy."""
    await connection.execute(delete(address_book))
    rows = [{"name": name, "address": each} for name, found in book.items() for each in found]
    if rows:
        await connection.execute(insert(address_book), rows)


async def own_wallets(connection: AsyncConnection, called: str | None = None) -> list[Row]:
    """Return `id`, `name`, `address`, `created_by` of all wallets, or of those named `called`."""
    is_called = or_(wallets.c.id == called, wallets.c.name == called)
    return await _select_wallets(connection, true() if called is None else is_called)


async def wallet_names(
    connection: AsyncConnection, ids: Collection[str], addresses: Collection[str]
) -> list[Row]:
    """Return the rows of the wallets with one of these ids or addresses; see `own_wallets`."""
    is_asked = or_(wallets.c.id.in_(ids), wallets.c.public_key.in_(addresses))
    return await _select_wallets(connection, is_asked)


async def wallets_like(connection: AsyncConnection, addresses: Collection[str]) -> list[Row]:
    """Return the rows of the wallets that have, or look like, one of these addresses. A wallet that
    an API key made has its id for its name, since other wallets' names are not compared."""
    key = wallets.c.public_key
    ends = func.substr(key, 1, SHOWN).concat(func.substr(key, func.length(key) - SHOWN + 1))
    is_like = func.lower(ends).in_([end_characters(each) for each in addresses])
    by_key = wallets.c.created_by.startswith(KEY_PRINCIPAL_PREFIX)
    name = case((by_key, wallets.c.id), else_=wallets.c.name).label("name")
    return await _select_wallets(connection, is_like, name)


async def _select_wallets(
    connection: AsyncConnection,
    where: ColumnElement[bool],
    name: ColumnElement[str] = wallets.c.name,
) -> list[Row]:
    address = wallets.c.public_key.label("address")
    statement = select(wallets.c.id, name, address, wallets.c.created_by)
    return list(await connection.execute(statement.where(where)))


_NAMED = {"agent": agents, "key": credentials, "schedule": schedules, "wallet": wallets}
# The column with a row's creator: API keys choose the names of the objects that they create.
_MAKERS = {"schedule": "made_by", "wallet": "created_by"}


async def names_of_kind(
    connection: AsyncConnection, kind: str, ids: Collection[str] | None = None
) -> dict[str, str]:
    """Return the name by id of all agents, keys, schedules or wallets; with `ids`, of those and of
    any that have the same names.

    An object is called by its id if an API key made it and gave it a name that the operator uses.

    Args:
        kind: `agent`, `key`, `schedule` or `wallet`.
    """
    of, same = _NAMED[kind], _NAMED[kind].alias("same")
    maker = same.c[_MAKERS[kind]] if kind in _MAKERS else null()
    statement = select(same.c.id, same.c.name, maker.label("maker"))
    if ids is not None:
        statement = statement.join(of, of.c.name == same.c.name).where(of.c.id.in_(ids))
    rows = (await connection.execute(statement)).all()
    own = {row.name for row in rows if not is_key(row.maker)}
    return {row.id: row.id if is_key(row.maker) and row.name in own else row.name for row in rows}
