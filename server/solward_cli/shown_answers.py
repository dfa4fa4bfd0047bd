"""Answers as tables and lists: headings, labels and values by their declared fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias, get_args, get_type_hints

from solward.resources.answers import Answer
from solward.resources.declare import declared_fields
from solward.support import jsontext
from solward_cli.render import Output, amount, fields, moment, short, status, table

# A field's name; or that or a heading, with the value or what makes it of an answer.
Cell: TypeAlias = "str | tuple[str, Any]"


def answer_table(found: Sequence[Answer], *cells: Cell, empty: str) -> Output:
    """A row for each answer, with a column for each cell; `empty` where there are none."""
    columns = [_heading(type(found[0]), _name(cell)) for cell in cells if found]
    rows = [[_value(each, cell, in_table=True) for cell in cells] for each in found]
    return table(columns, rows, empty)


def answer_fields(found: Answer, *cells: Cell) -> Output:
    """A line for each cell that has a value."""
    kind = type(found)
    values = {_label(kind, _name(cell)): _value(found, cell, in_table=False) for cell in cells}
    return fields(values)


def _name(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _label(kind: type[Answer], name: str) -> str:
    field = declared_fields(kind).get(name)
    if field is not None and field.title:
        return field.title
    if name not in _types(kind):
        return name
    if name == "id":
        return kind.__name__
    return name.removesuffix("_id").removesuffix("_at").replace("_", " ").capitalize()


def _heading(kind: type[Answer], name: str) -> str:
    types = _types(kind).get(name, ())
    heading = "ID" if name == "id" else _label(kind, name).upper()
    if datetime in types:
        return f"{heading} (UTC)"
    return f">{heading}" if int in types or Decimal in types else heading


def _types(kind: type[Answer]) -> Mapping[str, tuple[Any, ...]]:
    """Name of a field -> its type and what that consists of."""
    return {name: (hint, *get_args(hint)) for name, hint in get_type_hints(kind).items()}


def _value(found: Answer, cell: Cell, *, in_table: bool) -> object:
    name = _name(cell)
    value = getattr(found, name) if isinstance(cell, str) else cell[1]
    if callable(value):
        value = value(found)
    if value is None or value == ():
        field = declared_fields(type(found)).get(name)
        return (field.null if field else "") or ("" if in_table else None)
    return _shown(name, value, in_table=in_table)


def _shown(name: str, value: object, *, in_table: bool) -> object:
    match value:
        case bool():
            return "yes" if value else "no"
        case datetime():
            return moment(value) if in_table else f"{moment(value)} UTC"
        case int() | Decimal():
            return amount(value)
        case tuple():
            return ", ".join(str(_shown(name, each, in_table=in_table)) for each in value)
        case Mapping():
            return jsontext.dumps(dict(value))
        case str() if name in ("status", "state"):
            return status(value)
        case str() if in_table and (name == "id" or name.endswith(("_id", "_ids"))):
            return short(value)
    return value
