"""Contacts: names that people give to recipients' addresses, shown in tables.

A contact gives no permission: no grant, guardrail, agent or plugin reads it. Grants name addresses,
or groups of the policy's own address book, which changes with the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from solward.audit.acts import record_act
from solward.database import names as store
from solward.database.database import Database, lock_exclusive
from solward.database.names import ContactRow
from solward.support.base58 import is_address
from solward.support.clock import now_ms
from solward.support.skeletons import skeleton
from solward.types.address_book import AddressBook, KnownAddress, OwnWallet
from solward.types.errors import InvalidRequest, NotFound
from solward.types.events import EventKind
from solward.vault.custody.model import begins_with_at, has_address_or_id

MAX_CONTACTS: Final = 1_000
# The dashboard and the export put this word before the name of one of the service's wallets.
_OWN: Final = skeleton("wallet")


@dataclass(frozen=True, slots=True)
class Contacts:
    """Reads, names and removes the contacts of a service."""

    database: Database

    async def rows(self) -> list[ContactRow]:
        """Return all contacts sorted by name, followed by the members of the policy's groups."""
        async with self.database.read() as connection:
            return await store.address_book_rows(connection)

    async def put(self, address: str, name: str) -> ContactRow:
        """Add the contact of an address, or rename the contact.

        Raises:
            InvalidRequest: the address is invalid, is a wallet of the service, or resembles another
                known address; the name is invalid, or resembles another contact's; there are
                already `MAX_CONTACTS`.
        """
        if not is_address(address):
            raise InvalidRequest("address must be an address, base58 of 32 bytes")
        _check_name(name)
        made = ContactRow(address, name, now_ms())
        async with self.database.write() as connection:
            await lock_exclusive(connection, store.CONTACTS_LOCK)
            known = await store.address_book_rows(connection)
            contacts = {each.address: each for each in known if each.created_ms is not None}
            if address in contacts and contacts[address].name == name:
                return contacts[address]
            if address not in contacts and len(contacts) >= MAX_CONTACTS:
                raise InvalidRequest(f"There are {MAX_CONTACTS:,} contacts; remove one first")
            _check_unlike(made, known, await store.own_wallets(connection))
            before = await store.put_contact(connection, made, skeleton(name))
            names = {"name": before}, {"name": name}
            record_act(connection, EventKind.CONTACT_CHANGED, {"address": address}, *names)
        return made

    async def remove(self, address: str) -> None:
        """Remove the contact of an address; raises `NotFound`."""
        async with self.database.write() as connection:
            before = await store.remove_contact(connection, address)
            if before is None:
                raise NotFound("Contact not found")
            names = {"name": before}, {"name": None}
            record_act(connection, EventKind.CONTACT_CHANGED, {"address": address}, *names)

    async def address_of(self, recipient: str, field: str = "recipient") -> str:
        """Return a recipient's address. The recipient is an address or a known name."""
        if is_address(recipient):
            return recipient
        async with self.database.read() as connection:
            own = await store.own_wallets(connection, recipient)
            named = AddressBook.from_lists(own, await store.address_book_rows(connection))
        return named.address(recipient, field)


def _check_name(name: str) -> None:
    is_plain = name.isprintable() and name == name.strip() and not begins_with_at(name)
    # Lists use this character to shorten an address that has no name.
    is_address_like = "\u2026" in name or has_address_or_id(name)
    if not (is_plain and skeleton(name)) or is_address_like:
        raise InvalidRequest(
            "name must be printable, have a letter or digit, begin with neither @ nor a space, and "
            "be no address or id"
        )
    if skeleton(name.split()[0]) == _OWN:
        raise InvalidRequest(
            "name must not begin with the word wallet, as wallets of this service do"
        )


def _check_unlike(new: ContactRow, known: Sequence[ContactRow], own: Sequence[OwnWallet]) -> None:
    """Raise `InvalidRequest` if an address or name resembles that of a contact or an own wallet."""
    wallets = [KnownAddress(each.address, "a wallet of this service") for each in own]
    if any(each.address == new.address for each in own):
        raise InvalidRequest("address is a wallet of this service, whose own name is used")
    books = (AddressBook.from_lists(contacts=each) for each in (known, wallets))
    other = next(filter(None, (each.find_lookalike(new.address) for each in books)), None)
    if other is not None:
        raise InvalidRequest(
            f"address looks like {other.name} ({other.address}) but differs: compare every "
            "character"
        )
    taken = [
        (each.name, f"the contact {each.name} ({each.address})")
        for each in known
        if each.created_ms is not None and each.address != new.address
    ] + [(each.name, f"the wallet {each.name} of this service") for each in own]
    looks = skeleton(new.name)
    for name, whose in taken:
        if skeleton(name) == looks:
            raise InvalidRequest(f"name is, or looks like, that of {whose}")
