"""The grants in force, kept in memory for as long as nobody changes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.vault.grants.decide import CompiledGrants, compile_grants
from solward.vault.grants.model import from_stored
from solward.vault.store import contacts
from solward.vault.store import grants as store

# Principals remembered; a service has as many as agents, keys and wallets together.
_MOST_KEPT = 10_000


Book = Mapping[str, frozenset[str]]


@dataclass(slots=True)
class _Kept:
    """What was read under one version; None for a principal that is not under grants."""

    version: int
    sets: dict[str, CompiledGrants | None] = field(default_factory=dict)
    book: Book | None = None


class GrantSets:
    """The grants of principals, read as they are needed."""

    def __init__(self) -> None:
        self._kept = _Kept(-1)

    async def of(
        self, connection: AsyncConnection, version: int, principals: Collection[str]
    ) -> dict[str, CompiledGrants]:
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
                    None if rows is None else compile_grants(list(map(from_stored, rows)))
                )
        return self._among(kept, principals)

    async def book(self, connection: AsyncConnection, version: int) -> Book:
        """The address book: name -> addresses."""
        kept = self._at(version)
        if kept.book is None:
            found = await contacts.book(connection)
            kept.book = {name: frozenset(addresses) for name, addresses in found.items()}
        return kept.book

    def last(self, principals: Collection[str]) -> dict[str, CompiledGrants]:
        """As `of`, of what was read last; they may have been changed since."""
        return self._among(self._kept, principals)

    def _at(self, version: int) -> _Kept:
        if self._kept.version != version:
            self._kept = _Kept(version)
        return self._kept

    @staticmethod
    def _among(kept: _Kept, principals: Collection[str]) -> dict[str, CompiledGrants]:
        found = ((each, kept.sets.get(each)) for each in principals)
        return {each: grants for each, grants in found if grants is not None}
