"""Statements that run once for each of many rows: one on PostgreSQL, however many rows there are.

There the driver would send, and the server plan and run, a statement for each row, which took more
processor time than the rows themselves (benchmarks/scale.py). The rows are given as JSON instead,
which is a table to the statement. SQLite has no such costs, and runs its statement for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Text, bindparam, cast, column, func
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import ClauseElement
from sqlalchemy.types import TypeEngine

from solward.database.prepared import Prepared

# What the driver takes as text; the server reads it as JSON.
_ROWS: Final = "given_rows"

Make = Callable[[Mapping[str, ColumnElement[Any]]], ClauseElement]


class ForEachRow:
    """A statement for each of some rows, inside a transaction of `Database.write`.

    Args:
        columns: the fields of a row, with their types: text and integers.
        make: the statement, given where each field's value is.
    """

    def __init__(self, columns: Mapping[str, TypeEngine[Any]], make: Make) -> None:
        self._on_sqlite = Prepared(make({n: bindparam(n, type_=t) for n, t in columns.items()}))
        given = (
            func.json_to_recordset(cast(bindparam(_ROWS, type_=Text), JSON))
            .table_valued(*(column(name, type_) for name, type_ in columns.items()))
            .render_derived("given", with_types=True)
        )
        self._on_postgres = Prepared(make({name: given.c[name] for name in columns}))

    async def run(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it for each of `rows`, which have all its fields.

        Raises:
            sqlalchemy.exc.DBAPIError: as `Prepared`; where one row is refused all are.
        """
        if not rows:
            return
        if connection.dialect.name == "sqlite":
            await self._on_sqlite.many(connection, rows)
        else:
            text = msgspec.json.encode(rows).decode()
            await self._on_postgres.run(connection, {_ROWS: text})
