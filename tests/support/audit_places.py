"""Entries of the audit log by their place in it, from 1: PostgreSQL numbers them with gaps."""

from __future__ import annotations

from sqlalchemy import func, select

from solward.database.audit_tables import audit
from solward.database.database import Database


async def places(database: Database, *seqs: int) -> list[int]:
    """The places of the entries of these numbers; on SQLite the numbers are the places."""
    found = []
    async with database.read() as connection:
        for seq in seqs:
            count = select(func.count()).select_from(audit).where(audit.c.seq <= seq)
            found.append((await connection.execute(count)).scalar_one())
    assert database.shared or found == list(seqs)
    return found


async def seq_at(database: Database, place: int) -> int:
    """The number of the entry at a place."""
    async with database.read() as connection:
        found = select(audit.c.seq).order_by(audit.c.seq).offset(place - 1).limit(1)
        return (await connection.execute(found)).scalar_one()
