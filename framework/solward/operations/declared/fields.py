"""The words an operation is declared in: plain data, from which every surface derives its own.

A field is one value an operation takes, or one its record's details hold. Only the standard
library, errors and the record's types are imported here: clients read declarations too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import Any, Final

from solward.solana.programs import LOCALNET_USDC_MINT, WRAPPED_SOL_MINT
from solward.solana.protocol import LOCALNET_RENT_PER_BYTE, rent_of
from solward.types.errors import InvalidRequest
from solward.types.record import TransactionType

Schema = dict[str, Any]

# The longest text a route reads; what a field is, is checked after that.
MAX_TEXT = 200

WALLET = "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh"
RECIPIENT = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
SOL = WRAPPED_SOL_MINT
USDC = LOCALNET_USDC_MINT
MINT = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
ACCOUNT = "GEVUHyWDGETFB2QXpKh43KZDyZZzHTQptZRqx1sA2wfu"
STAKE = "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"
VALIDATOR = "9QU2QSxhb24FUX3Tu2FpczXjpK3VYrvRudywSZaM29mF"
WRAPPED = "4yzpwGH8prcWPpXbJKjyVCdBBCaUyKuomxgmmZr5MrYh"


def example_rent(size: int) -> Decimal:
    """SOL of rent, as examples show it, of an account of `size` data bytes."""
    return Decimal(rent_of(size, LOCALNET_RENT_PER_BYTE)).scaleb(-9)


class Required:
    """The default of a field that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = Required()


def camel(name: str) -> str:
    """`input_token` -> `inputToken`, as JSON names it."""
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


@dataclass(frozen=True, slots=True)
class Field:
    """One value, of the kind its subclass is.

    Attributes:
        name: as Python writes it; `json` is its name everywhere else.
        text: what it is, for people and models, with unit.
        default: what stands in where it is left out or null. None: it may be left out.
        detail: its name in the record's details where that is another one (as JSON writes it).
        title: its label in forms where the name does not do.
        cli: in the command line, an option's name (`--supply`) or an argument's (`FROM`) where the
            name does not do. Required fields are arguments, the others options.
    """

    name: str
    text: str
    _: KW_ONLY
    default: Required | str | int | None = REQUIRED
    detail: str = ""
    title: str = ""
    cli: str = ""

    @property
    def json(self) -> str:
        """Its name in requests, answers and skill parameters."""
        return camel(self.name)

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED

    def read(self, value: object) -> Any:
        """The value as its plan takes it.

        Raises:
            InvalidRequest: naming the field and what was expected.
        """
        if value is None:
            if self.default is REQUIRED:
                raise InvalidRequest(f"{self.json} is required and must be {self._article}")
            if self.default is None:
                return None
        # None never stands for a default: a skill that forgot to choose must not choose for ever.
        return self._read(value)

    def schema(self) -> Schema:
        """As JSON Schema 2020-12."""
        made = {"type": self._type, "description": self.text} | self._bounds()
        return made if self.default in (REQUIRED, None) else made | {"default": self.default}

    _type = "string"
    _article = "a string"

    def _read(self, value: object) -> Any:
        raise NotImplementedError

    def _bounds(self) -> Schema:
        return {}


@dataclass(frozen=True, slots=True)
class Text(Field):
    """Text; with `max_bytes` printable, and of 1 to so many bytes of UTF-8."""

    max_bytes: int | None = None

    def _read(self, value: object) -> Any:
        if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
            raise InvalidRequest(f"{self.json} must be a string of 1 to {MAX_TEXT} characters")
        if self.max_bytes is not None:
            # A lone surrogate is not printable, so what is left can be encoded.
            printable = bool(value.strip()) and value.isprintable()
            if not printable or len(value.encode()) > self.max_bytes:
                raise InvalidRequest(self.expected)
        return value

    @property
    def expected(self) -> str:
        """How a value is refused that does not fit `max_bytes`."""
        return f"{self.json} must be printable text of 1 to {self.max_bytes} bytes of UTF-8"

    def _bounds(self) -> Schema:
        return {"minLength": 1, "maxLength": self.max_bytes or MAX_TEXT}


@dataclass(frozen=True, slots=True)
class Token(Text):
    """A mint's address, or a symbol known on the network."""

    def _bounds(self) -> Schema:
        return {"minLength": 1, "maxLength": 64}


@dataclass(frozen=True, slots=True)
class Address(Text):
    """A base58 address."""

    def _bounds(self) -> Schema:
        return {"minLength": 32, "maxLength": 44}


@dataclass(frozen=True, slots=True)
class Recipient(Address):
    """Who receives: an address; command line and dashboard take a wallet of the service by name,
    too, and the dashboard a contact."""


@dataclass(frozen=True, slots=True)
class Choice(Text):
    """One of some words."""

    options: tuple[str, ...] = ()

    def _read(self, value: object) -> Any:
        if value not in self.options:
            raise InvalidRequest(self.expected)
        return value

    @property
    def expected(self) -> str:
        """How any other word is refused."""
        return f"{self.json} must be {' or '.join(self.options)}"

    def _bounds(self) -> Schema:
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Number(Field):
    """A number, exact as it is written: int or Decimal, never a float."""

    def _read(self, value: object) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise InvalidRequest(f"{self.json} must be a number")
        return value

    _type = "number"
    _article = "a number"


@dataclass(frozen=True, slots=True)
class Amount(Number):
    """More than 0, in whole units: SOL, or tokens of a mint with its own decimals.

    How many decimals fit, and that `maximum` is kept, is for the plan to say: it knows the unit.
    """

    maximum: int | None = None

    def _bounds(self) -> Schema:
        bounds: Schema = {"exclusiveMinimum": 0}
        return bounds if self.maximum is None else bounds | {"maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Whole(Number):
    """A whole number within bounds; `5.0` is 5."""

    least: int = 0
    most: int = 0

    def _read(self, value: object) -> Any:
        given = Decimal(Number._read(self, value))
        # Compared before it is made an int: `1e999999999` would take all memory.
        if not given.is_finite() or not self.least <= given <= self.most or given != int(given):
            raise InvalidRequest(self.expected)
        return int(given)

    @property
    def expected(self) -> str:
        """How any other number is refused."""
        return f"{self.json} must be a whole number from {self.least} to {self.most}"

    _type = "integer"

    def _bounds(self) -> Schema:
        return {"minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing a wallet can do with its money.

    Attributes:
        name: of the method that does it, as Python writes it.
        type: of its records.
        tag: its chapter in the API's description: `money`, `tokens` or `staking`.
        title: what it does, in a few words, without a full stop.
        does: a sentence for docstrings and help; it names fields in backticks.
        note: more of it, for the API's description.
        fields: what it takes, in the order of the command line's arguments.
        details: what its record's details hold.
        example: a request's body.
        answer: the details its record then has.
        refusals: texts of its 400.
        verb: on a button.
        progress: the same while it goes on.
        route: the last segment of its URL where that is not its name.
        is_flat: its answer has the details at the top level too.
        metadata: details that its answer repeats under `metadata`.
        flag: a field of its answer that is true once it is confirmed.
        repeats: its details' `left` says how much more calls of it can take.
        is_irreversible: nothing brings back what it takes; the dashboard asks before.
        question: the command line asks this before; it may name fields in braces.
    """

    name: str
    type: TransactionType
    tag: str
    title: str
    does: str
    note: str = ""
    fields: tuple[Field, ...] = ()
    details: tuple[Field, ...]
    example: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any]
    refusals: tuple[str, ...]
    verb: str
    progress: str
    route: str = ""
    is_flat: bool = True
    metadata: tuple[str, ...] = ()
    flag: str = ""
    repeats: bool = False
    is_irreversible: bool = False
    question: str = ""

    @property
    def path(self) -> str:
        """The last segment of its URL, and its command's name: `wrap-sol`."""
        return self.route or self.name.replace("_", "-")

    def read(self, params: Mapping[str, object]) -> dict[str, Any]:
        """The plan's arguments out of a request's; names it does not know are ignored.

        An absent field has its default; one that is None is refused where the default is a value.

        Raises:
            InvalidRequest: naming the first field that is missing or wrong.
        """
        return {
            each.name: each.default
            if each.json not in params and not each.is_required
            else each.read(params.get(each.json))
            for each in self.fields
        }

    def requested(self, wallet: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The record's details as far as a request knows them, for one that could not be planned.

        Args:
            wallet: its address.
            values: as `read` gives them.
        """
        known = {each.detail or each.json: values[each.name] for each in self.fields}
        known["from"] = wallet
        names = (each.json for each in self.details)
        return {name: known[name] for name in names if known.get(name) is not None}

    def schema(self) -> Schema:
        """JSON Schema of what it takes: closed, as a skill's `parameters`."""
        made: Schema = {
            "type": "object",
            "properties": {each.json: each.schema() for each in self.fields},
        }
        required = [each.json for each in self.fields if each.is_required]
        if required:
            made["required"] = required
        return made | {"additionalProperties": False}
