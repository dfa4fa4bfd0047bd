"""`solward skills list`, `show` and `run`: the skills of the running service, one with its
parameters, and one on a wallet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from solward.support import jsontext
from solward_cli.named import SKILL, WALLET_ID
from solward_cli.render import Output, plain, table, together
from solward_cli.service_call import ServiceCall, service_call, waiting
from solward_cli.shown_answers import answer_fields

if TYPE_CHECKING:
    from solward.client import Skill

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
@click.argument("name", type=SKILL)
@click.option("--wallet", "wallet_id", required=True, type=WALLET_ID, help="The wallet it acts on.")
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
    call: ServiceCall, name: Skill, wallet_id: str, params: tuple[str, ...], key: str | None
) -> Output:
    """Run a skill on a wallet of the running service and print its outcome."""
    skill = name.name
    values = parameters(params, name.parameters.get("properties", {}))
    with waiting(f"Running {skill}"):
        text = await call.client.wallets.run_skill(wallet_id, skill, values, idempotency_key=key)
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
            try:
                given = jsontext.read(each)
            except ValueError as error:
                raise click.BadParameter(f"no JSON: {error}", param_hint=option) from None
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


def value_of(text: str) -> Any:
    """A value as it was typed: JSON, and what is none a text; raises `click.BadParameter` for JSON
    that has a key twice, or that nothing can hold."""
    try:
        return jsontext.read(text)
    except (jsontext.DuplicateKey, jsontext.Unfit) as error:
        raise click.BadParameter(str(error)) from None
    except ValueError:
        return text


@click.command("show")
@click.argument("name", type=SKILL)
@service_call
async def show(call: ServiceCall, name: Skill) -> Output:
    """Show a skill of the running service: what it does, needs, and takes as parameters."""
    skill = name
    call.set_json(skill.raw)
    schema = skill.parameters
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    rows = [
        (each, kind_of(of), range_of(each in required, of), of.get("description", ""))
        for each, of in properties.items()
    ]
    columns = ("PARAMETER", "TYPE", "TAKES", "DESCRIPTION")
    about = answer_fields(skill, "name", "description", "effects", "distribution", "version")
    return together(about, table(columns, rows, "It has no parameters."))


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
