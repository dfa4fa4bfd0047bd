"""What is wrong with a parameter, in words a model or a person can act on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from jsonschema.exceptions import ValidationError, best_match

# Enough to recognise a value; a request's megabytes must not come back in its error.
_SHOWN = 60
_LISTED = 10

_ARTICLES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "text",
}


def explain(error: ValidationError) -> str:
    """One validation error as `path: what was expected (got ...)`."""
    error = best_match([error]) or error
    path = _path(error.absolute_path)
    keyword = str(error.validator)
    expected: Any = error.validator_value
    instance: Any = error.instance
    if keyword == "required":
        missing = [name for name in expected if name not in instance]
        return "; ".join(f"{_join(path, name)}: is required" for name in missing[:_LISTED])
    if keyword == "additionalProperties":
        return (f"{path}: " if path else "") + _unknown(instance, error.schema)
    known = _EXPLAINED.get(keyword)
    text = known(expected) if known else f"does not fit the schema's {keyword}"
    return f"{path or 'parameters'}: {text} (got {shown(instance)})"


def shown(value: Any) -> str:
    """A value as an error names it, short whatever its size."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")
    if isinstance(value, int):
        text = str(value) if value.bit_length() < 4 * _SHOWN else "a huge number"
        return text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
    if isinstance(value, Decimal):
        text = format(value, "f") if abs(value.adjusted()) < _SHOWN else str(value)
        return text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
    return "an object" if isinstance(value, dict) else "an array"


def _unknown(instance: Any, schema: Any) -> str:
    known = schema.get("properties", {})
    extra = sorted(name for name in instance if name not in known)
    names = ", ".join(shown(name) for name in extra[:3]) + (", …" if len(extra) > 3 else "")
    fields = "field" if len(extra) == 1 else "fields"
    listed = f"known: {', '.join(known)}" if known else "no fields are known"
    return f"unknown {fields} {names}; {listed}"


def _path(parts: Sequence[Any]) -> str:
    path = ""
    for part in parts:
        path = f"{path}[{part}]" if isinstance(part, int) else _join(path, part)
    return path


def _join(path: str, name: str) -> str:
    name = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
    return f"{path}.{name}" if path else name


def _kinds(expected: Any) -> str:
    kinds = [expected] if isinstance(expected, str) else list(expected)
    return "must be " + " or ".join(_ARTICLES[kind] for kind in kinds)


def _choices(expected: Any) -> str:
    more = ", …" if len(expected) > _LISTED else ""
    return "must be one of " + ", ".join(shown(each) for each in expected[:_LISTED]) + more


_EXPLAINED: dict[str, Callable[[Any], str]] = {
    "type": _kinds,
    "enum": _choices,
    "const": lambda expected: f"must be {shown(expected)}",
    "minimum": lambda least: f"must be at least {shown(least)}",
    "maximum": lambda most: f"must be at most {shown(most)}",
    "exclusiveMinimum": lambda bound: f"must be greater than {shown(bound)}",
    "exclusiveMaximum": lambda bound: f"must be less than {shown(bound)}",
    "minLength": lambda least: f"must have at least {least} characters",
    "maxLength": lambda most: f"must have at most {most} characters",
    "pattern": lambda pattern: f"must match {pattern}",
    "minItems": lambda least: f"must have at least {least} items",
    "maxItems": lambda most: f"must have at most {most} items",
    "uniqueItems": lambda _unique: "must not repeat an item",
}
