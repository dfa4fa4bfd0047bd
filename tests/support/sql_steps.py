"""What the drivers are asked to run, and what it costs SQLite, counted below SQLAlchemy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import psycopg

from solward.database import sqlite

# The progress handler is called once for so many steps of SQLite's virtual machine.
_GRAIN = 10


class Statements:
    """What ran since the last `clear`.

    Attributes:
        seen: statement -> its parameters when it ran first.
        steps: statement -> steps of SQLite's virtual machine, in all of its runs; none elsewhere.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}
        self.steps: dict[str, int] = {}
        self._runs: dict[int, str] = {}

    def clear(self) -> None:
        """Forget what ran."""
        self.seen.clear()
        self.steps.clear()

    def note(self, statement: str, parameters: Any) -> None:
        self.seen.setdefault(statement, parameters)

    def on_sqlite(self, connection: sqlite3.Connection, statement: str, parameters: Any) -> None:
        if id(connection) not in self._runs:
            connection.set_progress_handler(lambda: self._step(id(connection)), _GRAIN)
        self._runs[id(connection)] = statement
        self.note(statement, parameters)

    def _step(self, connection: int) -> int:
        statement = self._runs[connection]
        self.steps[statement] = self.steps.get(statement, 0) + _GRAIN
        return 0


@contextmanager
def recorded_statements() -> Iterator[Statements]:
    """Record what connections that are opened in the block run, on both drivers."""
    found = Statements()

    class Cursor(sqlite._Cursor):
        def execute(self, statement: str, parameters: Any = ()) -> Any:
            found.on_sqlite(self.connection, statement, parameters)
            return super().execute(statement, parameters)

        def executemany(self, statement: str, rows: Any) -> Any:
            rows = list(rows)
            found.on_sqlite(self.connection, statement, rows[0] if rows else ())
            return super().executemany(statement, rows)

    class Connection(sqlite.InlineConnection):
        # As `solward.database.prepared` runs statements; these ask no cursor of ours.
        def execute(self, statement: str, parameters: Any = ()) -> Any:
            found.on_sqlite(self, statement, parameters)
            return super().execute(statement, parameters)

        def executemany(self, statement: str, rows: Any) -> Any:
            rows = list(rows)
            found.on_sqlite(self, statement, rows[0] if rows else ())
            return super().executemany(statement, rows)

        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

    execute, many = psycopg.AsyncCursor.execute, psycopg.AsyncCursor.executemany

    async def note_execute(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        found.note(str(query), params)
        return await execute(self, query, params, **more)

    async def note_many(self: Any, query: Any, params_seq: Any, **more: Any) -> Any:
        rows = list(params_seq)
        found.note(str(query), rows[0] if rows else None)
        return await many(self, query, rows, **more)

    with (
        mock.patch.object(sqlite, "InlineConnection", Connection),
        mock.patch.object(psycopg.AsyncCursor, "execute", note_execute),
        mock.patch.object(psycopg.AsyncCursor, "executemany", note_many),
    ):
        yield found
