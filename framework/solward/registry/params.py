"""Parameters checked against a JSON Schema, exactly: numbers are int or Decimal, never a float."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from decimal import Decimal
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from solward.errors import InvalidRequest
from solward.registry.messages import explain

_MAX_DEPTH = 32
# No amount has more digits; `1e999999999` would take all memory where it is written out.
_MAX_DIGITS = 400


def _is_number(_checker: object, value: object) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


_Exact = extend(  # type: ignore[no-untyped-call]  # the stubs leave it without types
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("number", _is_number).redefine(
        "integer", _is_integer
    ),
)


class Parameters:
    """The validator of one schema, compiled once.

    Args:
        schema: as `checked_schema` gives it: closed, without references.
    """

    __slots__ = ("_empty", "_schema", "_validator")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema: Mapping[str, Any] = exact(schema)
        self._validator = _Exact(self._schema)
        # Most calls of many agents have no parameters at all; what those come to never changes.
        self._empty: dict[str, Any] | None = None
        if self.accepts({}):
            self._empty = self._checked({})

    def validate(self, params: object) -> dict[str, Any]:
        """A copy of `params` with defaults applied and whole numbers of integer fields as int.

        Raises:
            InvalidRequest: naming each field that does not fit and what was expected.
        """
        if not isinstance(params, Mapping):
            raise InvalidRequest("parameters must be a JSON object")
        if not params and self._empty is not None:
            return deepcopy(self._empty) if self._empty else {}
        return self._checked(params)

    def _checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        value = fill(exact(params), self._schema)
        problems = [explain(error) for error in self._validator.iter_errors(value)]
        if problems:
            raise InvalidRequest("; ".join(list(dict.fromkeys(problems))[:3]))
        whole: dict[str, Any] = self._whole(value, self._schema)
        return whole

    def accepts(self, value: object) -> bool:
        """Whether a value, with defaults applied, fits."""
        try:
            return bool(self._validator.is_valid(fill(exact(value), self._schema)))
        except InvalidRequest:
            return False

    def _whole(self, value: Any, schema: Mapping[str, Any]) -> Any:
        for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            if self._validator.evolve(schema=branch).is_valid(value):
                value = self._whole(value, branch)
                break
        if isinstance(value, Decimal):
            kinds = schema.get("type", ())
            return int(value) if kinds == "integer" or "integer" in list(kinds) else value
        if isinstance(value, dict):
            fields = schema.get("properties", {})
            return {name: self._whole(item, fields.get(name, {})) for name, item in value.items()}
        if isinstance(value, list):
            return [self._whole(item, _item_schema(schema, at)) for at, item in enumerate(value)]
        return value


def exact(value: Any, path: str = "parameters", depth: int = 0) -> Any:
    """JSON-like data copied, every float as the Decimal it is written as.

    Raises:
        InvalidRequest: it is nested too deep, holds no JSON, or a number nobody can mean.
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
    raise InvalidRequest(f"{path}: holds a value that is not JSON")


def fill(value: Any, schema: Mapping[str, Any]) -> Any:
    """A copy of `value` with each missing property that has a default added, in nested objects too.

    Defaults inside `anyOf` and the like do not apply: which branch holds is not known yet.
    """
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        missing = {
            name: field["default"]
            for name, field in fields.items()
            if name not in value and "default" in field
        }
        return {
            name: fill(item, fields.get(name, {})) for name, item in {**value, **missing}.items()
        }
    if isinstance(value, list):
        return [fill(item, _item_schema(schema, at)) for at, item in enumerate(value)]
    return value


def _item_schema(schema: Mapping[str, Any], at: int) -> Mapping[str, Any]:
    prefix = schema.get("prefixItems", ())
    found = prefix[at] if at < len(prefix) else schema.get("items", {})
    return found if isinstance(found, Mapping) else {}
