"""Third-party plugins that break their contract, as source text by entry-point name."""

from __future__ import annotations

_HEAD = """
import asyncio
from solward import SkillSpec, hookimpl

CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
"""

_SPEC = """
@hookimpl
def skill_spec():
    return SkillSpec(name=%r, description="A skill.", parameters=%s, timeout_s=0.2)
"""

_EXECUTE = """
@hookimpl
async def skill_execute(params, context):
    return "mine"
"""


def skill(name: str, parameters: str = "CLOSED", execute: str = _EXECUTE) -> str:
    """A skill's module with one thing about it changed."""
    return _HEAD + _SPEC % (name, parameters) + execute


# entry-point name -> (source, the problem code it is reported with; None when it loads)
PLUGINS: dict[str, tuple[str, str | None]] = {
    "quits": ("raise SystemExit(3)\n", "import_failed"),
    "open_schema": (skill("open_schema", '{"type": "object"}'), "bad_schema"),
    "transfer": (skill("transfer"), "name_conflict"),
    "not_async": (
        skill("not_async", execute=_EXECUTE.replace("async def", "def")),
        "bad_contract",
    ),
    "sleeper": (
        skill("sleeper", execute=_EXECUTE.replace('return "mine"', "await asyncio.sleep(60)")),
        None,
    ),
}
