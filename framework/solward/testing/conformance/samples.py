"""Parameters generated from a JSON Schema: valid ones, invalid ones, and edge cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from solward.plugins.parameters import Parameters
from solward.plugins.schema import kinds_of

Params = dict[str, Any]
Labelled = tuple[str, Any]

_WORDS = "example text "
_LONGEST = 2_000
_OF_TYPE: Mapping[str, Any] = {
    "string": "text",
    "integer": 7,
    "boolean": True,
    "null": None,
    "array": ["text"],
    "object": {"some": "object"},
}


class NoSample(Exception):
    """No valid value could be generated; the message names the property."""


def sample(schema: Mapping[str, Any], name: str = "parameters") -> Any:
    """Return a valid value for a checked schema, with every property; raises `NoSample`."""
    accepts = Parameters(schema).accepts
    for value in _candidate_values(schema, name):
        if accepts(value):
            return value
    raise NoSample(f"cannot generate a value for {name}; declare examples")


def invalid_params(schema: Mapping[str, Any], base: Params) -> list[Labelled]:
    """Return invalid parameters, each with its description.

    Args:
        base: valid parameters; each result differs from them in one place.
    """
    found: list[Labelled] = [
        ("an array in place of the object", ["text"]),
        ("an unknown field", {**base, "solward_unknown": 1}),
    ]
    for name in schema.get("required", ()):
        without = {key: value for key, value in base.items() if key != name}
        found.append((f"{name} left out", without))
    for name, field in schema.get("properties", {}).items():
        for what, value in _invalid_values(field):
            found.append((f"{name} {what}", {**base, name: value}))
    return found


def edge_params(schema: Mapping[str, Any], base: Params, most: int) -> list[Labelled]:
    """Return up to `most` valid but unusual parameters, spread over all fields."""
    per_field = []
    for name, field in schema.get("properties", {}).items():
        accepts = Parameters(field).accepts
        per_field.append(
            [(f"{name} {what}", {**base, name: value}) for what, value in _edge_values(field)
             if accepts(value)]
        )  # fmt: skip
    rounds = range(max(map(len, per_field), default=0))
    return [field[at] for at in rounds for field in per_field if at < len(field)][:most]


def _candidate_values(schema: Mapping[str, Any], name: str) -> Iterator[Any]:
    for keyword in ("const", "default"):
        if keyword in schema:
            yield schema[keyword]
    yield from schema.get("examples", ())
    yield from schema.get("enum", ())
    for keyword in ("anyOf", "oneOf"):
        for branch in schema.get(keyword, ()):
            try:
                yield sample({**_without(schema, keyword), **branch}, name)
            except NoSample:
                continue
    for kind in kinds_of(schema):
        yield from _values_of_kind(kind, schema, name)


def _values_of_kind(kind: str, schema: Mapping[str, Any], name: str) -> Iterator[Any]:
    if kind in ("integer", "number"):
        step = 1 if kind == "integer" else Decimal("0.001")
        yield 1
        for low in ("minimum", "exclusiveMinimum"):
            if low in schema:
                yield schema[low]
                yield schema[low] + step
        for high in ("maximum", "exclusiveMaximum"):
            if high in schema:
                yield schema[high]
                yield schema[high] - step
        yield 0
    elif kind == "string":
        least, most = schema.get("minLength", 0), schema.get("maxLength", _LONGEST)
        text = (_WORDS * (least // len(_WORDS) + 1)).rstrip()
        yield text[: min(most, max(least, len(_WORDS) - 1))]
        yield "x" * least
    elif kind == "array":
        items = schema.get("items")
        count = max(1, schema.get("minItems", 0))
        if isinstance(items, Mapping):
            yield [sample(items, name) for _ in range(count)]
        yield []
    elif kind == "object":
        fields, required = schema.get("properties", {}), schema.get("required", ())
        made: Params = {}
        for field, inner in fields.items():
            try:
                made[field] = sample(inner, field)
            except NoSample:
                if field in required:
                    raise
        yield made
        yield {field: made[field] for field in required if field in made}
    elif kind == "boolean":
        yield True
    else:
        yield None


def _invalid_values(field: Mapping[str, Any]) -> Iterator[Labelled]:
    kinds = set(_accepted_kinds(field))
    if "number" in kinds:
        kinds.add("integer")
    for kind, value in _OF_TYPE.items():
        if kinds and kind not in kinds:
            yield f"of the type {kind}", value
    if "enum" in field:
        yield "not of its enum", "solward-not-of-the-enum"
    for keyword, distance in (("minimum", -1), ("maximum", 1)):
        if keyword in field:
            yield f"beyond its {keyword}", field[keyword] + distance
    for keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        if keyword in field:
            yield f"at its {keyword}", field[keyword]
    if field.get("minLength", 0) > 0:
        yield "shorter than its minLength", "x" * (field["minLength"] - 1)
    if field.get("maxLength", _LONGEST) < _LONGEST:
        yield "longer than its maxLength", "x" * (field["maxLength"] + 1)
    if "maxItems" in field and isinstance(field.get("items"), Mapping):
        try:
            item = sample(field["items"])
        except NoSample:
            return
        yield "with too many items", [item] * (field["maxItems"] + 1)


def _edge_values(field: Mapping[str, Any]) -> Iterator[Labelled]:
    kinds = set(_accepted_kinds(field))
    if "string" in kinds:
        most = min(field.get("maxLength", _LONGEST), _LONGEST)
        least = field.get("minLength", 0)
        yield "of its minimum length", "x" * least
        yield "of its maximum length, with characters of four bytes", "\N{PARROT}" * most
        yield "of blanks", " " * max(1, least)
        yield "with control characters", ("a\x00\n\u202e" * least)[: max(4, least)]
    if kinds & {"integer", "number"}:
        for keyword in ("minimum", "maximum"):
            if keyword in field:
                yield f"at its {keyword}", field[keyword]
        yield "of 0", 0
        yield "below 0", -1
        yield "huge", 10**30
    if "number" in kinds:
        yield "with 30 decimals", Decimal("0." + "1" * 30)
    if "array" in kinds:
        yield "empty", []
    if "null" in kinds:
        yield "null", None


def _accepted_kinds(field: Mapping[str, Any]) -> Iterator[str]:
    yield from kinds_of(field)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for branch in field.get(keyword, ()):
            yield from _accepted_kinds(branch)
    for value in (*field.get("enum", ()), *([field["const"]] if "const" in field else [])):
        for kind, types in (("string", str), ("boolean", bool), ("number", (int, Decimal, float))):
            if isinstance(value, types):
                yield kind
        if value is None:
            yield "null"


def _without(schema: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != keyword}
