"""Authentication: the admin secret, an admin credential with its role, or an API key.

A route's declaration says who may call it: `public`, `signed`, `keyed(role)` or `admin(role)`. An
admin credential needs at least that role. The admin secret has every role, an API key has none.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from quart import Quart, g, request

from solward.audit.acts import act_as
from solward.credentials.credentials import (
    ADMIN_PREFIX,
    Credential,
    Credentials,
    hash_of,
    is_secret,
)
from solward.credentials.rates import Taking
from solward.operations.key_callers import actor_of_key
from solward.settings import Settings
from solward.support.clock import now_ms
from solward.support.fair_turns import FairTurns, source_of
from solward.types.errors import WalletNotFound
from solward.types.roles import ADMIN, Role
from solward.vault.money.request import Actor
from solward_server.http.middleware import request_id

# Clients match these texts: they are part of the HTTP contract.
KEY_REQUIRED = "Unauthorized — API key required"
KEY_INVALID = "Invalid API key"
ADMIN_REQUIRED = "Unauthorized — admin API secret required"

AT_ONCE: Final = 2
"""Maximum simultaneous look-ups of unknown credentials, from a pool of 10 connections."""
MOST_KNOWN: Final = 10_000
CROWDED: Final = "Too many requests with unknown credentials; retry in 1 s"

_RULE = "solward_rule"
T = TypeVar("T")
View = TypeVar("View", bound=Callable[..., Any])


class Access(StrEnum):
    """The kinds of callers to which a route is open."""

    PUBLIC = "public"
    SIGNED = "signed"
    """A caller who signs the request with a secret other than a token; the view checks it."""
    KEY = "key"
    """An API key, or any caller that `ADMIN` allows."""
    ADMIN = "admin"
    """The admin secret, or an admin credential whose role is at least the route's."""


class Unauthorized(Exception):
    """The credential is missing, unknown or not sufficient; the message is the response's text."""


class ReadOnlyKey(Exception):
    """The API key may only read; the message is the response's text."""

    def __init__(self) -> None:
        super().__init__("This API key is read-only (readOnly) and cannot change anything")


class RoleNeeded(Exception):
    """The admin credential's role is not sufficient; the message is the response's text."""

    def __init__(self, needed: Role, name: str, role: Role) -> None:
        super().__init__(
            f"This needs an admin credential of the role {needed}; {name} has the role {role}"
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller; `credential` is None for the admin secret.

    Attributes:
        hash: SHA-256 of the secret that the request carried: the present or the previous one.
    """

    credential: Credential | None = None
    hash: str = field(default="", repr=False)

    @property
    def key(self) -> Credential | None:
        """The caller's API key; None for admins."""
        of = self.credential
        return of if of is not None and of.role is None else None

    @property
    def admin(self) -> Credential | None:
        """The caller's admin credential; None for API keys and for the admin secret."""
        return self.credential if self.key is None else None

    @property
    def principal(self) -> str:
        """The name in records and idempotency scopes: `admin`, `admin:<id>` or `key:<id>`."""
        return ADMIN if self.credential is None else self.credential.principal

    @property
    def role(self) -> Role | None:
        """The role of an admin; None for an API key."""
        return Role.POLICY if self.credential is None else self.credential.role

    @property
    def until_ms(self) -> int | None:
        """The time when the admin credential expires, in Unix milliseconds; None for never."""
        return None if self.admin is None else self.admin.expires_ms

    def needs(self, role: Role) -> None:
        """Raise `RoleNeeded` if an admin credential lacks this role, `ReadOnlyKey` if a read-only
        key does more than read. Roles limit neither other API keys nor the admin secret."""
        if self.key is not None and self.key.read_only and role is not Role.READ:
            raise ReadOnlyKey
        if self.admin is not None and self.role is not None and not self.role.allows(role):
            raise RoleNeeded(role, self.admin.name, self.role)

    @property
    def wallet_id(self) -> str | None:
        """The only wallet a confined key may use."""
        return None if self.credential is None else self.credential.wallet_id

    def actor(self) -> Actor:
        """Return the caller for the engine, with its key's daily limits and secret."""
        if self.key is not None:
            return replace(actor_of_key(self.key, self.hash), trace=request_id())
        return Actor(self.principal, api_key=self.hash or None, trace=request_id())


@dataclass(frozen=True, slots=True)
class Rule:
    """The callers to which a route is open.

    Attributes:
        role: the lowest role of an admin credential that is allowed; None if not declared.
        checks_keys: the view itself asks `Caller.needs` what a read-only key may do there.
    """

    access: Access = Access.ADMIN
    role: Role | None = None
    checks_keys: bool = False

    def __call__(self, view: View) -> View:
        """Set this rule as the rule of a view, and return the view."""
        setattr(view, _RULE, self)
        return view


public: Final = Rule(Access.PUBLIC)
signed: Final = Rule(Access.SIGNED)


def keyed(least: Role, *, checks_keys: bool = False) -> Rule:
    """Return the rule for API keys, the admin secret, and credentials of at least this role."""
    return Rule(Access.KEY, least, checks_keys)


def admin(least: Role) -> Rule:
    """Return the rule for the admin secret, and admin credentials of at least that role."""
    return Rule(Access.ADMIN, least)


def rule_of(view: Callable[..., object]) -> Rule:
    """Return the rule of a view; a view without a rule is open only to the admin."""
    rule: Rule = getattr(view, _RULE, Rule())
    return rule


def caller() -> Caller:
    """Return the current request's caller; only in views that need a credential."""
    found: Caller = g.caller
    return found


def check_confinement(wallet_id: str) -> None:
    """Raise `WalletNotFound` if the caller is confined to another wallet."""
    if caller().wallet_id not in (None, wallet_id):
        raise WalletNotFound


class CredentialLookups(FairTurns):
    """Looks up unknown credentials in fair turns, so that a flood of guesses does not take all of
    the database's connections. A credential is known once it has worked in this process."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE)
        self._known: OrderedDict[str, None] = OrderedDict()
        # Running look-ups: whether the credential works; None if the look-up failed.
        self._first: dict[str, asyncio.Future[bool | None]] = {}

    async def in_turn(
        self, hash_: str, source: str, find: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """Return the result of `find` for an unknown credential; raises `Crowded`.

        Concurrent requests with the same credential share one turn, so the first burst of a new
        key does not count as a flood.
        """
        while (first := self._first.get(hash_)) is not None:
            works = await asyncio.shield(first)
            if works is not None:
                return await find() if works else None
        first = self._first[hash_] = asyncio.get_running_loop().create_future()
        works = None
        try:
            async with self.turn(source):
                found = await find()
            works = found is not None
        finally:
            del self._first[hash_]
            first.set_result(works)
        if works:
            self.remember(hash_)
        return found

    def is_known(self, hash_: str) -> bool:
        """Return whether this credential has worked before; each request still looks it up."""
        return hash_ in self._known

    def remember(self, hash_: str) -> None:
        """Let a credential that worked be looked up without a turn from now on."""
        self._known[hash_] = None
        self._known.move_to_end(hash_)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def forget(self, hash_: str) -> None:
        """Let a credential that no longer works wait for a turn again."""
        self._known.pop(hash_, None)


def authenticate(app: Quart, settings: Settings, credentials: Credentials, traffic: Taking) -> None:
    """Check the credential of every request before its view runs; requests of keys are counted.

    The admin secret is compared here. Secrets that worked before are looked up at once, others in
    turns (`CredentialLookups`), so that a flood of unknown secrets does not exhaust the database's
    connections.
    """
    expected = settings.api_secret.get_secret_value().encode()
    requests_per_minute = settings.requests_per_minute
    lookups = CredentialLookups()

    async def look_up(token: str) -> Caller | None:
        if not is_secret(token):
            return None
        hash_ = hash_of(token)
        if lookups.is_known(hash_):
            found = await credentials.find(hash_)
            if found is None:
                lookups.forget(hash_)
        else:
            found = await lookups.in_turn(
                hash_, source_of(request.remote_addr), lambda: credentials.find(hash_)
            )
        return None if found is None else Caller(found, hash_)

    @app.before_request
    async def check() -> None:
        view = app.view_functions.get(request.endpoint or "")
        # Unknown routes are 404 or 405 for everybody; preflights carry no credential.
        if view is None or request.method == "OPTIONS":
            return
        rule = rule_of(view)
        access = rule.access
        if access in (Access.PUBLIC, Access.SIGNED):
            return
        token = bearer()
        # Header text is Latin-1 in ASGI; encoding it gives the bytes that were sent.
        sent = token.encode("latin-1", "replace")
        if token and hmac.compare_digest(sent, expected):
            _accept_caller(Caller())
            return
        if access is Access.ADMIN and not token.startswith(ADMIN_PREFIX):
            raise Unauthorized(ADMIN_REQUIRED)
        if not token:
            raise Unauthorized(KEY_REQUIRED)
        found = await look_up(token)
        if found is None or found.credential is None:
            raise Unauthorized(ADMIN_REQUIRED if access is Access.ADMIN else KEY_INVALID)
        if found.key is not None:
            await traffic.take(found.key.id, requests_per_minute)
        credentials.note_use(found.credential, now_ms())
        # A route without a role is for the widest role.
        if found.key is None or not rule.checks_keys:
            found.needs(rule.role or Role.POLICY)
        _accept_caller(found)


def _accept_caller(caller: Caller) -> None:
    g.caller = caller
    # The audit log names the caller for every change of the view.
    act_as(caller.principal, None if caller.admin is None else caller.admin.name)


def bearer() -> str:
    """Return the request's only token, or "": of several, a proxy may have checked another."""
    values = request.headers.getlist("Authorization")
    scheme, _, token = (values[0] if len(values) == 1 else "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
