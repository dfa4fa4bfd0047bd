"""Statements of SQLAlchemy Core that are compiled once and run on the database's driver.

Core also compiles a statement only once, but its work around each execution takes several times as
long as SQLite needs for a keyed read. A `Prepared` statement does this work at its first use and
stores the result: text, order and types of the parameters, names and types of the columns. Use it
for statements that run for every transaction, cycle or request, and Core itself for all others.

Four rows of `python -m benchmarks rest` need it. By Core alone they came to 0.104 (transfers, limit
0.1), 0.441 (POST wallets, 0.45), 0.414 (GET transactions, 0.44) and 0.315 (GET wallets, 0.35), and
in the same hour to 0.121, 0.491, 0.485 and 0.461 with this module.

`ForEachRow` runs one statement on PostgreSQL for any number of rows, which it passes as one JSON
value that the statement reads as a table. One statement for each row would have to be sent, planned
and run each time, which took more processor time than the rows themselves (benchmarks/scale.py).
SQLite has no such costs, so there the statement runs once for each row.
"""

from __future__ import annotations

import operator
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Insert,
    Table,
    Text,
    Update,
    bindparam,
    cast,
    column,
    func,
    insert,
    select,
)
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import ClauseElement, visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

Row: TypeAlias = Any
"""A named tuple whose fields are the statement's columns, as in a row of SQLAlchemy Core."""

_Parameters: TypeAlias = Mapping[str, Any]
_Process: TypeAlias = Callable[[Any], Any]
_Take: TypeAlias = Callable[[_Parameters], Any]
"""Returns one of the driver's parameters from the caller's parameters."""

_NONE: _Parameters = MappingProxyType({})
# Lists of parameters are padded with their last value to one of a few lengths, so that few texts
# are cached for any number of lengths.
_STEP = 64

# What the driver takes as text; the server reads it as JSON.
_ROWS: Final = "given_rows"

Make = Callable[[Mapping[str, ColumnElement[Any]]], ClauseElement]


class _Plan:
    """A statement compiled for one dialect and for certain lengths of its lists."""

    def __init__(
        self,
        statement: ClauseElement,
        dialect: Dialect,
        given: _Parameters,
        lists: frozenset[str],
    ) -> None:
        self._dialect = dialect
        # `returning` is used only if the statement has it, and never added for generated keys.
        is_dml = isinstance(statement, Insert | Update)
        self._columns = tuple(getattr(statement, "exported_columns", ()))
        compiled = statement.compile(
            dialect=dialect,
            column_keys=list(given) if is_dml else None,
            for_executemany=is_dml and not self._columns,
        )
        assert isinstance(compiled, SQLCompiler)
        if unknown := given.keys() - compiled.binds.keys():
            raise InvalidRequestError(f"The statement has no parameter {sorted(unknown)}")
        state = compiled.construct_expanded_state(
            {name: _pad_list(v) if name in lists else v for name, v in given.items()}
        )
        self.text = state.statement
        expanded = {
            name: (source, index)
            for source, names in state.parameter_expansion.items()
            for index, name in enumerate(names)
        }
        self.is_sqlite = dialect.name == "sqlite"
        self._is_positional = compiled.positional
        self._names = tuple(state.positiontup or () if compiled.positional else state.parameters)
        takes: list[_Take] = []
        plain: list[str] = []
        for name in self._names:
            source, index = expanded.get(name, (name, None))
            process: _Process | None = (
                compiled.binds[source].type.dialect_impl(dialect).bind_processor(dialect)
            )
            if source in given:
                takes.append(_parameter_getter(source, index, process))
                if index is None and process is None:
                    plain.append(source)
            else:
                value = state.parameters[name]
                takes.append(_constant_getter(value if process is None else process(value)))
        self._takes = takes
        # Takes all values at once, where each is just as it is given; of one name an itemgetter
        # gives the value, and no tuple.
        self._take_all: Callable[[_Parameters], Sequence[Any]] | None = None
        if len(plain) == len(takes) >= 2:
            self._take_all = operator.itemgetter(*plain)
        self._make: Callable[[Any], Row] | None = None
        self._processes: list[tuple[int, _Process]] = []

    def values(self, given: _Parameters) -> Any:
        """Return the parameters in the driver's form."""
        values: Sequence[Any]
        if self._take_all is not None:
            values = self._take_all(given)
        else:
            values = [take(given) for take in self._takes]
        if self._is_positional:
            return values
        return dict(zip(self._names, values, strict=True))

    def rows(self, description: Sequence[Any], found: Sequence[Any]) -> list[Row]:
        """Convert the driver's rows to Core's rows, with Core's types."""
        if self._make is None:
            self._set_shape(description)
        assert self._make is not None
        if not self._processes:
            return list(map(self._make, found))
        rows: list[Row] = []
        for each in found:
            values = list(each)
            for place, process in self._processes:
                values[place] = process(values[place])
            rows.append(self._make(values))
        return rows

    def _set_shape(self, description: Sequence[Any]) -> None:
        if len(self._columns) not in (0, len(description)):
            raise TypeError(f"A statement of {len(self._columns)} columns has {len(description)}")
        for place, each in enumerate(self._columns):
            process = each.type.dialect_impl(self._dialect).result_processor(
                self._dialect, description[place][1]
            )
            if process is not None:
                self._processes.append((place, process))
        names = [each[0] for each in description]
        row = namedtuple("Row", names, rename=True)  # type: ignore[misc] # of the statement
        self._make = row._make


def _parameter_getter(source: str, index: int | None, process: _Process | None) -> _Take:
    """Return a function that gets one parameter, or one element of a list, in the driver's form."""
    if index is None:
        value: _Take = operator.itemgetter(source)
    else:

        def value(given: _Parameters) -> Any:
            values = given[source]
            return values[min(index, len(values) - 1)]

    return value if process is None else lambda given: process(value(given))


def _constant_getter(value: Any) -> _Take:
    return lambda _given: value


def _pad_list(value: Sequence[Any]) -> list[Any]:
    return [*value, *[value[-1]] * (_padded_length(len(value)) - len(value))] if value else []


def _padded_length(length: int) -> int:
    """Return the padded length of a list: a power of two, or a multiple of `_STEP`."""
    if length > _STEP:
        return -(-length // _STEP) * _STEP
    return 1 << (length - 1).bit_length() if length else 0


class Prepared:
    """A statement of Core; run it inside a transaction of `Database.read` or `Database.write`.

    Parameters are given by name, for `insert(table)` by column; those of `in_` with
    `expanding=True` are lists of single values. Types of parameters and columns are Core's, and so
    are the errors, without the values of any row.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement
        self._lists = frozenset(
            part.key
            for part in visitors.iterate(statement)
            if isinstance(part, BindParameter) and part.expanding
        )
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    async def all(self, connection: AsyncConnection, parameters: _Parameters = _NONE) -> list[Row]:
        """Run the statement and return all its rows.

        Raises:
            sqlalchemy.exc.DBAPIError: as Core raises it, such as `IntegrityError`.
            sqlalchemy.exc.InvalidRequestError: a parameter is missing or unknown.
        """
        plan, driver = await self._get_plan(connection, parameters)
        try:
            if plan.is_sqlite:
                cursor = driver.execute(plan.text, plan.values(parameters))
                return plan.rows(cursor.description, cursor.fetchall())
            cursor = await driver.execute(plan.text, plan.values(parameters))
            return plan.rows(cursor.description, await cursor.fetchall())
        except BaseException as error:
            await _raise_as_core(connection, plan.text, error)

    async def first(
        self, connection: AsyncConnection, parameters: _Parameters = _NONE
    ) -> Row | None:
        """Run the statement and return its first row; None without rows. Raises as `all`."""
        rows = await self.all(connection, parameters)
        return rows[0] if rows else None

    async def scalar(self, connection: AsyncConnection, parameters: _Parameters = _NONE) -> Any:
        """Run the statement and return the first column of its first row, or None; see `all`."""
        rows = await self.all(connection, parameters)
        return rows[0][0] if rows else None

    async def run(self, connection: AsyncConnection, parameters: _Parameters = _NONE) -> int:
        """Run a statement without rows and return how many it changed; raises as `all`."""
        plan, driver = await self._get_plan(connection, parameters)
        try:
            if plan.is_sqlite:
                return int(driver.execute(plan.text, plan.values(parameters)).rowcount)
            return int((await driver.execute(plan.text, plan.values(parameters))).rowcount)
        except BaseException as error:
            await _raise_as_core(connection, plan.text, error)

    async def many(self, connection: AsyncConnection, rows: Sequence[_Parameters]) -> int:
        """Run a statement without rows once for each of `rows`, which all have the same names, and
        return how many rows it changed; raises as `all`."""
        if not rows:
            return 0
        if len(rows) == 1:
            return await self.run(connection, rows[0])
        plan, driver = await self._get_plan(connection, rows[0])
        try:
            values = [plan.values(row) for row in rows]
            if plan.is_sqlite:
                return int(driver.executemany(plan.text, values).rowcount)
            cursor = driver.cursor()
            await cursor.executemany(plan.text, values)
            return int(cursor.rowcount)
        except BaseException as error:
            await _raise_as_core(connection, plan.text, error)

    async def _get_plan(
        self, connection: AsyncConnection, parameters: _Parameters
    ) -> tuple[_Plan, Any]:
        """Begin a transaction if needed; return the plan and the driver's connection."""
        sync = connection.sync_connection
        assert sync is not None
        if not sync.in_transaction():
            await connection.begin()
        dialect = sync.dialect
        key: tuple[Any, ...] = (dialect.name, *parameters)
        for name in self._lists:
            if name in parameters:
                key += (_padded_length(len(parameters[name])),)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _Plan(self.statement, dialect, parameters, self._lists)
        return plan, sync.connection.driver_connection


async def _raise_as_core(connection: AsyncConnection, text: str, error: BaseException) -> NoReturn:
    """Raise SQLAlchemy's error for a driver's error. As SQLAlchemy does, discard the connection if
    it was lost or its statement was cut off."""
    sync, dialect = connection.sync_connection, connection.dialect
    assert sync is not None
    drivers: Any = dialect.loaded_dbapi.Error
    lost = not isinstance(error, Exception)
    if isinstance(error, drivers):
        lost = dialect.is_disconnect(error, sync.connection.dbapi_connection, None)
    if lost:
        await connection.invalidate(error)
    if not isinstance(error, drivers):
        raise error
    translated = DBAPIError.instance(
        text,
        None,
        error,
        drivers,
        hide_parameters=True,
        connection_invalidated=lost,
        dialect=dialect,
    )
    hide_values(error, translated)
    raise translated from error


def hide_values(cause: BaseException, error: BaseException) -> None:
    """Remove the row's values from a driver's error, and from the error that was made of it.
    PostgreSQL quotes values in its errors, SQLite does not."""
    message = getattr(getattr(cause, "diag", None), "message_primary", None)
    if message is not None:
        cause.args = (message,)
        error.args = (f"({type(cause).__module__}.{type(cause).__name__}) {message}",)


class ForEachRow:
    """A statement to run for each of several rows, inside a transaction of `Database.write`.

    Args:
        columns: the fields of a row, with their types: text and integers.
        make: returns the statement, given the place of each field's value.
    """

    def __init__(self, columns: Mapping[str, TypeEngine[Any]], make: Make) -> None:
        self._on_sqlite = Prepared(make({n: bindparam(n, type_=t) for n, t in columns.items()}))
        given = (
            func.json_to_recordset(cast(bindparam(_ROWS, type_=Text), JSON))
            .table_valued(*(column(name, type_) for name, type_ in columns.items()))
            .render_derived("given", with_types=True)
        )
        self._on_postgres = Prepared(make({name: given.c[name] for name in columns}))

    @classmethod
    def insert(cls, table: Table) -> ForEachRow:
        """Return a statement that inserts rows with all of the table's columns."""
        columns = {column.name: column.type for column in table.columns}
        return cls(columns, lambda row: insert(table).from_select(list(row), select(*row.values())))

    async def run(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement for each of `rows`, which have all its fields.

        Raises:
            sqlalchemy.exc.DBAPIError: as `Prepared`; if one row is refused, all are.
        """
        if not rows:
            return
        if connection.dialect.name == "sqlite":
            await self._on_sqlite.many(connection, rows)
        else:
            text = msgspec.json.encode(rows).decode()
            await self._on_postgres.run(connection, {_ROWS: text})
