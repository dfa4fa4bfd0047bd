"""Parameters, checked exactly against a JSON Schema: numbers are int or Decimal, never float.

`Parameters` validates, and `explain_error` writes errors on which a model or a person can act.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from decimal import Decimal
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend

from solward.types.errors import InvalidRequest

_MAX_DEPTH = 32
# No amount has more digits, and writing `1e999999999` out would use all memory.
_MAX_DIGITS = 400
# Enough characters to recognise a value; an error must not repeat a large one whole.
_QUOTED = 60
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


def _is_number(_checker: object, value: object) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _check_unique(validator: Any, unique: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
    # All items may be compared with each other, so too many of them are left to `maxItems`.
    if isinstance(instance, list) and len(instance) <= schema.get("maxItems", len(instance)):
        yield from Draft202012Validator.VALIDATORS["uniqueItems"](
            validator, unique, instance, schema
        )


_ExactValidator = extend(  # type: ignore[no-untyped-call]  # the stubs leave it without types
    Draft202012Validator,
    validators={"uniqueItems": _check_unique},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("number", _is_number).redefine(
        "integer", _is_integer
    ),
)


class Parameters:
    """A validator of one schema, compiled once.

    Args:
        schema: a result of `checked_schema`: closed, without references.
    """

    __slots__ = ("_empty", "_schema", "_validator")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema: Mapping[str, Any] = exact(schema)
        self._validator = _ExactValidator(self._schema)
        # The result for `{}`, computed once: most calls of many agents have no parameters.
        self._empty: dict[str, Any] | None = None
        if self.accepts({}):
            self._empty = self._validated_copy({})

    def validate(self, params: object) -> dict[str, Any]:
        """Return a copy of `params` with defaults, and int for whole numbers in integer fields.

        Raises:
            InvalidRequest: naming each field that does not fit and what was expected.
        """
        if not isinstance(params, Mapping):
            raise InvalidRequest("parameters must be a JSON object")
        if not params and self._empty is not None:
            return deepcopy(self._empty) if self._empty else {}
        return self._validated_copy(params)

    def _validated_copy(self, params: Mapping[str, Any]) -> dict[str, Any]:
        value = fill_defaults(exact(params), self._schema)
        problems = [explain_error(error) for error in self._validator.iter_errors(value)]
        if problems:
            raise InvalidRequest("; ".join(list(dict.fromkeys(problems))[:3]))
        whole: dict[str, Any] = self._to_ints(value, self._schema)
        return whole

    def accepts(self, value: object) -> bool:
        """Return whether a value fits the schema, with defaults applied."""
        try:
            return bool(self._validator.is_valid(fill_defaults(exact(value), self._schema)))
        except InvalidRequest:
            return False

    def _to_ints(self, value: Any, schema: Mapping[str, Any]) -> Any:
        for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            if self._validator.evolve(schema=branch).is_valid(value):
                value = self._to_ints(value, branch)
                break
        if isinstance(value, Decimal):
            kinds = schema.get("type", ())
            return int(value) if kinds == "integer" or "integer" in list(kinds) else value
        if isinstance(value, dict):
            fields = schema.get("properties", {})
            return {name: self._to_ints(item, fields.get(name, {})) for name, item in value.items()}
        if isinstance(value, list):
            return [self._to_ints(item, _item_schema(schema, at)) for at, item in enumerate(value)]
        return value


def exact(value: Any, path: str = "parameters", depth: int = 0) -> Any:
    """Return a copy of JSON-like data with every float as the Decimal of its shortest form.

    Raises:
        InvalidRequest: if it is nested too deep, is not JSON, or has a number out of range.
    """
    if depth > _MAX_DEPTH:
        raise InvalidRequest(f"{path[:60]}: nested more than {_MAX_DEPTH} levels deep")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise InvalidRequest(f"{path}: must be a finite number")
        if abs(value.adjusted()) > _MAX_DIGITS or len(value.as_tuple().digits) > _MAX_DIGITS:
            raise InvalidRequest(f"{path}: is a number out of range")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise InvalidRequest(f"{path}: field names must be text")
        return {name: exact(item, name[:60], depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item, path, depth + 1) for item in value]
    raise InvalidRequest(f"{path}: contains a value that is not JSON")


def fill_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a copy of `value` with the defaults of missing properties, also in nested objects.

    Defaults inside `anyOf` and similar keywords do not apply, because it is not known yet which
    branch is valid.
    """
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        missing = {
            name: field["default"]
            for name, field in fields.items()
            if name not in value and "default" in field
        }
        return {
            name: fill_defaults(item, fields.get(name, {}))
            for name, item in {**value, **missing}.items()
        }
    if isinstance(value, list):
        return [fill_defaults(item, _item_schema(schema, at)) for at, item in enumerate(value)]
    return value


def _item_schema(schema: Mapping[str, Any], at: int) -> Mapping[str, Any]:
    prefix = schema.get("prefixItems", ())
    found = prefix[at] if at < len(prefix) else schema.get("items", {})
    return found if isinstance(found, Mapping) else {}


def explain_error(error: ValidationError) -> str:
    """Return the text of one validation error: `path: what was expected (got ...)`."""
    error = best_match([error]) or error
    path = _path_text(error.absolute_path)
    keyword = str(error.validator)
    expected: Any = error.validator_value
    instance: Any = error.instance
    if keyword == "required":
        missing = [name for name in expected if name not in instance]
        return "; ".join(f"{_join_path(path, name)}: is required" for name in missing[:_LISTED])
    if keyword == "additionalProperties":
        return (f"{path}: " if path else "") + _unknown_fields(instance, error.schema)
    known = _EXPLAINED.get(keyword)
    text = known(expected) if known else f"does not fit the schema's {keyword}"
    return f"{path or 'parameters'}: {text} (got {quote(instance)})"


def quote(value: Any) -> str:
    """Return a value in the shortened form in which errors quote it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value[:_QUOTED]) + ("…" if len(value) > _QUOTED else "")
    if isinstance(value, int):
        text = str(value) if value.bit_length() < 4 * _QUOTED else "a huge number"
        return text[:_QUOTED] + ("…" if len(text) > _QUOTED else "")
    if isinstance(value, Decimal):
        text = format(value, "f") if abs(value.adjusted()) < _QUOTED else str(value)
        return text[:_QUOTED] + ("…" if len(text) > _QUOTED else "")
    return "an object" if isinstance(value, dict) else "an array"


def _unknown_fields(instance: Any, schema: Any) -> str:
    known = schema.get("properties", {})
    extra = sorted(name for name in instance if name not in known)
    names = ", ".join(quote(name) for name in extra[:3]) + (", …" if len(extra) > 3 else "")
    fields = "field" if len(extra) == 1 else "fields"
    listed = f"known: {', '.join(known)}" if known else "no fields are known"
    return f"unknown {fields} {names}; {listed}"


def _path_text(parts: Sequence[Any]) -> str:
    path = ""
    for part in parts:
        path = f"{path}[{part}]" if isinstance(part, int) else _join_path(path, part)
    return path


def _join_path(path: str, name: str) -> str:
    name = name if len(name) <= _QUOTED else name[:_QUOTED] + "…"
    return f"{path}.{name}" if path else name


def _types_text(expected: Any) -> str:
    kinds = [expected] if isinstance(expected, str) else list(expected)
    return "must be " + " or ".join(_ARTICLES[kind] for kind in kinds)


def _choices_text(expected: Any) -> str:
    more = ", …" if len(expected) > _LISTED else ""
    return "must be one of " + ", ".join(quote(each) for each in expected[:_LISTED]) + more


_EXPLAINED: dict[str, Callable[[Any], str]] = {
    "type": _types_text,
    "enum": _choices_text,
    "const": lambda expected: f"must be {quote(expected)}",
    "minimum": lambda least: f"must be at least {quote(least)}",
    "maximum": lambda most: f"must be at most {quote(most)}",
    "exclusiveMinimum": lambda bound: f"must be greater than {quote(bound)}",
    "exclusiveMaximum": lambda bound: f"must be less than {quote(bound)}",
    "minLength": lambda least: f"must have at least {least} characters",
    "maxLength": lambda most: f"must have at most {most} characters",
    "pattern": lambda pattern: f"must match {pattern}",
    "minItems": lambda least: f"must have at least {least} items",
    "maxItems": lambda most: f"must have at most {most} items",
    "uniqueItems": lambda _check_unique: "must not repeat an item",
}
