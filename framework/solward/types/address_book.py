"""The address book. It finds the address that a name means, and the known address that another one
resembles. REST, CLI, MCP and dashboard share it.

People compare only the ends of an address. In "address poisoning", an attacker makes a key whose
address has the ends of a known recipient's, and sends the wallet a small amount. Somebody may then
copy the attacker's address from the history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from solward.support.base58 import is_address
from solward.support.skeletons import skeleton
from solward.types.errors import InvalidRequest
from solward.types.roles import is_key

DEFAULT_NAME: Final = "external-wallet"
"""The name of a wallet that was made without a name."""
SHOWN: Final = 4
"""The number of first and last characters of an address that people compare."""
# The maximum number of names that an input suggests, because each is sent to the browser.
_MOST_SUGGESTED: Final = 500


class NamedAddress(Protocol):
    """An address and its name for people."""

    @property
    def address(self) -> str: ...
    @property
    def name(self) -> str: ...


class OwnWallet(NamedAddress, Protocol):
    """A wallet of the service; `created_by` is the principal that made it, if known."""

    @property
    def id(self) -> str: ...
    @property
    def created_by(self) -> str | None: ...


class KnownAddress(NamedTuple):
    """A named address that is not from a list of the service."""

    address: str
    name: str


@dataclass(frozen=True, slots=True)
class AddressBook:
    """The names that an admin may type instead of addresses, and the names that are displayed.

    Attributes:
        names: name -> the addresses that have it.
        ids: id of a wallet -> its address.
        called: address -> the name to display: `wallet savings`, a contact's, or a group's
            `@vendors`.
        ends: first and last characters of a known address -> the first address that has them.
    """

    names: Mapping[str, Set[str]] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_lists(
        cls, wallets: Iterable[OwnWallet] = (), contacts: Iterable[NamedAddress] = ()
    ) -> AddressBook:
        """Make the book from the service's lists. A wallet made by an API key can be typed only by
        its id, and its name never competes with a contact's: the key's holder chose that name,
        which must not decide whom the operator pays. If others have a wallet whose name looks the
        same, it is called by its id.

        Args:
            contacts: the stored address book; a member of a group is called `@name`.
        """
        names: dict[str, set[str]] = defaultdict(set)
        ids: dict[str, str] = {}
        known: dict[str, str] = {}
        listed = list(wallets)
        makers: dict[str, set[str | None]] = defaultdict(set)
        if any(is_key(each.created_by) for each in listed):
            for wallet in listed:
                makers[skeleton(wallet.name)].add(wallet.created_by)
        for wallet in listed:
            ids[wallet.id] = wallet.address
            is_shared = is_key(wallet.created_by) and len(makers[skeleton(wallet.name)]) > 1
            known.setdefault(wallet.address, f"wallet {wallet.id if is_shared else wallet.name}")
            if not is_key(wallet.created_by):
                names[wallet.name].add(wallet.address)
        for each in contacts:
            known.setdefault(each.address, each.name)
            names[each.name].add(each.address)
        # Reversed, so that the first of several addresses with the same ends is kept.
        ends = {end_characters(address): address for address in reversed(known)}
        return cls(names, ids, known, ends)

    @property
    def suggested(self) -> list[str]:
        """The names to suggest, in order; only the first ones if there are many."""
        return sorted(self.names)[:_MOST_SUGGESTED]

    def address(self, text: str, called: str = "recipient") -> str:
        """Return the address that a text is or names. If the text is an address or a wallet's id,
        it is never read as a name.

        Args:
            called: the field's name in the error.

        Raises:
            InvalidRequest: no address or several addresses have this name.
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

    def find_lookalike(self, address: str) -> KnownAddress | None:
        """Return the known address with the same first and last `SHOWN` characters, ignoring case,
        as an unnamed address; None if there is none, or the address has a name."""
        other = None if address in self.called else self.ends.get(end_characters(address))
        return None if other is None else KnownAddress(other, self.called[other])

    def label(self, address: str) -> str | None:
        """Return an address's name, or a warning if it resembles a known address; else None."""
        taken = self.find_lookalike(address)
        warning = None if taken is None else f"NOT {taken.name}, it only looks alike"
        return self.called.get(address, warning)


def end_characters(address: str) -> str:
    """Return the first and last `SHOWN` characters, ignoring case."""
    return f"{address[:SHOWN]}{address[-SHOWN:]}".casefold()
