"""Records as rows: each field is in the column of its name; and rows that may be there already."""

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
"""A tuple in a column of JSON."""
EXACT: Final = Form(jsontext.loads, lambda value: jsontext.dumps(dict(value)))
"""An object in a column of text, as JSON with exact decimals."""


# SQLite has PostgreSQL's words for what becomes of a row that is there already, and SQLAlchemy
# writes them for it too.


def insert_new(table: Table) -> Insert:
    """Return an insert that leaves a row that is there already as it is."""
    return insert(table).on_conflict_do_nothing()


def insert_or_set(
    table: Table,
    key: Sequence[str],
    *columns: str,
    where: ColumnElement[bool] | TextClause | None = None,
    **changed: ColumnElement[Any],
) -> Insert:
    """Return an insert that, where a row has the same `key` already, changes that one.

    Args:
        columns: are set to what is given for them.
        where: which rows are changed; None for all.
        changed: column -> its new value, of the row that is there and what is `given`.
    """
    new = {name: given(table, name) for name in columns}
    return insert(table).on_conflict_do_update(index_elements=key, set_=new | changed, where=where)


def given(table: Table, column: str) -> ColumnElement[Any]:
    """Return the value of a column in the row that `insert_or_set` inserts."""
    return insert(table).excluded[column]


def words(kind: type[StrEnum]) -> Form:
    """Return a member of an enumeration in a column of text."""
    return Form(kind, attrgetter("value"))


class Records(Generic[T]):
    """The records of a class in a table.

    Fields that have no column are given beside the row, or have a default.

    Attributes:
        columns: of the record, in the order in which `read` takes their values.
    """

    def __init__(self, record: type[T], table: Table, **forms: Form) -> None:
        """Map a class to a table; `forms` convert fields that a column holds in another form."""
        self._record = record
        dataclass: Any = record
        self._names = tuple(each.name for each in fields(dataclass) if each.name in table.c)
        self._forms = tuple(forms.items())
        self.columns = tuple(table.c[name] for name in self._names)

    def read(self, values: Sequence[Any], **others: Any) -> T:
        """Return the record of a row of `columns`; `others` are its fields that have none."""
        return self._made(dict(zip(self._names, values, strict=True), **others))

    def of(self, row: Mapping[str, Any], **others: Any) -> T:
        """Return the record of a row that is read by column names; `others` as in `read`."""
        return self._made({name: row[name] for name in self._names} | others)

    def _made(self, found: dict[str, Any]) -> T:
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
