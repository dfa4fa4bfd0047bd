"""What the plugins of a folder of their own declare, read in a plugin host."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from solward.errors import FolderError
from solward.folders.layout import Installed
from solward.hosts.plugins import plugin_hosts
from solward.manifest import Manifest
from solward.registry.discovery import of_folder
from solward.registry.problems import Rejected


def manifests(one: Installed, unconfined: Collection[str] = ()) -> dict[str, Manifest | None]:
    """Each plugin's manifest, by `group:name`; none for a guardrail. Needs that no loop runs.

    Args:
        unconfined: as of `plugin_hosts`.

    Raises:
        FolderError: a plugin cannot be loaded.
    """

    async def declared() -> dict[str, Manifest | None]:
        candidates = of_folder(one)
        found: dict[str, Manifest | None] = {}
        async with plugin_hosts(unconfined) as hosts:
            for candidate, each in zip(candidates, await hosts.declared(candidates), strict=True):
                if isinstance(each, Rejected):
                    raise FolderError(
                        f"{candidate.name} of {one.name} {one.version} cannot be loaded:"
                        f" {each.code}: {each.detail}"
                    )
                spec = each.spec
                found[f"{candidate.group}:{candidate.name}"] = (
                    None if spec is None else spec.manifest
                )
        return found

    return asyncio.run(declared())
