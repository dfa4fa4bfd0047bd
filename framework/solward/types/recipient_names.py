"""The address that a recipient's name means: one rule for REST, CLI, MCP and dashboard; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from solward.support.base58 import is_address
from solward.support.known_addresses import NamedAddress
from solward.types.errors import InvalidRequest
from solward.types.roles import is_key

DEFAULT_NAME: Final = "external-wallet"
"""What a wallet is called that was made without a name."""
# Names that an input completes: each is sent to the browser.
_MOST_SUGGESTED = 500


class OwnWallet(NamedAddress, Protocol):
    """A wallet of the service; `created_by` is the principal that made it, where that is known."""

    @property
    def id(self) -> str: ...
    @property
    def created_by(self) -> str | None: ...


class NamedWallet(NamedTuple):
    """An `OwnWallet` as it is stored."""

    id: str
    name: str
    address: str
    created_by: str | None


@dataclass(frozen=True, slots=True)
class RecipientNames:
    """What a recipient may be given as, instead of an address.

    Attributes:
        names: name -> the addresses that have it.
        ids: id of a wallet -> its address.
    """

    names: Mapping[str, Set[str]] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def suggested(self) -> list[str]:
        """Names in their order, the first of them where there are many."""
        return sorted(self.names)[:_MOST_SUGGESTED]

    @classmethod
    def of(cls, wallets: Iterable[OwnWallet], contacts: Iterable[NamedAddress]) -> RecipientNames:
        """By what the service lists. Whoever holds an API key names the wallets that it makes:
        those are given by their ids, so that no key's name says whom the operator pays.

        Args:
            contacts: the address book, of which a member of a group is called `@name`.
        """
        ids, names = {}, defaultdict(set)
        for wallet in wallets:
            ids[wallet.id] = wallet.address
            if not is_key(wallet.created_by):
                names[wallet.name].add(wallet.address)
        for each in contacts:
            names[each.name].add(each.address)
        return cls(names, ids)

    def address(self, text: str, called: str = "recipient") -> str:
        """The address that a text is or means. An address and an id are themselves, also where
        somebody is called so.

        Args:
            called: the field, for the error.

        Raises:
            InvalidRequest: nobody is called that, or several are.
        """
        if is_address(text):
            return text
        found = {self.ids[text]} if text in self.ids else self.names.get(text, set())
        if not found:
            raise InvalidRequest(
                f"{called} must be an address, or the name of a contact, of a wallet that no API "
                "key made or, as @name, of a group of the policy; or a wallet's id"
            )
        if len(found) > 1:
            shown = ", ".join(sorted(found)[:3]) + (" and others" if len(found) > 3 else "")
            raise InvalidRequest(
                f"{called} is the name of {len(found)} addresses; give one of them: {shown}"
            )
        return next(iter(found))
