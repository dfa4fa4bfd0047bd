"""The statements that a database is given, by whatever way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any
from unittest import mock

from solward.database.database import Database


@asynccontextmanager
async def statements_of(database: Database) -> AsyncIterator[list[str]]:
    """What the transactions of a database execute inside the block, in order; of SQLite also what
    begins and ends them."""
    # So that there is a connection to listen to: connections stay open.
    async with database.read():
        pass
    with ExitStack() as stack:
        if database.shared:
            yield stack.enter_context(_of_psycopg())
            return
        opened = [database._sqlite_writer._opened, *database._sqlite_readers._free]
        seen: list[str] = []
        for each in opened:
            if each is not None:
                each.driver.set_trace_callback(_noting(seen))
                stack.callback(each.driver.set_trace_callback, None)
        yield seen


def _noting(seen: list[str]) -> Any:
    def note(statement: str) -> None:
        # A statement is named again for each trigger that it sets off.
        if not seen or seen[-1] != statement:
            seen.append(statement)

    return note


@contextmanager
def _of_psycopg() -> Iterator[list[str]]:
    import psycopg

    seen: list[str] = []
    execute, executemany = psycopg.AsyncCursor.execute, psycopg.AsyncCursor.executemany

    async def noted(self: Any, query: Any, *given: Any, **options: Any) -> Any:
        seen.append(str(query))
        return await execute(self, query, *given, **options)

    async def noted_many(self: Any, query: Any, rows: Any, **options: Any) -> Any:
        seen.append(str(query))
        return await executemany(self, query, rows, **options)

    with (
        mock.patch.object(psycopg.AsyncCursor, "execute", noted),
        mock.patch.object(psycopg.AsyncCursor, "executemany", noted_many),
    ):
        yield seen
