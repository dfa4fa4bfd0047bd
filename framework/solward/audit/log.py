"""The audit log's read side: entries in order, and whether every chain is whole.

Where its chains ended can stand in a file to keep elsewhere: `{chain: [number, hash]}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select, true, tuple_
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
from solward.database.tables import audit, audit_heads
from solward.support import jsontext
from solward.support.atomic_files import write_file
from solward.support.clock import iso
from solward.types.errors import AuditBroken, ConfigError

# Entries in memory at a time.
PAGE = 1000

# Rows before which none can appear any more.
SETTLED: dict[str, ColumnElement[bool]] = {
    "sqlite": true(),
    "postgresql": audit.c.seq < OPEN_FROM,
}
# Built once: making a statement costs more than running it on SQLite.
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
    """One row of the table, in its order; `data` is its canonical JSON text.

    Attributes:
        seq: its place in the order of all rows.
        chain: `wallet:<id>`, `agent:<id>`, or "" for what belongs to neither.
        number: its place in the chain, counted from 1.
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
        """For people and clients: `{seq, timestamp, event, data, chain, number, hash}`."""
        return {
            "seq": self.seq,
            "timestamp": iso(self.created_ms),
            "event": self.event,
            "data": jsontext.loads(self.data),
            "chain": self.chain,
            "number": self.number,
            "hash": self.hash,
        }


async def end(connection: AsyncConnection) -> int:
    """The `seq` of the newest entry before which none can appear any more; 0 when empty."""
    return int((await connection.execute(_END[connection.dialect.name])).scalar_one())


async def after(connection: AsyncConnection, seq: int, limit: int) -> list[AuditEntry]:
    """Up to `limit` entries, oldest first, of those above `seq`, without gaps."""
    statement = _AFTER[connection.dialect.name]
    rows = await connection.execute(statement, {"after": seq, "at_most": limit})
    return [AuditEntry(*row) for row in rows]


async def latest(
    connection: AsyncConnection, limit: int, before: int | None = None
) -> list[AuditEntry]:
    """Up to `limit` entries, newest first, of those below `before` that `after` gives too."""
    settled = SETTLED[connection.dialect.name]
    statement = select(audit).where(settled).order_by(audit.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.seq < before)
    return [AuditEntry(*row) for row in await connection.execute(statement)]


@dataclass(frozen=True, slots=True)
class Log:
    """A checked log: its entries, its chains' ends, and when it was written.

    Attributes:
        entries: how many there are.
        heads: chain -> where it ends.
        first_ms: when its oldest entry was written, in Unix milliseconds; None when it is empty.
        last_ms: when its newest entry was.
    """

    entries: int
    heads: Mapping[str, Head]
    first_ms: int | None
    last_ms: int | None

    @property
    def hash(self) -> str:
        """Where the chain of what belongs to no wallet or agent ends."""
        head = self.heads.get(SERVICE_CHAIN)
        return genesis(SERVICE_CHAIN) if head is None else head.hash

    @property
    def pruned(self) -> int:
        """How many older entries retention cut."""
        return sum(head.pruned_number for head in self.heads.values())


async def verify(connection: AsyncConnection, key: bytes | None = None) -> Log:
    """Check every chain, in the one state of the database that `connection` sees.

    Args:
        key: the audit key; without it the chains' ends are taken as they are.

    Raises:
        AuditBroken: naming the first row that was changed, is missing or does not belong.
    """
    ends = await heads(connection)
    at = {chain: _beginning(chain, head) for chain, head in ends.items()}
    # Of the chain without a name: what it had when the others were written.
    seen = {head.service_number: head.service_hash for head in ends.values()}
    entries, first_ms, last_ms = 0, None, None
    async for page in _pages(connection):
        for entry in page:
            if entry.chain not in at:
                raise AuditBroken(f"The audit log has a chain without a head: {entry.chain!r}")
            number, previous = at[entry.chain]
            expected = entry_hash(entry.seq, entry.created_ms, entry.event, entry.data, previous)
            genuine = (entry.number, entry.previous_hash, entry.hash)
            if genuine != (number + 1, previous, expected):
                # The number by which lists show it, or the one after it.
                place = "NO" if entry.number == number + 1 else "before NO"
                where = f"{place} {entry.seq} of `solward audit list`"
                raise AuditBroken(f"{_broken(entry.chain, number + 1)}, {where}")
            if entry.chain == SERVICE_CHAIN and seen.get(entry.number, entry.hash) != entry.hash:
                raise AuditBroken(f"{_broken(entry.chain, entry.number)}: another one was there")
            at[entry.chain] = (entry.number, entry.hash)
            entries += 1
            first_ms = entry.created_ms if first_ms is None else min(first_ms, entry.created_ms)
            last_ms = entry.created_ms if last_ms is None else max(last_ms, entry.created_ms)
    for chain, head in ends.items():
        if at[chain] != (head.number, head.hash):
            raise AuditBroken(f"{_broken(chain, at[chain][0] + 1)}: its end was cut or moved")
        if key is not None and not head.is_authentic(key, chain):
            raise AuditBroken(
                f"{_broken(chain, head.number)}: its end is not authenticated, so it was cut, "
                "moved or rewritten by somebody without the keystore's secret"
            )
    await _check_all_there(connection, ends)
    return Log(entries, ends, first_ms, last_ms)


async def _check_all_there(connection: AsyncConnection, ends: Mapping[str, Head]) -> None:
    """Find a chain that was taken back to an end it once had, or removed with all its traces."""
    service = ends.get(SERVICE_CHAIN, Head(0, GENESIS_HASH))
    for chain, head in ends.items():
        if head.service_number > service.number:
            raise AuditBroken(
                f"{_broken(SERVICE_CHAIN, service.number + 1)}: its end was cut after {chain!r} "
                f"was written, when it had {head.service_number} entries"
            )
    if connection.dialect.name == "sqlite":
        # Every entry ever written has one number of the log and one of its chain.
        written = int((await connection.execute(_END["sqlite"])).scalar_one())
        held = sum(head.number for head in ends.values())
        if held != written:
            raise AuditBroken(
                f"The audit log is broken: {written} entries were written and its chains have "
                f"{held}, so a chain was removed or cut back to an end that it once had"
            )


async def _pages(connection: AsyncConnection) -> AsyncGenerator[list[AuditEntry], None]:
    rows = await connection.execute(_BY_CHAIN, {"at_most": PAGE})
    while page := [AuditEntry(*row) for row in rows]:
        yield page
        last = {"b_chain": page[-1].chain, "b_number": page[-1].number}
        rows = await connection.execute(_FURTHER, {"at_most": PAGE} | last)


def _beginning(chain: str, head: Head) -> tuple[int, str]:
    if head.pruned_hash is None:
        return 0, genesis(chain)
    return head.pruned_number, head.pruned_hash


def _broken(chain: str, number: int) -> str:
    of = f" of {chain}" if chain else ""
    return f"The audit log is broken at entry {number}{of}"


async def heads(connection: AsyncConnection) -> dict[str, Head]:
    """chain -> where it ends, of every chain."""
    rows = await connection.execute(select(audit_heads).order_by(audit_heads.c.chain))
    return {chain: Head(*fields) for chain, *fields in rows}


async def find(connection: AsyncConnection, hash_: str) -> AuditEntry | None:
    """The entry with this hash, None when there is none."""
    row = (await connection.execute(select(audit).where(audit.c.hash == hash_))).first()
    return None if row is None else AuditEntry(*row)


async def continues(connection: AsyncConnection, log: Log, chain: str, head: Head) -> bool:
    """Whether a checked log continues a chain from where it once ended, unless retention cut it."""
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
) -> Log:
    """Check every chain, and that they continue those seen earlier.

    Args:
        earlier: the hash of an entry that must still be there.
        heads: where chains ended earlier.

    Raises:
        AuditBroken: naming the first entry that was changed, is missing or does not belong.
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
            if not await continues(connection, log, chain, head):
                raise AuditBroken(
                    f"The audit log does not continue chain {chain!r} as it was at entry "
                    f"{head.number}: it was cut or rewritten"
                )
        return log


def read_heads(path: Path) -> dict[str, Head]:
    """What `write` wrote.

    Raises:
        ConfigError: it cannot be read, or is no such file.
    """
    try:
        ends = jsontext.read(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        ends = None
    if not isinstance(ends, dict) or not all(map(_is_end, ends.values())):
        raise ConfigError(
            f"{path}: expected what `solward audit verify --save` wrote: "
            '{"chain": [number, "hash"], ...}'
        )
    return {chain: Head(number, hash_) for chain, (number, hash_) in ends.items()}


def write_heads(path: Path, heads: Mapping[str, Head]) -> None:
    """Write where chains end, for its owner only, durably and in place of an earlier file.

    Raises:
        ConfigError: it cannot be written.
    """
    text = json.dumps({chain: [head.number, head.hash] for chain, head in heads.items()}, indent=1)
    try:
        write_file(path, f"{text}\n".encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def _is_end(value: Any) -> bool:
    match value:
        case [int(number), str(hash_)]:
            return type(number) is int and number >= 0 and _HASH.fullmatch(hash_) is not None
    return False
