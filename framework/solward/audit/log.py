"""Reads entries of the audit log, in order or by a filter, and checks the log's chains.

The ends of the chains can be written to a file, `{chain: [number, hash]}`, to store elsewhere.

A page of a filtered search reads at most `WALKED` entries, and says where the next page begins. A
search for rare kinds only reads entries of these kinds. Frequent kinds have no index, because every
payment would have to write it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import ColumnElement, and_, bindparam, func, or_, select, text, true, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.outbox import (
    GENESIS_HASH,
    OPEN_FROM,
    SERVICE_CHAIN,
    Head,
    entry_hash,
    genesis,
)
from solward.database.tables import FREQUENT, RARE, audit, audit_heads
from solward.support import jsontext
from solward.support.atomic_files import write_file
from solward.support.clock import iso
from solward.types.errors import AuditBroken, ConfigError

# The maximum number of entries in memory at a time.
PAGE = 1000

# Settled rows: no new row can get a place before them.
SETTLED: dict[str, ColumnElement[bool]] = {
    "sqlite": true(),
    "postgresql": audit.c.seq < OPEN_FROM,
}
# Built once, because building a statement costs more than running it on SQLite.
_AFTER = {
    name: select(audit)
    .where(audit.c.seq > bindparam("after"), settled)
    .order_by(audit.c.seq)
    .limit(bindparam("at_most"))
    for name, settled in SETTLED.items()
}
_END = {
    name: select(func.coalesce(func.max(audit.c.seq), 0)).where(settled)
    for name, settled in SETTLED.items()
}
_BY_CHAIN = select(audit).order_by(audit.c.chain, audit.c.number).limit(bindparam("at_most"))
_FURTHER = _BY_CHAIN.where(
    tuple_(audit.c.chain, audit.c.number) > tuple_(bindparam("b_chain"), bindparam("b_number"))
)

_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the audit log: one row of its table, in the order of the columns.

    Attributes:
        seq: the entry's place in the order of all rows.
        chain: `wallet:<id>`, `agent:<id>`, or "" for an entry that belongs to neither.
        number: the entry's place in its chain, counted from 1.
        data: canonical JSON text.
    """

    seq: int
    chain: str
    number: int
    created_ms: int
    event: str
    data: str
    previous_hash: str
    hash: str

    def to_json(self) -> dict[str, Any]:
        """Return `{seq, timestamp, event, data, chain, number, hash}`."""
        return {
            "seq": self.seq,
            "timestamp": iso(self.created_ms),
            "event": self.event,
            "data": jsontext.loads(self.data),
            "chain": self.chain,
            "number": self.number,
            "hash": self.hash,
        }


async def newest_seq(connection: AsyncConnection) -> int:
    """Return the `seq` of the newest settled entry; 0 if the log is empty."""
    return int((await connection.execute(_END[connection.dialect.name])).scalar_one())


async def entries_after(connection: AsyncConnection, seq: int, limit: int) -> list[AuditEntry]:
    """Return up to `limit` entries above `seq`, oldest first and without gaps."""
    statement = _AFTER[connection.dialect.name]
    rows = await connection.execute(statement, {"after": seq, "at_most": limit})
    return [AuditEntry(*row) for row in rows]


async def newest_entries(
    connection: AsyncConnection, limit: int, before: int | None = None
) -> list[AuditEntry]:
    """Return up to `limit` settled entries below `before`, newest first."""
    settled = SETTLED[connection.dialect.name]
    statement = select(audit).where(settled).order_by(audit.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.seq < before)
    return [AuditEntry(*row) for row in await connection.execute(statement)]


@dataclass(frozen=True, slots=True)
class CheckedLog:
    """The result of checking a log: number of entries, ends of chains, and times.

    Attributes:
        entries: the number of entries.
        heads: chain -> the end of the chain.
        first_ms: time of the oldest entry, in Unix milliseconds; None if the log is empty.
        last_ms: time of the newest entry.
    """

    entries: int
    heads: Mapping[str, Head]
    first_ms: int | None
    last_ms: int | None

    @property
    def hash(self) -> str:
        """The hash at the end of the chain of entries that belong to no wallet or agent."""
        head = self.heads.get(SERVICE_CHAIN)
        return genesis(SERVICE_CHAIN) if head is None else head.hash

    @property
    def pruned(self) -> int:
        """The number of older entries that retention deleted."""
        return sum(head.pruned_number for head in self.heads.values())


async def verify(connection: AsyncConnection, key: bytes | None = None) -> CheckedLog:
    """Check every chain in the state of the database that `connection` sees.

    Args:
        key: the audit key; without it the chains' ends are not authenticated.

    Raises:
        AuditBroken: a row was changed, is missing or does not belong; names the first one.
    """
    ends = await heads(connection)
    at = {chain: _chain_start(chain, head) for chain, head in ends.items()}
    # Entries of the service's chain (number -> hash) at the times when other chains were written.
    seen = {head.service_number: head.service_hash for head in ends.values()}
    entries, first_ms, last_ms = 0, None, None
    async for page in _read_pages(connection):
        for entry in page:
            if entry.chain not in at:
                raise AuditBroken(f"The audit log has a chain without a head: {entry.chain!r}")
            number, previous = at[entry.chain]
            expected = entry_hash(entry.seq, entry.created_ms, entry.event, entry.data, previous)
            genuine = (entry.number, entry.previous_hash, entry.hash)
            if genuine != (number + 1, previous, expected):
                # Lists show `seq`: that of this entry, or of the entry after a missing one.
                place = "NO" if entry.number == number + 1 else "before NO"
                where = f"{place} {entry.seq} of `solward audit list`"
                raise AuditBroken(f"{_broken_at(entry.chain, number + 1)}, {where}")
            if entry.chain == SERVICE_CHAIN and seen.get(entry.number, entry.hash) != entry.hash:
                raise AuditBroken(f"{_broken_at(entry.chain, entry.number)}: it was replaced")
            at[entry.chain] = (entry.number, entry.hash)
            entries += 1
            first_ms = entry.created_ms if first_ms is None else min(first_ms, entry.created_ms)
            last_ms = entry.created_ms if last_ms is None else max(last_ms, entry.created_ms)
    for chain, head in ends.items():
        if at[chain] != (head.number, head.hash):
            raise AuditBroken(f"{_broken_at(chain, at[chain][0] + 1)}: its end was cut or moved")
        if key is not None and not head.is_authentic(key, chain):
            raise AuditBroken(
                f"{_broken_at(chain, head.number)}: the chain's end is not authenticated, so it "
                "was cut, moved or rewritten by somebody without the keystore's secret"
            )
    await _check_no_chain_removed(connection, ends)
    return CheckedLog(entries, ends, first_ms, last_ms)


async def _check_no_chain_removed(connection: AsyncConnection, ends: Mapping[str, Head]) -> None:
    """Raise `AuditBroken` if a chain was removed or cut back to one of its earlier ends."""
    service = ends.get(SERVICE_CHAIN, Head(0, GENESIS_HASH))
    for chain, head in ends.items():
        if head.service_number > service.number:
            raise AuditBroken(
                f"{_broken_at(SERVICE_CHAIN, service.number + 1)}: the chain's end was cut: it had "
                f"{head.service_number} entries when {chain!r} was written"
            )
    if connection.dialect.name == "sqlite":
        # Each entry ever written is counted once in the log and once in its chain.
        written = int((await connection.execute(_END["sqlite"])).scalar_one())
        held = sum(head.number for head in ends.values())
        if held != written:
            raise AuditBroken(
                f"The audit log is broken: {written} entries were written, but its chains have "
                f"{held}: a chain was removed or cut back to an earlier end"
            )


async def _read_pages(connection: AsyncConnection) -> AsyncGenerator[list[AuditEntry], None]:
    rows = await connection.execute(_BY_CHAIN, {"at_most": PAGE})
    while page := [AuditEntry(*row) for row in rows]:
        yield page
        last = {"b_chain": page[-1].chain, "b_number": page[-1].number}
        rows = await connection.execute(_FURTHER, {"at_most": PAGE} | last)


def _chain_start(chain: str, head: Head) -> tuple[int, str]:
    if head.pruned_hash is None:
        return 0, genesis(chain)
    return head.pruned_number, head.pruned_hash


def _broken_at(chain: str, number: int) -> str:
    of = f" of {chain}" if chain else ""
    return f"The audit log is broken at entry {number}{of}"


async def heads(connection: AsyncConnection) -> dict[str, Head]:
    """Return the head of every chain."""
    rows = await connection.execute(select(audit_heads).order_by(audit_heads.c.chain))
    return {chain: Head(*fields) for chain, *fields in rows}


async def find(connection: AsyncConnection, hash_: str) -> AuditEntry | None:
    """Return the entry with this hash, or None."""
    row = (await connection.execute(select(audit).where(audit.c.hash == hash_))).first()
    return None if row is None else AuditEntry(*row)


async def has_head(connection: AsyncConnection, log: CheckedLog, chain: str, head: Head) -> bool:
    """Return whether a chain of a checked log still contains its earlier head.

    A head that retention has deleted meanwhile counts as continued.
    """
    now = log.heads.get(chain)
    if now is None or now.number < head.number:
        return False
    if head.number == 0 or head.number < now.pruned_number:
        return True
    if head.number == now.pruned_number:
        return head.hash == now.pruned_hash
    entry = await find(connection, head.hash)
    return entry is not None and (entry.chain, entry.number) == (chain, head.number)


async def verify_against(
    database: Database, earlier: str | None = None, heads: Mapping[str, Head] | None = None
) -> CheckedLog:
    """Check every chain, and that the chains still contain their earlier ends.

    Args:
        earlier: the hash of an entry that must still be in the log.
        heads: earlier ends of chains.

    Raises:
        AuditBroken: an entry was changed, is missing or does not belong; names the first one.
    """
    async with database.read() as connection:
        log = await verify(connection, database.audit_key)
        named = earlier is not None and earlier != GENESIS_HASH
        if named and await find(connection, str(earlier)) is None:
            raise AuditBroken(
                f"The audit log has no entry with the hash {earlier}: it was cut or "
                "rewritten, or the entry is older than EVENT_RETENTION_DAYS"
            )
        for chain, head in (heads or {}).items():
            if not await has_head(connection, log, chain, head):
                raise AuditBroken(
                    f"The audit log does not continue chain {chain!r} as it was at entry "
                    f"{head.number}: it was cut or rewritten"
                )
        return log


def read_heads(path: Path) -> dict[str, Head]:
    """Read the heads of chains from a file that `write_heads` wrote.

    Raises:
        ConfigError: the file cannot be read, or has another form.
    """
    try:
        ends = jsontext.read(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        ends = None
    if not isinstance(ends, dict) or not all(map(_is_stored_head, ends.values())):
        raise ConfigError(
            f"{path}: expected what `solward audit verify --save` wrote: "
            '{"chain": [number, "hash"], ...}'
        )
    return {chain: Head(number, hash_) for chain, (number, hash_) in ends.items()}


def write_heads(path: Path, heads: Mapping[str, Head]) -> None:
    """Write the heads of chains durably, readable by the owner only; replace an earlier file.

    Raises:
        ConfigError: the file cannot be written.
    """
    text = json.dumps({chain: [head.number, head.hash] for chain, head in heads.items()}, indent=1)
    try:
        write_file(path, f"{text}\n".encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def _is_stored_head(value: Any) -> bool:
    match value:
        case [int(number), str(hash_)]:
            return type(number) is int and number >= 0 and _HASH.fullmatch(hash_) is not None
    return False


WALKED: Final = 10_000
"""The maximum number of entries that one page reads."""
# Entries are in the order of their commits, but their times are from several machines' clocks.
_CLOCKS_MS: Final = 10 * 60_000
_RARE: Final = cast("ColumnElement[bool]", text(RARE))


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions that entries must meet; a field that is None or empty sets no condition.

    Attributes:
        kinds: the entry has one of these kinds (`EventKind`).
        wallet_id: the entry is in the wallet's chain, or has this `walletId`.
        agent_id: the entry is in the agent's chain, or has this `agentId`.
        principal: the principal that the entry names, such as `admin` or `key:<id>`.
        about: the entry is of the record, hold or payment with this id, or led to the record.
        since_ms, until_ms: the entry's time is at least the first, and below the second.
    """

    kinds: frozenset[str] = field(default_factory=frozenset)
    wallet_id: str | None = None
    agent_id: str | None = None
    principal: str | None = None
    about: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def fits(self, entry: AuditEntry) -> bool:
        """Return whether an entry meets the filter's conditions."""
        if self.kinds and entry.event not in self.kinds:
            return False
        if self.since_ms is not None and entry.created_ms < self.since_ms:
            return False
        if self.until_ms is not None and entry.created_ms >= self.until_ms:
            return False
        data = jsontext.loads(entry.data)
        ids = (_value_at(data, "id"), _value_at(data, "transactionId"))
        if self.about is not None and self.about not in ids:
            return False
        return all(
            (chain is not None and entry.chain == chain) or _value_at(data, name) == value
            for chain, name, value in self._name_conditions()
        )

    def _name_conditions(self) -> list[tuple[str | None, str, str]]:
        """Return a tuple (chain, data field, value) for each id or principal in the filter."""
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
        """Return SQL conditions that all matching entries meet, and few other entries."""
        found: list[ColumnElement[bool]] = []
        if self.kinds:
            found.append(audit.c.event.in_(sorted(self.kinds)))
        if self.since_ms is not None:
            found.append(audit.c.created_ms >= self.since_ms)
        if self.until_ms is not None:
            found.append(audit.c.created_ms < self.until_ms)
        # Searches the text, because PostgreSQL cannot read all JSON; `fits` decides.
        place = func.instr if dialect == "sqlite" else func.strpos
        if self.about is not None:
            about = jsontext.dumps_own(self.about, canonical=True)
            found.append(place(audit.c.data, about) > 0)
        for chain, name, value in self._name_conditions():
            text = jsontext.dumps_own({name: value}, canonical=True)[1:-1]
            named = place(audit.c.data, text) > 0
            found.append(named if chain is None else or_(audit.c.chain == chain, named))
        return found


def _value_at(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, dict) else None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Matching entries, newest first.

    Attributes:
        next: the `before` of the next page; None if no page follows. Another page may follow even a
            page with fewer entries than the limit, or none.
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
    """Return a page of the entries numbered below `before` and above `after`."""
    if wanted == AuditFilter() and not after:
        entries = tuple(await newest_entries(connection, limit, before))
        return AuditPage(entries, entries[-1].seq if len(entries) == limit else None)
    if wanted.until_ms is not None:
        until = await _first_seq_since(connection, wanted.until_ms + _CLOCKS_MS)
        before = before if until is None else min(until, before or until)
    if wanted.since_ms is not None:
        since = await _first_seq_since(connection, wanted.since_ms - _CLOCKS_MS)
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


async def _first_seq_since(connection: AsyncConnection, ms: int) -> int | None:
    """Return the number of the first entry written at `ms` or later, or None.

    It is a binary search, which assumes that the entries' times never go back.
    """
    newest = (
        await connection.execute(
            select(audit.c.seq, audit.c.created_ms).order_by(audit.c.seq.desc()).limit(1)
        )
    ).first()
    if newest is None or newest.created_ms < ms:
        return None
    # All entries below `low` are earlier than `ms`, and the entry at `high` is not.
    low, high = 0, int(newest.seq)
    while low < high:
        middle = (low + high) // 2
        seq, created_ms = await _first_entry_from(connection, middle)
        if created_ms < ms:
            low = seq + 1
        else:
            high = middle
    return (await _first_entry_from(connection, high))[0]


async def _first_entry_from(connection: AsyncConnection, seq: int) -> tuple[int, int]:
    """Return the number and time of the first entry whose number is at least `seq`."""
    columns = select(audit.c.seq, audit.c.created_ms)
    statement = columns.where(audit.c.seq >= seq).order_by(audit.c.seq).limit(1)
    found = (await connection.execute(statement)).one()
    return int(found.seq), int(found.created_ms)
