"""The record of an API key or an admin credential, its secret, and until when that works."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from solward.audit.acts import act
from solward.support.clock import iso, time_json
from solward.types.errors import InvalidRequest, NotFound
from solward.types.events import EventKind
from solward.types.money import lamports_to_sol
from solward.types.roles import Role, admin_principal, key_principal

KEY_PREFIX: Final = "sk-"
ADMIN_PREFIX: Final = "sa-"
_SECRET_BYTES: Final = {KEY_PREFIX: 16, ADMIN_PREFIX: 24}
_SECRET = re.compile(
    "|".join(f"{prefix}[0-9a-f]{{{2 * size}}}" for prefix, size in _SECRET_BYTES.items())
)


@dataclass(frozen=True, slots=True)
class Credential:
    """One credential's record; times in milliseconds since the Unix epoch.

    Attributes:
        hash: SHA-256 of its secret, hex.
        name: no other admin credential has it; API keys may share one.
        created_by: the admin principal that made it.
        last_used_ms: None before its first use.
        expires_ms: when it ends by itself; None is never.
        rotated_ms: when it got its present secret; None where that is its first.
        previous_hash: hash of the secret before, which works until `previous_until_ms`.
        role: what an admin credential may do; None: an API key, which alone has what follows.
        wallet_id: the only wallet it may use; None is all.
        permissions: stored and not enforced.
        rate_limit: transaction-producing requests a minute.
        spending_limit_lamports: per rolling 24 hours, over all wallets.
        max_costs_lamports: fees and rent per rolling 24 hours, over all wallets.
        read_only: it spends nothing and changes nothing.
    """

    hash: str = field(repr=False)
    name: str
    created_by: str
    created_ms: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    last_used_ms: int | None = None
    expires_ms: int | None = None
    rotated_ms: int | None = None
    previous_hash: str | None = field(default=None, repr=False)
    previous_until_ms: int | None = None
    role: Role | None = None
    wallet_id: str | None = None
    permissions: tuple[str, ...] = ()
    rate_limit: int = 0
    spending_limit_lamports: int = 0
    max_costs_lamports: int = 0
    read_only: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Credential:
        """The record of a row."""
        role = None if row["role"] is None else Role(row["role"])
        return cls(**{**row, "role": role, "permissions": tuple(row["permissions"])})

    @property
    def principal(self) -> str:
        """Its name in records, events and limit scopes."""
        return key_principal(self.id) if self.role is None else admin_principal(self.id)

    def rotated(
        self, hash_: str, now_ms: int, overlap_s: int, until_ms: int | None = None
    ) -> Credential:
        """The credential with another secret; the one before it works for the overlap, in seconds.

        A secret before that one ends at once.

        Args:
            until_ms: when the caller's own credential ends; the new secret must not outlive it.
                None is never.

        Raises:
            InvalidRequest: it has expired, so that its new secret would not work either; or it ends
                after `until_ms`.
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

    def ends_json(self) -> dict[str, Any]:
        """When the credential and the secret before its present one end."""
        return {
            "expiresAt": time_json(self.expires_ms),
            "rotatedAt": time_json(self.rotated_ms),
            "previousSecretUntil": time_json(self.previous_until_ms),
        }

    @property
    def terms(self) -> dict[str, Any]:
        """Its permissions, limits and times, as events show them."""
        if self.role is not None:
            return {
                "role": self.role.value,
                "createdBy": self.created_by,
                "expiresAt": time_json(self.expires_ms),
            }
        return {
            "walletId": self.wallet_id,
            "permissions": list(self.permissions),
            "readOnly": self.read_only,
            "rateLimit": self.rate_limit,
            "spendingLimitSol": lamports_to_sol(self.spending_limit_lamports),
            "maxCostsSolPerDay": lamports_to_sol(self.max_costs_lamports),
        } | self.ends_json()


def created(new: Credential) -> tuple[EventKind, dict[str, Any]]:
    """The event of a new credential."""
    kind = EventKind.KEY_CREATED if new.role is None else EventKind.ADMIN_CREATED
    return kind, act(_subject(new), after=new.terms)


def revoked(was: Credential) -> tuple[EventKind, dict[str, Any]]:
    """The event of a credential's end."""
    kind = EventKind.KEY_REVOKED if was.role is None else EventKind.ADMIN_REVOKED
    return kind, act(_subject(was), before=was.terms)


def changed(was: Credential, now: Credential) -> tuple[EventKind, dict[str, Any]]:
    """The event of a key's change."""
    return EventKind.KEY_CHANGED, act(_subject(now), before=was.terms, after=now.terms)


def _subject(credential: Credential) -> dict[str, Any]:
    named = "keyId" if credential.role is None else "adminId"
    return {named: credential.id, "name": credential.name}


def not_found(*, is_admins: bool) -> NotFound:
    """The error if no credential of this kind has the id."""
    return NotFound("Admin credential not found" if is_admins else "API key not found")


def new_secret(prefix: str) -> tuple[str, str]:
    """A secret, `KEY_PREFIX` or `ADMIN_PREFIX` and hex digits, and its hash."""
    secret = prefix + secrets.token_hex(_SECRET_BYTES[prefix])
    return secret, hash_of(secret)


def is_secret(token: str) -> bool:
    """Whether a token has the form of our secrets; others need no database query."""
    return _SECRET.fullmatch(token) is not None


def hash_of(token: str) -> str:
    """The hash a credential is found by."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def usable_at(row: Mapping[str, Any], hash_: str, now_ms: int) -> bool:
    """Whether the credential has not expired and the hash is of its secret, or of the previous
    secret within the overlap."""
    if row["expires_ms"] is not None and row["expires_ms"] <= now_ms:
        return False
    if hmac.compare_digest(row["hash"], hash_):
        return True
    previous, until_ms = row["previous_hash"], row["previous_until_ms"]
    return (
        previous is not None
        and until_ms is not None
        and until_ms > now_ms
        and hmac.compare_digest(previous, hash_)
    )
