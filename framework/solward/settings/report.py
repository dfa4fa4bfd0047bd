"""Every setting with its value in force, its default and where it comes from, for people; of a
secret only whether it is set, of an address nothing that may be one. Made from the settings' own
declarations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from solward.settings.masking import masked_value, secret_fields
from solward.settings.settings import CEILING, Origin, Settings


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: the environment variable's.
        value: as the environment would have it; None of a secret, and where there is none.
        default: likewise, with the other settings as they are.
        is_set: whether its value is another than the default's, or was given as it is.
        ceiling: whether no request, grant or key goes beyond it.
    """

    name: str
    value: str | None
    default: str | None
    origin: Origin
    secret: bool
    is_set: bool
    ceiling: bool


def report(settings: Settings) -> Iterator[Setting]:
    """Every setting, in the order of their declarations."""
    secrets = secret_fields(type(settings))
    given = {name: getattr(settings, name) for name in type(settings).model_fields}
    for name, field in type(settings).model_fields.items():
        origin = settings.origin(name)
        secret = name in secrets
        default = None
        if not secret:
            default = field.get_default(call_default_factory=True, validated_data=given)
        yield Setting(
            name=name.upper(),
            value=None if secret else _text(field, given[name]),
            default=_text(field, default),
            origin=origin,
            secret=secret,
            is_set=origin is not Origin.DEFAULT,
            ceiling=CEILING in field.metadata,
        )


def _text(field: FieldInfo, value: Any) -> str | None:
    return None if isinstance(value, SecretStr) else masked_value(field, value) or None
