"""What operators manage: `client.policy` and `client.plugin_state`."""

from __future__ import annotations

from typing import Any

from solward.client.arguments import json_fields
from solward.client.requests import Grants, PluginStateRequests, PolicyRequests
from solward.resources.plugin_state import SET, SettingState
from solward.resources.policy import REPLACE_GRANTS, PrincipalGrants


class PluginState(PluginStateRequests):
    """What is set for skills, and what plugins keep for wallets; needs the admin secret."""

    async def set(self, skill: str, name: str, value: Any) -> SettingState:
        """Set a setting, from the skill's next call on; null is a value where its schema says so.

        Raises:
            NotFoundError: no loaded skill has this name.
            BadRequest: it declares no such setting, or the value does not fit.
        """
        now: SettingState = await self._asked(SET, skill, name, fields={"value": value})
        return now


class Policies(PolicyRequests):
    """The policy: who may do what; needs the admin secret."""

    async def put(
        self, principal: str, grants: Grants | None, *, version: int | None = None
    ) -> PrincipalGrants:
        """Put one principal, such as `agent:scout`, under exactly these grants.

        Args:
            grants: none of them: it only reads; None takes it out of grants.
            version: of the policy that the change was written for; None for any.

        Raises:
            NotFoundError: nobody has this id or name.
            BadRequest: naming the path of what is wrong.
            Conflict: another version is in force.
        """
        fields = {"grants": None if grants is None else [*grants]} | json_fields(version=version)
        now: PrincipalGrants = await self._asked(REPLACE_GRANTS, principal, fields=fields)
        return now
