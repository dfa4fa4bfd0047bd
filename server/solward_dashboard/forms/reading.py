"""What was typed into a form, as the values its JSON Schema asks for; pure and exact."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from solward.errors import InvalidRequest
from solward.jsontext import loads
from solward.registry.params import Parameters
from solward_dashboard.forms.fields import Field, Kind

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands: `("payments", 0, "amount")`."""
Errors: TypeAlias = dict[Path, str]

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})", re.ASCII)
_NEEDED = "is required"


class _Left:
    """The value of what was left out."""


_LEFT = _Left()


def read(
    schema: Mapping[str, Any], fields: Sequence[Field], typed: Mapping[str, Any]
) -> tuple[dict[str, Any], Errors]:
    """The values, and where they do not fit; what is wrong as a whole stands at `()`.

    Numbers are `int` or `Decimal`, never a float; what was left out is not there, so that the
    service's own defaults hold.
    """
    errors: Errors = {}
    values = _group(fields, typed, (), errors)
    if not errors:
        try:
            Parameters(schema).validate(values)
        except InvalidRequest as error:
            errors[()] = str(error)
    return values, errors


def path_text(path: Path) -> str:
    """`payments[0].amount`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _group(
    fields: Sequence[Field], typed: Mapping[str, Any], path: Path, errors: Errors
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields:
        value = _value(field, typed.get(field.name), (*path, field.name), errors)
        if not isinstance(value, _Left):
            values[field.name] = value
    return values


def _value(field: Field, typed: Any, path: Path, errors: Errors) -> Any:
    if field.kind is Kind.GROUP:
        inner = typed if isinstance(typed, Mapping) else {}
        if inner == field.unset:
            return _LEFT
        return _group(field.fields, inner, path, errors)
    if field.kind is Kind.LIST:
        return _list(field, typed or [], path, errors)
    if field.kind is Kind.SWITCH:
        return bool(typed)
    if field.kind is Kind.CHOICE:
        return _checked(field, _LEFT if typed is None else field.choices[typed], path, errors)
    text = "" if typed is None else str(typed)
    if not text.strip():
        return _checked(field, _LEFT, path, errors)
    try:
        value = _of_text(field, text)
    except ValueError as error:
        errors[path] = str(error)
        return _LEFT
    return _checked(field, value, path, errors)


def _list(field: Field, typed: Sequence[Any], path: Path, errors: Errors) -> Any:
    left = not typed and not field.required and "default" not in field.schema
    if field.item is None or left:
        return _LEFT
    values = [_value(field.item, each, (*path, at), errors) for at, each in enumerate(typed)]
    if not any(each[: len(path)] == path for each in errors):
        problem = _problem(field.schema, values)
        if problem is not None:
            errors[path] = problem
    return values


def _checked(field: Field, value: Any, path: Path, errors: Errors) -> Any:
    if isinstance(value, _Left):
        if field.required:
            if _problem(field.schema, None) is None:
                return None
            errors[path] = _NEEDED
        return value
    problem = _problem(field.schema, value)
    if problem is not None:
        errors[path] = problem
    return value


def _of_text(field: Field, text: str) -> Any:
    if field.kind is Kind.NUMBER:
        return _number(text)
    if field.kind is Kind.JSON:
        try:
            return loads(text)
        except ValueError as error:
            raise ValueError(f"must be JSON: {error}") from None
    if field.kind is not Kind.SIMPLE:
        return text
    for value in _meanings(text):
        if _problem(field.schema, value) is None:
            return value
    return text


def _meanings(text: str) -> list[Any]:
    """What a text may mean, the narrowest first."""
    meanings: list[Any] = []
    if _NUMBER.fullmatch(text.strip()):
        meanings.append(_number(text))
    words = {"true": True, "false": False}
    if text.strip() in words:
        meanings.append(words[text.strip()])
    return meanings


def _number(text: str) -> Decimal | int:
    plain = text.strip()
    if not _NUMBER.fullmatch(plain):
        raise ValueError("must be a number such as 0.5")
    number = Decimal(plain)
    return int(number) if "." not in plain else number


def _problem(schema: Mapping[str, Any], value: Any) -> str | None:
    """Why a value does not fit, in the words that the service has for it."""
    try:
        Parameters({"properties": {"value": schema}}).validate({"value": value})
    except InvalidRequest as error:
        return "; ".join(each.removeprefix("value: ") for each in str(error).split("; value: "))
    return None
