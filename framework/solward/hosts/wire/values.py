"""Conversion of Solward's own types for a channel: each dataclass to a strict struct of its fields.

The structs are made from the dataclasses' hints. Both ends check them, with the bounds in the
hints. A JSON-like value travels as JSON text, so that its numbers stay exact.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from types import GenericAlias, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec
from msgspec import Meta

from solward.hosts.wire.frames import UNREADABLE, HostileFrame
from solward.support import jsontext
from solward.types.bounds import Address, Text
from solward.types.errors import InvalidRequest
from solward.types.provider import Completion, ToolCall, ToolDefinition

if TYPE_CHECKING:
    from solders.instruction import Instruction as SoldersInstruction


class Unreadable(ValueError):
    """A received struct has the right types, but an invalid value."""


class Wire(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all structs that are sent through a channel."""


def to_json(value: object) -> str:
    """Return a JSON-like value as text.

    Raises:
        InvalidRequest: if it is not JSON-like, or nested too deep.
    """
    try:
        plain = _plain_json(value)
        if unfit := jsontext.explain_unfit(plain, has_nul=True):
            raise ValueError(unfit)
        return jsontext.dumps(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None


def from_json(text: str) -> Any:
    """Return the value of JSON text; fractions are Decimal.

    Raises:
        Unreadable: if it is not JSON, nested too deep, or has a value that cannot be stored.
    """
    try:
        return jsontext.read(text, has_nul=True)
    except (jsontext.DuplicateKey, jsontext.UnfitValue) as error:
        raise Unreadable(f"not storable JSON: {error}") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {type(error).__name__}") from None


def _plain_json(value: object) -> object:
    """Return JSON-like data in built-in types; anything else is returned unchanged."""
    if isinstance(value, Mapping):
        return {key: _plain_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_json(each) for each in value]
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(f"{value} is not a JSON number")
    return value


# Limit of digits and of the power of ten: arithmetic would write larger numbers out in full.
_MAX_POWER: Final = 100


def _finite_number(value: Decimal) -> Decimal:
    if not value.is_finite() or abs(value.adjusted()) > _MAX_POWER:
        raise Unreadable("a number is not finite or out of range")
    return value


class AccountMeta(Wire):
    address: Address
    signer: bool
    writable: bool


class Instruction(Wire):
    """An instruction of solders, in the form for a channel."""

    program: Address
    accounts: Annotated[tuple[AccountMeta, ...], Meta(max_length=256)]
    data: Annotated[bytes, Meta(max_length=10 << 10)]


Instructions = Annotated[tuple[Instruction, ...], Meta(max_length=64)]
_MAX_METAS: Final = 256
"""Accounts that all instructions of a transaction name: each takes a byte of it, and more."""


def _instruction_to_wire(instruction: SoldersInstruction) -> Instruction:
    return Instruction(
        str(instruction.program_id),
        tuple(
            AccountMeta(str(each.pubkey), each.is_signer, each.is_writable)
            for each in instruction.accounts
        ),
        bytes(instruction.data),
    )


def _instruction_from_wire(wire: Instruction) -> SoldersInstruction:
    from solders.instruction import AccountMeta as SoldersMeta
    from solders.instruction import Instruction as SoldersInstruction
    from solders.pubkey import Pubkey

    try:
        return SoldersInstruction(
            Pubkey.from_string(wire.program),
            wire.data,
            [
                SoldersMeta(Pubkey.from_string(each.address), each.signer, each.writable)
                for each in wire.accounts
            ],
        )
    except ValueError:
        raise Unreadable("an instruction contains an invalid address") from None


def _instructions_to_wire(made: Any) -> tuple[Instruction, ...]:
    from solders.instruction import Instruction as SoldersInstruction

    try:
        every = tuple(made)
    except TypeError:
        every = (None,)
    if not all(isinstance(each, SoldersInstruction) for each in every):
        raise InvalidRequest("instructions must be instructions of solders")
    return tuple(map(_instruction_to_wire, every))


def _instructions_from_wire(wires: tuple[Instruction, ...]) -> tuple[SoldersInstruction, ...]:
    if sum(len(each.accounts) for each in wires) > _MAX_METAS:
        raise InvalidRequest(f"instructions may name at most {_MAX_METAS} accounts together")
    return tuple(map(_instruction_from_wire, wires))


Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """The conversion of one type for a channel, in both directions.

    Attributes:
        wire: the type that msgspec checks.
        there: converts Solward's own value to it; None if that travels unchanged.
        back: converts it to Solward's value, in built-in types; None if that travels unchanged.
    """

    wire: Any
    there: Convert | None = None
    back: Convert | None = None


def shape_of(hint: Any) -> Shape:
    """Return the conversion of a type hint: built-in types, enums, dataclasses of these, and
    JSON-like values, written `Any` or `Mapping[str, Any]`."""
    if typing.get_origin(hint) is not Annotated:
        return _shape_without_marks(hint, ())
    marks = hint.__metadata__
    found = _shape_without_marks(hint.__origin__, marks)
    return dataclasses.replace(found, wire=Annotated[(found.wire, *marks)])


def _shape_without_marks(hint: Any, marks: tuple[Any, ...]) -> Shape:
    """Return the conversion; the caller adds `marks`, which replace this function's own limits."""
    bounded = str if marks else Text
    if hint is Any or hint == Mapping[str, Any]:
        return Shape(bounded, to_json, from_json)
    if hint is str:
        return Shape(bounded)
    if hint is Decimal:
        return Shape(Decimal, None, _finite_number)
    if hint is Instruction:
        return Shape(Instruction, _instruction_to_wire, _instruction_from_wire)
    if hint == tuple[Instruction, ...]:
        return Shape(hint, _instructions_to_wire, _instructions_from_wire)
    if dataclasses.is_dataclass(hint):
        return _shape_of_dataclass(cast(type, hint), None)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (UnionType, typing.Union):
        return _shape_of_union(arguments)
    if origin in (dict, Mapping):
        key, value = map(shape_of, arguments)
        back = None if value.back is None else _convert_values(value.back)
        return Shape(GenericAlias(dict, (key.wire, value.wire)), _convert_values(value.there), back)
    if origin is frozenset:
        return Shape(GenericAlias(frozenset, shape_of(arguments[0]).wire), frozenset)
    if origin is tuple and arguments[-1] is Ellipsis:
        item = shape_of(arguments[0])
        back = None if item.back is None else _convert_items(item.back)
        return Shape(GenericAlias(tuple, (item.wire, ...)), _convert_items(item.there), back)
    if origin is tuple:
        return Shape(GenericAlias(tuple, tuple(shape_of(each).wire for each in arguments)), tuple)
    return Shape(hint)


# `Any`, because a type checker does not know the members of a union made at run time.
_UNION: Final[Any] = typing.Union


def _shape_of_union(members: tuple[Any, ...]) -> Shape:
    some = [each for each in members if each is not NoneType]
    tagged = sum(map(dataclasses.is_dataclass, some)) > 1
    shapes = {
        each: _shape_of_dataclass(each, each.__name__) if tagged else shape_of(each)
        for each in some
    }
    optional = (None,) if NoneType in members else ()
    wire: Any = _UNION[(*(each.wire for each in shapes.values()), *optional)]
    if len(some) == 1:
        [only] = shapes.values()
        return Shape(wire, _convert_optional(only.there), _convert_optional(only.back))
    return Shape(
        wire,
        _convert_by_type({kind: each.there for kind, each in shapes.items()}),
        _convert_by_type({each.wire: each.back for each in shapes.values()}),
    )


def _convert_optional(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _convert_by_type(converts: Mapping[Any, Convert | None]) -> Convert:
    def convert(value: Any) -> Any:
        found = converts.get(type(value))
        return value if found is None else found(value)

    return convert


def _convert_items(convert: Convert | None) -> Convert:
    if convert is None:
        return tuple
    return lambda values: tuple(map(convert, values))


def _convert_values(convert: Convert | None) -> Convert:
    if convert is None:
        return dict
    return lambda values: {key: convert(value) for key, value in values.items()}


@cache
def _shape_of_dataclass(kind: type, tag: str | None) -> Shape:
    hints = typing.get_type_hints(kind, localns={"Instruction": Instruction}, include_extras=True)
    shapes, defaults = {}, {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if typing.get_origin(hint) is Callable or any(
            typing.get_origin(each) is type for each in typing.get_args(hint)
        ):
            continue  # Functions and classes do not travel.
        shape = shapes[field.name] = shape_of(hint)
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = _wire_default(shape, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = _wire_default(shape, field.default_factory())
    wire = _define_struct(kind.__name__, shapes, defaults, tag)
    there, back = _converters(shapes)
    made = Shape(
        wire,
        lambda value: wire(**there({name: getattr(value, name) for name in shapes})),
        lambda value: kind(**back({name: getattr(value, name) for name in shapes})),
    )
    return _cached_shape(made) if kind is ToolDefinition else made


def _wire_default(shape: Shape, value: Any) -> Any:
    value = value if shape.there is None else shape.there(value)
    return msgspec.field(default_factory=dict) if value == {} else value


def _define_struct(
    name: str, shapes: Mapping[str, Shape], defaults: Mapping[str, Any], tag: str | None = None
) -> Any:
    fields = [
        (each, shape.wire, *((defaults[each],) if each in defaults else ()))
        for each, shape in shapes.items()
    ]
    return msgspec.defstruct(
        name,
        fields,
        bases=(Wire,),
        kw_only=True,
        frozen=True,
        tag=tag,
        tag_field=None if tag is None else "is",
    )


def _converters(
    shapes: Mapping[str, Shape],
) -> tuple[Callable[[dict[str, Any]], Any], Callable[[dict[str, Any]], Any]]:
    """Return functions that convert named values for a channel, and back."""
    there = [(name, shape.there) for name, shape in shapes.items() if shape.there is not None]
    back = [(name, shape.back) for name, shape in shapes.items() if shape.back is not None]

    def converter(
        converts: list[tuple[str, Convert]],
    ) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def convert(values: dict[str, Any]) -> dict[str, Any]:
            for name, each in converts:
                values[name] = each(values[name])
            return values

        return convert

    return converter(there), converter(back)


_KEPT_TOOLS: Final = 1_024


def _cached_shape(shape: Shape) -> Shape:
    """Return the conversion with a cache for definitions of tools: agents send the same ones."""
    assert shape.there is not None
    assert shape.back is not None
    make = shape.there
    # By identity, which stays valid because the cache holds the definition itself.
    written: dict[int, tuple[object, Any]] = {}

    def there(value: object) -> Any:
        found = written.get(id(value))
        if found is None:
            if len(written) >= _KEPT_TOOLS:
                written.clear()
            found = written[id(value)] = (value, make(value))
        return found[1]

    return Shape(shape.wire, there, lru_cache(_KEPT_TOOLS)(shape.back))


_UNREADABLE_TEXT: Final = "unreadable"
# Bytes of all arguments in an answer of at most 4 MiB; text and names need less than the rest.
_MAX_ARGUMENTS: Final = 2 << 20


def sendable_completion(completion: Completion) -> Completion:
    """Return a model's answer in a form that can travel. Arguments that cannot, or are too long in
    total, become text instead of an object, so the agent skips that call and reads the rest."""
    calls, room = [], _MAX_ARGUMENTS
    for call in completion.tool_calls:
        try:
            size = len(to_json(call.arguments).encode())
        except InvalidRequest:
            size = room + 1
        fits = size <= room
        room -= size if fits else len(_UNREADABLE_TEXT) + 2
        calls.append(call if fits else ToolCall(call.name, _UNREADABLE_TEXT))
    return dataclasses.replace(completion, tool_calls=tuple(calls))


_ENCODER: Final = msgspec.msgpack.Encoder()


class Codec:
    """Writes and reads values of one type; each end reads what the other writes.

    Args:
        name: name for errors.
        kind: a type hint; or hints by the names of arguments, whose values are a dictionary.
        most: limit in bytes; None for that of a frame.
    """

    def __init__(self, name: str, kind: Any, most: int | None = None) -> None:
        self._name = name
        self._most = most
        shape = _shape_of_arguments(name, kind) if isinstance(kind, Mapping) else shape_of(kind)
        self.convert: Convert = shape.back or _unchanged
        """Converts the result of `read` to the value; raises `Unreadable`, or `InvalidRequest`."""
        self._there = shape.there or _unchanged
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(shape.wire)

    def write(self, value: Any) -> bytes:
        """Return a value as msgpack.

        Raises:
            InvalidRequest: if a field has the wrong type or is out of bounds, which the text names,
                or if the value is larger than the method allows.
        """
        try:
            body = _ENCODER.encode(self._there(value))
            # Checked here, because the reader would end the channel: it is this caller's error.
            self._decoder.decode(body)
        except (TypeError, *UNREADABLE) as error:
            raise InvalidRequest(f"{self._name}: {error}") from None
        if self._most is not None and len(body) > self._most:
            raise InvalidRequest(f"{self._name}: {len(body)} bytes; at most {self._most} fit")
        return body

    def read(self, body: bytes | msgspec.Raw) -> Any:
        """Decode msgpack bytes to a struct, which `convert` turns into the value.

        Raises:
            HostileFrame: if it is not of this type, or larger than the method allows.
        """
        if self._most is not None and len(body) > self._most:
            # Not decoded, because decoding would take the time.
            raise HostileFrame(f"{self._name}: a request of {len(body)} bytes")
        try:
            return self._decoder.decode(body)
        except UNREADABLE as error:
            text = f"{self._name}: not its struct ({type(error).__name__})"
            raise HostileFrame(text) from None


def _shape_of_arguments(name: str, kinds: Mapping[str, Any]) -> Shape:
    shapes = {each: shape_of(hint) for each, hint in kinds.items()}
    wire = _define_struct(name, shapes, {})
    there, back = _converters(shapes)
    return Shape(
        wire,
        lambda values: wire(**there(dict(values))),
        lambda value: back({each: getattr(value, each) for each in shapes}),
    )


def _unchanged(value: Any) -> Any:
    return value
