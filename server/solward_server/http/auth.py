"""Authentication: the admin secret or an API key."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from quart import Quart, g, request

from solward.audit.acts import act_as
from solward.clock import now_ms
from solward.errors import KeyRevoked, WalletNotFound
from solward.settings import Settings
from solward.vault.transactions.grant_report import WalletKeys
from solward.vault.transactions.request import Actor
from solward_server.http.api_keys import ApiKey, ApiKeyStore, hash_of
from solward_server.http.limits import Taking, TooManyRequests
from solward_server.http.middleware import request_id

# Clients match these texts: they are part of the HTTP contract.
KEY_REQUIRED = "Unauthorized — API key required"
KEY_INVALID = "Invalid API key"
ADMIN_REQUIRED = "Unauthorized — admin API secret required"

_ACCESS = "solward_access"
View = TypeVar("View", bound=Callable[..., Any])


class Access(StrEnum):
    """Who may call a route."""

    PUBLIC = "public"
    SIGNED = "signed"
    """Whoever signs the request with a secret that is no token; the view checks it."""
    KEY = "key"
    """An API key or the admin secret."""
    ADMIN = "admin"


class Unauthorized(Exception):
    """The credential is missing, unknown or not enough; the response has this text."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller; without `key` and the store it is from, the admin.

    Attributes:
        hash: of the secret it came with, which is one of the key's two.
    """

    key: ApiKey | None = None
    keys: ApiKeyStore | None = None
    hash: str = field(default="", repr=False)

    @property
    def principal(self) -> str:
        """As records and idempotency scopes name it: `admin` or `key:<id>`."""
        return "admin" if self.key is None else self.key.principal

    @property
    def wallet_id(self) -> str | None:
        """The only wallet a confined key may use."""
        return None if self.key is None else self.key.wallet_id

    def actor(self) -> Actor:
        """The caller for the engine, with its key's daily limits; it ends with its secret."""
        if self.key is None or self.keys is None:
            return Actor(self.principal, trace=request_id())
        actor = _bound(self.keys, self.key, self.hash)
        return replace(actor, trace=request_id())


def _bound(keys: ApiKeyStore, key: ApiKey, hash_: str) -> Actor:
    return keys.bind(Actor(key.principal, limits=((key.principal, key.limits),)), hash_)


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys of a store, for what was approved for one outside of its requests."""

    keys: ApiKeyStore
    limiter: Taking

    async def actor(self, key_id: str) -> Actor:
        """A key with the limits of now; raises `KeyRevoked` where it has ended."""
        key = await self._key(key_id)
        return _bound(self.keys, key, key.hash)

    async def bound(self, key_id: str, hash_: str) -> Actor:
        """A key with the limits of now, for whom nothing is reserved once the secret with this hash
        has ended; raises `KeyRevoked` where it has."""
        key = await self.keys.find(hash_)
        if key is None or key.id != key_id:
            raise KeyRevoked
        return _bound(self.keys, key, hash_)

    async def secret_hash(self, key_id: str) -> str:
        """The hash of a key's present secret; raises `KeyRevoked`."""
        return (await self._key(key_id)).hash

    async def count_request(self, key_id: str) -> str | None:
        """Count a request of a key that is made for it; why it is one too many, and is not counted,
        else None; raises `KeyRevoked`."""
        key = await self._key(key_id)
        try:
            await self.limiter.take(key.id, key.rate_limit)
        except TooManyRequests as error:
            return str(error)
        return None

    async def wallet_of(self, key_id: str) -> str | None:
        """The only wallet that it may use, None for all; raises `KeyRevoked`."""
        return (await self._key(key_id)).wallet_id

    async def of_wallet(self, wallet_id: str) -> WalletKeys:
        """Every key that may use a wallet."""
        return await self.keys.of_wallet(wallet_id)

    async def names(self) -> dict[str, str]:
        """id -> name of every key."""
        return {key.id: key.name for key in await self.keys.list()}

    async def _key(self, key_id: str) -> ApiKey:
        key = await self.keys.get(key_id)
        if key is None:
            raise KeyRevoked
        return key


def public(view: View) -> View:
    """Mark a view as needing no credential."""
    return _marked(view, Access.PUBLIC)


def signed(view: View) -> View:
    """Mark a view as one that checks the request's signature itself."""
    return _marked(view, Access.SIGNED)


def keyed(view: View) -> View:
    """Mark a view as open to API keys and the admin secret."""
    return _marked(view, Access.KEY)


def access_of(view: Callable[..., object]) -> Access:
    """Who may call a view; without a mark only the admin."""
    access: Access = getattr(view, _ACCESS, Access.ADMIN)
    return access


def caller() -> Caller:
    """The current request's caller; only in views that need a credential."""
    found: Caller = g.caller
    return found


def confined_to(wallet_id: str) -> None:
    """Raise `WalletNotFound` where the caller is confined to another wallet."""
    if caller().wallet_id not in (None, wallet_id):
        raise WalletNotFound


def authenticate(app: Quart, settings: Settings, keys: ApiKeyStore, traffic: Taking) -> None:
    """Check the credential of every request before its view runs; requests of keys are counted."""
    expected = settings.api_secret.get_secret_value().encode()
    requests_per_minute = settings.requests_per_minute

    @app.before_request
    async def check() -> None:
        view = app.view_functions.get(request.endpoint or "")
        # Unknown routes are 404 or 405 for everybody; preflights carry no credential.
        if view is None or request.method == "OPTIONS":
            return
        access = access_of(view)
        if access in (Access.PUBLIC, Access.SIGNED):
            return
        token = bearer()
        # Header text is Latin-1 in ASGI; encoding it gives the bytes that were sent.
        credential = token.encode("latin-1", "replace")
        if token and hmac.compare_digest(credential, expected):
            _serve(Caller())
            return
        if access is Access.ADMIN:
            raise Unauthorized(ADMIN_REQUIRED)
        if not token:
            raise Unauthorized(KEY_REQUIRED)
        hash_ = hash_of(token)
        key = await keys.find(hash_)
        if key is None:
            raise Unauthorized(KEY_INVALID)
        await traffic.take(key.id, requests_per_minute)
        keys.used(key, now_ms())
        _serve(Caller(key, keys, hash_))


def _serve(caller: Caller) -> None:
    g.caller = caller
    # For the audit log, whatever the view changes.
    act_as(caller.principal)


def bearer() -> str:
    """The request's token, empty where there is none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _marked(view: View, access: Access) -> View:
    setattr(view, _ACCESS, access)
    return view
