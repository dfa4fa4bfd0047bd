"""The audit log's tables, and the metadata that every table of the service's database joins.

One database, three modules: the audit log's tables are here, the vault's in
`solward.database.tables`, those of agents and API keys in `solward.database.service_tables`.
Times are integer milliseconds since the Unix epoch, identifiers text. The alembic migrations create
exactly these (tested).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Kinds that are written by the thousand, each where an agent thinks or money moves.
FREQUENT = (
    "agent:decision",
    "payment:answered",
    "payment:handed_over",
    "schedule:run",
    "transaction:confirmed",
    "transaction:pending",
)
# All others: what people changed, what was refused, what went wrong. As text, because the index of
# them is used only by a query that has the same words.
RARE = text(f"event NOT IN ({', '.join(map(repr, FREQUENT))})")

# `seq` orders all of it; `number` counts within a chain, and the hashes run along the chain.
audit = Table(
    "audit",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("chain", Text, nullable=False, server_default=""),
    Column("number", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Index(None, "chain", "number", unique=True),
    # Nothing is written to it where money moves.
    Index("ix_audit_rare", "seq", sqlite_where=RARE, postgresql_where=RARE),
)

# Where each chain ends, and what retention has cut from its beginning. Appending locks the row,
# and a chain cut short no longer fits it. `mac` authenticates it: `solward.database.audit_heads`.
audit_heads = Table(
    "audit_heads",
    metadata,
    Column("chain", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("pruned_number", BigInteger, nullable=False, server_default="0"),
    Column("pruned_hash", Text),
    Column("service_number", BigInteger, nullable=False, server_default="0"),
    Column("service_hash", Text),
    Column("mac", Text),
)

# One row: what PostgreSQL adds to its transaction ids so that `seq` never goes back, not even
# where a dump was restored into another cluster.
audit_offset = Table(
    "audit_offset",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False),
)
