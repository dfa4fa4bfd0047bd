"""Settings that are URLs: their checks, and the parts of them that people may see."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

_REST: Final = "…"


@dataclass(frozen=True, slots=True)
class Address:
    """Marks a setting that is a URL. Vendors put keys into the path, query or user of a URL, so
    `shown_address` shortens such a setting for display, and `origin_of` a secret one.

    Attributes:
        many: whether the setting is a list of URLs, separated by commas.
    """

    many: bool = False

    def split(self, value: object) -> tuple[str, ...]:
        """Split the setting's value into addresses, which may contain keys."""
        if isinstance(value, tuple):
            return value
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        return parts_of(text) if self.many else (text,)


ADDRESS: Final = Address()
ADDRESSES: Final = Address(many=True)


def address_marker(field: FieldInfo) -> Address | None:
    """Return the marker of a setting that is a URL, None for any other setting."""
    return next((each for each in field.metadata if isinstance(each, Address)), None)


def address_fields(settings: type[BaseSettings]) -> Mapping[str, Address]:
    """Return field -> marker, for the fields that are URLs."""
    return {
        name: marker
        for name, field in settings.model_fields.items()
        if (marker := address_marker(field)) is not None
    }


def parts_of(text: str) -> tuple[str, ...]:
    """Return the parts of a list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def shown_address(url: str) -> str:
    """Return an address for display: all of it if it is on this machine, else `origin_of`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return _REST
    plain = parts.username is None and not parts.query and not parts.fragment
    return url if plain and is_loopback(parts.hostname or "") else origin_of(url)


def origin_of(url: str) -> str:
    """Return an address with "…" after scheme, host and port, as the rest may be a credential."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return _REST
    if not parts.scheme or not parts.hostname:
        return _REST
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    try:
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        # The port may belong to one of several hosts, or be the start of a password with a slash.
        port = ""
    origin = f"{parts.scheme}://{host}{port}"
    return origin if url.rstrip("/") == origin else f"{origin}/{_REST}"


def http_address(value: str) -> str:
    """Return `value` if it is an http(s) address; raises a `ValueError` that does not quote it."""
    try:
        parts = urlsplit(value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # The error's text quotes an invalid port or host, which may be a credential.
        valid = False
    if not valid:
        raise ValueError("expected an http:// or https:// address")
    return value


def service_address(value: str) -> str:
    """Return `value` if it is a service's address; raises a `ValueError` without quoting it."""
    parts = urlsplit(http_address(value))
    # Errors quote this address, so it must not contain a credential.
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("expected an address without credentials and without a query")
    return value


def unless_none(check: Callable[[Any], Any]) -> AfterValidator:
    """Return a validator that applies `check` to a setting unless it is None."""
    return AfterValidator(lambda value: None if value is None else check(value))


HttpAddress: TypeAlias = Annotated[str | None, ADDRESS, unless_none(http_address)]
ServiceAddress: TypeAlias = Annotated[str | None, ADDRESS, unless_none(service_address)]


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its address or as `localhost`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_protected(url: str) -> bool:
    """Return whether traffic to an http(s) address is protected from others on the way."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")
