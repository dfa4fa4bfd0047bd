"""Admin credentials: named, each with a role; only the hashes of their secrets are stored."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from solward.audit.acts import act
from solward.credentials import admin_credentials as store
from solward.database import outbox
from solward.database.database import Database, lock_exclusive
from solward.support.clock import iso, now_ms
from solward.types.errors import InvalidRequest, NotFound
from solward.types.events import EventKind
from solward.types.roles import Role, admin_principal
from solward_server.http.api_keys import body_expiry, hash_of
from solward_server.http.body import Body, body_text
from solward_server.http.noted_uses import NotedUses

PREFIX: Final = "sa-"
MOST: Final = 100

_SECRET_BYTES = 24
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_LOCK = "admin-credentials"


@dataclass(frozen=True, slots=True)
class AdminCredential:
    """One credential's record.

    Attributes:
        hash: SHA-256 of its secret, hex.
        name: no other credential has it.
        created_by: `admin`, or `admin:<id>` of the credential that made it.
        last_used_ms: None before its first use.
        expires_ms: when it ends by itself; None is never.
    """

    id: str
    hash: str = field(repr=False)
    name: str
    role: Role
    created_by: str
    created_ms: int
    last_used_ms: int | None = None
    expires_ms: int | None = None

    @property
    def principal(self) -> str:
        """As records, events and the scopes of Idempotency-Keys name it."""
        return admin_principal(self.id)

    def to_json(self) -> dict[str, Any]:
        """The credential as `GET /admins` lists it."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role.value,
            "createdBy": self.created_by,
            "createdAt": iso(self.created_ms),
            "lastUsedAt": None if self.last_used_ms is None else iso(self.last_used_ms),
            "expiresAt": None if self.expires_ms is None else iso(self.expires_ms),
        }


class AdminCredentials:
    """Credentials in the service's database, read at every request, so that a revoked one ends at
    once in every process. Uses are collected in memory and written together by `flush`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._uses = NotedUses(database, store.record_uses)

    async def add(self, credential: AdminCredential) -> None:
        """Store a new credential.

        Raises:
            InvalidRequest: another one has its name, or there are `MOST`.
        """
        async with self._database.write() as connection:
            # Names and their number hold until the commit.
            await lock_exclusive(connection, _LOCK)
            if await store.is_named(connection, credential.name):
                raise InvalidRequest(
                    f"name: an admin credential is named {credential.name} already; revoke it first"
                )
            if await store.count(connection) >= MOST:
                raise InvalidRequest(f"There are at most {MOST} admin credentials; revoke one")
            await store.insert_credential(
                connection, asdict(credential) | {"role": credential.role.value}
            )
            subject, terms = _subject(credential), _terms(credential)
            outbox.record(connection, EventKind.ADMIN_CREATED, act(subject, after=terms))

    async def find(self, hash_: str) -> AdminCredential | None:
        """The credential whose secret has this hash, unless it has ended."""
        async with self._database.read() as connection:
            row = await store.usable(connection, hash_)
        return None if row is None else self._credential(row)

    async def list(self) -> list[AdminCredential]:
        """Every credential, expired ones too, oldest first."""
        async with self._database.read() as connection:
            return [self._credential(row) for row in await store.list_credentials(connection)]

    async def revoke(self, credential_id: str) -> AdminCredential:
        """Delete a credential at once; raises `NotFound`."""
        async with self._database.write() as connection:
            row = await store.delete_credential(connection, credential_id)
            if row is None:
                raise NotFound("Admin credential not found")
            credential = self._credential(row)
            subject, terms = _subject(credential), _terms(credential)
            outbox.record(connection, EventKind.ADMIN_REVOKED, act(subject, before=terms))
        self._uses.forget(credential_id)
        return credential

    def used(self, credential: AdminCredential, ms: int) -> None:
        """Note the use of a credential; written by the next `flush`."""
        self._uses.note(credential.id, ms)

    async def flush(self) -> None:
        """Write the noted uses in one transaction; kept for the next time when that fails."""
        await self._uses.flush()

    def _credential(self, row: Mapping[str, Any]) -> AdminCredential:
        credential = AdminCredential(**{**row, "role": Role(row["role"])})
        used_ms = self._uses.latest(credential.id, credential.last_used_ms)
        return replace(credential, last_used_ms=used_ms)


def new_credential(
    body: Body, maker: str, role: Role, until_ms: int | None
) -> tuple[str, AdminCredential]:
    """A credential from the body of `POST /admins`: the secret, returned once, and its record.

    Args:
        maker: the principal that makes it.
        role: the maker's, which it does not exceed.
        until_ms: when the maker ends, which it does not outlive; None is never.

    Raises:
        InvalidRequest: naming the field.
    """
    name = body_text(body, "name", longest=64)
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            "name must be 1 to 64 letters, digits and ._@-, and begin with a letter or a digit"
        )
    given = body_text(body, "role")
    if given not in list(Role):
        raise InvalidRequest(f"role must be one of {', '.join(Role)}")
    asked = Role(given)
    if not role.allows(asked):
        raise InvalidRequest(f"role must be at most {role}, which is that of who asks")
    expires_ms = body_expiry(body, until_ms)
    secret = PREFIX + secrets.token_hex(_SECRET_BYTES)
    credential = AdminCredential(
        id=str(uuid.uuid4()),
        hash=hash_of(secret),
        name=name,
        role=asked,
        created_by=maker,
        created_ms=now_ms(),
        expires_ms=expires_ms,
    )
    return secret, credential


def _subject(credential: AdminCredential) -> dict[str, Any]:
    return {"adminId": credential.id, "name": credential.name}


def _terms(credential: AdminCredential) -> dict[str, Any]:
    return {
        "role": credential.role.value,
        "createdBy": credential.created_by,
        "expiresAt": None if credential.expires_ms is None else iso(credential.expires_ms),
    }
