"""The address book: contacts, which people name, and the groups of the policy, which grants use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, insert, literal, null, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.tables import address_book, contacts, wallets
from solward.types.address_book import NamedWallet

LOCK: Final = "contacts"
"""Held alone by who names a contact, and shared by who makes wallets, whose names may not meet."""


class ContactRow(NamedTuple):
    """A named recipient: a contact, or as `@name` a member of a group of the policy.

    Attributes:
        created_ms: when it was named; None of a member of a group.
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
_WALLETS = select(wallets.c.id, wallets.c.name, wallets.c.public_key, wallets.c.created_by)


async def listed(connection: AsyncConnection) -> list[ContactRow]:
    """Every contact, by name, and behind them the members of groups."""
    rows = [ContactRow(*row) for row in await _LISTED.all(connection)]
    return sorted(rows, key=lambda each: (each.created_ms is None, each.name, each.address))


async def own_wallets(connection: AsyncConnection, called: str | None = None) -> list[NamedWallet]:
    """The wallets of the service, or those of this name or id."""
    statement = _WALLETS
    if called is not None:
        statement = statement.where(or_(wallets.c.id == called, wallets.c.name == called))
    return [NamedWallet(*row) for row in await connection.execute(statement)]


async def of_skeletons(connection: AsyncConnection, skeletons: Collection[str]) -> set[str]:
    """Those of them that a contact's name looks like."""
    rows = await _LOOKS.all(connection, {"b_skeletons": list(skeletons)})
    return {row[0] for row in rows}


async def put(connection: AsyncConnection, row: ContactRow, skeleton: str) -> str | None:
    """Store a contact; returns the name that its address had."""
    before = await remove(connection, row.address)
    await connection.execute(insert(contacts).values(**row._asdict(), skeleton=skeleton))
    return before


async def remove(connection: AsyncConnection, address: str) -> str | None:
    """Delete the contact of an address; returns its name, None where there is none."""
    statement = delete(contacts).where(contacts.c.address == address).returning(contacts.c.name)
    return (await connection.execute(statement)).scalar()


async def book(connection: AsyncConnection) -> dict[str, tuple[str, ...]]:
    """The policy's groups: name -> addresses, in the order of both."""
    statement = select(address_book).order_by(address_book.c.name, address_book.c.address)
    found: dict[str, list[str]] = {}
    for row in await connection.execute(statement):
        found.setdefault(row.name, []).append(row.address)
    return {name: tuple(addresses) for name, addresses in found.items()}


async def put_book(connection: AsyncConnection, book: Mapping[str, Sequence[str]]) -> None:
    """Replace the policy's groups; for changes of the policy alone."""
    await connection.execute(delete(address_book))
    rows = [{"name": name, "address": each} for name, found in book.items() for each in found]
    if rows:
        await connection.execute(insert(address_book), rows)
