"""Puts the plugin template into the wheel, for `solward plugins new`.

An editable install reads it where it is; `force-include` in pyproject.toml would copy it into
site-packages there too, where it would go stale.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TemplateHook(BuildHookInterface[Any]):
    """Called by hatchling before a build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the template to a standard wheel."""
        if version == "standard":
            build_data["force_include"]["plugin_template"] = "solward_cli/plugin_template"
