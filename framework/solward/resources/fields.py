"""Kinds of fields: plain data from which every surface derives its schemas, forms and checks.

A field is one value of a request, of an answer or of an operation's record. This module imports
only the standard library, errors and amounts, because clients read declarations too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Final

from solward.support.clock import ms_of
from solward.types.errors import InvalidRequest
from solward.types.money import sol_to_lamports

Schema = dict[str, Any]

# The longest text that a route reads before it checks the field's kind.
MAX_TEXT = 200
ADDRESS = "^[1-9A-HJ-NP-Za-km-z]{32,44}$"
TIMESTAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"


class Required:
    """The marker for a field without a default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = Required()


class Setting(Enum):
    """A default that is a setting of the service: its name in `Settings`."""

    MAX_COSTS_SOL_PER_DAY = "max_costs_sol_per_day"

    def of(self, settings: object) -> Any:
        """Return the setting's value."""
        return getattr(settings, self.value)


def camel(name: str) -> str:
    """Convert a name to JSON's case: `input_token` -> `inputToken`."""
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


@dataclass(frozen=True, slots=True)
class Field:
    """One value, whose kind is the subclass.

    Attributes:
        text: a sentence for people and models, with the unit.
        name: the name in Python; `json` is the name elsewhere. Taken from the class's attribute.
        default: the value if the field is left out; None for no value. Taken from the class's
            attribute, except for a `Setting`.
        example: an example for the API's description.
        detail: its JSON name in the record's details, if that differs.
        title: its label in forms, if `name` is not good enough.
        alias: its name in JSON, if that differs. Taken from the class's attribute (`named`).
        null: the meaning of null, in a word, for tables.
        cli: in the command line, an option's name (`--supply`) or an argument's (`FROM`), if `name`
            is not good enough. Required fields are arguments, the others options.
        left_out: surface -> the reason why the surface does not have the field.
        missing: the error if the field is absent, in place of the usual one.
        wrong: the error for every wrong value, in place of the kind's own.
    """

    text: str
    _: KW_ONLY
    name: str = ""
    default: Required | Setting | str | int | tuple[str, ...] | None = REQUIRED
    example: Any = REQUIRED
    detail: str = ""
    title: str = ""
    alias: str = ""
    null: str = ""
    cli: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    wrong: str = ""

    @property
    def json(self) -> str:
        """The name in requests, answers and skill parameters."""
        return self.alias or camel(self.name)

    @property
    def is_required(self) -> bool:
        """True if every request must have the field."""
        return self.default is REQUIRED

    def read(self, value: object) -> Any:
        """Check a JSON value, and return it in the form that plans use.

        Raises:
            InvalidRequest: naming the field and what was expected.
        """
        if value is None:
            if self.default is REQUIRED:
                usual = f"{self.json} is required and must be {self._article}"
                raise InvalidRequest(self.missing or usual)
            if self.default is None:
                return None
        # A null is refused, not read as the default: a skill may have forgotten to choose.
        try:
            return self._read(value)
        except InvalidRequest:
            if not self.wrong:
                raise
            raise InvalidRequest(self.wrong) from None

    def schema(self) -> Schema:
        """Return a request's JSON Schema 2020-12, in which a `Setting` stays unresolved."""
        made = {"type": self._type, "description": self.text} | self._bounds()
        default = list(self.default) if isinstance(self.default, tuple) else self.default
        return made if default in (REQUIRED, None) else made | {"default": default}

    def answer_schema(self) -> Schema:
        """Return an answer's JSON Schema 2020-12."""
        return {"type": self._type, "description": self.text} | self._form()

    @property
    def takes(self) -> str:
        """The values that a request may have, in words."""
        return self._takes.format(self=self)

    @property
    def label(self) -> str:
        """The label in forms."""
        return self.title or self.name.replace("_", " ").capitalize()

    def form_schema(self) -> Schema:
        """Return a request's schema with the label, for a form."""
        return self.schema() | {"title": self.label}

    @property
    def sample(self) -> Any:
        """A value for examples: the field's own example, or the example of its kind."""
        return self._sample if self.example is REQUIRED else self.example

    argument = "str"
    """The field's type in client methods; `solward.client.arguments` defines these names."""
    _type = "string"
    _article = "a string"
    _takes = "{self._article}"
    _sample: ClassVar[Any] = REQUIRED

    def _read(self, value: object) -> Any:
        raise NotImplementedError

    def _bounds(self) -> Schema:
        """Return the part of a request's schema that bounds the value."""
        return {}

    def _form(self) -> Schema:
        """Return the part of an answer's schema that describes the value's format."""
        return {}


@dataclass(frozen=True, slots=True)
class Text(Field):
    """Text of 1 to `most` characters.

    Attributes:
        max_bytes: if set, the text must be printable, with at most so many bytes of UTF-8.
        pattern: regular expression for the whole text; `form` describes it in words.
    """

    most: int = MAX_TEXT
    max_bytes: int | None = None
    pattern: str = ""
    form: str = ""

    _sample = "text"
    _takes = "text of 1 to {self.most} characters"

    @property
    def takes(self) -> str:
        """See `Field.takes`."""
        given = f"1 to {self.most} {self.form}" if self.form else self._takes
        return given.format(self=self)

    def form_schema(self) -> Schema:
        """See `Field.form_schema`."""
        takes = {"description": f"{self.text} It takes {self.takes}."} if self.form else {}
        return Field.form_schema(self) | takes

    def _read(self, value: object) -> Any:
        if not isinstance(value, str) or not 0 < len(value) <= self.most:
            raise InvalidRequest(f"{self.json} must be a string of 1 to {self.most} characters")
        if self.max_bytes is not None:
            # A lone surrogate is not printable, so what is left can be encoded.
            printable = bool(value.strip()) and value.isprintable()
            if not printable or len(value.encode()) > self.max_bytes:
                raise InvalidRequest(self.expected)
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise InvalidRequest(f"{self.json} must be 1 to {self.most} {self.form}")
        return value

    @property
    def expected(self) -> str:
        """The error for a value that does not fit `max_bytes`."""
        return f"{self.json} must be printable text of 1 to {self.max_bytes} bytes of UTF-8"

    def _bounds(self) -> Schema:
        return {"minLength": 1, "maxLength": self.max_bytes or self.most} | self._form()

    def _form(self) -> Schema:
        return {"pattern": f"^{self.pattern}$"} if self.pattern else {}


class Line(Text):
    """One line of printable text; spaces at its ends are removed."""

    _takes = "one line of 1 to {self.most} characters"

    def _read(self, value: object) -> Any:
        if not isinstance(value, str) or not value.strip():
            raise InvalidRequest(self.missing or f"{self.json} is required")
        if len(value) > self.most or not value.isprintable():
            raise InvalidRequest(f"{self.json} must be one line of at most {self.most} characters")
        return value.strip()


@dataclass(frozen=True, slots=True)
class RawText(Text):
    """Text of at least `least` characters; its format is checked elsewhere."""

    least: int = 1

    _takes = "text of {self.least} to {self.most:,} characters"

    def _read(self, value: object) -> Any:
        if not isinstance(value, str):
            raise InvalidRequest(f"{self.json} must be {self._article}")
        return value

    def _bounds(self) -> Schema:
        return Text._bounds(self) | {"minLength": self.least}


@dataclass(frozen=True, slots=True)
class Words(Text):
    """Text that has more than spaces.

    Attributes:
        printable: whether all of its characters must be printable.
    """

    printable: bool = False

    def _read(self, value: object) -> Any:
        if not isinstance(value, str):
            raise InvalidRequest(f"{self.json} must be a string")
        if not value.strip() or len(value) > self.most:
            raise InvalidRequest(f"{self.json} must have 1 to {self.most} characters")
        if self.printable and not value.isprintable():
            raise InvalidRequest(f"{self.json} must have printable characters only")
        # Neither SQLite text nor UTF-8 holds a lone surrogate, and PostgreSQL refuses NUL.
        if "\x00" in value or any("\ud800" <= each <= "\udfff" for each in value):
            raise InvalidRequest(f"{self.json} must be valid text")
        return value


class Loaded(Text):
    """The name of a loaded plugin or template; whether it exists is checked elsewhere."""

    def _read(self, value: object) -> Any:
        return value


class Token(Text):
    """A mint's address, or a symbol known on the network."""

    def _bounds(self) -> Schema:
        return {"minLength": 1, "maxLength": 64}


class Address(Text):
    """A base58 address."""

    _takes = "an address"
    _sample = "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh"

    def _bounds(self) -> Schema:
        return {"minLength": 32, "maxLength": 44}

    def _form(self) -> Schema:
        return {"pattern": ADDRESS}


class Recipient(Address):
    """A recipient's address. An admin may name a contact or a wallet instead
    (`solward.types.address_book`); models and API keys may not."""

    _takes = "an address; from an admin also a name"

    def _bounds(self) -> Schema:
        return {"minLength": 1, "maxLength": MAX_TEXT}


class Id(Text):
    """The UUID of a stored record."""

    _takes = "an id"
    _sample = "4f1c8a63-8a0f-4a55-9f43-6a1c4a3f9b0e"

    def _form(self) -> Schema:
        return {"format": "uuid"}


class Units(Text):
    """An amount in an asset's smallest units, as digits."""

    _sample = "5000000"

    def _form(self) -> Schema:
        return {"pattern": r"^\d+$"}


class WalletId(Text):
    """A wallet's id; the command line also accepts its name."""


class AgentId(Text):
    """An agent's id; the command line also accepts its name."""


class Principal(Text):
    """The principal that made a request; the command line also accepts its name."""


@dataclass(frozen=True, slots=True)
class Choice(Text):
    """One of several words."""

    options: tuple[str, ...] = ()

    @property
    def sample(self) -> Any:
        """See `Field.sample`."""
        return self.options[0] if self.example is REQUIRED else self.example

    @property
    def takes(self) -> str:
        """See `Field.takes`."""
        return " or ".join(f"`{each}`" for each in self.options)

    def _read(self, value: object) -> Any:
        if value not in self.options:
            raise InvalidRequest(self.expected)
        return value

    @property
    def expected(self) -> str:
        """The error for any other word."""
        if len(self.options) > 2:
            return f"{self.json} must be one of {', '.join(self.options)}"
        return f"{self.json} must be {' or '.join(self.options)}"

    def _bounds(self) -> Schema:
        return self._form()

    def _form(self) -> Schema:
        return {"enum": list(self.options)}


_NO_TIME: Final = " must be an ISO 8601 time with its zone, such as 2026-12-31T00:00:00Z"


class Time(Text):
    """An ISO 8601 time: with a zone in requests, in UTC with milliseconds in answers."""

    argument = "datetime"

    _takes = "ISO 8601 with a zone"
    _sample = "2026-11-21T10:34:55.814Z"

    def _read(self, value: object) -> Any:
        given = Text._read(self, value)
        try:
            ms_of(given)
        except (ValueError, OverflowError):
            raise InvalidRequest(self.json + _NO_TIME) from None
        return given

    def _form(self) -> Schema:
        return {"format": "date-time", "pattern": TIMESTAMP}

    def _bounds(self) -> Schema:
        return {"minLength": 1, "maxLength": self.most}


class Past(Time):
    """A time in the past; the command line also accepts a span before now."""


class Moment(Text):
    """A time that is stored with a request: ISO 8601 with a zone, in the years 1970 to 2199."""

    _takes = "ISO 8601 with a zone, up to the year 2199"

    def _read(self, value: object) -> Any:
        try:
            found = ms_of(value) if isinstance(value, str) else -1
        except (ValueError, OverflowError):
            found = -1
        if not 0 <= found <= _LATEST_MS:
            raise InvalidRequest(self.json + _NO_TIME)
        return value

    argument = "datetime | str"


# The end of the year 2199: until then times in milliseconds have 13 digits and sort as texts.
_LATEST_MS: Final = 7_258_118_399_999


@dataclass(frozen=True, slots=True)
class Flag(Field):
    """True or false. If `const` is set, an answer has no other value."""

    const: bool | None = None

    @property
    def sample(self) -> Any:
        """See `Field.sample`."""
        return bool(self.const) if self.example is REQUIRED else self.example

    argument = "bool"
    _type = "boolean"
    _article = "true or false"

    def _read(self, value: object) -> Any:
        if not isinstance(value, bool):
            raise InvalidRequest(f"{self.json} must be true or false")
        return value

    def _form(self) -> Schema:
        return {} if self.const is None else {"const": self.const}


class Number(Field):
    """A number, exact as it is written: int or Decimal, never a float."""

    def _read(self, value: object) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise InvalidRequest(f"{self.json} must be a number")
        return value

    argument = "Amount"
    _type = "number"
    _article = "a number"
    _sample = 1


@dataclass(frozen=True, slots=True)
class Amount(Number):
    """An amount above 0 in whole units: SOL, or tokens of a mint with its own decimals.

    The plan checks the number of decimals and `maximum`, because it knows the unit.
    """

    maximum: int | None = None

    def _bounds(self) -> Schema:
        bounds: Schema = {"exclusiveMinimum": 0}
        return bounds if self.maximum is None else bounds | {"maximum": self.maximum}

    def _form(self) -> Schema:
        return {"minimum": 0}


@dataclass(frozen=True, slots=True)
class Sol(Amount):
    """An amount of SOL.

    Attributes:
        zero: whether it may be 0.
    """

    zero: bool = False

    @property
    def takes(self) -> str:
        """See `Field.takes`."""
        return "SOL, 0 or more" if self.zero else "SOL, more than 0"

    def _read(self, value: object) -> Any:
        number = Number._read(self, value)
        if not (self.zero and number == 0):
            sol_to_lamports(number, self.json)
        return number

    def _bounds(self) -> Schema:
        return {"minimum": 0} if self.zero else {"exclusiveMinimum": 0}


@dataclass(frozen=True, slots=True)
class Whole(Number):
    """A whole number within bounds; `5.0` is 5. For an answer, `most` may be left out."""

    least: int = 0
    most: int = 0

    _takes = "a whole number from {self.least:,} to {self.most:,}"

    def _read(self, value: object) -> Any:
        given = Decimal(Number._read(self, value))
        # Compared before the conversion to int, because `1e999999999` would take all memory.
        if not given.is_finite() or not self.least <= given <= self.most or given != int(given):
            raise InvalidRequest(self.expected)
        return int(given)

    @property
    def expected(self) -> str:
        """The error for any other number."""
        return f"{self.json} must be a whole number from {self.least} to {self.most}"

    argument = "int"
    _type = "integer"

    def _bounds(self) -> Schema:
        return {"minimum": self.least} | ({"maximum": self.most} if self.most else {})

    def _form(self) -> Schema:
        return self._bounds()


@dataclass(frozen=True, slots=True)
class Texts(Field):
    """A list of at most `most` texts, each of 1 to `longest` characters.

    Attributes:
        each: a description of one text.
    """

    each: str = ""
    most: int = 20
    longest: int = 64

    argument = "Sequence[str]"
    _sample: ClassVar[Any] = []
    _type = "array"
    _article = "an array"

    _takes = "at most {self.most} texts of 1 to {self.longest} characters"

    def _read(self, value: object) -> Any:
        if (
            not isinstance(value, list)
            or len(value) > self.most
            or not all(isinstance(item, str) and 0 < len(item) <= self.longest for item in value)
        ):
            raise InvalidRequest(
                f"{self.json} must be an array of at most {self.most} strings of 1 to"
                f" {self.longest} characters"
            )
        return tuple(value)

    def _bounds(self) -> Schema:
        item = {"type": "string", "description": self.each}
        return {"items": item | {"minLength": 1, "maxLength": self.longest}, "maxItems": self.most}

    def _form(self) -> Schema:
        return {"items": {"type": "string", "description": self.each}}

    def form_schema(self) -> Schema:
        """See `Field.form_schema`."""
        made = Field.form_schema(self)
        return made | {"items": made["items"] | {"title": self.label.removesuffix("s")}}


@dataclass(frozen=True, slots=True)
class Choices(Texts):
    """A list of words from a fixed set; in a query, separated by commas."""

    options: tuple[str, ...] = ()

    def _read(self, value: object) -> Any:
        words = tuple(each.strip() for each in value) if isinstance(value, list) else (str(value),)
        unknown = sorted(set(words).difference(self.options))
        if unknown:
            known, others = ", ".join(self.options), ", ".join(unknown)
            raise InvalidRequest(
                f"{self.json} must be a comma-separated list of {known}; {others!r} is none"
            )
        return words

    def _bounds(self) -> Schema:
        word = {"type": "string", "description": self.each, "enum": [*self.options]}
        return {"items": word, "minItems": 1}


@dataclass(frozen=True, slots=True)
class Shape(Field):
    """A value with its own JSON Schema, which is checked elsewhere.

    Attributes:
        form: its JSON Schema.
    """

    form: Mapping[str, Any] = field(default_factory=dict)

    argument = "Any"

    def read(self, value: object) -> Any:
        """Return the value as it is."""
        return value

    def schema(self) -> Schema:
        """See `Field.schema`."""
        return dict(self.form) if "$ref" in self.form else {**self.form, "description": self.text}

    def answer_schema(self) -> Schema:
        """See `Field.answer_schema`."""
        return self.schema()


@dataclass(frozen=True, slots=True)
class Json(Field):
    """A JSON object whose fields are declared elsewhere. If `floats` is true, none is money."""

    floats: bool = False

    argument = "Mapping[str, Any]"

    _sample: ClassVar[Any] = {}
    _type = "object"
    _article = "an object"

    def _read(self, value: object) -> Any:
        if not isinstance(value, Mapping):
            raise InvalidRequest(f"{self.json} must be {self._article}")
        return dict(value)


@dataclass(frozen=True, slots=True)
class Usd(Number):
    """An amount in US dollars, above 0 and at most `most`, with up to 9 decimals."""

    most: int = 0

    _takes = "US dollars, more than 0 and at most {self.most:,}"

    def _read(self, value: object) -> Any:
        amount = Decimal(Number._read(self, value))
        if not (amount.is_finite() and 0 < amount <= self.most):
            raise InvalidRequest(f"{self.json} must be more than 0 and at most {self.most}")
        exponent: int | str = amount.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -9:
            raise InvalidRequest(f"{self.json} must have at most 9 decimals")
        return amount

    def _bounds(self) -> Schema:
        return {"exclusiveMinimum": 0, "maximum": self.most}


class Parameters(Json):
    """The parameters of a skill, as its schema declares them."""

    _article = "an object, as the skill's schema says"


_GRANT: Final = {"$ref": "#/components/schemas/Grant"}
_SENTENCE: Final = {"minLength": 1, "maxLength": 20_000}
SAID_GRANT: Final[Schema] = {
    "anyOf": [_GRANT, {"type": "string", "description": "A grant's sentence."} | _SENTENCE]
}


@dataclass(frozen=True, slots=True)
class GrantList(Field):
    """A list of grants, as JSON or as sentences (docs/reference/grants.md)."""

    said = "A grant in words, such as: may transfer up to 0.1 SOL a day, to anybody."

    argument = "Grants"
    _sample: ClassVar[Any] = []
    _type = "array"
    _article = "an array"

    _takes = "[grants](grants.md), or their sentences"

    def _read(self, value: object) -> Any:
        return value

    def _bounds(self) -> Schema:
        return {"items": SAID_GRANT, "maxItems": 100}

    def _form(self) -> Schema:
        return {"items": _GRANT}

    def form_schema(self) -> Schema:
        """Return the schema for forms, in which each grant is a sentence."""
        sentence = {"type": "string", "title": "Sentence"} | _SENTENCE
        return Field.form_schema(self) | {"items": sentence, "description": self.said}


def object_schema(fields: Iterable[Field]) -> Schema:
    """Return the JSON Schema of an object that has only these fields."""
    fields = tuple(fields)
    made: Schema = {"type": "object", "properties": {each.json: each.schema() for each in fields}}
    required = [each.json for each in fields if each.is_required]
    return made | ({"required": required} if required else {}) | {"additionalProperties": False}


def value_schema(of: Field | Schema) -> Schema:
    """Return the schema of an answer's value, which is given as a field or as a schema."""
    return of.answer_schema() if isinstance(of, Field) else of


def nullable(schema: Schema) -> Schema:
    """Return a schema that also allows null."""
    if isinstance(schema.get("type"), str):
        enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return schema | {"type": [schema["type"], "null"]} | enum
    return {"anyOf": [schema, {"type": "null"}]}
