"""What operators manage: `client.admins`, `.contacts`, `.keys` and `.plugin_state`."""

from __future__ import annotations

from typing import Any

from solward.client.arguments import segment
from solward.client.http import Http
from solward.client.requests import AdminRequests, ContactRequests, KeyRequests
from solward.resources.answers import Raw
from solward.resources.contacts import Contact
from solward.resources.credentials import AdminCredential, ApiKey
from solward.types.roles import Role


class Admins(AdminRequests):
    """Admin credentials; to create and revoke needs the admin secret or the role `policy`."""

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


class Keys(KeyRequests):
    """API keys; all but `own` needs the admin secret."""

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

    async def revoke(self, key_id: str) -> None:
        """Revoke a key at once; raises `NotFoundError`."""
        await self._http.send("DELETE", f"/keys/{segment(key_id, 'key_id')}")


class Contacts(ContactRequests):
    """The address book: what recipients are called; needs the admin secret."""

    async def list(self) -> tuple[Contact, ...]:
        """Every contact, by name, and behind them the members of the policy's groups."""
        return self._http.read_list(Contact.of, await self._http.get("/contacts"), "contacts")

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
