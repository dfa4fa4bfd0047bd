"""What operators manage of plugins: `client.plugin_state`."""

from __future__ import annotations

from typing import Any

from solward.client.arguments import segment
from solward.client.http import Http
from solward.resources.answers import Raw


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
