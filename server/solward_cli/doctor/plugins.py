"""Check `plugins`: which are loaded, and which would be left out and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solward.types.errors import PluginError
from solward_cli.doctor.report import Line, fail, ok, warn

if TYPE_CHECKING:
    from solward_cli.doctor.subject import Subject


async def check(subject: Subject) -> list[Line]:
    """The plugins as the service would load them now."""
    try:
        registry = await subject.registry()
    except PluginError as error:
        return [fail("Built-in", str(error), "install Solward again")]
    loaded = (
        f"{len(registry.skills)} skills, {len(registry.providers)} providers,"
        f" {len(registry.venues)} venues, {len(registry.payments)} payment protocols,"
        f" {len(registry.guardrails)} guardrails"
    )
    advice = "see `solward plugins list`"
    return [
        ok("Loaded", loaded),
        *(warn(each.plugin, str(each), advice) for each in registry.problems),
    ]
