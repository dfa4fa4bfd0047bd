"""What the plugins of a folder of their own declare, read in a plugin host."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from solward.errors import FolderError
from solward.folders.layout import Installed
from solward.hosts.plugins import plugin_hosts
from solward.manifest import Terms
from solward.registry.discovery import of_folder
from solward.registry.problems import Rejected


def terms(one: Installed, unconfined: Collection[str] = ()) -> dict[str, Terms]:
    """What each plugin declares that it needs, by `group:name`. Needs that no loop runs.

    Args:
        unconfined: as of `plugin_hosts`.

    Raises:
        FolderError: a plugin cannot be loaded.
    """

    async def declared() -> dict[str, Terms]:
        candidates = of_folder(one)
        found: dict[str, Terms] = {}
        async with plugin_hosts(unconfined) as hosts:
            for candidate, each in zip(candidates, await hosts.declared(candidates), strict=True):
                if isinstance(each, Rejected):
                    raise FolderError(
                        f"{candidate.name} of {one.name} {one.version} cannot be loaded:"
                        f" {each.code}: {each.detail}"
                    )
                found[f"{candidate.group}:{candidate.name}"] = Terms.of(each.spec)
        return found

    return asyncio.run(declared())
