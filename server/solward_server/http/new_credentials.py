"""Makes credentials of what `POST /keys` and `POST /admins` asked for."""

from __future__ import annotations

from decimal import Decimal

from solward.credentials.credential import ADMIN_PREFIX, KEY_PREFIX, Credential, new_secret
from solward.resources.credentials import NewAdmin, NewKey
from solward.support.clock import iso, ms_of, now_ms
from solward.types.errors import InvalidRequest
from solward.types.money import sol_to_lamports
from solward.types.roles import Role
from solward_server.http.auth import Caller


def new_key(new: NewKey, maker: Caller) -> tuple[str, Credential]:
    """An API key: the secret, returned once, and its record.

    Args:
        maker: the caller, whose credential ends no earlier than the new key.

    Raises:
        InvalidRequest: naming the field.
    """
    secret, hash_ = new_secret(KEY_PREFIX)
    key = Credential(
        hash=hash_,
        name=new.name,
        created_by=maker.principal,
        created_ms=now_ms(),
        wallet_id=new.wallet_id,
        permissions=tuple(new.permissions),
        rate_limit=new.rate_limit,
        spending_limit_lamports=0 if new.read_only else _lamports(new.spending_limit_sol),
        max_costs_lamports=0 if new.read_only else _lamports(new.max_costs_sol_per_day),
        read_only=new.read_only,
        expires_ms=_expiry(new.expires_at, maker.until_ms),
    )
    return secret, key


def new_admin(new: NewAdmin, maker: Caller) -> tuple[str, Credential]:
    """An admin credential: the secret, returned once, and its record.

    Args:
        maker: the caller, who has at least the new role and ends no earlier.

    Raises:
        InvalidRequest: naming the field.
    """
    asked, own = Role(new.role), maker.role or Role.READ
    if not own.allows(asked):
        raise InvalidRequest(f"role must be at most {own}, which is that of who asks")
    secret, hash_ = new_secret(ADMIN_PREFIX)
    credential = Credential(
        hash=hash_,
        name=new.name,
        created_by=maker.principal,
        created_ms=now_ms(),
        role=asked,
        expires_ms=_expiry(new.expires_at, maker.until_ms),
    )
    return secret, credential


def _lamports(sol: Decimal | int) -> int:
    # A limit of 0 makes a key that only reads; `sol_to_lamports` refuses 0.
    return 0 if sol == 0 else sol_to_lamports(sol)


def _expiry(time: str | None, until_ms: int | None) -> int | None:
    """When a credential ends, in milliseconds since the Unix epoch; None is never.

    Args:
        until_ms: when the caller's own credential ends; a new secret that ends later would extend
            the caller's access. None is never.

    Raises:
        InvalidRequest: it is not in the future, or later than `until_ms`.
    """
    expires_ms = None if time is None else ms_of(time)
    if expires_ms is not None and expires_ms <= now_ms():
        raise InvalidRequest("expiresAt must be in the future")
    if until_ms is not None and (expires_ms is None or expires_ms > until_ms):
        raise InvalidRequest(
            f"expiresAt must be at most {iso(until_ms)}, when the credential of who asks ends"
        )
    return expires_ms
