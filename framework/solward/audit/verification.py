"""Whether the audit log is whole, and continues what was seen of it earlier."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from sqlalchemy import bindparam, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.chains import SERVICE_CHAIN, AuditEntry, entry_hash, entry_of, genesis
from solward.audit.tables import audit, audit_heads
from solward.errors import AuditBroken

# Entries in memory at a time.
PAGE = 1000

_BY_CHAIN = select(audit).order_by(audit.c.chain, audit.c.number).limit(bindparam("at_most"))
_FURTHER = _BY_CHAIN.where(
    tuple_(audit.c.chain, audit.c.number) > tuple_(bindparam("b_chain"), bindparam("b_number"))
)


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends, and after which entry it begins now that retention cut the rest.

    Attributes:
        number: of its last entry; 0 when it has none.
        pruned_hash: the hash of entry `pruned_number`, None while nothing was cut.
    """

    number: int
    hash: str
    pruned_number: int = 0
    pruned_hash: str | None = None


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


async def verify(connection: AsyncConnection) -> Log:
    """Check every chain, in the one state of the database that `connection` sees.

    Raises:
        AuditBroken: naming the first row that was changed, is missing or does not belong.
    """
    ends = await heads(connection)
    at = {chain: _beginning(chain, head) for chain, head in ends.items()}
    entries, first_ms, last_ms = 0, None, None
    async for page in _pages(connection):
        for entry in page:
            if entry.chain not in at:
                raise AuditBroken(f"The audit log has a chain without a head: {entry.chain!r}")
            number, previous = at[entry.chain]
            expected = entry_hash(entry.seq, entry.created_ms, entry.event, entry.data, previous)
            genuine = (entry.number, entry.previous_hash, entry.hash)
            if genuine != (number + 1, previous, expected):
                raise AuditBroken(_broken(entry.chain, number + 1))
            at[entry.chain] = (entry.number, entry.hash)
            entries += 1
            first_ms = entry.created_ms if first_ms is None else min(first_ms, entry.created_ms)
            last_ms = entry.created_ms if last_ms is None else max(last_ms, entry.created_ms)
    for chain, head in ends.items():
        if at[chain] != (head.number, head.hash):
            raise AuditBroken(f"{_broken(chain, at[chain][0] + 1)}: its end was cut or moved")
    return Log(entries, ends, first_ms, last_ms)


async def _pages(connection: AsyncConnection) -> AsyncGenerator[list[AuditEntry], None]:
    rows = await connection.execute(_BY_CHAIN, {"at_most": PAGE})
    while page := [entry_of(row) for row in rows.mappings()]:
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
    rows = (await connection.execute(select(audit_heads).order_by(audit_heads.c.chain))).all()
    return {
        row.chain: Head(row.number, row.hash, row.pruned_number, row.pruned_hash) for row in rows
    }


async def find(connection: AsyncConnection, hash_: str) -> AuditEntry | None:
    """The entry with this hash, None when there is none."""
    row = (await connection.execute(select(audit).where(audit.c.hash == hash_))).mappings().first()
    return None if row is None else entry_of(row)


async def continues(connection: AsyncConnection, log: Log, chain: str, head: Head) -> bool:
    """Whether a checked log still holds a chain as it once ended; what retention cut, it does."""
    now = log.heads.get(chain)
    if now is None or now.number < head.number:
        return False
    if head.number == 0 or head.number < now.pruned_number:
        return True
    if head.number == now.pruned_number:
        return head.hash == now.pruned_hash
    entry = await find(connection, head.hash)
    return entry is not None and (entry.chain, entry.number) == (chain, head.number)
