"""The fields of a form, derived from a JSON Schema; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

from solward.support.clean_text import one_line
from solward.support.jsontext import dumps

_MAX_DEPTH = 4
_LONG_TEXT = 200
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
# A label is one line; a help is as long as a skill's description may be.
_MAX_LABEL = 100
_MAX_HELP = 1_024
_FIGURE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SIMPLE = {"string", "number", "integer", "boolean", "null"}


class Kind(StrEnum):
    """The input of a field."""

    TEXT = "text"
    """One line of text."""
    LONG_TEXT = "long_text"
    """Several lines of text."""
    NUMBER = "number"
    """A number, typed as text and read exactly."""
    SIMPLE = "simple"
    """Text that may mean one of several simple types."""
    SWITCH = "switch"
    """Yes or no."""
    CHOICE = "choice"
    """One of `choices`; the input's content is its index."""
    GROUP = "group"
    """An object with `fields`."""
    LIST = "list"
    """Any number of `item`."""
    JSON = "json"
    """Anything else, as JSON text."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form.

    Attributes:
        name: of the property; of a list's item, the list's.
        help: description, bounds and default.
        schema: of the value alone.
        initial: the input's first content: text, bool, the index of a choice, a dict for a group,
            a list for a list.
        unset: of an optional group, the content that means it is absent.
    """

    name: str
    label: str
    kind: Kind
    required: bool
    help: str
    schema: Mapping[str, Any]
    initial: Any = None
    choices: tuple[Any, ...] = ()
    fields: tuple[Field, ...] = ()
    item: Field | None = None
    least: int = 0
    most: int | None = None
    unset: Any = None


def fields_of(
    schema: Mapping[str, Any], values: Mapping[str, Any] | None = None
) -> tuple[Field, ...]:
    """The fields of an object's schema, the required ones first.

    Args:
        values: known values; they override defaults.
    """
    return _fields(schema, values or {}, 0)


def _fields(schema: Mapping[str, Any], values: Mapping[str, Any], depth: int) -> tuple[Field, ...]:
    required = schema.get("required", ())
    found = [
        field_of(name, each, name in required, values.get(name), depth)
        for name, each in schema.get("properties", {}).items()
    ]
    return tuple(sorted(found, key=lambda each: not each.required))


def field_of(
    name: str, schema: Mapping[str, Any], required: bool, value: Any = None, depth: int = 0
) -> Field:
    """The field of one value; `value` overrides its default."""
    known = schema.get("default") if value is None else value
    label = _plain_text(schema.get("title") or in_words(name), _MAX_LABEL)
    kind, choices = _kind(schema, required, depth)
    field = Field(name, label, kind, required, _help(schema), schema, choices=choices)
    if kind is Kind.GROUP:
        fields = _fields(schema, known if isinstance(known, Mapping) else {}, depth + 1)
        initial = {each.name: each.initial for each in fields}
        unset = initial if value is None and not required else None
        return replace(field, fields=fields, initial=initial, unset=unset)
    if kind is Kind.LIST:
        item = field_of(name, schema["items"], True, depth=depth + 1)
        least = int(schema.get("minItems", 0))
        contents = [
            field_of(name, schema["items"], True, each, depth + 1).initial
            for each in (known if isinstance(known, list | tuple) else ())
        ]
        # A required list begins with an empty line.
        lines = max(least, 1 if required else 0)
        contents += [item.initial] * (lines - len(contents))
        most = schema.get("maxItems")
        return replace(field, item=item, least=least, most=most, initial=contents)
    return replace(field, initial=content_of(field, known))


def content_of(field: Field, value: Any) -> Any:
    """The input's content for a value."""
    if field.kind is Kind.CHOICE:
        places = [at for at, each in enumerate(field.choices) if same(each, value)]
        only = 0 if field.required and len(field.choices) == 1 else None
        return next(iter(places), only) if value is not None else only
    if field.kind is Kind.SWITCH:
        return value is True
    if field.kind is Kind.JSON:
        return "" if value is None else dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        return f"{value:f}"
    return "" if value is None else str(value)


def same(one: Any, other: Any) -> bool:
    """Equality in JSON: true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def in_words(name: str) -> str:
    """`slippageBps` -> `Slippage bps`, `max_items` -> `Max items`."""
    words = [
        each if each.isupper() and len(each) > 1 else each.lower() for each in _WORD.findall(name)
    ]
    text = " ".join(words) or name
    return text[0].upper() + text[1:]


def _kind(schema: Mapping[str, Any], required: bool, depth: int) -> tuple[Kind, tuple[Any, ...]]:
    choices = _choices(schema)
    if choices is not None:
        return Kind.CHOICE, choices
    kinds = _kinds(schema)
    if kinds == {"boolean"}:
        # Without a default, absent differs from false: a choice of three.
        certain = required or "default" in schema
        return (Kind.SWITCH, ()) if certain else (Kind.CHOICE, (True, False))
    if kinds == {"string"}:
        long = int(schema.get("maxLength", 0)) > _LONG_TEXT
        return (Kind.LONG_TEXT if long else Kind.TEXT), ()
    if kinds and kinds <= {"number", "integer"}:
        return Kind.NUMBER, ()
    if kinds and kinds <= _SIMPLE:
        return Kind.SIMPLE, ()
    if depth < _MAX_DEPTH and not schema.keys() & {"anyOf", "oneOf"}:
        if kinds == {"object"} and "patternProperties" not in schema:
            return Kind.GROUP, ()
        if kinds == {"array"} and "prefixItems" not in schema and schema.get("items"):
            return Kind.LIST, ()
    return Kind.JSON, ()


def _choices(schema: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The possible values where the schema lists them."""
    found: list[Any] | None = None
    if "const" in schema:
        found = [schema["const"]]
    elif "enum" in schema:
        found = list(schema["enum"])
    else:
        branches = [_choices(each) for each in _branches(schema)]
        if branches and all(each is not None for each in branches):
            found = [value for each in branches if each is not None for value in each]
    return None if found is None else tuple(found)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """The allowed types without null, which means absent; empty where the schema has none."""
    branches = _branches(schema)
    if branches and "type" not in schema:
        each = [_kinds(branch) for branch in branches]
        null = [branch.get("type") == "null" for branch in branches]
        if any(not kinds and not nothing for kinds, nothing in zip(each, null, strict=True)):
            return set()
        return set().union(*each)
    kinds = schema.get("type", ())
    return ({kinds} if isinstance(kinds, str) else set(kinds)) - {"null"}


def _branches(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
)


def _help(schema: Mapping[str, Any]) -> str:
    description = _plain_text(schema.get("description", ""), _MAX_HELP)
    bounds = [text.format(_plain(schema[key])) for key, text in _BOUNDS if schema.get(key)]
    # A bound whose number is in the description is not repeated.
    mentioned = _FIGURE.findall(description.replace(",", ""))
    notes = [each for each in bounds if each.split()[-1] not in mentioned]
    if schema.get("examples"):
        notes.append(f"for example {_plain(schema['examples'][0])}")
    if not notes:
        return description
    more = "; ".join(notes)
    return (
        f"{description} {more[0].upper()}{more[1:]}."
        if description
        else f"{more[0].upper()}{more[1:]}."
    )


def _plain_text(text: object, most: int) -> str:
    """What a plugin says of a field: what stands after it, such as a bound or an error, is read in
    its own direction."""
    return one_line(str(text), most)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        value = Decimal(repr(value))
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
