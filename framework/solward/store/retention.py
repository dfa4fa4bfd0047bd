"""Deletes what is older than it is to be kept, oldest first, a batch a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any

from sqlalchemy import bindparam, delete, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.tables import audit, audit_heads
from solward.store.tables import decisions

_OLD_DECISIONS = (
    select(decisions.c.agent_id, decisions.c.cycle)
    .where(decisions.c.created_ms < bindparam("before"))
    .order_by(decisions.c.created_ms)
    .limit(bindparam("at_most"))
)
_CUT_DECISIONS = delete(decisions).where(
    tuple_(decisions.c.agent_id, decisions.c.cycle).in_(_OLD_DECISIONS)
)

# The newest entry of all stays: the next one's `seq` is counted from it.
_OLDEST = (
    select(audit.c.seq, audit.c.chain, audit.c.number, audit.c.created_ms, audit.c.hash)
    .where(
        audit.c.seq > bindparam("after"),
        audit.c.seq < select(func.max(audit.c.seq)).scalar_subquery(),
    )
    .order_by(audit.c.seq)
    .limit(bindparam("at_most"))
)
# In the order of whoever appends to them.
_LOCK_HEADS = (
    select(audit_heads.c.chain, audit_heads.c.number, audit_heads.c.pruned_number)
    .where(audit_heads.c.chain.in_(bindparam("of_chains", expanding=True)))
    .order_by(audit_heads.c.chain)
    .with_for_update(of=audit_heads)
)
_CUT_CHAIN = (
    update(audit_heads)
    .where(audit_heads.c.chain == bindparam("b_chain"))
    .values(pruned_number=bindparam("b_number"), pruned_hash=bindparam("b_hash"))
)
_CUT_ENTRIES = delete(audit).where(audit.c.seq.in_(bindparam("seqs", expanding=True)))


@dataclass(frozen=True, slots=True)
class Cut:
    """What a batch did: `last_seq` is where the next one goes on, None when there is none."""

    deleted: int
    last_seq: int | None


async def cut_decisions(connection: AsyncConnection, before_ms: int, at_most: int) -> int:
    """Delete up to `at_most` decisions made before a time; returns how many it did."""
    given = {"before": before_ms, "at_most": at_most}
    return int((await connection.execute(_CUT_DECISIONS, given)).rowcount)


async def cut_events(
    connection: AsyncConnection, before_ms: int, after_seq: int, at_most: int
) -> Cut:
    """Cut chains of the audit log at their beginnings, looking at `at_most` entries above a `seq`.

    Only what is older than `before_ms`, and never a chain's last entry. Each chain's head notes
    after which entry the chain begins now.
    """
    given = {"after": after_seq, "at_most": at_most}
    page = (await connection.execute(_OLDEST, given)).all()
    old = sorted(
        (row for row in page if row.created_ms < before_ms), key=lambda row: (row.chain, row.number)
    )
    if not old:
        return Cut(0, None)
    chains = {row.chain for row in old}
    rows = await connection.execute(_LOCK_HEADS, {"of_chains": sorted(chains)})
    heads = {row.chain: row for row in rows}
    cuts = [
        _from_beginning(heads[chain], list(entries))
        for chain, entries in groupby(old, key=lambda row: row.chain)
        if chain in heads
    ]
    ends = [
        {"b_chain": cut[-1].chain, "b_number": cut[-1].number, "b_hash": cut[-1].hash}
        for cut in cuts
        if cut
    ]
    seqs = [row.seq for cut in cuts for row in cut]
    if seqs:
        await connection.execute(_CUT_CHAIN, ends)
        await connection.execute(_CUT_ENTRIES, {"seqs": seqs})
    return Cut(len(seqs), int(page[-1].seq))


def _from_beginning(head: Any, entries: list[Any]) -> list[Any]:
    """Those of a chain that are its first ones without a gap: what follows one that stays, stays,
    and so does the last."""
    numbered = enumerate(entries, head.pruned_number + 1)
    return [
        row for _number, row in takewhile(lambda e: e[0] == e[1].number < head.number, numbered)
    ]
