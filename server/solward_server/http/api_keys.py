"""API keys: create, find by hash, list, revoke. Only a key's hash is stored."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Protocol

from solward.audit.acts import act
from solward.audit.log import AuditLog
from solward.clock import iso, now_ms
from solward.errors import KeyRevoked, NotFound
from solward.events import EventKind
from solward.money import lamports_to_sol, sol_to_lamports
from solward.vault.transactions.request import Actor
from solward_server.http.body import (
    Body,
    body_number,
    body_optional_text,
    body_text,
    body_texts,
    body_whole,
)

DEFAULT_PERMISSIONS = ("read", "write")
DEFAULT_RATE_LIMIT = 10
DEFAULT_SPENDING_LIMIT_SOL = 5

_MAX_RATE_LIMIT = 1_000_000
_PREFIX = "sk-"
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key's record.

    Attributes:
        hash: SHA-256 of the key, hex.
        wallet_id: the only wallet it may use; None is all.
        rate_limit: transaction-producing requests a minute.
        spending_limit_lamports: per rolling 24 hours, over all wallets.
        max_costs_lamports: fees and rent per rolling 24 hours, over all wallets; None is the
            default.
        last_used_ms: None before its first use.
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

    def to_json(self) -> dict[str, Any]:
        """The key as `GET /keys` lists it."""
        return {
            "id": self.id,
            "name": self.name,
            "walletId": self.wallet_id,
            "permissions": list(self.permissions),
            "createdAt": iso(self.created_ms),
            "lastUsedAt": None if self.last_used_ms is None else iso(self.last_used_ms),
        }


def created(key: ApiKey) -> dict[str, Any]:
    """The data of the event of a new key."""
    return act({"keyId": key.id, "name": key.name}, after=_terms(key))


def revoked(key: ApiKey) -> dict[str, Any]:
    """The data of the event of a key's end."""
    return act({"keyId": key.id, "name": key.name}, before=_terms(key))


def _terms(key: ApiKey) -> dict[str, Any]:
    return {
        "walletId": key.wallet_id,
        "permissions": list(key.permissions),
        "rateLimit": key.rate_limit,
        "spendingLimitSol": lamports_to_sol(key.spending_limit_lamports),
    }


class ApiKeyStore(Protocol):
    """Where keys live: in memory, or in the service's database; it tells of their begin and end."""

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""

    async def find(self, hash_: str) -> ApiKey | None:
        """The key with this hash, unless it was revoked."""

    async def list(self) -> list[ApiKey]:
        """Every key, oldest first."""

    async def revoke(self, key_id: str) -> None:
        """Delete a key at once; raises `NotFound`."""

    def used(self, key: ApiKey, ms: int) -> None:
        """Note a key's use, in memory."""

    async def flush(self) -> None:
        """Store the noted uses."""

    def bind(self, actor: Actor, key: ApiKey) -> Actor:
        """The actor, for whom nothing is reserved once the key is revoked."""


class MemoryKeys:
    """Keys that end with the process, for `API_KEY_STORE=memory`."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._by_hash: dict[str, ApiKey] = {}

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""
        await self._audit.append(EventKind.KEY_CREATED, created(key))
        self._by_hash[key.hash] = key

    async def find(self, hash_: str) -> ApiKey | None:
        """The key with this hash."""
        return self._by_hash.get(hash_)

    async def list(self) -> list[ApiKey]:
        """Every key, oldest first."""
        return list(self._by_hash.values())

    async def revoke(self, key_id: str) -> None:
        """Delete a key."""
        for hash_, key in self._by_hash.items():
            if key.id == key_id:
                del self._by_hash[hash_]
                await self._audit.append(EventKind.KEY_REVOKED, revoked(key))
                return
        raise key_not_found()

    def used(self, key: ApiKey, ms: int) -> None:
        """Note a key's use, in memory."""
        if key.hash in self._by_hash:
            self._by_hash[key.hash] = replace(key, last_used_ms=ms)

    async def flush(self) -> None:
        """Nothing to store: the keys end with the process."""

    def bind(self, actor: Actor, key: ApiKey) -> Actor:
        """Checked here: the database does not know these keys."""

        def check() -> None:
            if key.hash not in self._by_hash:
                raise KeyRevoked

        return replace(actor, checks=(*actor.checks, check))


def key_not_found() -> NotFound:
    """No key has this id."""
    return NotFound("API key not found")


def hash_of(token: str) -> str:
    """The hash a key is found by."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def new_key(body: Body, max_costs_lamports: int) -> tuple[str, ApiKey]:
    """A key from the body of `POST /keys`: the secret, returned once, and its record.

    Args:
        max_costs_lamports: the service's ceiling, for a key that is given none.

    Raises:
        InvalidRequest: naming the field.
    """
    secret = _PREFIX + secrets.token_hex(_KEY_BYTES)
    record = ApiKey(
        id=str(uuid.uuid4()),
        hash=hash_of(secret),
        name=body_text(body, "name", longest=100),
        wallet_id=body_optional_text(body, "walletId"),
        permissions=body_texts(body, "permissions", DEFAULT_PERMISSIONS),
        rate_limit=body_whole(body, "rateLimit", DEFAULT_RATE_LIMIT, 1, _MAX_RATE_LIMIT),
        spending_limit_lamports=_spending_limit(body),
        max_costs_lamports=_max_costs(body) or max_costs_lamports,
        created_ms=now_ms(),
    )
    return secret, record


def _spending_limit(body: Mapping[str, Any]) -> int:
    value: int | Decimal = body_number(body, "spendingLimitSol", DEFAULT_SPENDING_LIMIT_SOL)
    # A limit of 0 makes a key that only reads; `sol_to_lamports` refuses 0.
    return 0 if value == 0 else sol_to_lamports(value, "spendingLimitSol")


def _max_costs(body: Mapping[str, Any]) -> int | None:
    value = body.get("maxCostsSolPerDay")
    return None if value is None else sol_to_lamports(value, "maxCostsSolPerDay")
