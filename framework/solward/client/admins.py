"""`client.admins`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from solward.client.arguments import json_fields, segment
from solward.client.http import Http
from solward.client.models import Raw, moment
from solward.types.roles import Role


@dataclass(frozen=True, slots=True)
class AdminCredential:
    """An admin credential's record, without its secret.

    Attributes:
        created_by: `admin`, the admin secret, or `admin:<id>` of the credential that made it.
        last_used_at: None before its first use.
        expires_at: when it ends by itself; None is never.
    """

    id: str
    name: str
    role: Role
    created_by: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> AdminCredential:
        """From one credential of a list."""
        used, ends = raw["lastUsedAt"], raw["expiresAt"]
        return cls(
            id=raw["id"],
            name=raw["name"],
            role=Role(raw["role"]),
            created_by=raw["createdBy"],
            created_at=moment(raw["createdAt"]),
            last_used_at=None if used is None else moment(used),
            expires_at=None if ends is None else moment(ends),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class CreatedAdmin:
    """A new admin credential. `secret` is returned only here; `raw` has it too."""

    secret: str = field(repr=False)
    credential: AdminCredential
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> CreatedAdmin:
        """From the answer to its creation."""
        return cls(raw["adminSecret"], AdminCredential.of(raw), raw)


class Admins:
    """Admin credentials; to create and revoke needs the admin secret or the role `policy`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self, *, name: str, role: Role | str, expires_at: datetime | None = None
    ) -> CreatedAdmin:
        """A new credential, whose secret is returned only here.

        Args:
            role: `read`, `operate` or `policy`.
            expires_at: when it ends by itself, a time with a zone.
        """
        body = json_fields(
            name=name,
            role=str(role),
            expires_at=None if expires_at is None else expires_at.isoformat(),
        )
        return self._http.read(CreatedAdmin.of, await self._http.send("POST", "/admins", body))

    async def list(self) -> tuple[AdminCredential, ...]:
        """Every credential's record, oldest first."""
        answer = await self._http.get("/admins")
        return self._http.read_list(AdminCredential.of, answer, "admins")

    async def own(self) -> tuple[Role, AdminCredential | None]:
        """What this client's credential may do, and its record; None for the admin secret.

        Raises:
            Unauthorized: it is an API key, or has ended.
        """
        answer = await self._http.get("/admins/self")
        return self._http.read(
            lambda raw: (
                Role(raw["role"]),
                None if raw["admin"] is None else AdminCredential.of(raw["admin"]),
            ),
            answer,
        )

    async def revoke(self, admin_id: str) -> tuple[AdminCredential, ...]:
        """Revoke a credential at once; raises `NotFoundError`.

        Returns:
            The credentials that it made, which stay.
        """
        answer = await self._http.send("DELETE", f"/admins/{segment(admin_id, 'admin_id')}")
        return self._http.read_list(AdminCredential.of, answer, "made")
