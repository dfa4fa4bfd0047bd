"""A distribution in a folder of its own whose skill has settings and keeps entries."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.plugin_distributions import skill_source
from tests.support.wheels import wheel

from solward.plugins.folders.install import install
from solward.types.manifest import Terms

DISTRIBUTION = "acme-tools"
SKILL = "acme"
SETTINGS = (
    '{"type": "object", "additionalProperties": False, "properties": {'
    '"token": {"type": "string", "secret": True, "description": "Of the vendor."},'
    '"hours": {"type": "integer", "minimum": 1, "maximum": 48, "default": 6},'
    '"label": {"type": "string", "maxLength": 20}}}'
)
_PARAMETERS = (
    '{"type": "object", "additionalProperties": False,'
    ' "properties": {"count": {"type": "integer", "default": 1}}}'
)
_KEEPS = """\
for each in range(params["count"]):
    await context.store.put(f"entry/{each:03}", {"number": each})
return "kept"
"""


def install_keeping(home: Path, folder: Path) -> None:
    """Install it into a home; its skill keeps `count` entries for the wallet of the call."""
    source = skill_source(SKILL, schema=_PARAMETERS, settings=SETTINGS, body=_KEEPS)
    with pytest.MonkeyPatch.context() as patch:
        # pip takes a second, and has nothing to find.
        patch.setattr("solward.plugins.folders.resolve._resolved", lambda *_: {DISTRIBUTION: {}})
        install(
            home,
            str(wheel(folder, source=source)),
            accept=lambda _proposal: True,
            declare=lambda _new: {f"solward.skills:{SKILL}": Terms(None)},
        )
