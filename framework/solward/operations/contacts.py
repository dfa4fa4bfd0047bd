"""Contacts: names for recipients, which people give for their addresses, and see in tables.

A contact allows nothing: no grant, guardrail, agent or plugin reads it. Grants name addresses, or
groups of the policy's own address book, whose changes are changes of the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database.database import Database, lock_exclusive
from solward.solana.token_list import skeleton
from solward.support.base58 import is_address
from solward.support.clock import now_ms
from solward.support.known_addresses import KnownAddress, KnownAddresses, NamedAddress
from solward.types.errors import InvalidRequest, NotFound
from solward.types.events import EventKind
from solward.types.recipient_names import RecipientNames
from solward.vault.custody.model import begins_as_group, has_address_or_id
from solward.vault.store import contacts as store
from solward.vault.store import recipients
from solward.vault.store.contacts import ContactRow

MAX_CONTACTS: Final = 1_000
# How the dashboard and the export begin what they call a wallet of the service.
_OWN: Final = skeleton("wallet")


@dataclass(frozen=True, slots=True)
class Contacts:
    """The contacts of a service."""

    database: Database

    async def listed(self) -> list[ContactRow]:
        """Every one, by name, and behind them the members of the policy's groups."""
        async with self.database.read() as connection:
            return await store.listed(connection)

    async def put(self, address: str, name: str) -> ContactRow:
        """Name an address, or rename it.

        Raises:
            InvalidRequest: the address is none, is a wallet of the service, or can be taken for
                another known one; the name is none, or can be taken for another contact's; there
                are `MAX_CONTACTS` already.
        """
        if not is_address(address):
            raise InvalidRequest("address must be an address, base58 of 32 bytes")
        looks = _checked(name)
        row = ContactRow(address, name, now_ms())
        async with self.database.write() as connection:
            await lock_exclusive(connection, store.LOCK)
            before = await store.of_address(connection, address)
            if before is not None and before.name == name:
                return before
            await _check_address(connection, address)
            await _check_name(connection, address, name, looks)
            if before is None and await store.count(connection) >= MAX_CONTACTS:
                raise InvalidRequest(f"There are {MAX_CONTACTS:,} contacts; remove one first")
            await store.put(connection, row, looks)
            _record(connection, address, None if before is None else before.name, name)
        return row

    async def remove(self, address: str) -> None:
        """Take an address's name away; raises `NotFound`."""
        async with self.database.write() as connection:
            before = await store.of_address(connection, address)
            if before is None:
                raise NotFound("Contact not found")
            await store.remove(connection, address)
            _record(connection, address, before.name, None)

    async def address_of(self, recipient: str, field: str = "recipient") -> str:
        """The address that an operator means, as `RecipientNames.address` has it."""
        if is_address(recipient):
            return recipient
        async with self.database.read() as connection:
            named = RecipientNames.of(*await store.called(connection, recipient))
        return named.address(recipient, field)


def _checked(name: str) -> str:
    """What a name looks like; raises `InvalidRequest`."""
    looks = skeleton(name)
    is_plain = name.isprintable() and name == name.strip() and not begins_as_group(name)
    # A list shows an address without a name as its ends around this sign.
    is_address_like = "\u2026" in name or has_address_or_id(name)
    if not (is_plain and looks) or is_address_like:
        raise InvalidRequest(
            "name must be printable, with a letter or a digit, without @ or a space first, and no "
            "address or id"
        )
    if skeleton(name.split()[0]) == _OWN:
        raise InvalidRequest(
            "name must not begin with the word wallet, as wallets of this service do"
        )
    return looks


async def _check_address(connection: AsyncConnection, address: str) -> None:
    if await recipients.own(connection, [address]):
        raise InvalidRequest("address is a wallet of this service, which is called by its own name")
    known: list[NamedAddress] = [*await store.listed(connection)]
    own = await store.wallet_like(connection, address)
    if own is not None:
        known.append(KnownAddress(own, "a wallet of this service"))
    other = KnownAddresses(known).taken_for(address)
    if other is not None:
        raise InvalidRequest(
            f"address looks like {other.name} ({other.address}) and is another: compare every "
            "character"
        )


async def _check_name(connection: AsyncConnection, address: str, name: str, looks: str) -> None:
    other = await store.of_skeleton(connection, looks)
    if other is not None and other.address != address:
        raise InvalidRequest(
            f"name is, or looks like, that of the contact {other.name} ({other.address})"
        )
    own = next(
        (each for each in await store.own_names(connection) if skeleton(each) == looks), None
    )
    if own is not None:
        raise InvalidRequest(f"name is, or looks like, that of the wallet {own} of this service")


def _record(
    connection: AsyncConnection, address: str, before: str | None, after: str | None
) -> None:
    record_act(
        connection,
        EventKind.CONTACT_CHANGED,
        {"address": address},
        {"name": before},
        {"name": after},
    )
