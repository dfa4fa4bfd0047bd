"""Requests and answers as classes, whose attributes are their fields.

@resource
class NewSecret(Request):
    overlap_seconds: int = declared(Whole("How long ...", least=0, most=86_400), default=3_600)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform

from solward.resources.fields import (
    REQUIRED,
    Field,
    Json,
    Schema,
    Setting,
    camel,
    nullable,
    object_schema,
)
from solward.types.errors import InvalidRequest, refuse_unknown

T = TypeVar("T")
A = TypeVar("A")

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
    """An attribute that is a field of this kind.

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
    """The class as a frozen dataclass."""
    made = dataclass(frozen=True, slots=True, kw_only=True)(kind)
    name = vars(made).get("component")
    if name is not None:
        known = COMPONENTS.get(name, made)
        if (known.__module__, known.__qualname__) != (made.__module__, made.__qualname__):
            raise ValueError(f"{name} is the component of {known.__qualname__} already")
        COMPONENTS[name] = made
    return made


def declared_fields(kind: Any) -> Mapping[str, Field]:
    """The declared fields of a class, by the attribute's name."""
    return _found(kind)


@cache
def _found(kind: Any) -> Mapping[str, Field]:
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
    """What the body of a request says. An attribute that may be left out has a default.

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
        """From a body's JSON. A field that is null counts as absent, but for `never_null`.

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
        answer: None where the client's method gives the JSON as it is.
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
        """Of HTTP."""
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
        """Its fields, wherever they are."""
        return self.body or self.query

    @property
    def client_name(self) -> str | None:
        """The name of the client's method."""
        return re.split(r"(?=[A-Z])", self.id)[0] if self.name == "" else self.name


def fields_of(kind: type[Request]) -> tuple[Field, ...]:
    """The fields of a request, in their order."""
    return tuple(declared_fields(kind).values())


def request_schema(kind: type[Request]) -> Schema:
    """The JSON Schema of a request's body: closed; a `Setting` stands in it as it is."""
    made = object_schema(fields_of(kind))
    whole = {*made.get("required", ()), *map(camel, kind.never_null)}
    properties = made["properties"].items()
    may_be_null = {name: each if name in whole else nullable(each) for name, each in properties}
    return made | {"properties": may_be_null}


def request_example(kind: type[Request]) -> dict[str, Any]:
    """A body by the examples of its fields."""
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
        """The fields that are said, as JSON names them; null stays null."""
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
    """A copy of a schema, or of a whole document, with each `Setting`'s value in its place."""
    if isinstance(schema, dict):
        return {name: with_settings(each, settings) for name, each in schema.items()}
    if isinstance(schema, list | tuple):
        return [with_settings(each, settings) for each in schema]
    if isinstance(schema, Setting):
        value = schema.of(settings)
        # Documents are written by libraries that know no Decimal.
        return float(value) if isinstance(value, Decimal) else value
    return schema
