"""Authentication: the admin secret, an admin credential with its role, or an API key.

A route's declaration says who may call it: `public`, `signed`, `keyed(role)` or `admin(role)`. The
role is the least of an admin credential; the admin secret has all, an API key none.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from quart import Quart, g, request

from solward.audit.acts import act_as
from solward.operations.policies.grant_report import WalletKeys
from solward.settings import Settings
from solward.support.clock import now_ms
from solward.support.fair_turns import source_of
from solward.types.errors import KeyRevoked, WalletNotFound
from solward.types.roles import ADMIN, Role
from solward.vault.money.request import Actor
from solward_server.http.admin_credentials import PREFIX, AdminCredential, AdminCredentials
from solward_server.http.api_keys import ApiKey, ApiKeyStore, hash_of
from solward_server.http.credential_lookups import CredentialLookups
from solward_server.http.limits import Taking, TooManyRequests
from solward_server.http.middleware import request_id

# Clients match these texts: they are part of the HTTP contract.
KEY_REQUIRED = "Unauthorized — API key required"
KEY_INVALID = "Invalid API key"
ADMIN_REQUIRED = "Unauthorized — admin API secret required"

_ACCESS = "solward_access"
_ROLE = "solward_role"
# What is no secret of ours is no reason to ask the database.
_SECRET = re.compile(r"sk-[0-9a-f]{32}|sa-[0-9a-f]{48}")
View = TypeVar("View", bound=Callable[..., Any])


class Access(StrEnum):
    """Who may call a route."""

    PUBLIC = "public"
    SIGNED = "signed"
    """Whoever signs the request with a secret that is no token; the view checks it."""
    KEY = "key"
    """An API key, or as `ADMIN`."""
    ADMIN = "admin"
    """The admin secret, or an admin credential whose role is at least the route's."""


class Unauthorized(Exception):
    """The credential is missing, unknown or not enough; the response has this text."""


class RoleNeeded(Exception):
    """The admin credential's role is not enough; the response has this text."""

    def __init__(self, needed: Role, name: str, role: Role) -> None:
        super().__init__(
            f"This needs an admin credential of the role {needed}; {name} has the role {role}"
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller: an API key and the store it is from, an admin credential, or, with
    neither, the admin secret.

    Attributes:
        hash: of the key's secret that it came with, which is one of the key's two.
    """

    key: ApiKey | None = None
    keys: ApiKeyStore | None = None
    hash: str = field(default="", repr=False)
    credential: AdminCredential | None = None

    @property
    def principal(self) -> str:
        """As records and idempotency scopes name it: `admin`, `admin:<id>` or `key:<id>`."""
        if self.key is not None:
            return self.key.principal
        return ADMIN if self.credential is None else self.credential.principal

    @property
    def role(self) -> Role | None:
        """Of the admin; None for an API key."""
        if self.key is not None:
            return None
        return Role.POLICY if self.credential is None else self.credential.role

    @property
    def until_ms(self) -> int | None:
        """When the admin credential ends, in Unix milliseconds; None is never."""
        return None if self.credential is None else self.credential.expires_ms

    def needs(self, role: Role) -> None:
        """Raise `RoleNeeded` where an admin credential has not this role; keys have none, and what
        they may do is not said by roles."""
        credential = self.credential
        if credential is not None and not credential.role.allows(role):
            raise RoleNeeded(role, credential.name, credential.role)

    @property
    def wallet_id(self) -> str | None:
        """The only wallet a confined key may use."""
        return None if self.key is None else self.key.wallet_id

    def actor(self) -> Actor:
        """The caller for the engine, with its key's daily limits; it ends with its secret."""
        if self.credential is not None:
            return Actor(self.principal, api_key=self.credential.hash, trace=request_id())
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


def keyed(least: Role) -> Callable[[View], View]:
    """Mark a view as open to API keys, the admin secret, and admin credentials of that role."""

    def mark(view: View) -> View:
        setattr(view, _ROLE, least)
        return _marked(view, Access.KEY)

    return mark


def admin(least: Role) -> Callable[[View], View]:
    """Mark a view as open to the admin secret, and admin credentials of that role."""

    def mark(view: View) -> View:
        setattr(view, _ROLE, least)
        return _marked(view, Access.ADMIN)

    return mark


def access_of(view: Callable[..., object]) -> Access:
    """Who may call a view; without a mark only the admin."""
    access: Access = getattr(view, _ACCESS, Access.ADMIN)
    return access


def role_of(view: Callable[..., object]) -> Role | None:
    """The least role of an admin credential that may call a view, None where it says none."""
    role: Role | None = getattr(view, _ROLE, None)
    return role


def caller() -> Caller:
    """The current request's caller; only in views that need a credential."""
    found: Caller = g.caller
    return found


def confined_to(wallet_id: str) -> None:
    """Raise `WalletNotFound` where the caller is confined to another wallet."""
    if caller().wallet_id not in (None, wallet_id):
        raise WalletNotFound


def authenticate(
    app: Quart,
    settings: Settings,
    keys: ApiKeyStore,
    credentials: AdminCredentials,
    traffic: Taking,
) -> None:
    """Check the credential of every request before its view runs; requests of keys are counted.

    The admin secret is compared here, and what worked before is looked up at once. Other secrets
    are looked up by turns (`CredentialLookups`), so that a flood of them leaves the database to
    the rest.
    """
    expected = settings.api_secret.get_secret_value().encode()
    requests_per_minute = settings.requests_per_minute
    lookups = CredentialLookups()

    async def find(hash_: str, *, is_admins: bool) -> Caller | None:
        if is_admins:
            credential = await credentials.find(hash_)
            return None if credential is None else Caller(credential=credential)
        key = await keys.find(hash_)
        return None if key is None else Caller(key, keys, hash_)

    async def look_up(token: str) -> Caller | None:
        if not _SECRET.fullmatch(token):
            return None
        hash_, is_admins = hash_of(token), token.startswith(PREFIX)
        if lookups.is_known(hash_):
            found = await find(hash_, is_admins=is_admins)
            if found is None:
                lookups.forget(hash_)
            return found
        return await lookups.in_turn(
            hash_, source_of(request.remote_addr), lambda: find(hash_, is_admins=is_admins)
        )

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
        sent = token.encode("latin-1", "replace")
        if token and hmac.compare_digest(sent, expected):
            _serve(Caller())
            return
        if access is Access.ADMIN and not token.startswith(PREFIX):
            raise Unauthorized(ADMIN_REQUIRED)
        if not token:
            raise Unauthorized(KEY_REQUIRED)
        found = await look_up(token)
        if found is None:
            raise Unauthorized(ADMIN_REQUIRED if access is Access.ADMIN else KEY_INVALID)
        if found.key is not None:
            await traffic.take(found.key.id, requests_per_minute)
            keys.used(found.key, now_ms())
        if found.credential is not None:
            credentials.used(found.credential, now_ms())
            # A route that says no role is for the widest one.
            found.needs(role_of(view) or Role.POLICY)
        _serve(found)


def _serve(caller: Caller) -> None:
    g.caller = caller
    # For the audit log, whatever the view changes.
    act_as(caller.principal, None if caller.credential is None else caller.credential.name)


def bearer() -> str:
    """The request's token, empty where there is none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _marked(view: View, access: Access) -> View:
    setattr(view, _ACCESS, access)
    return view
