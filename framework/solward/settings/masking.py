"""Settings as people may see them, and an environment without the secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from solward.settings.addresses import address_marker, origin_of, shown_address

_MASK = "********"


def masked_value(field: FieldInfo, value: object) -> str:
    """A setting's value as text, empty where there is none; a secret is masked, and so is what may
    be one in an address, unless it is the default, which is public."""
    if value is None:
        return ""
    marker = address_marker(field)
    if marker is not None and value != field.default:
        shown = origin_of if isinstance(value, SecretStr) else shown_address
        return ",".join(map(shown, marker.split(value)))
    if isinstance(value, SecretStr):
        return _MASK
    if isinstance(value, Mapping):
        return ",".join(f"{mint}={units}" for mint, units in sorted(value.items()))
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return ",".join(value) if isinstance(value, tuple) else str(value)


def secret_fields(settings: type[BaseSettings]) -> frozenset[str]:
    """The fields of the type `SecretStr`."""
    return frozenset(
        name
        for name, field in settings.model_fields.items()
        if field.annotation is SecretStr or SecretStr in get_args(field.annotation)
    )


def forget_secrets(
    settings: type[BaseSettings], environ: MutableMapping[str, str] = os.environ
) -> None:
    """Remove the settings' secrets from the environment; for a process's entry point.

    Child processes and crash reports see the environment. The kernel's copy of the process's
    initial environment cannot be changed from here.
    """
    secrets = secret_fields(settings)
    for name in list(environ):
        if name.lower() in secrets:
            del environ[name]
