"""API keys: create, find by hash, list, rotate, revoke, in the service's database for
`API_KEY_STORE=database`. Only the hashes of secrets are stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any, Protocol

from solward.audit.acts import act
from solward.audit.log import AuditLog
from solward.credentials import api_keys as store
from solward.credentials.standing import usable_at
from solward.database import outbox
from solward.database.database import Database, clock
from solward.operations.policies.grant_report import WalletKeys
from solward.settings import DEFAULT_MAX_COSTS_SOL
from solward.support.clock import iso, ms_of, now_ms
from solward.types.errors import InvalidRequest, KeyRevoked, NotFound
from solward.types.events import EventKind
from solward.types.money import lamports_to_sol, sol_to_lamports
from solward.vault.guardrails import ScopeLimits
from solward.vault.money.request import Actor
from solward_server.http.body import (
    Body,
    body_number,
    body_optional_text,
    body_text,
    body_texts,
    body_whole,
)
from solward_server.http.noted_uses import NotedUses

DEFAULT_PERMISSIONS = ("read", "write")
DEFAULT_RATE_LIMIT = 10
DEFAULT_SPENDING_LIMIT_SOL = 5

DEFAULT_OVERLAP_S = 3_600
LONGEST_OVERLAP_S = 86_400

_DEFAULT_MAX_COSTS = sol_to_lamports(DEFAULT_MAX_COSTS_SOL)
_MAX_RATE_LIMIT = 1_000_000
_PREFIX = "sk-"
_KEY_BYTES = 16

_OF_SECRETS = ("hash", "rotated_ms", "previous_hash", "previous_until_ms")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key's record.

    Attributes:
        hash: SHA-256 of its secret, hex.
        wallet_id: the only wallet it may use; None is all.
        rate_limit: transaction-producing requests a minute.
        spending_limit_lamports: per rolling 24 hours, over all wallets.
        max_costs_lamports: fees and rent per rolling 24 hours, over all wallets; None is the
            default.
        last_used_ms: None before its first use.
        expires_ms: when it ends by itself; None is never.
        rotated_ms: when it got its present secret; None where that is its first.
        previous_hash: hash of the secret before, which works until `previous_until_ms`.
    """

    id: str
    hash: str = field(repr=False)
    name: str
    wallet_id: str | None
    permissions: tuple[str, ...]
    rate_limit: int
    spending_limit_lamports: int
    created_ms: int
    last_used_ms: int | None = None
    max_costs_lamports: int | None = None
    expires_ms: int | None = None
    rotated_ms: int | None = None
    previous_hash: str | None = field(default=None, repr=False)
    previous_until_ms: int | None = None

    @property
    def principal(self) -> str:
        """As records and limit scopes name it."""
        return f"key:{self.id}"

    @property
    def limits(self) -> ScopeLimits:
        """Its limits in the engine's type."""
        return key_limits(self.spending_limit_lamports, self.max_costs_lamports)

    def rotated(
        self, hash_: str, now_ms: int, overlap_s: int, until_ms: int | None = None
    ) -> ApiKey:
        """The key with another secret; the one before it works for the overlap, in seconds.

        A secret before that one ends at once.

        Args:
            until_ms: when the credential of who asks ends, which gets no secret that ends later;
                None is never.

        Raises:
            InvalidRequest: the key has expired, so that its new secret would not work either; or it
                ends after `until_ms`.
        """
        if until_ms is not None and (self.expires_ms is None or self.expires_ms > until_ms):
            ends = "never" if self.expires_ms is None else f"at {iso(self.expires_ms)}"
            raise InvalidRequest(
                f"The key ends {ends}, and the credential of who asks at {iso(until_ms)}: the new"
                " secret would outlive it. Rotate it with the admin secret or a credential that"
                " ends no earlier"
            )
        if self.expires_ms is not None and self.expires_ms <= now_ms:
            raise InvalidRequest(f"The key expired at {iso(self.expires_ms)}; create another")
        return replace(
            self,
            hash=hash_,
            rotated_ms=now_ms,
            previous_hash=self.hash if overlap_s else None,
            previous_until_ms=now_ms + overlap_s * 1000 if overlap_s else None,
        )

    def to_json(self) -> dict[str, Any]:
        """The key as `GET /keys` lists it, in the fields of the contract."""
        return {
            "id": self.id,
            "name": self.name,
            "walletId": self.wallet_id,
            "permissions": list(self.permissions),
            "createdAt": iso(self.created_ms),
            "lastUsedAt": _time(self.last_used_ms),
        }

    def ends_json(self) -> dict[str, Any]:
        """When the key and the secret before its present one end."""
        return {
            "expiresAt": _time(self.expires_ms),
            "rotatedAt": _time(self.rotated_ms),
            "previousSecretUntil": _time(self.previous_until_ms),
        }


def _time(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


def created(key: ApiKey) -> dict[str, Any]:
    """The data of the event of a new key."""
    return act({"keyId": key.id, "name": key.name}, after=_terms(key))


def revoked(key: ApiKey) -> dict[str, Any]:
    """The data of the event of a key's end."""
    return act({"keyId": key.id, "name": key.name}, before=_terms(key))


def changed(was: ApiKey, key: ApiKey) -> dict[str, Any]:
    """The data of the event of a change."""
    return act({"keyId": key.id, "name": key.name}, before=_terms(was), after=_terms(key))


def _terms(key: ApiKey) -> dict[str, Any]:
    return {
        "walletId": key.wallet_id,
        "permissions": list(key.permissions),
        "rateLimit": key.rate_limit,
        "spendingLimitSol": lamports_to_sol(key.spending_limit_lamports),
        "maxCostsSolPerDay": lamports_to_sol(key.limits.daily_costs_lamports or 0),
    } | key.ends_json()


class ApiKeyStore(Protocol):
    """Where keys live: in memory, or in the service's database; it tells of their begin and end."""

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""

    async def find(self, hash_: str) -> ApiKey | None:
        """The key whose secret has this hash, unless that does not work any more."""

    async def get(self, key_id: str) -> ApiKey | None:
        """The key with this id."""

    async def list(self) -> list[ApiKey]:
        """Every key, oldest first."""

    async def of_wallet(self, wallet_id: str) -> WalletKeys:
        """Every key that may use a wallet."""

    async def rotate(
        self, key_id: str, hash_: str, overlap_s: int, until_ms: int | None = None
    ) -> ApiKey:
        """Give a key another secret: `ApiKey.rotated`; raises `NotFound` too."""

    async def revoke(self, key_id: str) -> None:
        """Delete a key at once; raises `NotFound`."""

    def used(self, key: ApiKey, ms: int) -> None:
        """Note a key's use, in memory."""

    async def flush(self) -> None:
        """Store the noted uses."""

    def bind(self, actor: Actor, hash_: str) -> Actor:
        """The actor, for whom nothing is reserved once the secret with this hash has ended."""


class MemoryKeys:
    """Keys that end with the process, for `API_KEY_STORE=memory`."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._by_id: dict[str, ApiKey] = {}
        # Of present secrets and of those before them; a rotation drops what is older.
        self._ids: dict[str, str] = {}
        self._changing = asyncio.Lock()

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""
        await self._audit.append(EventKind.KEY_CREATED, created(key))
        self._put(key)

    async def find(self, hash_: str) -> ApiKey | None:
        """The key whose secret has this hash."""
        return self._usable(hash_)

    async def get(self, key_id: str) -> ApiKey | None:
        """The key with this id."""
        return self._by_id.get(key_id)

    async def list(self) -> list[ApiKey]:
        """Every key, oldest first."""
        return list(self._by_id.values())

    async def of_wallet(self, wallet_id: str) -> WalletKeys:
        """Every key that may use a wallet."""
        keys = [key for key in await self.list() if key.wallet_id in (None, wallet_id)]
        return WalletKeys([(key.principal, key.limits) for key in keys])

    async def rotate(
        self, key_id: str, hash_: str, overlap_s: int, until_ms: int | None = None
    ) -> ApiKey:
        """Give a key another secret."""
        async with self._changing:
            was = self._get(key_id)
            key = was.rotated(hash_, now_ms(), overlap_s, until_ms)
            await self._audit.append(EventKind.KEY_CHANGED, changed(was, key))
            # As it is now: a use of it may have been noted meanwhile.
            self._forget(self._get(key_id))
            self._put(replace(key, last_used_ms=self._get(key_id).last_used_ms))
        return key

    async def revoke(self, key_id: str) -> None:
        """Delete a key."""
        async with self._changing:
            key = self._get(key_id)
            self._forget(key)
            del self._by_id[key_id]
            await self._audit.append(EventKind.KEY_REVOKED, revoked(key))

    def used(self, key: ApiKey, ms: int) -> None:
        """Note a key's use, in memory."""
        found = self._by_id.get(key.id)
        if found is not None:
            self._by_id[key.id] = replace(found, last_used_ms=ms)

    async def flush(self) -> None:
        """Nothing to store: the keys end with the process."""

    def bind(self, actor: Actor, hash_: str) -> Actor:
        """Checked here: the database does not know these keys."""

        def check() -> None:
            if self._usable(hash_) is None:
                raise KeyRevoked

        return replace(actor, checks=(*actor.checks, check))

    def _usable(self, hash_: str) -> ApiKey | None:
        key = self._by_id.get(self._ids.get(hash_, ""))
        return key if key is not None and usable_at(asdict(key), hash_, now_ms()) else None

    def _get(self, key_id: str) -> ApiKey:
        key = self._by_id.get(key_id)
        if key is None:
            raise key_not_found()
        return key

    def _put(self, key: ApiKey) -> None:
        self._by_id[key.id] = key
        self._ids |= {hash_: key.id for hash_ in (key.hash, key.previous_hash) if hash_}

    def _forget(self, key: ApiKey) -> None:
        for hash_ in (key.hash, key.previous_hash):
            self._ids.pop(hash_ or "", None)


def key_limits(spending_limit_lamports: int, max_costs_lamports: int | None) -> ScopeLimits:
    """The ceilings of a key, in lamports; costs that are None are the default."""
    return ScopeLimits(
        daily_lamports=spending_limit_lamports,
        daily_costs_lamports=max_costs_lamports or _DEFAULT_MAX_COSTS,
    )


def key_not_found() -> NotFound:
    """No key has this id."""
    return NotFound("API key not found")


def hash_of(token: str) -> str:
    """The hash a key is found by."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def new_key(body: Body, max_costs_lamports: int, until_ms: int | None) -> tuple[str, ApiKey]:
    """A key from the body of `POST /keys`: the secret, returned once, and its record.

    Args:
        max_costs_lamports: the service's ceiling, for a key that is given none.
        until_ms: when the credential of who asks ends, which the key does not outlive; None is
            never.

    Raises:
        InvalidRequest: naming the field.
    """
    secret, hash_ = new_secret()
    record = ApiKey(
        id=str(uuid.uuid4()),
        hash=hash_,
        name=body_text(body, "name", longest=100),
        wallet_id=body_optional_text(body, "walletId"),
        permissions=body_texts(body, "permissions", DEFAULT_PERMISSIONS),
        rate_limit=body_whole(body, "rateLimit", DEFAULT_RATE_LIMIT, 1, _MAX_RATE_LIMIT),
        spending_limit_lamports=_spending_limit(body),
        max_costs_lamports=_max_costs(body) or max_costs_lamports,
        created_ms=now_ms(),
        expires_ms=body_expiry(body, until_ms),
    )
    return secret, record


def new_secret() -> tuple[str, str]:
    """A secret and its hash."""
    secret = _PREFIX + secrets.token_hex(_KEY_BYTES)
    return secret, hash_of(secret)


def body_expiry(body: Body, until_ms: int | None) -> int | None:
    """When the secret that a body asks for ends by itself, in Unix milliseconds; None is never.

    Args:
        until_ms: when the credential of who asks ends: a secret that it makes would be a way to go
            on beyond that; None is never.

    Raises:
        InvalidRequest: `expiresAt` is no time to come, or later than `until_ms`.
    """
    expires_ms = _expiry(body)
    if until_ms is not None and (expires_ms is None or expires_ms > until_ms):
        raise InvalidRequest(
            f"expiresAt must be at most {iso(until_ms)}, when the credential of who asks ends"
        )
    return expires_ms


def _expiry(body: Body) -> int | None:
    value = body_optional_text(body, "expiresAt")
    if value is None:
        return None
    try:
        expires_ms = ms_of(value)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            "expiresAt must be an ISO 8601 time with its zone, such as 2026-12-31T00:00:00Z"
        ) from None
    if expires_ms <= now_ms():
        raise InvalidRequest("expiresAt must be in the future")
    return expires_ms


def _spending_limit(body: Mapping[str, Any]) -> int:
    value: int | Decimal = body_number(body, "spendingLimitSol", DEFAULT_SPENDING_LIMIT_SOL)
    # A limit of 0 makes a key that only reads; `sol_to_lamports` refuses 0.
    return 0 if value == 0 else sol_to_lamports(value, "spendingLimitSol")


def _max_costs(body: Mapping[str, Any]) -> int | None:
    value = body.get("maxCostsSolPerDay")
    return None if value is None else sol_to_lamports(value, "maxCostsSolPerDay")


class DatabaseKeys:
    """Keys that outlive the process, read at every request, so that a revoked one ends at once.

    Uses are collected in memory and written together by `flush`, not one write a request.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._uses = NotedUses(database, store.record_uses)

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""
        async with self._database.write() as connection:
            await store.insert_key(connection, asdict(key) | {"permissions": list(key.permissions)})
            outbox.record(connection, EventKind.KEY_CREATED, created(key))

    async def find(self, hash_: str) -> ApiKey | None:
        """The key whose secret has this hash."""
        async with self._database.read() as connection:
            row = await store.key_by_hash(connection, hash_)
        return None if row is None else self._key(row)

    async def get(self, key_id: str) -> ApiKey | None:
        """The key with this id."""
        async with self._database.read() as connection:
            row = await store.get_key(connection, key_id)
        return None if row is None else self._key(row)

    async def list(self) -> list[ApiKey]:
        """Every key, oldest first."""
        async with self._database.read() as connection:
            return [self._key(row) for row in await store.list_keys(connection)]

    async def of_wallet(self, wallet_id: str) -> WalletKeys:
        """Every key that may use a wallet."""
        async with self._database.read() as connection:
            rows = await store.of_wallet(connection, wallet_id)
        found = [
            (row, key_limits(row.spending_limit_lamports, row.max_costs_lamports)) for row in rows
        ]
        return WalletKeys(
            [(row.principal, limits) for row, limits in found if row.principal is not None],
            [(limits, row.keys) for row, limits in found if row.principal is None],
        )

    async def rotate(
        self, key_id: str, hash_: str, overlap_s: int, until_ms: int | None = None
    ) -> ApiKey:
        """Give a key another secret."""
        async with self._database.write() as connection:
            row = await store.get_key(connection, key_id, lock=True)
            if row is None:
                raise key_not_found()
            was = self._key(row)
            key = was.rotated(hash_, await clock(connection), overlap_s, until_ms)
            fields = {name: getattr(key, name) for name in _OF_SECRETS}
            await store.update_key(connection, key_id, fields)
            outbox.record(connection, EventKind.KEY_CHANGED, changed(was, key))
        return key

    async def revoke(self, key_id: str) -> None:
        """Delete a key."""
        async with self._database.write() as connection:
            row = await store.delete_key(connection, key_id)
            if row is not None:
                outbox.record(connection, EventKind.KEY_REVOKED, revoked(self._key(row)))
        self._uses.forget(key_id)
        if row is None:
            raise key_not_found()

    def used(self, key: ApiKey, ms: int) -> None:
        """Note the use of a key; written by the next `flush`."""
        self._uses.note(key.id, ms)

    async def flush(self) -> None:
        """Write the noted uses in one transaction; kept for the next time when that fails."""
        await self._uses.flush()

    def bind(self, actor: Actor, hash_: str) -> Actor:
        """Checked by the vault, in the database transaction that reserves."""
        return replace(actor, api_key=hash_)

    def _key(self, row: Mapping[str, Any]) -> ApiKey:
        key = ApiKey(**{**row, "permissions": tuple(row["permissions"])})
        return replace(key, last_used_ms=self._uses.latest(key.id, key.last_used_ms))
