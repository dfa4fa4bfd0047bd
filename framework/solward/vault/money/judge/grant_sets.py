"""The grants in force, kept in memory for as long as nobody changes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.vault.grants.decide import CompiledGrants, compile_grants
from solward.vault.grants.model import ANY_ASSET, Grant, NewRecipient, from_stored
from solward.vault.store import contacts
from solward.vault.store import grants as store

# Principals remembered; a service has as many as agents, keys and wallets together.
_MOST_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class GrantSet:
    """A principal's grants, and what judging by them has to read.

    Attributes:
        asks_new: one wants to know whom the wallet has paid.
        uses_book: one names recipients of the address book.
        counts_dollars: one counts dollars.
    """

    grants: tuple[Grant, ...]
    compiled: CompiledGrants
    asks_new: bool
    uses_book: bool
    counts_dollars: bool

    @classmethod
    def of(cls, grants: Sequence[Grant]) -> GrantSet:
        """The set of these grants, in written order."""
        return cls(
            tuple(grants),
            compile_grants(grants),
            any(each.new != NewRecipient.ALLOW for each in grants),
            any(to.startswith("@") for each in grants for to in each.to),
            any(ANY_ASSET in each.assets for each in grants),
        )


Book = Mapping[str, frozenset[str]]


@dataclass(slots=True)
class _Kept:
    """What was read under one version; None for a principal that is not under grants."""

    version: int
    sets: dict[str, GrantSet | None] = field(default_factory=dict)
    book: Book | None = None


class GrantSets:
    """The grants of principals, read as they are needed."""

    def __init__(self) -> None:
        self._kept = _Kept(-1)

    async def of(
        self, connection: AsyncConnection, version: int, principals: Collection[str]
    ) -> dict[str, GrantSet]:
        """principal -> its grants, of those that are under grants.

        Args:
            version: of the grants as this database transaction sees them.
        """
        kept = self._at(version)
        missing = [each for each in principals if each not in kept.sets]
        if missing:
            if len(kept.sets) + len(missing) > _MOST_KEPT:
                kept.sets.clear()
                missing = list(principals)
            found = await store.sets_of(connection, missing)
            for each in missing:
                rows = found.get(each)
                kept.sets[each] = (
                    None if rows is None else GrantSet.of(list(map(from_stored, rows)))
                )
        return self._among(kept, principals)

    async def book(self, connection: AsyncConnection, version: int) -> Book:
        """The address book: name -> addresses."""
        kept = self._at(version)
        if kept.book is None:
            found = await contacts.book(connection)
            kept.book = {name: frozenset(addresses) for name, addresses in found.items()}
        return kept.book

    def last(self, principals: Collection[str]) -> dict[str, GrantSet]:
        """As `of`, of what was read last; they may have been changed since."""
        return self._among(self._kept, principals)

    def _at(self, version: int) -> _Kept:
        if self._kept.version != version:
            self._kept = _Kept(version)
        return self._kept

    @staticmethod
    def _among(kept: _Kept, principals: Collection[str]) -> dict[str, GrantSet]:
        found = ((each, kept.sets.get(each)) for each in principals)
        return {each: grants for each, grants in found if grants is not None}
