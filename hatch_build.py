"""Puts into the wheel what commands read of the source tree: the plugin template, for
`solward plugins new`, and the example's seller, for `solward up --demo`.

An editable install reads them where they are; `force-include` in pyproject.toml would copy them
into site-packages there too, where they would go stale.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = {
    "plugin_template": "solward_cli/plugin_template",
    "examples/paid_api/paid_api": "solward_cli/paid_api",
}


class CarriedHook(BuildHookInterface[Any]):
    """Called by hatchling before a build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to a standard wheel."""
        if version == "standard":
            build_data["force_include"] |= CARRIED
