"""SQLite for asyncio without a thread hop for every statement.

A statement on a local WAL database takes tens of microseconds, less than a hop to a thread and
back; only the commit waits for the disk, so only it leaves the event loop
(`solward.database.sqlite_transactions`). Statements must stay
short: keyed reads and bounded pages, as all in `solward.vault.store` are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIModule
from sqlalchemy.pool import AsyncAdaptedQueuePool, Pool
from sqlalchemy.util import await_only

DRIVER = "sqlite+solward"

# The wait of a reader for another process; a writer's is in `sqlite_transactions`.
_BUSY_TIMEOUT_S = 5.0


class _Nothing:
    """Awaiting it takes no time; SQLAlchemy requires that an asynchronous driver awaits."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_NOTHING = _Nothing()


class _Cursor(sqlite3.Cursor):
    """What SQLAlchemy's asyncio layer requires of a cursor; rows are fetched as they are read."""

    async def _async_soft_close(self) -> None:
        return


class InlineConnection(sqlite3.Connection):
    """A connection of the standard library with these cursors."""

    def cursor(self, factory: Any = _Cursor) -> Any:
        """A new cursor."""
        return super().cursor(factory)


class InlineSQLite(SQLiteDialect_pysqlite):
    """pysqlite on the event loop's own thread."""

    driver = "solward"
    supports_statement_cache = True
    is_async = True

    @classmethod
    def import_dbapi(cls) -> DBAPIModule:
        """The standard library's driver."""
        return sqlite3  # type: ignore[return-value] # a module has no nominal type

    @classmethod
    def get_pool_class(cls, url: URL) -> type[Pool]:
        """The pool SQLAlchemy's asyncio engine needs."""
        return AsyncAdaptedQueuePool

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Run in the caller's thread."""
        cursor.execute(statement, parameters)
        await_only(_NOTHING)

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        """Run in the caller's thread."""
        cursor.executemany(statement, parameters)
        await_only(_NOTHING)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        """Run in the caller's thread."""
        cursor.execute(statement)
        await_only(_NOTHING)

    def do_begin(self, dbapi_connection: Any) -> None:
        """Nothing: `sqlite_transactions` begins and ends transactions."""


def on_connect(connection: sqlite3.Connection, *, writer: bool) -> None:
    """Make a new connection durable and strict: WAL with FULL survives a power loss."""
    # Explicit transactions only (SQLAlchemy's SQLite documentation, "Serializable isolation").
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        # What savepoints take back is in a temporary file otherwise.
        "temp_store = MEMORY",
        f"busy_timeout = {0 if writer else int(_BUSY_TIMEOUT_S * 1000)}",
    ):
        connection.execute(f"PRAGMA {pragma}")


registry.register("sqlite.solward", __name__, "InlineSQLite")
