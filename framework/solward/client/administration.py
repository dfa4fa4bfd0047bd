"""What operators manage of plugins: `client.plugin_state`."""

from __future__ import annotations

from typing import Any

from solward.client.requests import PluginStateRequests
from solward.resources.plugin_state import SET, SettingState


class PluginState(PluginStateRequests):
    """What is set for skills, and what plugins keep for wallets; needs the admin secret."""

    async def set(self, skill: str, name: str, value: Any) -> SettingState:
        """Set a setting, from the skill's next call on; null is a value where its schema says so.

        Raises:
            NotFoundError: no loaded skill has this name.
            BadRequest: it declares no such setting, or the value does not fit.
        """
        return await self._asked(SET, skill, name, fields={"value": value})
