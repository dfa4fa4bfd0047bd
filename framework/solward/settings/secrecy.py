"""Secrets in the settings: their minimum lengths, the check for guessable secrets, masking for
display, and their removal from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from solward.settings.addresses import address_marker, origin_of, shown_address
from solward.support.webhook_signature import MIN_SECRET_BYTES

LEAST_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        # Attackers can test guesses of a token or a signing key unnoticed.
        "API_SECRET": MIN_SECRET_BYTES,
        "APPROVAL_WEBHOOK_SECRET": MIN_SECRET_BYTES,
        "ALERT_WEBHOOK_SECRET": MIN_SECRET_BYTES,
        # Guessing needs a copy of the database, and argon2id uses 64 MiB for each guess.
        "KEYSTORE_PASSPHRASE": 16,
        # Guesses go through the login page, a few per second, or through the database's server.
        "DASHBOARD_PASSWORD": 12,
        "DATABASE_URL": 12,
    }
)
"""Setting -> minimum bytes; of DATABASE_URL only the password, if a host is another machine."""

HOW_TO_MAKE: Final = "openssl rand -hex 32"


def min_different(least_bytes: int) -> int:
    """Return the minimum number of different characters in a secret with this minimum length.

    Those that continue a run (`aaaa`, `abcd`) do not count: attackers try such secrets first. One
    in 350 random secrets of 12 hexadecimal digits has fewer, of 32 practically none."""
    return 8 if least_bytes >= MIN_SECRET_BYTES else 6


# Words that attackers try first, and examples in the documentation, in lower case without
# punctuation.
_KNOWN = frozenset(
    {
        "admin",
        "changeit",
        "changeme",
        "correcthorsebatterystaple",
        "default",
        "example",
        "letmein",
        "password",
        "replaceme",
        "secret",
        "solward",
        "solwarddevelopmentsecretchangeme",
        "test",
        "0f4c1d2e9a8b7c6d5e4f30211203f4e5",
        "0f4c1d2e9a8b7c6d5e4f302112f4e5a60f4c1d2e9a8b7c6d5e4f302112f4e5a6",
        "2f6c1b0e9d8a7c6b5a49382716051423",
        "8d1c5e0b7a964f3f9e2b6a1c0d4e5f67",
    }
)
_PUNCTUATION = re.compile(r"[^a-z0-9]")
_REPEATED = re.compile(r"(.+?)\1+")


def weaknesses(secrets: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each weak secret. It names the setting and how to make a secret, and
    does not quote the secret. `secrets` is setting -> secret."""
    of: dict[str, str] = {}
    for name, secret in secrets.items():
        least, size = LEAST_BYTES[name], len(secret.encode())
        what = f"The password in {name}" if name == "DATABASE_URL" else name
        make = f"make one with `{HOW_TO_MAKE}`"
        if size < least:
            yield f"{what} must have at least {least} bytes, and has {size}: {make}"
        elif is_well_known(secret):
            yield f"{what} must not be an example or a word that everybody tries first: {make}"
        elif (found := _count_different(secret)) < min_different(least):
            yield (
                f"{what} must have at least {min_different(least)} different characters, without"
                f" those that continue a run such as aaaa or 1234; it has {found}: {make}"
            )
        elif (piece := _repeated_length(secret)) < least:
            yield (
                f"{what} must not repeat a part of fewer than {least} characters; its repeated"
                f" part has {piece}: {make}"
            )
        elif of.setdefault(secret, name) != name:
            yield f"{what} must differ from {of[secret]}, whose holder would have both: {make}"


def is_well_known(secret: str) -> bool:
    """Return whether a secret is a well-known secret, in any spelling, or a repetition of one."""
    plain = _PUNCTUATION.sub("", secret.lower())
    repeated = _REPEATED.fullmatch(plain)
    return plain in _KNOWN or (repeated is not None and repeated[1] in _KNOWN)


def _count_different(secret: str) -> int:
    """Count a secret's different characters without those that continue a run (`aaa`, `cba`)."""
    codes = list(map(ord, secret))
    steps = [after - before for before, after in pairwise(codes)]
    kept = codes[:2] + [
        code
        for code, step, before in zip(codes[2:], steps[1:], steps, strict=False)
        if step != before or abs(step) > 1
    ]
    return len(set(kept))


def _repeated_length(secret: str) -> int:
    """Return the length of the shortest part that the whole secret repeats at least twice, or else
    the secret's length. A secret that only ends as it begins is no repetition."""
    for size in range(1, len(secret) // 2 + 1):
        if secret[size:] == secret[:-size]:
            return size
    return len(secret)


_MASK = "********"


def masked_value(field: FieldInfo, value: object) -> str:
    """Return a setting's value as text, empty for no value. A secret is masked, and so is a
    possible secret in an address, unless it is the public default."""
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
    """Return the fields of the type `SecretStr`."""
    return frozenset(
        name
        for name, field in settings.model_fields.items()
        if field.annotation is SecretStr or SecretStr in get_args(field.annotation)
    )


def forget_secrets(
    settings: type[BaseSettings], environ: MutableMapping[str, str] = os.environ
) -> None:
    """Remove the settings' secrets from the environment; called at a process's start.

    Otherwise child processes and crash reports would have the secrets. The kernel's copy of the
    process's initial environment cannot be changed from here.
    """
    secrets = secret_fields(settings)
    for name in list(environ):
        if name.lower() in secrets:
            del environ[name]
