"""Makes the tables of a new database, and refuses a database with another schema.

Until 0.1.0 is released there is one schema and no migration. Its hash is stored in each database:
a database with another hash, or with tables and no hash, is refused and left unchanged.
"""

from __future__ import annotations

import hashlib
from functools import cache

from sqlalchemy import Connection, Index, create_mock_engine, insert, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from solward.database.tables import AFTERWARDS, metadata, schema_hash
from solward.types.errors import OtherSchema

# Event numbers derive from transaction ids. After a dump is restored into another cluster these
# start low again, so this raises the offset that is added to them.
_NEVER_BACK = text(
    "UPDATE audit_offset SET value = value + last.seq + 1 - (value + (last.xid << 16)) "
    "FROM (SELECT max(seq) AS seq, pg_current_xact_id()::text::bigint AS xid FROM audit) AS last "
    "WHERE last.seq >= value + (last.xid << 16)"
)


@cache
def statements(dialect: str) -> tuple[str, ...]:
    """Return the statements that make this version's tables, in order.

    Args:
        dialect: sqlite or postgresql.
    """
    compiler = create_mock_engine(f"{dialect}://", lambda _: None).dialect
    made: list[ExecutableDDLElement] = []
    for table in metadata.sorted_tables:
        made.append(CreateTable(table))
        made += map(CreateIndex, sorted(table.indexes, key=_index_order))
    # Releases of SQLAlchemy may break lines differently.
    texts = (" ".join(str(each.compile(dialect=compiler)).split()) for each in made)
    return (*texts, *(each for on, each in AFTERWARDS if on in (None, dialect)))


@cache
def schema_of(dialect: str) -> str:
    """Return the hash of this version's schema: SHA-256, hex, of the statements that make it."""
    return hashlib.sha256(";".join(statements(dialect)).encode()).hexdigest()


def _index_order(index: Index) -> tuple[bool, str]:
    """Sort key: partial indexes last. If two indexes fit a statement equally well, SQLite uses the
    one that was made last. SQLAlchemy keeps a table's indexes in a set, without an order.
    """
    return index.dialect_options["sqlite"]["where"] is not None, str(index.name)


async def has_schema(connection: AsyncConnection) -> bool:
    """Return whether the database has this version's schema; False if it is empty.

    Raises:
        OtherSchema: it has other tables. Nothing was changed.
    """
    return await connection.run_sync(_has_schema)


async def make_schema(connection: AsyncConnection) -> None:
    """Make the tables if the database is empty, inside the caller's write transaction.

    Raises:
        OtherSchema: as `has_schema`.
    """
    await connection.run_sync(_make_tables)
    if connection.dialect.name != "sqlite":
        await connection.execute(_NEVER_BACK)


def _has_schema(connection: Connection) -> bool:
    found = inspect(connection)
    tables = found.get_table_names()
    # PostgreSQL's extensions bring views.
    if not tables and not (connection.dialect.name == "sqlite" and found.get_view_names()):
        return False
    stored = select(schema_hash.c.hash)
    if schema_hash.name not in tables or [*connection.scalars(stored)] != [_own_hash(connection)]:
        raise OtherSchema
    return True


def _make_tables(connection: Connection) -> None:
    if not _has_schema(connection):
        for statement in statements(connection.dialect.name):
            connection.exec_driver_sql(statement)
        connection.execute(insert(schema_hash).values(hash=_own_hash(connection)))


def _own_hash(connection: Connection) -> str:
    return schema_of(connection.dialect.name)
