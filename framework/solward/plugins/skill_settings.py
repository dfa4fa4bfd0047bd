"""The settings that a skill declares by JSON Schema, some of them secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from solward.plugins.parameters import Parameters
from solward.plugins.problems import Rejected
from solward.plugins.schema import checked_schema
from solward.types.errors import InvalidRequest, SkillError
from solward.types.manifest import ProblemCode

SECRET: Final = "secret"  # noqa: S105 - a keyword, not a secret
"""The keyword that makes a property a secret."""
MIN_SECRET: Final = 8
"""Least characters of a secret: what is shorter cannot be told from ordinary words in a log."""
MAX_SECRET: Final = 4_096
"""Most characters of a secret whose schema names no fewer."""
# Of a name that is none, in an error.
_SHOWN: Final = 64
# Beside these a secret's schema has nothing: its errors must not tell of the value.
_OF_A_SECRET: Final = {"type", "title", "description", "minLength", "maxLength", SECRET}


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """Declared settings.

    Attributes:
        schema: closed, without references and without the keyword `secret`.
        secrets: names of the secret ones.
    """

    schema: Mapping[str, Any]
    secrets: frozenset[str]
    _fields: Mapping[str, Parameters] = field(repr=False)
    _whole: Parameters = field(repr=False)

    @classmethod
    def read(cls, declared: object, *, trusted: bool) -> SkillSettings:
        """Check what `SkillSpec.settings` declares.

        Args:
            trusted: as of `checked_schema`.

        Raises:
            Rejected: `bad_schema`, saying where.
        """
        if not isinstance(declared, Mapping):
            raise _bad("must be an object")
        properties, secrets = {}, set()
        for name, each in dict(declared.get("properties", {})).items():
            if isinstance(each, Mapping) and SECRET in each:
                if each[SECRET] is not True or each.get("type") != "string":
                    raise _bad(f"{name}: secret must be true, of a string")
                if beyond := sorted(each.keys() - _OF_A_SECRET):
                    raise _bad(f"{name}: a secret has no {beyond[0]}")
                secrets.add(name)
                each = {key: value for key, value in each.items() if key != SECRET}
            properties[name] = each
        try:
            schema = checked_schema({**declared, "properties": properties}, trusted=trusted)
        except Rejected as rejected:
            raise _bad(rejected.detail) from None
        if extra := sorted(schema.keys() - {"type", "properties", "required", "description",
                                            "title", "additionalProperties"}):  # fmt: skip
            raise _bad(f"{extra[0]} is not supported at the top: settings are set one by one")
        fields = {
            name: Parameters(
                {"type": "object", "properties": {name: each}, "additionalProperties": False}
            )
            for name, each in schema["properties"].items()
        }
        return cls(schema, frozenset(secrets), fields, Parameters(schema))

    def checked(self, name: str, value: object) -> Any:
        """One value as it is stored.

        Raises:
            InvalidRequest: there is no such setting, or the value does not fit; names the setting,
                and of a secret never the value.
        """
        self.check_name(name)
        try:
            if name in self.secrets and isinstance(value, str):
                _check_length(value)
            return self._fields[name].validate({name: value})[name]
        except InvalidRequest:
            if name not in self.secrets:
                raise
        least, most = self.length_of(name)
        raise InvalidRequest(f"{name} must be text of {least} to {most} characters")

    def check_name(self, name: str) -> None:
        """Refuse what is no setting.

        Raises:
            InvalidRequest: names those that are.
        """
        if name not in self._fields:
            known = ", ".join(self._fields) or "none"
            raise InvalidRequest(f"setting must be one of {known}; got {name[:_SHOWN]!r}")

    def length_of(self, secret: str) -> tuple[int, int]:
        """Least and most characters of a secret."""
        own = self.schema["properties"][secret]
        return (
            max(own.get("minLength", 0), MIN_SECRET),
            min(own.get("maxLength", MAX_SECRET), MAX_SECRET),
        )

    @property
    def defaults(self) -> dict[str, Any]:
        """What is given where nothing is set."""
        properties = self.schema["properties"]
        return {name: each["default"] for name, each in properties.items() if "default" in each}

    def complete(self, skill: str, stored: Mapping[str, Any]) -> dict[str, Any]:
        """What the skill gets: what is stored of what it declares now, and its defaults.

        Raises:
            SkillError: `settings_missing` or `settings_invalid`: names the settings, and no value.
        """
        known = {name: value for name, value in stored.items() if name in self._fields}
        wrong = []
        for name, value in known.items():
            try:
                self.checked(name, value)
            except InvalidRequest:
                wrong.append(name)
        given = known.keys() | self.defaults.keys()
        missing = [name for name in self.schema.get("required", ()) if name not in given]
        for code, names, why in (
            ("settings_missing", missing, "are not set"),
            ("settings_invalid", wrong, "do not fit what it declares now"),
        ):
            if names:
                raise SkillError(
                    code,
                    f"Settings of {skill} {why}: {', '.join(names)}; the operator sets them by"
                    f" `solward plugins settings set {skill} NAME`",
                )
        return self._whole.validate(known)


def _check_length(secret: str) -> None:
    if not MIN_SECRET <= len(secret) <= MAX_SECRET:
        raise InvalidRequest("it is too short or too long")


def _bad(detail: str) -> Rejected:
    return Rejected(ProblemCode.BAD_SCHEMA, f"settings: {detail}")
