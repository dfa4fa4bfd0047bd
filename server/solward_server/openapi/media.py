"""The content of bodies and answers."""

from __future__ import annotations

from typing import Any

from solward_server.openapi.schema import Schema

JSON = "application/json"


def several(**examples: Any) -> dict[str, Any]:
    """Examples by name, for a media type with more than one."""
    return {"examples": {name: {"value": value} for name, value in examples.items()}}


def media(schema: Schema, example: Any) -> dict[str, Any]:
    """A schema with its example, those of `several`, or with none where it is None."""
    if example is None:
        return {"schema": schema}
    if isinstance(example, dict) and list(example) == ["examples"]:
        return {"schema": schema} | example
    return {"schema": schema, "example": example}
