"""Who calls: the admin secret or an API key."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from quart import Quart, g, request

from solward.clock import now_ms
from solward.errors import WalletNotFound
from solward.vault.guardrails import ScopeLimits
from solward.vault.transactions.request import Actor
from solward_server.http.api_keys import ApiKey, KeyStore, hash_of
from solward_server.http.request_log import request_id

if TYPE_CHECKING:
    from typing import Any

# Clients compare these texts.
KEY_REQUIRED = "Unauthorized — API key required"
KEY_INVALID = "Invalid API key"
ADMIN_REQUIRED = "Unauthorized — admin API secret required"

_ACCESS = "solward_access"
View = TypeVar("View", bound="Callable[..., Any]")


class Access(StrEnum):
    """Who may call a route."""

    PUBLIC = "public"
    KEY = "key"
    """An API key or the admin secret."""
    ADMIN = "admin"


class Unauthorized(Exception):
    """The credential does not do; the text is the answer's."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller; `key` is None for the admin."""

    key: ApiKey | None

    @property
    def principal(self) -> str:
        """As records and idempotency scopes name it: `admin` or `key:<id>`."""
        return "admin" if self.key is None else f"key:{self.key.id}"

    @property
    def wallet_id(self) -> str | None:
        """The only wallet a confined key may use."""
        return None if self.key is None else self.key.wallet_id

    def actor(self) -> Actor:
        """The caller as the engine judges it, with its key's daily limit."""
        if self.key is None:
            return Actor(self.principal, trace=request_id())
        limits = ScopeLimits(daily_lamports=self.key.spending_limit_lamports)
        return Actor(self.principal, limits=((self.principal, limits),), trace=request_id())


def public(view: View) -> View:
    """Mark a view as needing no credential."""
    return _marked(view, Access.PUBLIC)


def keyed(view: View) -> View:
    """Mark a view as open to API keys and the admin secret."""
    return _marked(view, Access.KEY)


def access_of(view: Callable[..., object]) -> Access:
    """Who may call a view; one without a mark is the admin's."""
    access: Access = getattr(view, _ACCESS, Access.ADMIN)
    return access


def caller() -> Caller:
    """Who calls; inside a `key` or `admin` view."""
    found: Caller = g.caller
    return found


def confined_to(wallet_id: str) -> None:
    """Hide every other wallet from a key that is confined to one; raises `WalletNotFound`."""
    only = caller().wallet_id
    if only is not None and only != wallet_id:
        raise WalletNotFound


def authenticate(app: Quart, keys: KeyStore, secret: str) -> None:
    """Check the credential of every request before its view runs."""
    expected = secret.encode()

    @app.before_request
    async def check() -> None:
        view = app.view_functions.get(request.endpoint or "")
        # Unknown routes are answered as such; preflights carry no credential.
        if view is None or request.method == "OPTIONS":
            return
        access = access_of(view)
        if access is Access.PUBLIC:
            return
        token = bearer()
        # Header text is Latin-1 by ASGI; encoding it back gives the bytes that were sent.
        given = token.encode("latin-1", "replace")
        if token and hmac.compare_digest(given, expected):
            g.caller = Caller(None)
            return
        if access is Access.ADMIN:
            raise Unauthorized(ADMIN_REQUIRED)
        if not token:
            raise Unauthorized(KEY_REQUIRED)
        g.caller = Caller(await _known(keys, token))


async def _known(keys: KeyStore, token: str) -> ApiKey:
    hash_ = hash_of(token)
    key = await keys.find(hash_)
    if key is None or not hmac.compare_digest(key.hash, hash_):
        raise Unauthorized(KEY_INVALID)
    keys.used(key, now_ms())
    return key


def bearer() -> str:
    """The request's token, empty where there is none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _marked(view: View, access: Access) -> View:
    setattr(view, _ACCESS, access)
    return view
