"""Secrets of the settings: masked for display, and removed from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import get_args
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings

_MASK = "********"


def masked_value(name: str, value: object) -> str:
    """A setting's value as text; a secret address keeps its host, other secrets are masked."""
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        if name == "solana_rpc_url":
            return ",".join(map(host_of, addresses_of(text)))
        return host_of(text) if name.endswith("_url") else _MASK
    if isinstance(value, Mapping):
        return ",".join(f"{mint}={units}" for mint, units in sorted(value.items()))
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return ",".join(value) if isinstance(value, tuple) else str(value)


def addresses_of(text: str) -> tuple[str, ...]:
    """The addresses of a list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def host_of(url: str) -> str:
    """An address without all that may be a credential: its scheme and host."""
    parts = urlsplit(url)
    return (
        f"{parts.scheme}://{parts.hostname}/{_MASK}" if parts.scheme and parts.hostname else _MASK
    )


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
