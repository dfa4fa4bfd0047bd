"""`solward skills`, `solward plugins settings` and `solward plugins store`: the running service's
skills, their settings, and the entries that plugins keep for wallets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from solward.resources import plugins as declared
from solward.support import jsontext
from solward_cli.declared import asks, lists
from solward_cli.named import SKILL, WALLET_ID
from solward_cli.render import Output, answer_fields, plain, table, together
from solward_cli.service_call import ServiceCall, fail, service_call, waiting

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


@click.group()
def skills() -> None:
    """List and run skills."""


@skills.command()
@click.argument("name", type=SKILL)
@click.option(
    "--wallet",
    "wallet_id",
    required=True,
    type=WALLET_ID,
    help="The wallet that the skill acts on.",
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter, or a JSON object of parameters; may be given more than once.",
)
@click.option("--idempotency-key", "key", help="Pay at most once under this key, even if repeated.")
@service_call
async def run(
    call: ServiceCall, name: Skill, wallet_id: str, params: tuple[str, ...], key: str | None
) -> Output:
    """Run a skill on a wallet and print its result."""
    skill = name.name
    values = parameters(params, name.parameters.get("properties", {}))
    with waiting(f"Running {skill}"):
        text = await call.client.wallets.run_skill(wallet_id, skill, values, idempotency_key=key)
    return plain(text, lines=True)


def parameters(
    texts: tuple[str, ...], properties: Mapping[str, Any], option: str = "--param"
) -> dict[str, Any]:
    """Parse parameters by a schema: as text if it declares a string, else as JSON.

    Args:
        option: the option's name, for refusals.

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
            given = {name: value if is_string else parse_value(value)}
        if twice := values.keys() & given.keys():
            raise click.BadParameter(f"{min(twice)} is given twice", param_hint=option)
        values |= given
    return values


def parse_value(text: str) -> Any:
    """Parse a value as JSON, or return it if it is not JSON; raises `click.BadParameter` for JSON
    with a repeated key or a value that cannot be stored."""
    try:
        return jsontext.read(text)
    except (jsontext.DuplicateKey, jsontext.UnfitValue) as error:
        raise click.BadParameter(str(error)) from None
    except ValueError:
        return text


@skills.command()
@click.argument("name", type=SKILL)
@service_call
async def show(call: ServiceCall, name: Skill) -> Output:
    """Show a skill's description, needs and parameters."""
    skill = name
    call.set_json(skill.raw)
    schema = skill.parameters
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    rows = [
        (each, type_text(of), limits_text(each in required, of), of.get("description", ""))
        for each, of in properties.items()
    ]
    columns = ("PARAMETER", "TYPE", "TAKES", "DESCRIPTION")
    about = answer_fields(skill, "name", "description", "effects", "distribution", "version")
    return together(about, table(columns, rows, "The skill has no parameters."))


def type_text(schema: Mapping[str, Any]) -> str:
    """Return a parameter's JSON type, or its allowed values."""
    if "enum" in schema:
        return " or ".join(jsontext.dumps(each) for each in schema["enum"])
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def limits_text(is_required: bool, schema: Mapping[str, Any]) -> str:
    """Describe whether a parameter is required, its default and its limits."""
    said = "required" if is_required else "optional"
    if "default" in schema:
        said = f"default {jsontext.dumps(schema['default'])}"
    limits = (
        "not empty" if key in _NOT_EMPTY and schema[key] == 1 else words.format(schema[key])
        for key, words in _RANGES
        if key in schema
    )
    return "; ".join((said, *limits))


@click.group()
def settings() -> None:
    """Show and change the settings that plugins' skills declare."""


@settings.command("set")
@click.argument("skill")
@click.argument("setting", metavar="NAME[=VALUE]")
@service_call
async def set_setting(call: ServiceCall, skill: str, setting: str) -> Output:
    """Set a skill's setting, from its next call on.

    For a secret give its NAME alone: the value is asked for, or read from standard input.
    """
    name, equals, text = setting.partition("=")
    found = await call.client.plugin_state.settings(skill)
    is_secret = any(each.name == name and each.secret for each in found.settings)
    if is_secret and equals:
        raise click.BadParameter(
            f"{name} is a secret: give its name alone, and the value on standard input",
            param_hint="NAME[=VALUE]",
        )
    if not equals and sys.stdin.isatty():
        # A prompt keeps the secret out of lists of processes and the shell's history.
        text = str(click.prompt(name, hide_input=True))
    elif not equals:
        text = sys.stdin.readline().rstrip("\r\n")
    is_text = found.schema.get("properties", {}).get(name, {}).get("type") == "string"
    value: Any = text if is_text else parse_value(text)
    await call.client.plugin_state.set(skill, name, value)
    return plain(f"{name} of {skill} is set.")


@click.group()
def store() -> None:
    """List and delete the entries that plugins keep for wallets."""


_wallet = click.option(
    "--wallet",
    "wallet_id",
    required=True,
    type=WALLET_ID,
    help="The wallet whose entries are meant.",
)


@store.command("list")
@click.argument("plugin")
@_wallet
@click.option("--prefix", default="", help="Only keys with this prefix.")
@service_call
async def list_entries(call: ServiceCall, plugin: str, wallet_id: str, prefix: str) -> Output:
    """List up to 200 entries that a plugin keeps for a wallet."""
    from solward.plugins.folders.layout import canonical
    from solward.types.entries import MAX_LISTED

    found = await call.client.plugin_state.entries(
        wallet_id, plugin, prefix=prefix, limit=MAX_LISTED
    )
    if not found:
        known = await call.client.plugins()
        names = {each.distribution for each in known.plugins}
        names |= {each.name for each in known.distributions}
        if canonical(plugin) not in map(canonical, names):
            fail(f"No distribution {plugin!r} is installed, and no entries have that name")
    rows = [
        (
            each.key,
            str(each.version),
            each.raw["changedAt"],
            each.status or "",
            jsontext.dumps(each.value),
        )
        for each in found
    ]
    return table(("KEY", ">VERSION", "CHANGED", "TRANSACTION", "VALUE"), rows, "No entries.")


def _render_settings(found: declared.SkillSettings) -> Output:
    required = found.schema.get("required", ())
    declared = found.schema.get("properties", {})
    rows = []
    for each in found.settings:
        name, of = each.name, declared.get(each.name)
        value = "********" if each.secret else jsontext.dumps(each.value)
        cells = (name, "set", value) if each.set else (name, "not set", "")
        if of is None:
            rows.append((*cells, "", "", "no longer declared"))
            continue
        kind = "secret" if each.secret else type_text(of)
        rows.append((*cells, kind, limits_text(name in required, of), of.get("description", "")))
    return table(("NAME", "STATE", "VALUE", "TYPE", "TAKES", "DESCRIPTION"), rows, "")


@store.command("delete")
@click.argument("plugin")
@click.argument("key")
@_wallet
@service_call
async def delete_entry(call: ServiceCall, plugin: str, key: str, wallet_id: str) -> Output:
    """Delete an entry; the plugin may then repeat an action that the entry prevented."""
    answer = await call.client.plugin_state.delete(wallet_id, plugin, key=key)
    if not answer.deleted:
        fail(f"{plugin} keeps no entry {key!r} for this wallet")
    return plain(f"{key} is deleted.")


lists(
    skills,
    declared.LIST_SKILLS,
    "List skills with their effects and descriptions.",
    *("name", "effects", "description"),
    empty="",
    name="list",
)
asks(
    settings,
    declared.SHOW_SETTINGS,
    "Show a skill's settings; a secret is shown only as set or not set.",
    _render_settings,
    name="show",
)
asks(
    settings,
    declared.UNSET,
    "Unset a skill's setting.",
    "{answer.name} of {answer.skill} is not set.",
)
