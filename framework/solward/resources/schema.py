"""JSON Schema 2020-12 as plain data: the words in which routes are described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from solward.resources.fields import ADDRESS, TIMESTAMP, Schema, nullable

JSON = "application/json"

DIGITS = r"^\d+$"

# Keywords whose value is a schema, several, or several by name.
_SCHEMA = frozenset({"contains", "else", "if", "items", "not", "propertyNames", "then"})
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"dependentSchemas", "patternProperties", "properties"})


def ref(name: str) -> Schema:
    """A schema of `components/schemas`."""
    return {"$ref": f"#/components/schemas/{name}"}


def response_object(
    properties: Mapping[str, Schema], *, optional: Sequence[str] = (), **more: Any
) -> Schema:
    """A closed object: all properties but the optional ones are required, no others allowed."""
    required = [name for name in properties if name not in optional]
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = required
    return schema | {"additionalProperties": False} | more


def request_object(
    properties: Mapping[str, Schema],
    *,
    required: Sequence[str] = (),
    **more: Any,
) -> Schema:
    """A closed object. Null counts as absent."""
    described = {
        name: schema if name in required else nullable(schema)
        for name, schema in properties.items()
    }
    body: Schema = {"type": "object", "properties": described, "additionalProperties": False}
    if required:
        body["required"] = list(required)
    return body | more


def without_booleans(schema: Any) -> Any:
    """An equal schema without true and false in a schema's place: client generators refuse them.

    `additionalProperties` stays true or false, which they read.
    """
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    found = dict(schema)
    for keyword in _SCHEMA.intersection(found):
        found[keyword] = without_booleans(found[keyword])
    for keyword in _SCHEMAS.intersection(found):
        found[keyword] = [without_booleans(each) for each in found[keyword]]
    for keyword in _NAMED.intersection(found):
        found[keyword] = {name: without_booleans(each) for name, each in found[keyword].items()}
    return found


def text(description: str, longest: int | None = None, **more: Any) -> Schema:
    """A string; with `longest`, of at least one character."""
    bounds = {} if longest is None else {"minLength": 1, "maxLength": longest}
    return {"type": "string", "description": description} | bounds | more


def choice(description: str, *values: str, **more: Any) -> Schema:
    """One of these strings."""
    return {"type": "string", "description": description, "enum": list(values)} | more


def number(description: str, **more: Any) -> Schema:
    """A number, read and written with all its digits."""
    return {"type": "number", "description": description} | more


def whole(
    description: str, least: int | None = None, most: int | None = None, **more: Any
) -> Schema:
    """A whole number within bounds."""
    bounds = {"minimum": least, "maximum": most}
    set_bounds = {name: value for name, value in bounds.items() if value is not None}
    return {"type": "integer", "description": description} | set_bounds | more


def flag(description: str, **more: Any) -> Schema:
    """A boolean."""
    return {"type": "boolean", "description": description} | more


def array(items: Schema, description: str = "", most: int | None = None) -> Schema:
    """An array."""
    schema: Schema = {"type": "array", "items": items}
    if description:
        schema["description"] = description
    return schema if most is None else schema | {"maxItems": most}


def mapping(values: Schema, description: str) -> Schema:
    """An object whose property names are data, such as mints."""
    return {"type": "object", "description": description, "additionalProperties": values}


def identifier(description: str) -> Schema:
    """The UUID of a stored record."""
    return {"type": "string", "format": "uuid", "description": description}


def address(description: str) -> Schema:
    """A base58 public key."""
    return {"type": "string", "pattern": ADDRESS, "description": description}


def timestamp(description: str) -> Schema:
    """UTC with milliseconds."""
    return {
        "type": "string",
        "format": "date-time",
        "pattern": TIMESTAMP,
        "description": description,
    }


def sol(description: str) -> Schema:
    """An amount of SOL in a response."""
    return number(description, minimum=0)


def units(description: str) -> Schema:
    """Smallest units of a mint, as a string of digits."""
    return {"type": "string", "pattern": DIGITS, "description": description}


def examples(**values: Any) -> dict[str, Any]:
    """Named examples, for a media type with more than one."""
    return {"examples": {name: {"value": value} for name, value in values.items()}}


def media(schema: Schema, example: Any) -> dict[str, Any]:
    """A schema with its example, those of `examples`, or none where it is None."""
    if example is None:
        return {"schema": schema}
    if isinstance(example, dict) and list(example) == ["examples"]:
        return {"schema": schema} | example
    return {"schema": schema, "example": example}
