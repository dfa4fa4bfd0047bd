"""Refusing pages that reach this machine under a name of their own (DNS rebinding)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from quart import request

from solward.settings import Settings

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Misdirected(Exception):
    """The Host is no name of this service."""


class ForeignOrigin(Exception):
    """The Origin is no page that may call this service."""


def host_guard(settings: Settings) -> Callable[[], None]:
    """A check of the request at hand by its Host; it raises `Misdirected`.

    On a loopback address the Host must be a loopback name, or that of a page in CORS_ORIGINS
    (behind a proxy that passes the name on). Elsewhere the service cannot know its names.
    """
    names = _own(settings) | {_name(origin) for origin in settings.cors_origins}

    def check() -> None:
        if settings.loopback and _name(f"//{request.headers.get('Host', '')}") not in names:
            raise Misdirected(
                "This Host is no name of the service; one that a proxy passes on goes into "
                "CORS_ORIGINS"
            )

    return check


def rebinding_guard(settings: Settings) -> Callable[[], None]:
    """A check of the request at hand by its Host, and by its Origin, which browsers send.

    An Origin must be in CORS_ORIGINS, or be this service's own.

    The check raises `Misdirected` or `ForeignOrigin`.
    """
    own = _own(settings)
    check_host = host_guard(settings)

    def check() -> None:
        check_host()
        host = request.headers.get("Host", "")
        origin = request.headers.get("Origin")
        if origin is None or origin in settings.cors_origins:
            return
        if origin != f"{request.scheme}://{host}" or _name(origin) not in own:
            raise ForeignOrigin("This Origin may not call the service; CORS_ORIGINS lists who may")

    return check


def _own(settings: Settings) -> frozenset[str]:
    return _LOOPBACK | {settings.api_host.strip("[]")}


def _name(address: str) -> str:
    """The host's name in lower case, without its port; empty where there is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
