"""Every setting with its value in force, its default and where it comes from, for people; of a
secret only whether it is set, of an address nothing that may be one. Made from the settings' own
declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from solward.resources.service import Origin
from solward.settings.masking import masked_value, secret_fields
from solward.settings.settings import CEILING, Settings


def report(settings: Settings) -> Iterator[dict[str, Any]]:
    """Every setting as the JSON of a `solward.resources.service.Setting`, in declared order."""
    secrets = secret_fields(type(settings))
    given = {name: getattr(settings, name) for name in type(settings).model_fields}
    for name, field in type(settings).model_fields.items():
        origin = settings.origin(name)
        secret = name in secrets
        default = None
        if not secret:
            default = field.get_default(call_default_factory=True, validated_data=given)
        yield {
            "name": name.upper(),
            "value": None if secret else _text(field, given[name]),
            "default": _text(field, default),
            "source": origin.value,
            "secret": secret,
            "set": origin is not Origin.DEFAULT,
            "ceiling": CEILING in field.metadata,
        }


def _text(field: FieldInfo, value: Any) -> str | None:
    return None if isinstance(value, SecretStr) else masked_value(field, value) or None
