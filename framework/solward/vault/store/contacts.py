"""What people call recipients (contacts, own wallets, the policy's address book), agents, API keys,
schedules and wallets.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Row,
    TableClause,
    bindparam,
    column,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    table,
    union,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.tables import address_book, contacts, wallets
from solward.support.known_addresses import SHOWN
from solward.types.roles import is_key

LOCK: Final = "contacts"
"""Held alone by who names a contact, and shared by who makes wallets, whose names may not meet."""

_NAMED = {
    "agent": table("agents", column("id"), column("name")),
    "key": table("credentials", column("id"), column("name")),
    "schedule": table("schedules", column("id"), column("name"), column("made_by")),
    "wallet": table("wallets", column("id"), column("name"), column("created_by")),
}
# What API keys make, they name.
_MAKERS = {"schedule": "made_by", "wallet": "created_by"}


class ContactRow(NamedTuple):
    """One contact."""

    address: str
    name: str
    created_ms: int


_SHOWN = select(contacts.c.address, contacts.c.name, contacts.c.created_ms)
_LISTED = Prepared(_SHOWN.order_by(contacts.c.name))
_ADDRESSES = Prepared(
    union(
        select(contacts.c.address).where(contacts.c.name == bindparam("b_name")),
        select(wallets.c.public_key).where(wallets.c.name == bindparam("b_name")),
        select(address_book.c.address).where("@" + address_book.c.name == bindparam("b_name")),
    )
)
_LOOKS = Prepared(
    select(contacts.c.skeleton).where(
        contacts.c.skeleton.in_(bindparam("b_skeletons", expanding=True))
    )
)
_WALLETS = Prepared(
    select(wallets.c.id, wallets.c.name, wallets.c.public_key).where(
        or_(
            wallets.c.id.in_(bindparam("b_ids", expanding=True)),
            wallets.c.public_key.in_(bindparam("b_addresses", expanding=True)),
        )
    )
)


async def listed(connection: AsyncConnection) -> list[ContactRow]:
    """Every contact, by name."""
    return [ContactRow(*row) for row in await _LISTED.all(connection)]


async def of_address(connection: AsyncConnection, address: str) -> ContactRow | None:
    """The contact of an address."""
    row = (await connection.execute(_SHOWN.where(contacts.c.address == address))).first()
    return None if row is None else ContactRow(*row)


async def of_skeleton(connection: AsyncConnection, skeleton: str) -> ContactRow | None:
    """The contact whose name looks like this."""
    row = (await connection.execute(_SHOWN.where(contacts.c.skeleton == skeleton))).first()
    return None if row is None else ContactRow(*row)


async def of_skeletons(connection: AsyncConnection, skeletons: Collection[str]) -> set[str]:
    """Those of them that a contact's name looks like."""
    rows = await _LOOKS.all(connection, {"b_skeletons": list(skeletons)})
    return {row[0] for row in rows}


async def count(connection: AsyncConnection) -> int:
    """How many there are."""
    return int((await connection.execute(select(func.count()).select_from(contacts))).scalar_one())


async def put(connection: AsyncConnection, row: ContactRow, skeleton: str) -> None:
    """Store a contact in place of the one that its address may have."""
    await remove(connection, row.address)
    await connection.execute(insert(contacts).values(**row._asdict(), skeleton=skeleton))


async def remove(connection: AsyncConnection, address: str) -> None:
    """Delete the contact of an address."""
    await connection.execute(delete(contacts).where(contacts.c.address == address))


async def addresses_named(connection: AsyncConnection, name: str) -> list[str]:
    """The addresses that a contact or wallet of this name has, or `@name` of the address book."""
    return sorted(row[0] for row in await _ADDRESSES.all(connection, {"b_name": name}))


async def own_names(connection: AsyncConnection) -> list[str]:
    """The names of the service's wallets."""
    return list((await connection.execute(select(wallets.c.name).distinct())).scalars())


async def wallet_like(connection: AsyncConnection, address: str) -> str | None:
    """The address of a wallet that this one can be taken for, or is."""
    ends = f"{address[:SHOWN]}%{address[-SHOWN:]}".lower()
    statement = select(wallets.c.public_key).where(func.lower(wallets.c.public_key).like(ends))
    return (await connection.execute(statement.limit(1))).scalar()


class WalletName(NamedTuple):
    """What a wallet is called."""

    id: str
    name: str
    address: str


async def wallet_names(
    connection: AsyncConnection, ids: Collection[str], addresses: Collection[str]
) -> list[WalletName]:
    """The wallets of these ids, and those of these addresses."""
    parameters = {"b_ids": list(ids), "b_addresses": list(addresses)}
    return [WalletName(*row) for row in await _WALLETS.all(connection, parameters)]


def _rows(of: Any, kind: str) -> Any:
    maker = of.c[_MAKERS[kind]] if kind in _MAKERS else null()
    return select(of.c.id, of.c.name, maker.label("maker"))


def _called(kind: str, of: TableClause) -> Any:
    same = of.alias("same")
    return (
        _rows(same, kind)
        .join(of, of.c.name == same.c.name)
        .where(of.c.id.in_(bindparam("ids", expanding=True)))
    )


_CALLED = {kind: _called(kind, of) for kind, of in _NAMED.items()}


async def called_the_same(
    connection: AsyncConnection, kind: str, ids: Collection[str]
) -> dict[str, str]:
    """id -> name, of agents, keys, schedules or wallets of these ids, and of those of equal names.

    What an API key made and named as something of the operator's is named, is called by its id.

    Args:
        kind: `agent`, `key`, `schedule` or `wallet`.
    """
    return _names((await connection.execute(_CALLED[kind], {"ids": list(ids)})).all())


async def all_names(connection: AsyncConnection, kind: str) -> dict[str, str]:
    """id -> name, of all agents, keys, schedules or wallets; as `called_the_same`."""
    return _names((await connection.execute(_rows(_NAMED[kind], kind))).all())


def _names(rows: Sequence[Row[Any]]) -> dict[str, str]:
    own = {row.name for row in rows if not is_key(row.maker)}
    return {row.id: row.id if is_key(row.maker) and row.name in own else row.name for row in rows}
