"""What the plugins of a folder of their own declare, read in a plugin host."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from solward.hosts.plugins import plugin_hosts
from solward.plugins.discovery import Candidate, Folders, environment, of_folder, survey
from solward.plugins.folders.layout import Installed
from solward.plugins.load import Declared, checked
from solward.plugins.problems import Problem, Rejected
from solward.types.errors import FolderError
from solward.types.manifest import Terms


def terms(one: Installed, unconfined: Collection[str] = ()) -> dict[str, Terms]:
    """What each plugin declares that it needs, by `group:name`. Needs that no loop runs.

    Args:
        unconfined: as of `plugin_hosts`.

    Raises:
        FolderError: a plugin cannot be imported, or declares nothing.
    """
    return {
        f"{candidate.group}:{candidate.name}": Terms.of(found.spec)
        for candidate, found in _declared(one, unconfined)
    }


def loadable_terms(one: Installed, unconfined: Collection[str] = ()) -> dict[str, Terms]:
    """As `terms`, of plugins that a service would load.

    Raises:
        FolderError: it would leave one of them out, whatever else is installed.
    """
    built_in = [each for each in environment()[0] if each.built_in]
    for problem in survey((one.name,), built_in, Folders([one]))[1]:
        raise _error(one, problem)
    found = _declared(one, unconfined)
    accepted = {
        f"{candidate.group}:{candidate.name}": Terms.of(declared.spec)
        for candidate, declared in found
    }
    # As if it had been accepted: what asks for too much by itself is refused, too.
    own = replace(one, accepted=accepted)
    plugins = [replace(candidate, installed=own) for candidate, _ in found]
    for candidate, plugin in checked(plugins, [each for _, each in found]):
        if isinstance(plugin, Rejected):
            raise _error(one, candidate.problem(plugin.code, plugin.detail))
    return accepted


def _declared(one: Installed, unconfined: Collection[str]) -> list[tuple[Candidate, Declared]]:
    async def declared() -> list[tuple[Candidate, Declared]]:
        candidates = of_folder(one)
        found: list[tuple[Candidate, Declared]] = []
        async with plugin_hosts(unconfined) as hosts:
            for candidate, each in zip(candidates, await hosts.declared(candidates), strict=True):
                if isinstance(each, Rejected):
                    raise _error(one, candidate.problem(each.code, each.detail))
                found.append((candidate, each))
        return found

    return asyncio.run(declared())


def _error(one: Installed, problem: Problem) -> FolderError:
    return FolderError(
        f"{problem.plugin} of {one.name} {one.version} cannot be loaded: {problem.code}:"
        f" {problem.detail}"
    )
