"""Of the tables of API keys and admin credentials the vault reads whether a request's secret still
works."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, column, or_, select, table
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import clock
from solward.database.prepared import Prepared
from solward.types.errors import KeyRevoked

_KEYS = table(
    "api_keys",
    column("id"),
    column("hash"),
    column("expires_ms"),
    column("previous_hash"),
    column("previous_until_ms"),
)
_ADMINS = table("admin_credentials", column("id"), column("hash"), column("expires_ms"))
# A revocation and a rotation wait for this lock, noting a key's use does not.
_LOCK = Prepared(
    select(_KEYS)
    .where(or_(_KEYS.c.hash == bindparam("hash"), _KEYS.c.previous_hash == bindparam("hash")))
    .with_for_update(read=True, key_share=True)
)

_LOCK_ADMIN = Prepared(
    select(_ADMINS)
    .where(_ADMINS.c.hash == bindparam("hash"))
    .with_for_update(read=True, key_share=True)
)


async def lock_key(connection: AsyncConnection, hash_: str) -> None:
    """Lock the key or admin credential that has this secret against its end, until the transaction
    ends.

    Args:
        hash_: SHA-256 of the secret, hex.

    Raises:
        KeyRevoked: nothing has it, or it does not work any more.
    """
    row = await _LOCK.first(connection, {"hash": hash_})
    if row is None:
        row = await _LOCK_ADMIN.first(connection, {"hash": hash_})
    if row is None or not await is_usable(connection, row._asdict(), hash_):
        raise KeyRevoked


async def is_usable(connection: AsyncConnection, key: Mapping[str, Any], hash_: str) -> bool:
    """Whether a key's row lets its secret in now, by the database's clock."""
    # Nearly every key: no clock is asked.
    if key["expires_ms"] is None and key["hash"] == hash_:
        return True
    return usable_at(key, hash_, await clock(connection))


def usable_at(key: Mapping[str, Any], hash_: str, now_ms: int) -> bool:
    """Whether a secret is the key's own, or the one before it in their overlap, and it is not
    expired."""
    if key["expires_ms"] is not None and key["expires_ms"] <= now_ms:
        return False
    if hmac.compare_digest(key["hash"], hash_):
        return True
    previous, until_ms = key["previous_hash"], key["previous_until_ms"]
    return (
        previous is not None
        and until_ms is not None
        and until_ms > now_ms
        and hmac.compare_digest(previous, hash_)
    )
