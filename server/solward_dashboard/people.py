"""Who principals and addresses are, by the names that people gave them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from solward.client import Agent, ApiKey, Policy, Wallet

_OF_ADMIN = "you (admin)"


@dataclass(frozen=True, slots=True)
class People:
    """Names to show.

    Attributes:
        names: principal or `wallet:<id>` -> name.
        addresses: address -> `wallet savings`, or `@vendors` of the address book.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        wallets: Sequence[Wallet] = (),
        agents: Iterable[Agent] = (),
        keys: Iterable[ApiKey] = (),
        policy: Policy | None = None,
    ) -> People:
        """By what the service lists; an own wallet's name comes before the book's."""
        names = {f"wallet:{each.id}": each.name for each in wallets}
        names |= {f"agent:{each.id}": each.name for each in agents}
        names |= {f"key:{each.id}": each.name for each in keys}
        addresses = {} if policy is None else _of_book(policy.book)
        addresses |= {each.address: f"wallet {each.name}" for each in wallets}
        return cls(names, addresses)

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
        """An address, whole, after the name that it has here."""
        name = self.addresses.get(address)
        return address if name is None else f"{name}, {address}"


def _of_book(book: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, entries in book.items():
        for each in entries:
            address = each if isinstance(each, str) else each["address"]
            found.setdefault(address, f"@{name}")
    return found
