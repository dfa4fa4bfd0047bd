"""Makes credentials from the bodies of `POST /keys` and `POST /admins`."""

from __future__ import annotations

import re
from typing import Final

from solward.credentials.credential import ADMIN_PREFIX, KEY_PREFIX, Credential, new_secret
from solward.support.clock import iso, ms_of, now_ms
from solward.types.errors import InvalidRequest
from solward.types.money import sol_to_lamports
from solward.types.roles import Role
from solward_server.http.auth import Caller
from solward_server.http.body import (
    Body,
    body_flag,
    body_number,
    body_optional_text,
    body_text,
    body_texts,
    body_whole,
)

DEFAULT_PERMISSIONS: Final = ("read", "write")
DEFAULT_RATE_LIMIT: Final = 10
MAX_RATE_LIMIT: Final = 1_000_000
DEFAULT_SPENDING_LIMIT_SOL: Final = 5

_ADMIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def new_key(body: Body, max_costs_lamports: int, maker: Caller) -> tuple[str, Credential]:
    """An API key: the secret, returned once, and its record.

    Args:
        max_costs_lamports: the service's ceiling, used if the body gives none.
        maker: the caller, whose credential ends no earlier than the new key.

    Raises:
        InvalidRequest: naming the field.
    """
    secret, hash_ = new_secret(KEY_PREFIX)
    read_only, limits = body_flag(body, "readOnly"), (0, 0)
    if not read_only:
        limits = _spending_limit(body), _costs_limit(body, max_costs_lamports)
    for field in ("spendingLimitSol", "maxCostsSolPerDay", "grants") if read_only else ():
        if body.get(field):
            raise InvalidRequest(f"{field} must be absent where readOnly is true")
    key = Credential(
        hash=hash_,
        name=body_text(body, "name", longest=100),
        created_by=maker.principal,
        created_ms=now_ms(),
        wallet_id=body_optional_text(body, "walletId"),
        permissions=body_texts(body, "permissions", DEFAULT_PERMISSIONS),
        rate_limit=body_whole(body, "rateLimit", DEFAULT_RATE_LIMIT, 1, MAX_RATE_LIMIT),
        spending_limit_lamports=limits[0],
        max_costs_lamports=limits[1],
        read_only=read_only,
        expires_ms=_expiry(body, maker.until_ms),
    )
    return secret, key


def new_admin(body: Body, maker: Caller) -> tuple[str, Credential]:
    """An admin credential: the secret, returned once, and its record.

    Args:
        maker: the caller, who has at least the new role and ends no earlier.

    Raises:
        InvalidRequest: naming the field.
    """
    name = body_text(body, "name", longest=64)
    if not _ADMIN_NAME.fullmatch(name):
        raise InvalidRequest(
            "name must be 1 to 64 letters, digits and ._@-, and begin with a letter or a digit"
        )
    given = body_text(body, "role")
    if given not in list(Role):
        raise InvalidRequest(f"role must be one of {', '.join(Role)}")
    asked, own = Role(given), maker.role or Role.READ
    if not own.allows(asked):
        raise InvalidRequest(f"role must be at most {own}, which is that of who asks")
    secret, hash_ = new_secret(ADMIN_PREFIX)
    credential = Credential(
        hash=hash_,
        name=name,
        created_by=maker.principal,
        created_ms=now_ms(),
        role=asked,
        expires_ms=_expiry(body, maker.until_ms),
    )
    return secret, credential


def _spending_limit(body: Body) -> int:
    value = body_number(body, "spendingLimitSol", DEFAULT_SPENDING_LIMIT_SOL)
    # A limit of 0 makes a key that only reads; `sol_to_lamports` refuses 0.
    return 0 if value == 0 else sol_to_lamports(value, "spendingLimitSol")


def _costs_limit(body: Body, default: int) -> int:
    value = body.get("maxCostsSolPerDay")
    return default if value is None else sol_to_lamports(value, "maxCostsSolPerDay")


def _expiry(body: Body, until_ms: int | None) -> int | None:
    """`expiresAt` in milliseconds since the Unix epoch; None is never.

    Args:
        until_ms: when the caller's own credential ends; a new secret that ends later would extend
            the caller's access. None is never.

    Raises:
        InvalidRequest: it is not a future time, or later than `until_ms`.
    """
    value, expires_ms = body_optional_text(body, "expiresAt"), None
    if value is not None:
        try:
            expires_ms = ms_of(value)
        except (ValueError, OverflowError):
            raise InvalidRequest(
                "expiresAt must be an ISO 8601 time with its zone, such as 2026-12-31T00:00:00Z"
            ) from None
        if expires_ms <= now_ms():
            raise InvalidRequest("expiresAt must be in the future")
    if until_ms is not None and (expires_ms is None or expires_ms > until_ms):
        raise InvalidRequest(
            f"expiresAt must be at most {iso(until_ms)}, when the credential of who asks ends"
        )
    return expires_ms
