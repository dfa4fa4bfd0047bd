"""The JSON Schemas that a plugin may declare: valid, closed, self-contained, exactly checkable.

A skill's settings, some of them secret, are declared by such a schema too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from solward.plugins.parameters import Parameters, exact
from solward.support import jsontext
from solward.types.errors import InvalidRequest, SkillError
from solward.types.manifest import ProblemCode, Rejected

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TYPES = "array, boolean, integer, null, number, object, string"

_MAX_DEPTH = 16
_MAX_NODES = 1_000

# Third parties' schemas and callers' parameters are checked on the event loop: neither may be slow.
_LONG_LIST = 100
_MAX_UNIQUE = 100
_MAX_EXAMPLES = 16 << 10
# Limit of the number of values times the number of values in the schema.
_MAX_WORK = 250_000
_MAPS = {"properties", "patternProperties", "dependentSchemas", "dependentRequired", "$defs"}
_DATA = {"default", "examples", "enum", "const"}

# jsonschema checks `multipleOf` with floats, in which 0.3 is not a multiple of 0.1.
_FORBIDDEN = {
    "multipleOf": "cannot be checked exactly",
    "$id": "is not supported: it changes the base of references",
    "$anchor": "is not supported; use #/$defs/NAME",
    "$dynamicRef": "is not supported; use #/$defs/NAME",
    "$dynamicAnchor": "is not supported; use #/$defs/NAME",
    "$schema": "is allowed only at the top: the whole schema has one dialect",
    "unevaluatedItems": "is not supported; use items",
    "unevaluatedProperties": "is not supported; use additionalProperties: false",
}
_ONE = ("contains", "not", "if", "then", "else", "propertyNames")
_MANY = ("allOf", "anyOf", "oneOf")
_NAMED = ("dependentSchemas",)
_ANNOTATIONS = {"title", "description", "default", "examples", "deprecated"}
_LOCAL = re.compile(r"#/\$defs/([^/~%]+)")

# Results of `checked_schema` for built-in plugins, which declare the same few schemas each time a
# service opens. A result depends only on the schema, so the key is the schema's text.
_CHECKED: dict[str, dict[str, Any]] = {}
_MAX_CHECKED = 256


def checked_schema(schema: object, *, trusted: bool = True) -> dict[str, Any]:
    """Return a copy of the schema with its local references resolved.

    Args:
        trusted: whether it is a built-in plugin's. Others may not use keywords that can take very
            long to check: `pattern`, `patternProperties`, and `uniqueItems` without a small
            `maxItems`.

    Raises:
        Rejected: `bad_schema` with the place, if it is not JSON, not valid 2020-12, not an object
            with `additionalProperties: false` (nested objects too), refers elsewhere or to itself,
            uses `multipleOf`, has a default that does not fit, or could take very long.
    """
    if not isinstance(schema, Mapping):
        raise _error("schema", "must be an object")
    _storable_copy(schema, "schema")
    plain: dict[str, Any] = _plain_copy(schema)
    if not trusted:
        return _resolved_schema(plain, trusted=False)
    key = repr(plain)
    found = _CHECKED.get(key)
    if found is None:
        found = _resolved_schema(plain, trusted=True)
        if len(_CHECKED) >= _MAX_CHECKED:
            _CHECKED.clear()
        _CHECKED[key] = found
    # A copy, because the caller may change the result.
    copy: dict[str, Any] = _plain_copy(found)
    return copy


def _resolved_schema(plain: dict[str, Any], *, trusted: bool) -> dict[str, Any]:
    if plain.pop("$schema", DIALECT) != DIALECT:
        raise _error("$schema", f"must be {DIALECT}")
    if not trusted:
        # Done first, because the dialect's own check compiles patterns.
        _check_cheap(plain, "")
    try:
        Draft202012Validator.check_schema(plain)
    except SchemaError as error:
        path = "/".join(map(str, error.absolute_path))
        if error.absolute_path and error.absolute_path[-1] == "type" and error.validator == "anyOf":
            # The dialect's own message does not list the types.
            raise _error(
                path, f"must be one or several of {_TYPES}; got {error.instance!r:.60}"
            ) from None
        raise _error(path, error.message) from None
    if plain.get("type") != "object":
        raise _error("type", 'must be "object" at the top level')
    return _SchemaWalk(plain.get("$defs", {}), trusted=trusted).schema(plain, "", 0)


def check_examples_cheap(examples: object, schema: Mapping[str, Any]) -> None:
    """Refuse a third party's examples if checking them could take seconds.

    Raises:
        Rejected: `bad_schema`.
    """
    plain = _storable_copy(examples, "examples")
    if len(jsontext.dumps(plain)) > _MAX_EXAMPLES:
        raise _error("examples", f"are more than {_MAX_EXAMPLES >> 10} KiB in total")
    if _count_values(plain) * _count_values(schema) > _MAX_WORK:
        raise _error("examples", "have too many values for a schema of this size")


def _storable_copy(value: object, path: str) -> Any:
    """Return a copy of JSON-like data that the service's stores and readers can represent.

    Raises:
        Rejected: `bad_schema`.
    """
    try:
        plain = exact(value, path)
    except InvalidRequest as error:
        raise _error(path, str(error)) from None
    if unfit := jsontext.explain_unfit(plain, path):
        raise _error(path, unfit)
    return plain


def _count_values(value: Any) -> int:
    if isinstance(value, Mapping):
        return 1 + sum(map(_count_values, value.values()))
    return 1 + sum(map(_count_values, value)) if isinstance(value, list | tuple) else 1


def _check_cheap(node: Any, path: str, *, names: bool = False) -> None:
    """Refuse keywords that can be slow to check. With `names`, keys of `node` are field names."""
    if isinstance(node, dict):
        for key, item in node.items():
            at = f"{path}/{key}"
            if names:
                _check_cheap(item, at)
                continue
            if key in {"pattern", "patternProperties"}:
                raise _error(
                    at,
                    "is not allowed: a pattern can run forever on some text; use enum, minLength"
                    " and maxLength, and check it in the skill (raise InvalidRequest)",
                )
            if key == "uniqueItems" and item is not False:
                most = node.get("maxItems")
                if type(most) is not int or most > _MAX_UNIQUE:
                    raise _error(at, f"needs maxItems of at most {_MAX_UNIQUE} with it")
            if key not in _DATA:
                _check_cheap(item, at, names=key in _MAPS)
    elif isinstance(node, list):
        # The dialect's check compares all items with each other in lists that it cannot sort.
        if len(node) > _LONG_LIST and not all(isinstance(item, str) for item in node):
            raise _error(path, f"has more than {_LONG_LIST} items")
        for index, item in enumerate(node):
            _check_cheap(item, f"{path}/{index}")


class _SchemaWalk:
    """A walk through every subschema that resolves references."""

    def __init__(self, defs: Mapping[str, Any], *, trusted: bool) -> None:
        self._defs = defs
        self._trusted = trusted
        self._nodes = 0
        self._work = 0

    def value(self, node: Any, path: str, depth: int) -> dict[str, Any]:
        """Return the schema of a value; reject a schema that accepts anything."""
        if not isinstance(node, dict):
            raise _error(path, "must be a schema, not true or false")
        found = self.schema(node, path, depth)
        restricted = {"type", "enum", "const"} & found.keys()
        for keyword in _MANY:
            for at, branch in enumerate(found.get(keyword, ())):
                if not restricted:
                    self.value(branch, f"{path}/{keyword}/{at}", depth + 1)
        if not restricted and not found.keys() & set(_MANY):
            raise _error(path, "has no type, so it accepts anything")
        return found

    def schema(self, node: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise _error(path, "is too large, nested too deep, or refers to itself")
        for keyword, reason in _FORBIDDEN.items():
            if keyword in node:
                raise _error(f"{path}/{keyword}", reason)
        if "$ref" in node:
            return self.schema(self._referenced(node, path), path, depth + 1)
        found = {key: value for key, value in node.items() if key != "$defs"}
        self._resolve_object(found, path, depth)
        self._resolve_array(found, path, depth)
        for keyword in _ONE:
            if isinstance(found.get(keyword), dict):
                found[keyword] = self.schema(found[keyword], f"{path}/{keyword}", depth + 1)
        for keyword in _MANY:
            if keyword in found:
                found[keyword] = [
                    self.schema(branch, f"{path}/{keyword}/{at}", depth + 1)
                    if isinstance(branch, dict)
                    else self.value(branch, f"{path}/{keyword}/{at}", depth + 1)
                    for at, branch in enumerate(found[keyword])
                ]
        for keyword in _NAMED:
            if keyword in found:
                found[keyword] = {
                    name: self.schema(each, f"{path}/{keyword}/{name}", depth + 1)
                    for name, each in found[keyword].items()
                    if isinstance(each, dict)
                }
        if "default" in found and not self._trusted:
            self._work += _count_values(found["default"]) * _count_values(found)
            if self._work > _MAX_WORK:
                raise _error(f"{path}/default", "is one default too many for its schema")
        if "default" in found and not Parameters(found).accepts(found["default"]):
            raise _error(f"{path}/default", "does not fit its own schema")
        return found

    def _resolve_object(self, node: dict[str, Any], path: str, depth: int) -> None:
        if not isinstance(node.get("additionalProperties", False), bool):
            raise _error(f"{path}/additionalProperties", "must be false")
        if "object" not in kinds_of(node) and not node.keys() & {"properties", "patternProperties"}:
            return
        if node.get("additionalProperties") is not False:
            raise _error(path, "an object must have additionalProperties: false")
        for keyword in ("properties", "patternProperties"):
            if keyword in node:
                node[keyword] = {
                    name: self.value(field, f"{path}/{keyword}/{name}", depth + 1)
                    for name, field in node[keyword].items()
                }

    def _resolve_array(self, node: dict[str, Any], path: str, depth: int) -> None:
        if "array" not in kinds_of(node) and not node.keys() & {"items", "prefixItems"}:
            return
        if "items" not in node:
            raise _error(path, "an array must have items")
        if node["items"] is not False:
            node["items"] = self.value(node["items"], f"{path}/items", depth + 1)
        if "prefixItems" in node:
            node["prefixItems"] = [
                self.value(item, f"{path}/prefixItems/{at}", depth + 1)
                for at, item in enumerate(node["prefixItems"])
            ]

    def _referenced(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        local = _LOCAL.fullmatch(str(node["$ref"]))
        target = self._defs.get(local[1]) if local else None
        if not isinstance(target, dict):
            raise _error(f"{path}/$ref", "must refer to a schema of this document, #/$defs/NAME")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if beside.keys() - _ANNOTATIONS - {"$defs"}:
            raise _error(path, "only annotations such as description may accompany $ref")
        return target | beside


def kinds_of(node: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names."""
    kinds = node.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _plain_copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain_copy(item) for name, item in value.items()}
    return [_plain_copy(item) for item in value] if isinstance(value, list | tuple) else value


def _error(path: str, text: str) -> Rejected:
    return Rejected(ProblemCode.BAD_SCHEMA, f"{path.lstrip('/') or 'schema'}: {text}")


SECRET: Final = "secret"  # noqa: S105 - a keyword, not a secret
"""The keyword that makes a property a secret."""
MIN_SECRET: Final = 8
"""Minimum characters of a secret: in a log, a shorter one could be an ordinary word."""
MAX_SECRET: Final = 4_096
"""Maximum characters of a secret, unless its schema has a lower maximum."""
# Characters of an unknown name that an error shows.
_SHOWN: Final = 64
# The only keywords of a secret's schema: errors of others could tell something about the value.
_OF_A_SECRET: Final = {"type", "title", "description", "minLength", "maxLength", SECRET}


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """The settings that a skill declares.

    Attributes:
        schema: closed, without references and without the keyword `secret`.
        secrets: names of the secret settings.
    """

    schema: Mapping[str, Any]
    secrets: frozenset[str]
    _fields: Mapping[str, Parameters] = field(repr=False)
    _whole: Parameters = field(repr=False)

    @classmethod
    def read(cls, declared: object, *, trusted: bool) -> SkillSettings:
        """Check the declaration in `SkillSpec.settings` and return it.

        Args:
            trusted: see `checked_schema`.

        Raises:
            Rejected: `bad_schema` with the place.
        """
        if not isinstance(declared, Mapping):
            raise _error("settings", "must be an object")
        properties, secrets = {}, set()
        for name, each in dict(declared.get("properties", {})).items():
            if isinstance(each, Mapping) and SECRET in each:
                if each[SECRET] is not True or each.get("type") != "string":
                    raise _error("settings", f"{name}: secret must be true, the type string")
                if beyond := sorted(each.keys() - _OF_A_SECRET):
                    raise _error("settings", f"{name}: a secret must not have {beyond[0]}")
                secrets.add(name)
                each = {key: value for key, value in each.items() if key != SECRET}
            properties[name] = each
        try:
            schema = checked_schema({**declared, "properties": properties}, trusted=trusted)
        except Rejected as rejected:
            raise _error("settings", rejected.detail) from None
        if extra := sorted(schema.keys() - {"type", "properties", "required", "description",
                                            "title", "additionalProperties"}):  # fmt: skip
            raise _error(
                "settings", f"{extra[0]} is not supported at the top: settings are set one by one"
            )
        fields = {
            name: Parameters(
                {"type": "object", "properties": {name: each}, "additionalProperties": False}
            )
            for name, each in schema["properties"].items()
        }
        return cls(schema, frozenset(secrets), fields, Parameters(schema))

    def checked_value(self, name: str, value: object) -> Any:
        """Check one setting's value, and return it in the form for storage.

        Raises:
            InvalidRequest: if there is no such setting, or the value does not fit; names the
                setting, and never the value of a secret.
        """
        self.check_name(name)
        try:
            checked = self._fields[name].validate({name: value})[name]
            if name not in self.secrets or MIN_SECRET <= len(checked) <= MAX_SECRET:
                return checked
        except InvalidRequest:
            if name not in self.secrets:
                raise
        least, most = self.length_bounds(name)
        raise InvalidRequest(f"{name} must be text of {least} to {most} characters")

    def check_name(self, name: str) -> None:
        """Refuse a name that is not a setting.

        Raises:
            InvalidRequest: naming the settings.
        """
        if name not in self._fields:
            known = ", ".join(self._fields) or "none"
            raise InvalidRequest(f"setting must be one of {known}; got {name[:_SHOWN]!r}")

    def length_bounds(self, secret: str) -> tuple[int, int]:
        """Return the minimum and maximum number of characters of a secret."""
        own = self.schema["properties"][secret]
        return (
            max(own.get("minLength", 0), MIN_SECRET),
            min(own.get("maxLength", MAX_SECRET), MAX_SECRET),
        )

    @property
    def defaults(self) -> dict[str, Any]:
        """The declared defaults, by name."""
        properties = self.schema["properties"]
        return {name: each["default"] for name, each in properties.items() if "default" in each}

    def complete(self, skill: str, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the skill's settings: stored values of declared settings, and defaults.

        Raises:
            SkillError: `settings_missing` or `settings_invalid`; names the settings, and no value.
        """
        known = {name: value for name, value in stored.items() if name in self._fields}
        wrong = []
        for name, value in known.items():
            try:
                self.checked_value(name, value)
            except InvalidRequest:
                wrong.append(name)
        given = known.keys() | self.defaults.keys()
        missing = [name for name in self.schema.get("required", ()) if name not in given]
        for code, names, why in (
            ("settings_missing", missing, "are not set"),
            ("settings_invalid", wrong, "do not fit the skill's declaration"),
        ):
            if names:
                raise SkillError(
                    code,
                    f"Settings of {skill} {why}: {', '.join(names)}; the operator sets them with"
                    f" `solward plugins settings set {skill} NAME`",
                )
        return self._whole.validate(known)
