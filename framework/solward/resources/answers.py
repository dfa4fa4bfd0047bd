"""The base of the service's answers: each is read from its JSON by the types of its attributes, and
described by the fields that they are declared as.

    id: str = declared(Id("The key's record."))
    last_used_at: datetime | None = declared(Time("Null before its first use."))
    sentences: tuple[str, ...] = declared(Texts("What they say.", each="A sentence."), default=())

The second may be null, the third may be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from types import NoneType
from typing import (
    Any,
    NamedTuple,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from solward.resources.declare import declared_fields
from solward.resources.fields import REQUIRED, Field, Schema, Time, camel, nullable
from solward.resources.schema import ref
from solward.support.clock import iso

Raw: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[Any], Any]
A = TypeVar("A", bound="Answer")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the service.

    Attributes:
        raw: its JSON as received, with the fields that a newer service adds.
    """

    raw: Raw = field(repr=False, kw_only=True)

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From its JSON; raises `KeyError` for a field that is missing."""
        return answer_of(cls, raw)


def answer_of(kind: type[A], raw: Raw, **given: Any) -> A:
    """An answer from its JSON, but for the fields that are given.

    Raises:
        KeyError: a field is missing that has no default and may not be None.
    """
    given["raw"] = raw
    for each in _fields(kind):
        if each.name in given:
            continue
        found = _at(each.path, raw)
        if found is not MISSING:
            given[each.name] = each.read(found)
        elif each.is_optional:
            given[each.name] = None
        elif each.is_required:
            raise KeyError(".".join(each.path))
    return kind(**given)


def answer_json(kind: type[Answer], source: object, /, **given: Any) -> dict[str, Any]:
    """An answer's JSON, from what is given and from the source's attributes of the same names.

    A time is an attribute in Unix milliseconds: `made_at` is `made_ms`, `timestamp` is
    `created_ms`. What is None is left out where the answer has a default for it.
    """
    made: dict[str, Any] = {}
    for each in _fields(kind):
        declared = declared_fields(kind).get(each.name)
        if declared is None:
            continue
        if each.name in given:
            value = given[each.name]
        elif isinstance(declared, Time):
            stem = "created" if each.name == "timestamp" else each.name.removesuffix("_at")
            ms = getattr(source, f"{stem}_ms")
            value = None if ms is None else iso(ms)
        else:
            value = getattr(source, each.name)
        if value is not None or each.is_required:
            _put(made, each.path, value.value if isinstance(value, Enum) else value)
    return made


def named(name: str, read: Read | None = None) -> dict[str, Any]:
    """The metadata of a field that the JSON names otherwise; `a.b` is the field `b` of `a`.

    Args:
        read: reads it where its type does not say how.
    """
    return {"path": tuple(name.split(".")), "read": read}


def whole(read: Read) -> dict[str, Any]:
    """The metadata of a field that is read from all of the JSON."""
    return {"path": (), "read": read}


class _Field(NamedTuple):
    name: str
    path: tuple[str, ...]
    read: Read
    kind: Any
    is_optional: bool
    is_required: bool
    is_null: bool


def _fields(kind: Any) -> tuple[_Field, ...]:
    return _made_fields(kind)


@cache
def _made_fields(kind: Any) -> tuple[_Field, ...]:
    types = get_type_hints(kind)
    return tuple(
        _Field(
            name=each.name,
            path=each.metadata.get("path", (camel(each.name),)),
            read=each.metadata.get("read") or _reader(types[each.name]),
            kind=_some(types[each.name]),
            is_optional=NoneType in get_args(types[each.name]),
            is_required=each.default is MISSING and each.default_factory is MISSING,
            is_null=each.metadata.get("nullable", False),
        )
        for each in fields(kind)
    )


def answer_schema(kind: type[Answer]) -> Schema:
    """The JSON Schema of its JSON: closed, with a field for each declared attribute."""
    made = _object()
    declared_ones = declared_fields(kind)
    for each in _fields(kind):
        declared = declared_ones.get(each.name)
        if not each.path and _is_answer(each.kind):
            # More of the same JSON, there where it was asked for.
            more = answer_schema(each.kind)
            made["properties"] |= more["properties"]
            if not each.is_optional:
                made.setdefault("required", []).extend(more.get("required", ()))
            continue
        if declared is None:
            continue
        shown = _shown(each.kind, declared)
        is_null = each.is_null or (each.is_optional and each.is_required)
        of = made
        for name in each.path:
            if each.is_required and name not in of.setdefault("required", []):
                of["required"].append(name)
            of = of["properties"].setdefault(name, _object())
        of.clear()
        of |= nullable(shown) if is_null else shown
    return made


def _object() -> Schema:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def answer_example(kind: type[Answer]) -> dict[str, Any]:
    """Its JSON by the examples of its fields."""
    found: dict[str, Any] = {}
    for each in _fields(kind):
        declared = declared_fields(kind).get(each.name)
        if not each.path and _is_answer(each.kind):
            found |= answer_example(each.kind)
        elif declared is not None and (each.is_required or declared.example is not REQUIRED):
            of = _answer_in(each.kind)
            example = declared.sample if of is None else declared.example
            if of is not None and example is REQUIRED:
                example = answer_example(of) if of is each.kind else [answer_example(of)]
            _put(found, each.path, example)
    return found


def answer_reference(kind: type[Answer]) -> Schema:
    """What an answer is described by: a reference where the description has it once."""
    name = vars(kind).get("component")
    return answer_schema(kind) if name is None else ref(name)


def _shown(kind: Any, declared: Field) -> Schema:
    """Of a value that is an answer itself, or a list of some, what that is described by."""
    of = _answer_in(kind)
    if of is None:
        return declared.shown()
    shown = answer_reference(of)
    if of is not kind:
        shown = {"type": "array", "items": shown}
    return shown | {"description": declared.text}


def _answer_in(kind: Any) -> type[Answer] | None:
    """The answer that a value is, or a list of."""
    item = get_args(kind)[0] if get_origin(kind) is tuple else kind
    return item if _is_answer(item) else None


def _is_answer(kind: Any) -> TypeGuard[type[Answer]]:
    return isinstance(kind, type) and issubclass(kind, Answer)


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    for name in parents:
        into = into.setdefault(name, {})
    into[last] = value


def _some(kind: Any) -> Any:
    """The type of a value that is not None."""
    parts = get_args(kind)
    return parts[0] if NoneType in parts else kind


def _at(path: tuple[str, ...], raw: Any) -> Any:
    for name in path:
        if raw is None or name not in raw:
            return MISSING
        raw = raw[name]
    return raw


def _reader(kind: Any) -> Read:
    """What makes a value of this type from its JSON."""
    parts = get_args(kind)
    if NoneType in parts:
        some = _reader(parts[0])
        return lambda raw: None if raw is None else some(raw)
    if get_origin(kind) is tuple:
        item = _reader(parts[0])
        return lambda raw: tuple(map(item, raw))
    if _is_answer(kind):
        return kind.of
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return _READERS.get(kind, _as_it_is)


def _as_it_is(raw: Any) -> Any:
    return raw


def moment(text: str) -> datetime:
    """An ISO 8601 time of the service."""
    return datetime.fromisoformat(text)


def decimal(value: Any) -> Decimal:
    """A JSON number, or its text; the API has both."""
    return Decimal(value if isinstance(value, Decimal | int | str) else str(value))


def sol(lamports: int | str) -> Decimal:
    """Lamports in SOL; the API has them as numbers and as texts."""
    return Decimal(int(lamports)).scaleb(-9)


_READERS: dict[Any, Read] = {datetime: moment, Decimal: decimal}
