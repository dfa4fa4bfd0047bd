"""Settings as people may see them, and the environment without their secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import get_args
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings

_MASK = "********"


def shown(name: str, value: object) -> str:
    """A setting's value as text; of a secret address only the host, of other secrets nothing."""
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        parts = urlsplit(value.get_secret_value()) if name.endswith("_url") else None
        if parts is not None and parts.scheme and parts.hostname:
            return f"{parts.scheme}://{parts.hostname}/{_MASK}"
        return _MASK
    if isinstance(value, Mapping):
        return ",".join(f"{mint}={units}" for mint, units in sorted(value.items()))
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return ",".join(value) if isinstance(value, tuple) else str(value)


def secret_fields(settings: type[BaseSettings]) -> frozenset[str]:
    """The fields that hold secrets, by their type."""
    return frozenset(
        name
        for name, field in settings.model_fields.items()
        if field.annotation is SecretStr or SecretStr in get_args(field.annotation)
    )


def forget_secrets(
    settings: type[BaseSettings], environ: MutableMapping[str, str] = os.environ
) -> None:
    """Take the secrets that were read out of the environment; for a process's entry point.

    Child processes and crash reports see the environment. What the kernel shows of the process's
    first environment cannot be changed from here.
    """
    secrets = secret_fields(settings)
    for name in list(environ):
        if name.lower() in secrets:
            del environ[name]
