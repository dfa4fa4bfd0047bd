"""A form's contents read as values of its JSON Schema; pure and exact."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from solward.support.jsontext import loads
from solward.types.errors import InvalidRequest
from solward_dashboard.forms.fields import Field, Kind

Path: TypeAlias = tuple[str | int, ...]
"""The path of a value: `("payments", 0, "amount")`."""
Errors: TypeAlias = dict[Path, str]

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})", re.ASCII)
_REQUIRED = "is required"


class _Absent:
    """The value of an absent field."""


_ABSENT = _Absent()


def read(
    schema: Mapping[str, Any], fields: Sequence[Field], content: Mapping[str, Any]
) -> tuple[dict[str, Any], Errors]:
    """The values, and the errors by path; an error of the whole has the path `()`.

    Numbers are `int` or `Decimal`, never float. Absent fields are left out, so that the service's
    defaults hold.
    """
    errors: Errors = {}
    values = _group(fields, content, (), errors)
    if not errors:
        try:
            _validate(schema, values)
        except InvalidRequest as error:
            errors[()] = str(error)
    return values, errors


def _validate(schema: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raises `InvalidRequest` where the values do not fit."""
    # Here, because pages are shown more often than forms are sent: jsonschema takes 3 MB.
    from solward.plugins.parameters import Parameters

    Parameters(schema).validate(values)


def path_text(path: Path) -> str:
    """`payments[0].amount`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _group(
    fields: Sequence[Field], content: Mapping[str, Any], path: Path, errors: Errors
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields:
        value = _value(field, content.get(field.name), (*path, field.name), errors)
        if not isinstance(value, _Absent):
            values[field.name] = value
    return values


def _value(field: Field, content: Any, path: Path, errors: Errors) -> Any:
    if field.kind is Kind.GROUP:
        inner = content if isinstance(content, Mapping) else {}
        if inner == field.unset:
            return _ABSENT
        return _group(field.fields, inner, path, errors)
    if field.kind is Kind.LIST:
        return _list(field, content or [], path, errors)
    if field.kind is Kind.SWITCH:
        return bool(content)
    if field.kind is Kind.CHOICE:
        return _checked(field, _ABSENT if content is None else field.choices[content], path, errors)
    text = "" if content is None else str(content)
    if not text.strip():
        return _checked(field, _ABSENT, path, errors)
    try:
        value = _parse(field, text)
    except ValueError as error:
        errors[path] = str(error)
        return _ABSENT
    return _checked(field, value, path, errors)


def _list(field: Field, content: Sequence[Any], path: Path, errors: Errors) -> Any:
    absent = not content and not field.required and "default" not in field.schema
    if field.item is None or absent:
        return _ABSENT
    values = [_value(field.item, each, (*path, at), errors) for at, each in enumerate(content)]
    if not any(each[: len(path)] == path for each in errors):
        problem = _problem(field.schema, values)
        if problem is not None:
            errors[path] = problem
    return values


def _checked(field: Field, value: Any, path: Path, errors: Errors) -> Any:
    if isinstance(value, _Absent):
        if field.required:
            if _problem(field.schema, None) is None:
                return None
            errors[path] = _REQUIRED
        return value
    problem = _problem(field.schema, value)
    if problem is not None:
        errors[path] = problem
    return value


def _parse(field: Field, text: str) -> Any:
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
    """The possible values of a text, the narrowest type first."""
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
    """Why a value does not fit, in the service's words; None where it does."""
    try:
        _validate({"properties": {"value": schema}}, {"value": value})
    except InvalidRequest as error:
        return "; ".join(each.removeprefix("value: ") for each in str(error).split("; value: "))
    return None
