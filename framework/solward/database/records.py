"""Records as rows, whose columns have the fields' names; and inserts of rows that may exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Table, TextClause
from sqlalchemy.dialects.postgresql import Insert, insert

from solward.support import jsontext

T = TypeVar("T")


class Form(NamedTuple):
    """A conversion of a field's value from its column and back; None stays None."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


TEXTS: Final = Form(tuple, list)
"""Converts a tuple to a column of JSON and back."""
EXACT: Final = Form(jsontext.loads, lambda value: jsontext.dumps(dict(value)))
"""Converts an object to a column of text, as JSON with exact decimals, and back."""


# SQLite accepts PostgreSQL's `ON CONFLICT`, so its insert of SQLAlchemy serves both databases.


def insert_new(table: Table) -> Insert:
    """Return an insert that leaves an existing row unchanged."""
    return insert(table).on_conflict_do_nothing()


def insert_or_set(
    table: Table,
    key: Sequence[str],
    *columns: str,
    where: ColumnElement[bool] | TextClause | None = None,
    **changed: ColumnElement[Any],
) -> Insert:
    """Return an insert that changes the existing row with the same `key`, if there is one.

    Args:
        columns: are set to the values of the inserted row.
        where: which rows are changed; None for all.
        changed: column -> its new value, from the existing row and the `given` values.
    """
    new = {name: new_value(table, name) for name in columns}
    return insert(table).on_conflict_do_update(index_elements=key, set_=new | changed, where=where)


def new_value(table: Table, column: str) -> ColumnElement[Any]:
    """Return the value of a column in the row that `insert_or_set` inserts."""
    return insert(table).excluded[column]


def enum_form(kind: type[StrEnum]) -> Form:
    """Return the form that stores members of an enumeration in a column of text."""
    return Form(kind, attrgetter("value"))


class Records(Generic[T]):
    """The mapping of a class to a table whose rows are its records.

    Fields without a column are passed in addition to the row, or have a default.

    Attributes:
        columns: the record's columns, in the order of the values for `read`.
    """

    def __init__(self, record: type[T], table: Table, **forms: Form) -> None:
        """Map a class to a table; `forms` convert fields that a column holds in another form."""
        self._record = record
        dataclass: Any = record
        self._names = tuple(each.name for each in fields(dataclass) if each.name in table.c)
        self._forms = tuple(forms.items())
        self.columns = tuple(table.c[name] for name in self._names)

    def read(self, values: Sequence[Any], **others: Any) -> T:
        """Return the record of a row of `columns`; `others` are its fields without a column."""
        return self._make_record(dict(zip(self._names, values, strict=True), **others))

    def from_row(self, row: Mapping[str, Any], **others: Any) -> T:
        """Return the record of a row that is read by column names; `others` as in `read`."""
        return self._make_record({name: row[name] for name in self._names} | others)

    def _make_record(self, found: dict[str, Any]) -> T:
        for name, form in self._forms:
            value = found[name]
            if value is not None:
                found[name] = form.read(value)
        return self._record(**found)

    def row(self, record: T) -> dict[str, Any]:
        """Return the values of a record by column."""
        row = {name: getattr(record, name) for name in self._names}
        for name, form in self._forms:
            if row[name] is not None:
                row[name] = form.write(row[name])
        return row
