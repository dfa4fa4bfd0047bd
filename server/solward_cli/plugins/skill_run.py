"""`solward skills list`, `show` and `run`: the skills of the running service, one with its
parameters, and one on a wallet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from solward.support import jsontext
from solward_cli.completed_names import skill_names, wallet_names
from solward_cli.service_call import ServiceCall, fail, service_call, waiting

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


@click.command("run")
@click.argument("name", shell_complete=skill_names)
@click.option("--wallet", required=True, shell_complete=wallet_names, help="The wallet it acts on.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter, or all of them as a JSON object; may be given more than once.",
)
@click.option(
    "--idempotency-key", "key", help="Pay once under this key, however often it is asked."
)
@service_call
async def run(
    call: ServiceCall, name: str, wallet: str, params: tuple[str, ...], key: str | None
) -> RenderableType:
    """Run a skill on a wallet of the running service and print its outcome."""
    from solward_cli.render import plain

    found = await call.wallet(wallet)
    skills = {each.name: each for each in await call.client.skills()}
    schema = skills[name].parameters if name in skills else {}
    values = parameters(params, schema.get("properties", {}))
    with waiting(f"Running {name}"):
        text = await call.client.wallets.run_skill(found.id, name, values, idempotency_key=key)
    return plain(text, lines=True)


def parameters(
    texts: tuple[str, ...], properties: Mapping[str, Any], option: str = "--param"
) -> dict[str, Any]:
    """The parameters by a schema: a string where it declares one, else JSON.

    Args:
        option: that they were given with, for refusals.

    Raises:
        click.BadParameter: one is neither `name=value` nor a JSON object, or is given twice.
    """
    values: dict[str, Any] = {}
    for each in texts:
        if each.lstrip().startswith("{"):
            given = _object(each, option)
        else:
            name, equals, value = each.partition("=")
            if not equals or not name:
                raise click.BadParameter(
                    f"{each!r} is neither NAME=VALUE nor a JSON object", param_hint=option
                )
            is_string = properties.get(name, {}).get("type") == "string"
            given = {name: value if is_string else value_of(value)}
        if twice := values.keys() & given.keys():
            raise click.BadParameter(f"{min(twice)} is given twice", param_hint=option)
        values |= given
    return values


def _object(text: str, option: str) -> dict[str, Any]:
    from solward.support import jsontext

    try:
        value = jsontext.read(text)
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint=option) from None
    assert isinstance(value, dict)
    return value


def value_of(text: str) -> Any:
    """A value as it was typed: JSON, and what is none a text; raises `click.BadParameter` for JSON
    that has a key twice, or that nothing can hold."""
    from solward.support import jsontext

    try:
        return jsontext.read(text)
    except (jsontext.DuplicateKey, jsontext.Unfit) as error:
        raise click.BadParameter(str(error)) from None
    except ValueError:
        return text


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
