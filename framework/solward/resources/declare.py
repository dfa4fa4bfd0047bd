"""Requests, answers and calls as classes, whose attributes are their fields.

@resource
class NewSecret(Request):
    overlap_seconds: int = declared(Whole("How long ...", least=0, most=86_400), default=3_600)

An answer is read from its JSON by the types of its attributes. Here `last_used_at` may be null and
`sentences` may be absent:

    id: str = declared(Id("The key's record."))
    last_used_at: datetime | None = declared(Time("Null before its first use."))
    sentences: tuple[str, ...] = declared(Texts("What they say.", each="A sentence."), default=())
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from datetime import datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from solward.resources.fields import (
    REQUIRED,
    Field,
    Json,
    Schema,
    Setting,
    Shape,
    Time,
    camel,
    nullable,
    object_schema,
)
from solward.resources.schema import ref
from solward.support.clock import iso
from solward.types.errors import InvalidRequest, refuse_unknown

T = TypeVar("T")
A = TypeVar("A", bound="Answer")
Raw: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[Any], Any]

COMPONENTS: dict[str, type] = {}
"""Component name -> class. The API's description defines each component once."""


def declared(
    kind: Field,
    *,
    default: Any = MISSING,
    named: str = "",
    read: Callable[[Any], Any] | None = None,
    secret: bool = False,
    nullable: bool = False,
) -> Any:
    """Return an attribute that is a field of this kind.

    Args:
        default: the value if the field is absent; a field without a default must be present.
        named: the field's name in JSON, if it differs; `a.b` is the field `b` of `a`.
        read: function that converts the JSON, if the type does not determine it.
        secret: whether `repr` omits the field.
        nullable: for an answer's field with a default: whether it may also be null in the JSON.
            Without a default, the type says whether null is allowed.
    """
    path = {"path": tuple(named.split("."))} if named else {}
    metadata = {"declared": kind, "read": read, "nullable": nullable} | path
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(declared, field))
def resource(kind: type[T]) -> type[T]:
    """Return the class as a frozen dataclass."""
    made = dataclass(frozen=True, slots=True, kw_only=True)(kind)
    name = vars(made).get("component")
    if name is not None:
        known = COMPONENTS.get(name, made)
        if (known.__module__, known.__qualname__) != (made.__module__, made.__qualname__):
            raise ValueError(f"{name} is the component of {known.__qualname__} already")
        COMPONENTS[name] = made
    return made


def declared_fields(kind: Any) -> Mapping[str, Field]:
    """Return attribute name -> field, for the declared fields of a class."""
    return _cached_declared_fields(kind)


@cache
def _cached_declared_fields(kind: Any) -> Mapping[str, Field]:
    found = {}
    for each in fields(kind):
        known = each.metadata.get("declared")
        if known is not None:
            stated = known.default is REQUIRED and each.default is not MISSING
            default = each.default if stated else known.default
            alias = ".".join(each.metadata.get("path", ()))
            left_out = {**getattr(kind, "left_out", {}), **known.left_out}
            found[each.name] = replace(
                known, name=each.name, alias=alias, default=default, left_out=left_out
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The fields of a request. An optional attribute has a default.

    Attributes:
        excludes: attribute -> attributes that must be absent, empty or 0 if it is true.
        never_null: attributes that may be absent but not null.
        left_out: surface -> the reason why the surface has none of these fields.
    """

    excludes: ClassVar[Mapping[str, Sequence[str]]] = {}
    never_null: ClassVar[Sequence[str]] = ()
    left_out: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def of(cls, body: Mapping[str, object], settings: object = None) -> Self:
        """Read a body's JSON. A null field counts as absent, unless it is in `never_null`.

        Args:
            settings: the service's settings, which may be defaults of fields.

        Raises:
            InvalidRequest: naming the first field that is missing or wrong, or excluded.
        """
        for name, excluded in cls.excludes.items():
            for each in map(camel, excluded if body.get(camel(name)) is True else ()):
                if body.get(each):
                    raise InvalidRequest(f"{each} must be absent where {camel(name)} is true")
                body = {**body, each: None}
        for name in map(camel, cls.never_null):
            if name in body and body[name] is None:
                raise InvalidRequest(f"{name} is required")
        given = {
            each.name: _read_field(each, body.get(each.json), settings) for each in fields_of(cls)
        }
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Call(Generic[A]):
    """One kind of API request: its route, its description and the client's method.

    Attributes:
        id: the request's id in the API's description.
        route: HTTP method, and path below the API's prefix; its parts in braces are parameters
            of the client's method.
        does: a sentence about what the request does.
        answer: class of the answer; None if the client's method returns the JSON unchanged.
        body, query: class of the fields; None without fields.
        about: further text for the API's description.
        listed: if set, the answer is an object whose only field, of this name, lists `answer`s.
        name: name of the client's method, if it is not the first word of the id; None if the
            method is written by hand or does not exist.
        short: class of the service's answer, if it has only some fields of `answer`, such as the
            id. The client then requests the rest.
        is_raw: whether the method returns the JSON unchanged, and not as `answer`.
        takes_key: whether it accepts an Idempotency-Key. If the answer is lost, the client repeats
            the request with the same key, so that it takes effect once.
        takes_json: whether the method's fields are in a mapping with JSON's names, in which None
            removes a value instead of being absent.
        shown: values for the description's example of the answer, in place of the fields' own
            examples.
    """

    id: str
    route: str
    does: str
    answer: type[A] | None
    _: KW_ONLY
    body: type[Request] | None = None
    query: type[Request] | None = None
    about: str = ""
    listed: str = ""
    name: str | None = ""
    short: type[Any] | None = None
    is_raw: bool = False
    takes_key: bool = False
    takes_json: bool = False
    shown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path below the API's prefix."""
        return self.route.partition(" ")[2]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parameters in the path."""
        return tuple(re.findall(r"\{(\w+)\}", self.route))

    @property
    def request(self) -> type[Request] | None:
        """The class of the request's body or query."""
        return self.body or self.query

    @property
    def client_name(self) -> str | None:
        """The name of the client's method."""
        return re.split(r"(?=[A-Z])", self.id)[0] if self.name == "" else self.name


def fields_of(kind: type[Request]) -> tuple[Field, ...]:
    """Return the fields of a request, in their order."""
    return tuple(declared_fields(kind).values())


def request_schema(kind: type[Request]) -> Schema:
    """Return the closed JSON Schema of a request's body, in which a `Setting` stays unresolved."""
    made = object_schema(fields_of(kind))
    whole = {*made.get("required", ()), *map(camel, kind.never_null)}
    properties = made["properties"].items()
    may_be_null = {name: each if name in whole else nullable(each) for name, each in properties}
    return made | {"properties": may_be_null}


def request_example(kind: type[Request]) -> dict[str, Any]:
    """Return an example of a body, made of the examples of its fields."""
    return {
        each.json: each.sample
        for each in fields_of(kind)
        if each.is_required or each.example is not REQUIRED
    }


@dataclass(frozen=True, slots=True)
class Part(Json):
    """A nested object with the fields of the request class `kind`."""

    kind: type[Request] = Request

    def schema(self) -> Schema:
        """See `Field.schema`."""
        return request_schema(self.kind) | {"description": self.text}

    def _read(self, value: object) -> Any:
        """Return the given fields under their JSON names; null stays null."""
        given = Json._read(self, value)
        named = {each.json: each for each in fields_of(self.kind)}
        refuse_unknown(given, named, f"{self.json}.")
        for name, each in given.items():
            if each is not None:
                given[name] = replace(named[name], name=f"{self.json}.{name}").read(each)
        return given


def _read_field(field: Field, value: object, settings: object) -> Any:
    if value is not None or field.is_required:
        return field.read(value)
    default = field.default
    return default.of(settings) if isinstance(default, Setting) else default


def with_settings(schema: Any, settings: object) -> Any:
    """Return a copy of a schema or document in which each `Setting` is replaced by its value."""
    if isinstance(schema, dict):
        return {name: with_settings(each, settings) for name, each in schema.items()}
    if isinstance(schema, list | tuple):
        return [with_settings(each, settings) for each in schema]
    if isinstance(schema, Setting):
        value = schema.of(settings)
        # The libraries that write documents do not know Decimal.
        return float(value) if isinstance(value, Decimal) else value
    return schema


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the service.

    Attributes:
        raw: its JSON as received, including fields that a newer service adds.
    """

    raw: Raw = field(repr=False, kw_only=True)

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read an answer's JSON; raises `KeyError` if a field is missing."""
        return answer_of(cls, raw)


def answer_of(kind: type[A], raw: Raw, **given: Any) -> A:
    """Return an answer from its JSON; values that are given replace the JSON's fields.

    Raises:
        KeyError: a field is missing that has no default and may not be None.
    """
    given["raw"] = raw
    for each in _answer_fields(kind):
        if each.name in given:
            continue
        found = _value_at(each.path, raw)
        if found is not MISSING:
            given[each.name] = each.read(found)
        elif each.is_optional:
            given[each.name] = None
        elif each.is_required:
            raise KeyError(".".join(each.path))
    return kind(**given)


def answer_json(kind: type[Answer], source: object, /, **given: Any) -> dict[str, Any]:
    """Return an answer's JSON, from the given values and the source's attributes of the same names.

    Times come from attributes in Unix milliseconds: `made_at` from `made_ms`, `timestamp` from
    `created_ms`. A value that is None is left out if the answer has a default for the field.
    """
    made: dict[str, Any] = {}
    for each in _answer_fields(kind):
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
            _set_value_at(made, each.path, value.value if isinstance(value, Enum) else value)
    return made


def named_metadata(name: str, read: Read | None = None) -> dict[str, Any]:
    """Return metadata of a field whose JSON name differs; `a.b` is the field `b` of `a`.

    Args:
        read: function that converts the JSON, if the type does not determine it.
    """
    return {"path": tuple(name.split(".")), "read": read}


def whole_metadata(read: Read) -> dict[str, Any]:
    """Return metadata of a field that is computed from the whole JSON of the answer."""
    return {"path": (), "read": read}


class _Field(NamedTuple):
    name: str
    path: tuple[str, ...]
    read: Read
    kind: Any
    is_optional: bool
    is_required: bool
    is_null: bool


def _answer_fields(kind: Any) -> tuple[_Field, ...]:
    return _cached_answer_fields(kind)


@cache
def _cached_answer_fields(kind: Any) -> tuple[_Field, ...]:
    types = get_type_hints(kind)
    return tuple(
        _Field(
            name=each.name,
            path=each.metadata.get("path", (camel(each.name),)),
            read=each.metadata.get("read") or _json_reader(types[each.name]),
            kind=_type_without_none(types[each.name]),
            is_optional=NoneType in get_args(types[each.name]),
            is_required=each.default is MISSING and each.default_factory is MISSING,
            is_null=each.metadata.get("nullable", False),
        )
        for each in fields(kind)
    )


def answer_schema(kind: type[Answer]) -> Schema:
    """Return the closed JSON Schema of an answer, with a field for each declared attribute."""
    made = _empty_object_schema()
    declared_ones = declared_fields(kind)
    for each in _answer_fields(kind):
        declared = declared_ones.get(each.name)
        if not each.path and _is_answer(each.kind):
            # The nested answer's fields are in the same JSON object.
            more = answer_schema(each.kind)
            made["properties"] |= more["properties"]
            if not each.is_optional:
                made.setdefault("required", []).extend(more.get("required", ()))
            continue
        if declared is None:
            continue
        shown = _field_schema(each.kind, declared)
        is_null = each.is_null or (each.is_optional and each.is_required)
        of = made
        for name in each.path:
            if each.is_required and name not in of.setdefault("required", []):
                of["required"].append(name)
            of = of["properties"].setdefault(name, _empty_object_schema())
        of.clear()
        of |= nullable(shown) if is_null else shown
    return made


def _empty_object_schema() -> Schema:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def answer_example(kind: type[Answer]) -> dict[str, Any]:
    """Return an example of an answer's JSON, made of the examples of its fields."""
    found: dict[str, Any] = {}
    for each in _answer_fields(kind):
        declared = declared_fields(kind).get(each.name)
        if not each.path and _is_answer(each.kind):
            found |= answer_example(each.kind)
        elif declared is not None and (each.is_required or declared.example is not REQUIRED):
            of = _answer_class_in(each.kind)
            example = declared.sample if of is None else declared.example
            if of is not None and example is REQUIRED:
                example = answer_example(of) if of is each.kind else [answer_example(of)]
            _set_value_at(found, each.path, example)
    return found


def answer_reference(kind: type[Answer]) -> Schema:
    """Return an answer's schema, or a reference to it if the answer is a named component."""
    name = vars(kind).get("component")
    return answer_schema(kind) if name is None else ref(name)


def shape_of(text: str, kind: type[Answer]) -> Shape:
    """Return a field whose value has the form of an answer, but stays plain JSON."""
    return Shape(text, form=answer_reference(kind), example=answer_example(kind))


def _field_schema(kind: Any, declared: Field) -> Schema:
    """Return the schema of an answer's field, whose value may be an answer or a list of them."""
    of = _answer_class_in(kind)
    if of is None:
        return declared.answer_schema()
    shown = answer_reference(of)
    if of is not kind:
        shown = {"type": "array", "items": shown}
    return shown | {"description": declared.text}


def _answer_class_in(kind: Any) -> type[Answer] | None:
    """Return the answer class of a value or of a tuple's items; None for other types."""
    item = get_args(kind)[0] if get_origin(kind) is tuple else kind
    return item if _is_answer(item) else None


def _is_answer(kind: Any) -> TypeGuard[type[Answer]]:
    return isinstance(kind, type) and issubclass(kind, Answer)


def _set_value_at(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    for name in parents:
        into = into.setdefault(name, {})
    into[last] = value


def _type_without_none(kind: Any) -> Any:
    """Return an optional type without None; other types are returned unchanged."""
    parts = get_args(kind)
    return parts[0] if NoneType in parts else kind


def _value_at(path: tuple[str, ...], raw: Any) -> Any:
    for name in path:
        if raw is None or name not in raw:
            return MISSING
        raw = raw[name]
    return raw


def _json_reader(kind: Any) -> Read:
    """Return the function that makes a value of this type from its JSON."""
    parts = get_args(kind)
    if NoneType in parts:
        some = _json_reader(parts[0])
        return lambda raw: None if raw is None else some(raw)
    if get_origin(kind) is tuple:
        item = _json_reader(parts[0])
        return lambda raw: tuple(map(item, raw))
    if _is_answer(kind):
        return kind.of
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return _READERS.get(kind, _return_unchanged)


def _return_unchanged(raw: Any) -> Any:
    return raw


def moment(text: str) -> datetime:
    """Parse a time that the service sent, in ISO 8601."""
    return datetime.fromisoformat(text)


def decimal(value: Any) -> Decimal:
    """Convert a JSON number or a number's text; the API has both."""
    return Decimal(value if isinstance(value, Decimal | int | str) else str(value))


def sol(lamports: int | str) -> Decimal:
    """Convert lamports to SOL; the API has lamports as numbers and as text."""
    return Decimal(int(lamports)).scaleb(-9)


_READERS: dict[Any, Read] = {datetime: moment, Decimal: decimal}
