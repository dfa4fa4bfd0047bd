"""Databases as earlier releases left them, on SQLite and on PostgreSQL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData, create_engine, func, insert, select, text
from tests.support import databases

from solward import jsontext
from solward.vault.store.schema import MIGRATIONS

OLD_AUDIT = ("seq", "created_ms", "event", "data", "previous_hash", "hash")


@contextmanager
def connected(home: Path) -> Iterator[Connection]:
    """The database of a home, past Solward's own store; committed at the end."""
    engine = create_engine(databases.plain_url(home))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def rows_of(home: Path, statement: str) -> list[tuple[Any, ...]]:
    """What a statement finds."""
    with connected(home) as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def tables_of(connection: Connection) -> MetaData:
    """The tables a database has."""
    found = MetaData()
    found.reflect(connection)
    return found


def make_at(home: Path, revision: str) -> None:
    """Bring a new database to one revision and no further."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    empty(home)
    with connected(home) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == revision


def empty(home: Path) -> None:
    """Leave nothing of a home's database."""
    for file in home.glob("solward.db*"):
        file.unlink()
    if databases.ON_POSTGRES:
        with connected(home) as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
    else:
        (home / "solward.db").touch(0o600)


def taken_back(home: Path, revision: str) -> None:
    """Put what the database holds into one of `revision`, without what that did not have."""
    with connected(home) as connection:
        new = tables_of(connection)
        rows: dict[str, list[dict[str, Any]]] = {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in new.sorted_tables
        }
    make_at(home, revision)
    with connected(home) as connection:
        old = tables_of(connection)
        for table in old.sorted_tables:
            if table.name.startswith(("audit", "alembic")):
                continue
            names = {column.name for column in table.columns}
            assert names <= {column.name for column in new.tables[table.name].columns}
            for row in rows[table.name]:
                connection.execute(insert(table).values({name: row[name] for name in names}))
        one_chain(connection, old, sorted(rows["audit"], key=lambda row: int(row["seq"])))
        if databases.ON_POSTGRES:
            count_on(connection, old)
        assert len(old.tables["agents"].columns) < len(new.tables["agents"].columns)


def one_chain(connection: Connection, old: MetaData, entries: list[dict[str, Any]]) -> None:
    """The audit log as the first releases wrote it: one chain of all, whose numbers are hashed."""
    seq, previous = 0, "0" * 64
    for entry in entries:
        seq += 1
        row = {name: entry[name] for name in OLD_AUDIT} | {"seq": seq, "previous_hash": previous}
        hashed = [seq, row["created_ms"], row["event"], row["data"], previous]
        previous = hashlib.sha256(jsontext.dumps(hashed, canonical=True).encode()).hexdigest()
        connection.execute(insert(old.tables["audit"]).values(row | {"hash": previous}))
    head = {"id": 1, "seq": seq, "hash": previous}
    connection.execute(insert(old.tables["audit_head"]).values(head))


def count_on(connection: Connection, tables: MetaData) -> None:
    """Let what PostgreSQL numbers go on after the rows that are there."""
    for table in tables.sorted_tables:
        for column in table.primary_key.columns:
            sequence = connection.scalar(
                select(func.pg_get_serial_sequence(table.name, column.name))
            )
            if sequence is not None:
                connection.execute(select(func.setval(sequence, func.max(column))))
