"""Who principals and addresses are, by the names that people gave them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from solward.client import AdminCredential, Agent, ApiKey, Contact, Wallet
from solward.types.address_book import AddressBook
from solward.types.roles import admin_principal, key_principal
from solward_dashboard.api import api

_OF_ADMIN = "you (admin)"


@dataclass(frozen=True, slots=True)
class People:
    """Names to show.

    Attributes:
        names: principal or `wallet:<id>` -> name.
        book: what addresses are called.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    book: AddressBook = field(default_factory=AddressBook)

    @classmethod
    def of(
        cls,
        wallets: Sequence[Wallet] = (),
        agents: Iterable[Agent] = (),
        keys: Iterable[ApiKey] = (),
        contacts: Iterable[Contact] = (),
        admins: Iterable[AdminCredential] = (),
    ) -> People:
        """By what the service lists; an own wallet's name comes before a contact's.

        Args:
            contacts: those known, the policy's address book among them.
        """
        names = {f"wallet:{each.id}": each.name for each in wallets}
        names |= {f"agent:{each.id}": each.name for each in agents}
        names |= {key_principal(each.id): each.name for each in keys}
        names |= {admin_principal(each.id): each.name for each in admins}
        return cls(names, AddressBook.of(wallets, contacts))

    @classmethod
    async def ask(cls) -> People:
        """By what the service lists now."""
        return cls.of(
            *await asyncio.gather(
                api().wallets.list(),
                api().agents.list(),
                api().keys.list(),
                api().contacts.list(),
                api().admins.list(),
            )
        )

    def who(self, principal: str) -> str:
        """Its kind and name, and its id, which tells two of one name apart."""
        kind, _, own_id = principal.partition(":")
        name = self.names.get(principal)
        if not own_id:
            return principal
        return f"{kind} {own_id}" if name is None else f"{kind} {name} ({own_id})"

    def called(self, principal: str) -> str:
        """Its kind and name alone, for a list; its id where it has none."""
        kind, _, own_id = principal.partition(":")
        if not own_id:
            return _OF_ADMIN if principal == "admin" else principal
        return f"{kind} {self.names.get(principal, own_id)}"

    def wallet(self, wallet_id: str) -> str:
        """A wallet's name, or its id."""
        return self.names.get(f"wallet:{wallet_id}", wallet_id)

    def receiver(self, address: str) -> str:
        """An address, whole, after the name that it has here, or whose it only looks like."""
        name, taken = self.book.called.get(address), self.book.taken_for(address)
        if name is None and taken is not None:
            name = f"NOT {taken.name}, it only looks alike"
        return address if name is None else f"{name}, {address}"

    def warned(self, address: str) -> str:
        """Whose address it is; of one without a name that it has none, and which it looks like."""
        taken = self.book.taken_for(address)
        if taken is not None:
            return f"NOT {taken.name}: it looks alike, and is another address than {taken.address}"
        return self.book.called.get(address, "no own wallet and no contact")
