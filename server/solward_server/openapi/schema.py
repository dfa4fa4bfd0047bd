"""Words the description is written in: JSON Schema 2020-12 as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

ADDRESS = "^[1-9A-HJ-NP-Za-km-z]{32,44}$"
TIMESTAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"
DIGITS = r"^\d+$"


def ref(name: str) -> Schema:
    """A schema of `components/schemas`."""
    return {"$ref": f"#/components/schemas/{name}"}


def closed(
    properties: Mapping[str, Schema], *, optional: Sequence[str] = (), **more: Any
) -> Schema:
    """An answer's object: every property but the optional ones is there, and nothing else."""
    required = [name for name in properties if name not in optional]
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = required
    return schema | {"additionalProperties": False} | more


def asked(properties: Mapping[str, Schema], *, required: Sequence[str] = (), **more: Any) -> Schema:
    """A request's object: unknown fields are ignored, and null counts as left out."""
    shown = {
        name: schema if name in required else nullable(schema)
        for name, schema in properties.items()
    }
    body: Schema = {"type": "object", "properties": shown}
    if required:
        body["required"] = list(required)
    return body | more


def nullable(schema: Schema) -> Schema:
    """The schema, or null."""
    if isinstance(schema.get("type"), str):
        listed = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return schema | {"type": [schema["type"], "null"]} | listed
    return {"anyOf": [schema, {"type": "null"}]}


def text(description: str, longest: int | None = None, **more: Any) -> Schema:
    """A string; one with a longest length is not empty either."""
    bounds = {} if longest is None else {"minLength": 1, "maxLength": longest}
    return {"type": "string", "description": description} | bounds | more


def choice(description: str, *values: str, **more: Any) -> Schema:
    """One of some strings."""
    return {"type": "string", "description": description, "enum": list(values)} | more


def number(description: str, **more: Any) -> Schema:
    """A number, exact as it is written."""
    return {"type": "number", "description": description} | more


def amount(description: str, **more: Any) -> Schema:
    """An amount asked for, in whole units; more than 0."""
    return number(description, exclusiveMinimum=0, **more)


def whole(
    description: str, least: int | None = None, most: int | None = None, **more: Any
) -> Schema:
    """A whole number within bounds."""
    bounds = {"minimum": least, "maximum": most}
    given = {name: value for name, value in bounds.items() if value is not None}
    return {"type": "integer", "description": description} | given | more


def flag(description: str, **more: Any) -> Schema:
    """A boolean."""
    return {"type": "boolean", "description": description} | more


def array(items: Schema, description: str = "", most: int | None = None) -> Schema:
    """A list."""
    schema: Schema = {"type": "array", "items": items}
    if description:
        schema["description"] = description
    return schema if most is None else schema | {"maxItems": most}


def mapping(values: Schema, description: str) -> Schema:
    """An object whose names are data, such as mints."""
    return {"type": "object", "description": description, "additionalProperties": values}


def identifier(description: str) -> Schema:
    """An id of a stored thing."""
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
    """An amount of SOL in an answer."""
    return number(description, minimum=0)


def units(description: str) -> Schema:
    """Smallest units of a mint, exact as digits."""
    return {"type": "string", "pattern": DIGITS, "description": description}
