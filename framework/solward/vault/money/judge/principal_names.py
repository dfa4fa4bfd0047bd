"""Names of principals for sentences and documents of grants, as read at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.solana.token_list import TokenList, known_decimals
from solward.vault.grants.model import Finding, Why
from solward.vault.store import names as store

# Kinds of principals that are rows; what people call the others is their id.
STORED_KINDS: Final = ("agent", "key", "schedule", "wallet")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What words of grants stand for; see `solward.vault.grants.document.Names`.

    Attributes:
        rows: kind -> id -> name.
        mints: decimals of mints that no list has.
        book: names of the address book.
    """

    tokens: TokenList
    rows: Mapping[str, Mapping[str, str]]
    mints: Mapping[str, int] = field(default_factory=dict)
    book: frozenset[str] = frozenset()

    def decimals(self, mint: str) -> int | None:
        """Of a mint that `tokens` does not list."""
        listed = known_decimals(mint)
        return self.mints.get(mint) if listed is None else listed

    def ids(self, kind: str, text: str) -> Sequence[str]:
        """The one whose id is `text`, else all whose name it is."""
        found = self.rows.get(kind, {})
        if text in found:
            return [text]
        return [each for each, name in found.items() if name == text]

    def name(self, kind: str, own_id: str) -> str | None:
        """What people call it; None where it has no name beside its id."""
        name = self.rows.get(kind, {}).get(own_id)
        return None if name == own_id else name

    def in_book(self, name: str) -> bool:
        """Whether the address book has the name."""
        return name in self.book


async def names_of(
    connection: AsyncConnection, tokens: TokenList, principals: Iterable[str]
) -> KnownNames:
    """The names of these agents, keys, schedules and wallets, for sentences; others have none."""
    wanted: dict[str, set[str]] = {}
    for each in principals:
        kind, _, own_id = each.partition(":")
        if kind in STORED_KINDS:
            wanted.setdefault(kind, set()).add(own_id)
    rows = {
        kind: await store.called_the_same(connection, kind, ids) for kind, ids in wanted.items()
    }
    return KnownNames(tokens, rows)


async def names_in(
    connection: AsyncConnection, tokens: TokenList, findings: Sequence[Finding]
) -> KnownNames:
    """The names that sentences of these findings say."""
    return await names_of(connection, tokens, _principals(findings))


def _principals(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield finding.who
        if finding.why == Why.WALLET and finding.detail is not None:
            yield f"wallet:{finding.detail}"
