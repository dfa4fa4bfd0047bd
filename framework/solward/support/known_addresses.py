"""Addresses that people gave names, and addresses that only look like one of them.

People compare the ends of an address. Whoever wants to be paid in another's place makes a key with
the same ends and sends the wallet a little, so that its address stands in the history for somebody
to copy ("address poisoning").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

SHOWN = 4
"""First and last characters of an address that people compare."""


class NamedAddress(Protocol):
    """An address and what people call it."""

    @property
    def address(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class KnownAddress:
    """A `NamedAddress` that is listed nowhere, such as an own wallet under the word for it."""

    address: str
    name: str


class KnownAddresses:
    """Looks names up by address."""

    def __init__(self, known: Iterable[NamedAddress] = ()) -> None:
        """Of an address with several names the first holds."""
        self._by_address: dict[str, NamedAddress] = {}
        self._by_ends: dict[str, NamedAddress] = {}
        for each in known:
            self._by_address.setdefault(each.address, each)
            self._by_ends.setdefault(_ends(each.address), each)

    def name_of(self, address: str) -> str | None:
        """What people call it, None where it has no name."""
        found = self._by_address.get(address)
        return None if found is None else found.name

    def taken_for(self, address: str) -> NamedAddress | None:
        """The known address that one without a name can be taken for: another one whose first and
        last `SHOWN` characters are the same, upper and lower case alike."""
        if address in self._by_address:
            return None
        return self._by_ends.get(_ends(address))


def _ends(address: str) -> str:
    return f"{address[:SHOWN]}{address[-SHOWN:]}".casefold()
