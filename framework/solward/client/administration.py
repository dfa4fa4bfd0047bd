"""What operators manage: `client.admins`, `.contacts`, `.keys` and `.plugin_state`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from solward.client.agent_models import ApiKey, CreatedKey
from solward.client.answer import Answer, Raw, named, whole
from solward.client.arguments import Amount, json_fields, moment_text, optional_number, segment
from solward.client.http import Http
from solward.client.models import Contact
from solward.client.policy import Grants
from solward.types.roles import Role


@dataclass(frozen=True, slots=True)
class AdminCredential(Answer):
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


@dataclass(frozen=True, slots=True)
class CreatedAdmin(Answer):
    """A new admin credential. `secret` is returned only here; `raw` has it too."""

    secret: str = field(repr=False, metadata=named("adminSecret"))
    credential: AdminCredential = field(metadata=whole(AdminCredential.of))


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
        ends = moment_text(expires_at, "expires_at")
        body = json_fields(name=name, role=str(role), expires_at=ends)
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


class Keys:
    """API keys; all but `own` needs the admin secret."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self,
        *,
        name: str,
        permissions: Sequence[str] | None = None,
        rate_limit: int | None = None,
        spending_limit_sol: Amount | None = None,
        max_costs_sol_per_day: Amount | None = None,
        wallet_id: str | None = None,
        expires_at: datetime | None = None,
        grants: Grants | None = None,
        read_only: bool | None = None,
    ) -> CreatedKey:
        """A new key, returned only here; with `wallet_id` it may use that wallet only.

        Args:
            expires_at: when it ends by itself, a time with a zone.
            grants: what it may do; none of them: it only reads; None: by its limits alone.
            read_only: it changes nothing, so it takes no limits and no grants.
        """
        body = json_fields(
            name=name,
            permissions=None if permissions is None else [*permissions],
            rate_limit=rate_limit,
            spending_limit_sol=optional_number(spending_limit_sol, "spending_limit_sol"),
            max_costs_sol_per_day=optional_number(max_costs_sol_per_day, "max_costs_sol_per_day"),
            wallet_id=wallet_id,
            expires_at=moment_text(expires_at, "expires_at"),
            grants=None if grants is None else [*grants],
            read_only=read_only,
        )
        return self._http.read(CreatedKey.of, await self._http.send("POST", "/keys", body))

    async def list(self, *, details: bool = False) -> tuple[ApiKey, ...]:
        """Every key's record, oldest first; `details` adds its limits and when it ends."""
        query = {"details": "true"} if details else {}
        return self._http.read_list(ApiKey.of, await self._http.get("/keys", query), "keys")

    async def own(self) -> ApiKey | None:
        """The record of the key that this client has, with its details; None for the admin."""
        answer = await self._http.get("/keys/self")
        return self._http.read(
            lambda raw: None if raw["key"] is None else ApiKey.of(raw["key"]), answer
        )

    async def rotate(self, key_id: str, *, overlap_seconds: int | None = None) -> CreatedKey:
        """Another secret for a key, returned only here; raises `NotFoundError`.

        Args:
            overlap_seconds: how long the secret it had goes on working, up to 86,400; 3,600 where
                it is None.
        """
        body = json_fields(overlap_seconds=overlap_seconds)
        path = f"/keys/{segment(key_id, 'key_id')}/rotate"
        return self._http.read(CreatedKey.of, await self._http.send("POST", path, body))

    async def revoke(self, key_id: str) -> None:
        """Revoke a key at once; raises `NotFoundError`."""
        await self._http.send("DELETE", f"/keys/{segment(key_id, 'key_id')}")


class Contacts:
    """What recipients are called, for people alone; needs the admin secret."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self) -> tuple[Contact, ...]:
        """Every contact, by name."""
        return self._http.read_list(Contact.of, await self._http.get("/contacts"), "contacts")

    async def known(self) -> tuple[Contact, ...]:
        """Every contact, and behind them the names of the policy's address book, as `@name`."""
        raw = await self._http.get("/contacts")
        contacts = self._http.read_list(Contact.of, raw, "contacts")
        return contacts + self._http.read_list(Contact.of, raw, "book")

    async def put(self, address: str, name: str) -> Contact:
        """Name an address, or rename it; raises `BadRequest`, naming the field."""
        raw = await self._http.send("POST", "/contacts", {"address": address, "name": name})
        return self._http.read(Contact.of, raw)

    async def remove(self, address: str) -> None:
        """Take an address's name away; raises `NotFoundError`."""
        await self._http.send("DELETE", f"/contacts/{segment(address, 'address')}")


class PluginState:
    """What is set for plugins' skills, and what plugins keep for wallets; needs the admin secret.

    Answers are the service's own JSON (docs/rest.md).
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def settings(self, skill: str) -> Raw:
        """A skill's schema and settings; of a secret only whether it is set.

        Raises:
            NotFoundError: no loaded skill has this name.
            BadRequest: it declares no settings.
        """
        return await self._answer("GET", _settings(skill))

    async def set(self, skill: str, name: str, value: Any) -> Raw:
        """Set a setting, from the skill's next call on; raises as `settings`, and `BadRequest`
        where the value does not fit."""
        path = f"{_settings(skill)}/{segment(name, 'name')}"
        return await self._answer("PUT", path, {"value": value})

    async def unset(self, skill: str, name: str) -> Raw:
        """Unset a setting; raises as `settings`."""
        return await self._answer("DELETE", f"{_settings(skill)}/{segment(name, 'name')}")

    async def entries(
        self,
        plugin: str,
        wallet_id: str,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int = 50,
    ) -> tuple[Raw, ...]:
        """Entries of a plugin's distribution for a wallet, by key; `limit` is 1 to 200."""
        query = {"prefix": prefix or None, "after": after, "limit": limit}
        raw = await self._http.get(_store(plugin, wallet_id), query)
        return self._http.read_list(dict, raw, "entries")

    async def delete(self, plugin: str, wallet_id: str, key: str) -> Raw:
        """Delete an entry; what it made the plugin leave undone, it may do again."""
        path = _store(plugin, wallet_id)
        return self._http.read(dict, await self._http.send("DELETE", path, query={"key": key}))

    async def purge(self, plugin: str) -> Raw:
        """Delete all entries and settings of a distribution, for every wallet.

        Raises:
            BadRequest: one of its plugins is loaded.
        """
        query = {"plugin": plugin}
        return self._http.read(dict, await self._http.send("DELETE", "/plugins/state", query=query))

    async def _answer(self, method: str, path: str, body: Raw | None = None) -> Raw:
        if method == "GET":
            return self._http.read(dict, await self._http.get(path))
        return self._http.read(dict, await self._http.send(method, path, body))


def _settings(skill: str) -> str:
    return f"/plugins/skills/{segment(skill, 'skill')}/settings"


def _store(plugin: str, wallet_id: str) -> str:
    return f"/wallets/{segment(wallet_id, 'wallet_id')}/plugins/{segment(plugin, 'plugin')}/store"
