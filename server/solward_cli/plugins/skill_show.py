"""`solward skills list` and `show`: the skills of the running service, one with its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from solward.support import jsontext
from solward_cli.completed_names import skill_names
from solward_cli.service_call import ServiceCall, fail, service_call

if TYPE_CHECKING:
    from rich.console import RenderableType

_RANGES = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "{} characters or more"),
    ("maxLength", "at most {} characters"),
    ("minItems", "{} items or more"),
    ("maxItems", "at most {} items"),
)
_NOT_EMPTY = frozenset({"minLength", "minItems"})


@click.command("list")
@service_call
async def list_skills(call: ServiceCall) -> RenderableType:
    """List the skills of the running service with their effects and descriptions."""
    from solward_cli.render import table

    rows = [(each.name, each.effects, each.description) for each in await call.client.skills()]
    return table(("SKILL", "EFFECTS", "DESCRIPTION"), rows, "")


@click.command("show")
@click.argument("name", shell_complete=skill_names)
@service_call
async def show(call: ServiceCall, name: str) -> RenderableType:
    """Show a skill of the running service: what it does, needs, and takes as parameters."""
    from solward_cli.render import fields, table, together

    found = {each.name: each for each in await call.client.skills()}
    if name not in found:
        fail(f"No skill named {name!r}; known: {', '.join(found)}")
    skill = found[name]
    call.set_json(skill.raw)
    schema = skill.parameters
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    rows = [
        (each, kind_of(of), range_of(each in required, of), of.get("description", ""))
        for each, of in properties.items()
    ]
    about = fields(
        {
            "Skill": skill.name,
            "Does": skill.description,
            "Effects": skill.effects,
            "From": f"{skill.distribution} {skill.version}",
        }
    )
    return together(
        about, table(("PARAMETER", "TYPE", "TAKES", "DESCRIPTION"), rows, "It has no parameters.")
    )


def kind_of(schema: Mapping[str, Any]) -> str:
    """A parameter's JSON type, or what it may be one of."""
    if "enum" in schema:
        return " or ".join(jsontext.dumps(each) for each in schema["enum"])
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def range_of(is_required: bool, schema: Mapping[str, Any]) -> str:
    """Whether it must be given, its default and its limits."""
    said = "required" if is_required else "optional"
    if "default" in schema:
        said = f"{jsontext.dumps(schema['default'])} where it is left out"
    limits = (
        "not empty" if key in _NOT_EMPTY and schema[key] == 1 else words.format(schema[key])
        for key, words in _RANGES
        if key in schema
    )
    return "; ".join((said, *limits))
