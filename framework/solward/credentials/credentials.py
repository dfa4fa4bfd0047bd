"""API keys and admin credentials.

A `Credential` is a record with the hash of a secret and the time until which the secret works.
`Credentials` stores the records in the database, finds them by secrets, rotates and revokes them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database.database import Database, clock, lock_exclusive
from solward.database.prepared import Prepared, Row
from solward.database.tables import credentials as table
from solward.database.tables import grant_sets
from solward.support.clock import iso, time_json
from solward.types.errors import InvalidRequest, KeyRevoked, NotFound
from solward.types.events import EventKind
from solward.types.money import lamports_to_sol
from solward.types.roles import KEY_PRINCIPAL_PREFIX, Role, admin_principal, key_principal

KEY_PREFIX: Final = "sk-"
ADMIN_PREFIX: Final = "sa-"
_SECRET_BYTES: Final = {KEY_PREFIX: 16, ADMIN_PREFIX: 24}
_SECRET = re.compile(
    "|".join(f"{prefix}[0-9a-f]{{{2 * size}}}" for prefix, size in _SECRET_BYTES.items())
)


@dataclass(frozen=True, slots=True)
class Credential:
    """The record of one credential; times are milliseconds since the Unix epoch.

    Attributes:
        hash: SHA-256 of the current secret, in hex.
        name: unique among admin credentials; API keys may share a name.
        created_by: the admin principal that made it.
        last_used_ms: time of the last use; None before the first.
        expires_ms: time at which the credential ends by itself; None for never.
        rotated_ms: time at which it got its current secret; None if that is its first secret.
        previous_hash: hash of the previous secret, which works until `previous_until_ms`.
        role: the role of an admin credential; None: an API key. Only keys have the fields below.
        wallet_id: the only wallet that it may use; None for all.
        permissions: stored and not enforced.
        rate_limit: requests per minute that make transactions.
        spending_limit_lamports: spending in rolling 24 hours, over all wallets.
        max_costs_lamports: fees and rent in rolling 24 hours, over all wallets.
        read_only: whether it can neither spend nor change anything.
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
    def from_row(cls, row: Mapping[str, Any]) -> Credential:
        """Return the credential of a row."""
        role = None if row["role"] is None else Role(row["role"])
        return cls(**{**row, "role": role, "permissions": tuple(row["permissions"])})

    @property
    def principal(self) -> str:
        """The principal in records, events and limit scopes."""
        return key_principal(self.id) if self.role is None else admin_principal(self.id)

    def rotated(
        self, hash_: str, now_ms: int, overlap_s: int, until_ms: int | None = None
    ) -> Credential:
        """Return the credential with a new secret; the old secret works for `overlap_s` seconds.

        An even older secret ends at once.

        Args:
            until_ms: end of the caller's own credential, None for never; the new secret must not
                work longer.

        Raises:
            InvalidRequest: the credential has expired, so that its new secret would not work
                either; or it ends after `until_ms`.
        """
        if until_ms is not None and (self.expires_ms is None or self.expires_ms > until_ms):
            ends = "never" if self.expires_ms is None else f"at {iso(self.expires_ms)}"
            raise InvalidRequest(
                f"The key ends {ends}, and your credential ends at {iso(until_ms)}: the new secret"
                " would outlive your credential. Rotate the key with the admin secret or a"
                " credential that ends no earlier"
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
        """Return the times at which the credential and its previous secret end."""
        return {
            "expiresAt": time_json(self.expires_ms),
            "rotatedAt": time_json(self.rotated_ms),
            "previousSecretUntil": time_json(self.previous_until_ms),
        }

    @property
    def terms(self) -> dict[str, Any]:
        """The credential's permissions, limits and times, as events contain them."""
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


def _event_subject(credential: Credential) -> dict[str, Any]:
    named = "keyId" if credential.role is None else "adminId"
    return {named: credential.id, "name": credential.name}


def not_found(*, is_admins: bool) -> NotFound:
    """Return the error for an id that no credential of this kind has."""
    return NotFound("Admin credential not found" if is_admins else "API key not found")


def new_secret(prefix: str) -> tuple[str, str]:
    """Return a new secret (`prefix` and hex digits) and its hash."""
    secret = prefix + secrets.token_hex(_SECRET_BYTES[prefix])
    return secret, hash_of(secret)


def is_secret(token: str) -> bool:
    """Return whether a token has the form of our secrets; other tokens need no database query."""
    return _SECRET.fullmatch(token) is not None


def hash_of(token: str) -> str:
    """Return the hash of a token, by which its credential is found."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def is_usable_at(row: Mapping[str, Any], hash_: str, now_ms: int) -> bool:
    """Return whether the credential has not expired and the hash is that of its secret or, within
    the overlap, of its previous secret."""
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


MOST_ADMINS: Final = 100
_ADMINS_LOCK = "admin-credentials"

_HAS_SECRET = or_(table.c.hash == bindparam("b_hash"), table.c.previous_hash == bindparam("b_hash"))
_BY_SECRET = Prepared(select(table).where(_HAS_SECRET))
# Revocation and rotation wait for this lock; storing the time of the last use does not.
_LOCK = Prepared(
    select(table.c.hash, table.c.expires_ms, table.c.previous_hash, table.c.previous_until_ms)
    .where(_HAS_SECRET)
    .with_for_update(read=True, key_share=True)
)
_OF_SECRETS = ("hash", "rotated_ms", "previous_hash", "previous_until_ms")
_RECORD_USE = (
    update(table)
    .where(
        table.c.id == bindparam("b_id"),
        # Another process may have stored a later use.
        func.coalesce(table.c.last_used_ms, 0) < bindparam("used_ms"),
    )
    .values(last_used_ms=bindparam("used_ms"))
)
_IS_KEY = table.c.role.is_(None)
_PRINCIPAL = literal(KEY_PRINCIPAL_PREFIX) + table.c.id
# One row for each key under grants or of `b_single`, and one for all other keys with the same
# ceilings. The maximum that can leave a wallet is the sum over all keys that may use it, which may
# be many.
_OF_WALLET = Prepared(
    select(
        case(
            (grant_sets.c.principal.is_not(None), grant_sets.c.principal),
            (_PRINCIPAL.in_(bindparam("b_single", expanding=True)), _PRINCIPAL),
        ).label("single"),
        table.c.spending_limit_lamports,
        table.c.max_costs_lamports,
        func.count().label("keys"),
        func.min(table.c.id).label("example"),
    )
    .select_from(table.outerjoin(grant_sets, grant_sets.c.principal == _PRINCIPAL))
    .where(_IS_KEY, or_(table.c.wallet_id.is_(None), table.c.wallet_id == bindparam("b_wallet")))
    .group_by("single", table.c.spending_limit_lamports, table.c.max_costs_lamports)
    .order_by(func.min(table.c.created_ms), func.min(table.c.id))
)


async def lock_credential(connection: AsyncConnection, hash_: str) -> None:
    """Lock a credential by its secret: it is not revoked or rotated before the transaction ends.

    Args:
        hash_: SHA-256 of the secret, in hex.

    Raises:
        KeyRevoked: no credential has this secret, or the secret no longer works.
    """
    if await _find_usable(connection, _LOCK, hash_) is None:
        raise KeyRevoked


class Credentials:
    """The stored API keys and admin credentials. Every request reads them from the database, so a
    revocation takes effect at once in every process.

    Times of use are collected in memory, and `flush` writes them together, not each request.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._uses: dict[str, int] = {}

    async def add(self, new: Credential) -> None:
        """Store a new credential.

        Raises:
            InvalidRequest: another admin credential has the name, or there are `MOST_ADMINS`.
        """
        async with self._database.write() as connection:
            if new.role is not None:
                await _check_admins(connection, new.name)
            await connection.execute(insert(table).values(**_row_fields(new)))
            kind = EventKind.KEY_CREATED if new.role is None else EventKind.ADMIN_CREATED
            record_act(connection, kind, _event_subject(new), after=new.terms)

    async def find(self, hash_: str) -> Credential | None:
        """Return the credential whose secret has this hash; None if the secret no longer works."""
        async with self._database.read() as connection:
            row = await _find_usable(connection, _BY_SECRET, hash_)
        return None if row is None else self._make_credential(row)

    async def key(self, key_id: str) -> Credential | None:
        """Return the API key with this id."""
        async with self._database.read() as connection:
            row = (await connection.execute(_select_key(key_id))).first()
        return None if row is None else self._make_credential(row._asdict())

    async def keys(self) -> list[Credential]:
        """Return all API keys, including expired ones, oldest first."""
        return await self._list_credentials(_IS_KEY)

    async def names(self) -> dict[str, str]:
        """Return id -> name for all API keys."""
        return {key.id: key.name for key in await self.keys()}

    async def admins(self) -> list[Credential]:
        """Return all admin credentials, including expired ones, oldest first."""
        return await self._list_credentials(~_IS_KEY)

    async def _list_credentials(self, kind: ColumnElement[bool]) -> list[Credential]:
        statement = select(table).where(kind).order_by(table.c.created_ms, table.c.id)
        async with self._database.read() as connection:
            rows = (await connection.execute(statement)).all()
        return [self._make_credential(row._asdict()) for row in rows]

    async def of_wallet(self, wallet_id: str, single: Collection[str] = ()) -> list[Row]:
        """Return rows for the keys that may use a wallet, oldest first. A row's `single` is a key
        under grants or a principal of `single`, or None for a number (`keys`) of other keys that
        have the same `spending_limit_lamports` and `max_costs_lamports`; `example` is the id of
        one."""
        given = {"b_wallet": wallet_id, "b_single": [*single]}
        async with self._database.read() as connection:
            return await _OF_WALLET.all(connection, given)

    async def rotate(
        self, key_id: str, hash_: str, overlap_s: int, until_ms: int | None = None
    ) -> Credential:
        """Give an API key a new secret as `Credential.rotated` does; also raises `NotFound`."""
        async with self._database.write() as connection:
            row = (await connection.execute(_select_key(key_id).with_for_update())).first()
            if row is None:
                raise not_found(is_admins=False)
            was = self._make_credential(row._asdict())
            now = was.rotated(hash_, await clock(connection), overlap_s, until_ms)
            fields = {name: getattr(now, name) for name in _OF_SECRETS}
            await connection.execute(update(table).where(table.c.id == key_id).values(**fields))
            record_act(connection, EventKind.KEY_CHANGED, _event_subject(now), was.terms, now.terms)
        return now

    async def revoke(self, credential_id: str, *, is_admins: bool) -> Credential:
        """Delete an API key or an admin credential at once; raises `NotFound`."""
        kind = ~_IS_KEY if is_admins else _IS_KEY
        statement = delete(table).where(table.c.id == credential_id, kind).returning(table)
        async with self._database.write() as connection:
            row = (await connection.execute(statement)).first()
            if row is None:
                raise not_found(is_admins=is_admins)
            was = self._make_credential(row._asdict())
            event = EventKind.KEY_REVOKED if was.role is None else EventKind.ADMIN_REVOKED
            record_act(connection, event, _event_subject(was), before=was.terms)
        self._uses.pop(credential_id, None)
        return was

    def note_use(self, credential: Credential, ms: int) -> None:
        """Remember the time when a credential was used; the next `flush` stores it."""
        self._uses[credential.id] = ms

    async def flush(self) -> None:
        """Store the remembered times in one transaction; the next flush retries a failed write."""
        if not self._uses:
            return
        uses, self._uses = self._uses, {}
        try:
            async with self._database.write() as connection:
                await record_uses(connection, uses)
        except BaseException:
            self._uses = uses | self._uses
            raise

    def _make_credential(self, row: Mapping[str, Any]) -> Credential:
        found = Credential.from_row(row)
        noted = self._uses.get(found.id)
        if noted is None:
            return found
        return replace(found, last_used_ms=max(noted, found.last_used_ms or 0))


async def record_uses(connection: AsyncConnection, uses: Mapping[str, int]) -> None:
    """Store the times of last use: credential id -> milliseconds since the Unix epoch."""
    # Sorted, so that two processes cannot deadlock on each other's rows.
    rows = [{"b_id": each, "used_ms": ms} for each, ms in sorted(uses.items())]
    await connection.execute(_RECORD_USE, rows)


async def _find_usable(
    connection: AsyncConnection, statement: Prepared, hash_: str
) -> Mapping[str, Any] | None:
    row = await statement.first(connection, {"b_hash": hash_})
    if row is None:
        return None
    fields: dict[str, Any] = row._asdict()
    # Most credentials are settled here, without a query for the database's clock.
    if fields["expires_ms"] is None and fields["hash"] == hash_:
        return fields
    return fields if is_usable_at(fields, hash_, await clock(connection)) else None


async def _check_admins(connection: AsyncConnection, name: str) -> None:
    # The lock keeps the names and their number unchanged until the commit.
    await lock_exclusive(connection, _ADMINS_LOCK)
    names = set(await connection.scalars(select(table.c.name).where(~_IS_KEY)))
    if name in names:
        raise InvalidRequest(f"name: another admin credential is named {name}; revoke it first")
    if len(names) >= MOST_ADMINS:
        raise InvalidRequest(f"{MOST_ADMINS} admin credentials exist, the maximum; revoke one")


def _select_key(key_id: str) -> Select[Any]:
    return select(table).where(table.c.id == key_id, _IS_KEY)


def _row_fields(credential: Credential) -> dict[str, Any]:
    role = None if credential.role is None else credential.role.value
    return asdict(credential) | {"role": role, "permissions": list(credential.permissions)}
