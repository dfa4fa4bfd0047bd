"""Requests, answers and calls as classes, whose attributes are their fields.

@resource
class NewSecret(Request):
    overlap_seconds: int = declared(Whole("How long ...", least=0, most=86_400), default=3_600)

An answer is read from its JSON by the types of its attributes. Of these the second may be null, and
the third may be absent:

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
"""Classes by the name under which the API's description has them once: their `component`."""


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
        default: of a request, what stands in where it is left out; with one, an answer may lack it.
        named: its name in JSON where that is another one; `a.b` is the field `b` of `a`.
        read: reads it from JSON where its type does not say how.
        secret: whether it is left out of what `repr` shows.
        nullable: of an answer's attribute with a default: whether the JSON may say null as well as
            leave it out. Without a default the type says whether null is allowed.
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
    """Return the declared fields of a class, by the attribute's name."""
    return _read_declared(kind)


@cache
def _read_declared(kind: Any) -> Mapping[str, Field]:
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
    """The fields of a request. An attribute that may be left out has a default.

    Attributes:
        excludes: attribute -> those that must be absent, empty or 0 where it is true.
        never_null: those that may be absent, and of which null is refused.
        left_out: surface -> why none of its fields is on it.
    """

    excludes: ClassVar[Mapping[str, Sequence[str]]] = {}
    never_null: ClassVar[Sequence[str]] = ()
    left_out: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def of(cls, body: Mapping[str, object], settings: object = None) -> Self:
        """Read a body's JSON. A null field counts as absent, except those of `never_null`.

        Args:
            settings: of the service; defaults may be among them.

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
        given = {each.name: _read(each, body.get(each.json), settings) for each in fields_of(cls)}
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Call(Generic[A]):
    """One request of the interface: its route, its description and the client's method.

    Attributes:
        id: in the API's description.
        route: method, and path below the API's prefix; it may name parts in braces, which the
            client's method takes.
        does: what it does, in a sentence.
        answer: None if the client's method gives the JSON as it is.
        body, query: its fields; None: it has none.
        about: more about it, for the API's description.
        listed: the answer is an object with one field of this name, a list of `answer`.
        name: of the client's method where the first word of the id does not do; None: it is written
            by hand, or there is none.
        short: what the service answers, where that has only a few fields of `answer`, the id among
            them. The client then asks for the rest.
        is_raw: the method gives the JSON as it is, and not as `answer`.
        takes_key: it takes an Idempotency-Key, with which the client asks again where the answer is
            lost, so that it happens once.
        takes_json: the method takes its fields in a mapping, as JSON names them, where None takes
            one away and is not absent.
        shown: what the description's example of the answer has in place of the examples of its
            fields.
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
        """Below the API's prefix."""
        return self.route.partition(" ")[2]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of its path."""
        return tuple(re.findall(r"\{(\w+)\}", self.route))

    @property
    def request(self) -> type[Request] | None:
        """The class of its body or query."""
        return self.body or self.query

    @property
    def client_name(self) -> str | None:
        """The name of the client's method."""
        return re.split(r"(?=[A-Z])", self.id)[0] if self.name == "" else self.name


def fields_of(kind: type[Request]) -> tuple[Field, ...]:
    """Return the fields of a request, in their order."""
    return tuple(declared_fields(kind).values())


def request_schema(kind: type[Request]) -> Schema:
    """Return the JSON Schema of a request's body: closed; a `Setting` stands in it as it is."""
    made = object_schema(fields_of(kind))
    whole = {*made.get("required", ()), *map(camel, kind.never_null)}
    properties = made["properties"].items()
    may_be_null = {name: each if name in whole else nullable(each) for name, each in properties}
    return made | {"properties": may_be_null}


def request_example(kind: type[Request]) -> dict[str, Any]:
    """Return a body by the examples of its fields."""
    return {
        each.json: each.sample
        for each in fields_of(kind)
        if each.is_required or each.example is not REQUIRED
    }


@dataclass(frozen=True, slots=True)
class Part(Json):
    """An object with the fields of `kind`."""

    kind: type[Request] = Request

    def schema(self) -> Schema:
        """See `Field.schema`."""
        return request_schema(self.kind) | {"description": self.text}

    def _read(self, value: object) -> Any:
        """Return the fields that are said, as JSON names them; null stays null."""
        given = Json._read(self, value)
        named = {each.json: each for each in fields_of(self.kind)}
        refuse_unknown(given, named, f"{self.json}.")
        for name, each in given.items():
            if each is not None:
                given[name] = replace(named[name], name=f"{self.json}.{name}").read(each)
        return given


def _read(field: Field, value: object, settings: object) -> Any:
    if value is not None or field.is_required:
        return field.read(value)
    default = field.default
    return default.of(settings) if isinstance(default, Setting) else default


def with_settings(schema: Any, settings: object) -> Any:
    """Return a copy of a schema or a document with each `Setting`'s value in its place."""
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
        raw: its JSON as received, with the fields that a newer service adds.
    """

    raw: Raw = field(repr=False, kw_only=True)

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read an answer's JSON; raises `KeyError` if a field is missing."""
        return answer_of(cls, raw)


def answer_of(kind: type[A], raw: Raw, **given: Any) -> A:
    """Return an answer from its JSON, but for the fields that are given.

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
    """Return an answer's JSON, from the given values and the source's attributes of the same names.

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
    """Return the metadata of a field that the JSON names otherwise; `a.b` is the field `b` of `a`.

    Args:
        read: reads it where its type does not say how.
    """
    return {"path": tuple(name.split(".")), "read": read}


def whole(read: Read) -> dict[str, Any]:
    """Return the metadata of a field that is read from all of the JSON."""
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
    """Return the JSON Schema of its JSON: closed, with a field for each declared attribute."""
    made = _object()
    declared_ones = declared_fields(kind)
    for each in _fields(kind):
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
            of = of["properties"].setdefault(name, _object())
        of.clear()
        of |= nullable(shown) if is_null else shown
    return made


def _object() -> Schema:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def answer_example(kind: type[Answer]) -> dict[str, Any]:
    """Return its JSON by the examples of its fields."""
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
    """Return an answer's schema, or a reference to it if the answer is a named component."""
    name = vars(kind).get("component")
    return answer_schema(kind) if name is None else ref(name)


def shape_of(text: str, kind: type[Answer]) -> Shape:
    """Return a value of the form of an answer, which is kept as its JSON."""
    return Shape(text, form=answer_reference(kind), example=answer_example(kind))


def _field_schema(kind: Any, declared: Field) -> Schema:
    """Return the schema of an answer's field, whose value may be an answer or a list of them."""
    of = _answer_in(kind)
    if of is None:
        return declared.answer_schema()
    shown = answer_reference(of)
    if of is not kind:
        shown = {"type": "array", "items": shown}
    return shown | {"description": declared.text}


def _answer_in(kind: Any) -> type[Answer] | None:
    """Return the answer that a value is, or a list of."""
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
    """Return the type of a value that is not None."""
    parts = get_args(kind)
    return parts[0] if NoneType in parts else kind


def _at(path: tuple[str, ...], raw: Any) -> Any:
    for name in path:
        if raw is None or name not in raw:
            return MISSING
        raw = raw[name]
    return raw


def _reader(kind: Any) -> Read:
    """Return the function that makes a value of this type from its JSON."""
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
    """Return an ISO 8601 time of the service."""
    return datetime.fromisoformat(text)


def decimal(value: Any) -> Decimal:
    """Return a JSON number, or its text; the API has both."""
    return Decimal(value if isinstance(value, Decimal | int | str) else str(value))


def sol(lamports: int | str) -> Decimal:
    """Return lamports in SOL; the API has them as numbers and as texts."""
    return Decimal(int(lamports)).scaleb(-9)


_READERS: dict[Any, Read] = {datetime: moment, Decimal: decimal}
