"""Recipients by name: of wallets, of contacts and of the policy's address book; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from solward.client import Contact, Wallet
from solward.support.base58 import is_address
from solward.types.roles import is_key

HINT: Final = "An address, or the name of a wallet or a contact."
"""What a recipient may be given as."""

# Names that an input completes: each is sent to the browser.
_MOST_SUGGESTED = 500


@dataclass(frozen=True, slots=True)
class Recipients:
    """What a recipient may be given as, beside an address.

    Attributes:
        addresses: name -> the addresses that have it.
    """

    addresses: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, wallets: Iterable[Wallet], contacts: Iterable[Contact]) -> Recipients:
        """By what the service lists. A wallet that an API key made, and named as something of the
        operator's is named, is left out.

        Args:
            contacts: those known, the policy's address book among them.
        """
        own: dict[str, frozenset[str]] = {}
        of_keys: dict[str, frozenset[str]] = {}
        rows = [(is_key(each.created_by), each.name, each.address) for each in wallets]
        rows += [(False, each.name, each.address) for each in contacts]
        for by_key, name, address in rows:
            found = of_keys if by_key else own
            found[name] = found.get(name, frozenset()) | {address}
        return cls(of_keys | own)

    @property
    def suggested(self) -> list[str]:
        """Names in their order, the first of them where there are many."""
        return sorted(self.addresses)[:_MOST_SUGGESTED]

    def address(self, text: str) -> str:
        """The address that a text is or names. An address is itself, also where somebody else's
        wallet or contact is called so.

        Raises:
            ValueError: there is no such name, or several have it.
        """
        name = text.strip()
        if is_address(name):
            return name
        found = self.addresses.get(name, frozenset())
        if len(found) > 1:
            raise ValueError(f"{len(found)} have this name: give the address.")
        if not found:
            raise ValueError("No address, and no name of a wallet or a contact.")
        return next(iter(found))
