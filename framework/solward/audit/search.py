"""Entries of the audit log that fit a filter, in bounded pages.

A page looks at `WALKED` entries at most, and says where the next one goes on: at all of them, or
where only rare kinds are asked for, at those. There is no index of the frequent ones, which every
payment would have to write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, cast

from sqlalchemy import ColumnElement, and_, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.log import SETTLED, AuditEntry, latest
from solward.database.tables import FREQUENT, RARE, audit
from solward.support import jsontext

WALKED: Final = 10_000
"""Entries that one page looks at, at most."""
# The entries' times are of the clocks of several machines, and their order is that of commits.
_CLOCKS_MS: Final = 10 * 60_000
_RARE: Final = cast("ColumnElement[bool]", text(RARE))


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What an entry must be; a field that is None or empty asks for nothing.

    Attributes:
        kinds: of `EventKind`, any of these.
        wallet_id: it is in the wallet's chain, or names it as its `walletId`.
        agent_id: likewise of an agent.
        principal: who asked for it, such as `admin` or `key:<id>`, as entries name it.
        since_ms, until_ms: written from then on, and before then; Unix milliseconds.
    """

    kinds: frozenset[str] = field(default_factory=frozenset)
    wallet_id: str | None = None
    agent_id: str | None = None
    principal: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def fits(self, entry: AuditEntry) -> bool:
        """Whether an entry fits."""
        if self.kinds and entry.event not in self.kinds:
            return False
        if self.since_ms is not None and entry.created_ms < self.since_ms:
            return False
        if self.until_ms is not None and entry.created_ms >= self.until_ms:
            return False
        data = jsontext.loads(entry.data)
        return all(
            (chain is not None and entry.chain == chain) or _named(data, name) == value
            for chain, name, value in self._names()
        )

    def _names(self) -> list[tuple[str | None, str, str]]:
        """Chain, field of the data and value, of each name that is asked for."""
        return [
            (None if prefix is None else f"{prefix}:{value}", name, value)
            for prefix, name, value in (
                ("wallet", "walletId", self.wallet_id),
                ("agent", "agentId", self.agent_id),
                (None, "principal", self.principal),
            )
            if value is not None
        ]

    def where(self, dialect: str) -> list[ColumnElement[bool]]:
        """Conditions that all fitting entries meet, and few others."""
        found: list[ColumnElement[bool]] = []
        if self.kinds:
            found.append(audit.c.event.in_(sorted(self.kinds)))
        if self.since_ms is not None:
            found.append(audit.c.created_ms >= self.since_ms)
        if self.until_ms is not None:
            found.append(audit.c.created_ms < self.until_ms)
        # A text search, since not every JSON text is one to PostgreSQL: `fits` looks again.
        place = func.instr if dialect == "sqlite" else func.strpos
        for chain, name, value in self._names():
            text = jsontext.dumps_own({name: value}, canonical=True)[1:-1]
            named = place(audit.c.data, text) > 0
            found.append(named if chain is None else or_(audit.c.chain == chain, named))
        return found


def _named(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, dict) else None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries that fit, newest first.

    Attributes:
        next: what `before` is of the next page, None where there is nothing further back. A page
            may have fewer entries than were asked for, or none, and be followed by another.
    """

    entries: tuple[AuditEntry, ...]
    next: int | None


async def search(
    connection: AsyncConnection,
    wanted: AuditFilter,
    limit: int,
    *,
    before: int | None = None,
    after: int = 0,
) -> AuditPage:
    """A page of the entries numbered below `before` and above `after`."""
    if wanted == AuditFilter() and not after:
        entries = tuple(await latest(connection, limit, before))
        return AuditPage(entries, entries[-1].seq if len(entries) == limit else None)
    if wanted.until_ms is not None:
        until = await _first_at(connection, wanted.until_ms + _CLOCKS_MS)
        before = before if until is None else min(until, before or until)
    if wanted.since_ms is not None:
        since = await _first_at(connection, wanted.since_ms - _CLOCKS_MS)
        if since is None:
            return AuditPage((), None)
        after = max(after, since - 1)
    dialect = connection.dialect.name
    within: list[ColumnElement[bool]] = [SETTLED[dialect], audit.c.seq > after]
    if wanted.kinds and wanted.kinds.isdisjoint(FREQUENT):
        within.append(_RARE)
    if before is not None:
        within.append(audit.c.seq < before)
    walked = (
        select(audit.c.seq)
        .where(and_(*within))
        .order_by(audit.c.seq.desc())
        .limit(WALKED)
        .subquery()
    )
    floor, count = (
        await connection.execute(select(func.min(walked.c.seq), func.count()).select_from(walked))
    ).one()
    if floor is None:
        return AuditPage((), None)
    rows = await connection.execute(
        select(audit)
        .where(and_(*within, audit.c.seq >= floor, *wanted.where(dialect)))
        .order_by(audit.c.seq.desc())
        .limit(limit)
    )
    found = [AuditEntry(*row) for row in rows]
    end = int(floor) if count == WALKED else None
    if len(found) == limit:
        end = found[-1].seq
    return AuditPage(tuple(filter(wanted.fits, found)), end)


async def _first_at(connection: AsyncConnection, ms: int) -> int | None:
    """The number of the first entry that was written at a time or later, None where none was.

    Found by halving, so as if the entries' times never went back.
    """
    newest = (
        await connection.execute(
            select(audit.c.seq, audit.c.created_ms).order_by(audit.c.seq.desc()).limit(1)
        )
    ).first()
    if newest is None or newest.created_ms < ms:
        return None
    # Below `low` all are earlier; at `high` one is not.
    low, high = 0, int(newest.seq)
    while low < high:
        middle = (low + high) // 2
        seq, created_ms = await _from(connection, middle)
        if created_ms < ms:
            low = seq + 1
        else:
            high = middle
    return (await _from(connection, high))[0]


async def _from(connection: AsyncConnection, seq: int) -> tuple[int, int]:
    """Number and time of the first entry of this number or a later one."""
    columns = select(audit.c.seq, audit.c.created_ms)
    statement = columns.where(audit.c.seq >= seq).order_by(audit.c.seq).limit(1)
    found = (await connection.execute(statement)).one()
    return int(found.seq), int(found.created_ms)
