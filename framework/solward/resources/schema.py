"""JSON Schema 2020-12 as plain data: the words in which routes are described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from solward.resources.fields import Field, Schema, value_schema

JSON = "application/json"

# Keywords whose value is a schema, several, or several by name.
_SCHEMA = frozenset({"contains", "else", "if", "items", "not", "propertyNames", "then"})
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"dependentSchemas", "patternProperties", "properties"})


def ref(name: str) -> Schema:
    """Return a reference to a schema in `components/schemas`."""
    return {"$ref": f"#/components/schemas/{name}"}


def response_object(
    properties: Mapping[str, Field | Schema], *, optional: Sequence[str] = (), **more: Any
) -> Schema:
    """Return an object's schema that requires all but `optional` and allows no other property."""
    required = [name for name in properties if name not in optional]
    described = {name: value_schema(each) for name, each in properties.items()}
    schema: Schema = {"type": "object", "properties": described}
    if required:
        schema["required"] = required
    return schema | {"additionalProperties": False} | more


def without_booleans(schema: Any) -> Any:
    """Return an equal schema without boolean subschemas, which client generators refuse.

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


def array(items: Field | Schema, description: str = "", most: int | None = None) -> Schema:
    """Return the schema of an array."""
    schema: Schema = {"type": "array", "items": value_schema(items)}
    if description:
        schema["description"] = description
    return schema if most is None else schema | {"maxItems": most}


def mapping(values: Field | Schema, description: str) -> Schema:
    """Return the schema of an object whose property names are data, such as mints."""
    schema = value_schema(values)
    return {"type": "object", "description": description, "additionalProperties": schema}


def examples(**values: Any) -> dict[str, Any]:
    """Return named examples, for a media type with several examples."""
    return {"examples": {name: {"value": value} for name, value in values.items()}}


def media(schema: Schema, example: Any) -> dict[str, Any]:
    """Return an OpenAPI media type: a schema with one example, several `examples` or none."""
    if example is None:
        return {"schema": schema}
    if isinstance(example, dict) and list(example) == ["examples"]:
        return {"schema": schema} | example
    return {"schema": schema, "example": example}
