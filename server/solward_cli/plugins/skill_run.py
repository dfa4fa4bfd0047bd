"""`solward skills run`: a skill on a wallet, by the running service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from solward_cli.completed_names import skill_names, wallet_names
from solward_cli.service_call import ServiceCall, service_call, waiting

if TYPE_CHECKING:
    from rich.console import RenderableType


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
        click.BadParameter: one is neither `name=value` nor a JSON object.
    """
    values: dict[str, Any] = {}
    for each in texts:
        if each.lstrip().startswith("{"):
            values |= _object(each, option)
            continue
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise click.BadParameter(
                f"{each!r} is neither NAME=VALUE nor a JSON object", param_hint=option
            )
        is_string = properties.get(name, {}).get("type") == "string"
        values[name] = value if is_string else value_of(value)
    return values


def _object(text: str, option: str) -> dict[str, Any]:
    from solward.support import jsontext

    try:
        value = jsontext.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint=option) from None
    assert isinstance(value, dict)
    return value


def value_of(text: str) -> Any:
    """A value as it was typed: JSON, and what is none a text."""
    from solward.support import jsontext

    try:
        return jsontext.loads(text)
    except ValueError:
        return text
