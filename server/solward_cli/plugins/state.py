"""`solward plugins settings` and `solward plugins store`: what is set for plugins' skills, and what
plugins keep for wallets, by the running service."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from solward.support import jsontext
from solward_cli.named import WALLET_ID
from solward_cli.plugins.skill_run import kind_of, range_of, value_of
from solward_cli.render import Output, plain, table
from solward_cli.service_call import ServiceCall, fail, service_call

if TYPE_CHECKING:
    from solward.resources.plugin_state import PluginSetting


@click.group()
def settings() -> None:
    """Settings that plugins' skills declare."""


@settings.command("show")
@click.argument("skill")
@service_call
async def show_settings(call: ServiceCall, skill: str) -> Output:
    """Show a skill's settings; of a secret only whether it is set."""
    found = await call.client.plugin_state.settings(skill)
    required = found.schema.get("required", ())
    declared = found.schema.get("properties", {})
    rows = []
    for each in found.settings:
        name, of = each.name, declared.get(each.name)
        state = "set" if each.set else "not set"
        if of is None:
            rows.append((name, state, _shown(each), "", "", "not declared any more"))
            continue
        kind = "secret" if each.secret else kind_of(of)
        takes = range_of(name in required, of)
        rows.append((name, state, _shown(each), kind, takes, of.get("description", "")))
    return table(("NAME", "STATE", "VALUE", "TYPE", "TAKES", "DESCRIPTION"), rows, "")


@settings.command("set")
@click.argument("skill")
@click.argument("setting", metavar="NAME[=VALUE]")
@service_call
async def set_setting(call: ServiceCall, skill: str, setting: str) -> Output:
    """Set a setting of a skill, from its next call on.

    A secret is given by its NAME alone: it is asked for, or read from standard input.
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
        # It is in no argument, and so in no list of processes and no shell's history.
        text = str(click.prompt(name, hide_input=True))
    elif not equals:
        text = sys.stdin.readline().rstrip("\r\n")
    is_text = found.schema.get("properties", {}).get(name, {}).get("type") == "string"
    value: Any = text if is_text else value_of(text)
    await call.client.plugin_state.set(skill, name, value)
    return plain(f"{name} of {skill} is set.")


@settings.command("unset")
@click.argument("skill")
@click.argument("name")
@service_call
async def unset_setting(call: ServiceCall, skill: str, name: str) -> Output:
    """Unset a setting of a skill."""
    await call.client.plugin_state.unset(skill, name)
    return plain(f"{name} of {skill} is not set.")


@click.group()
def store() -> None:
    """Entries that plugins keep for wallets."""


_wallet = click.option(
    "--wallet", "wallet_id", required=True, type=WALLET_ID, help="The wallet they are kept for."
)


@store.command("list")
@click.argument("plugin")
@_wallet
@click.option("--prefix", default="", help="Only keys that begin so.")
@service_call
async def list_entries(call: ServiceCall, plugin: str, wallet_id: str, prefix: str) -> Output:
    """List what a plugin's distribution keeps for a wallet, up to 200 entries."""
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
            fail(f"No distribution {plugin!r} is installed, and none keeps entries under that name")
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


@store.command("delete")
@click.argument("plugin")
@click.argument("key")
@_wallet
@service_call
async def delete_entry(call: ServiceCall, plugin: str, key: str, wallet_id: str) -> Output:
    """Delete an entry; what it made the plugin leave undone, it may do again."""
    answer = await call.client.plugin_state.delete(wallet_id, plugin, key=key)
    if not answer.deleted:
        fail(f"{plugin} keeps no entry {key!r} for this wallet")
    return plain(f"{key} is deleted.")


def _shown(setting: PluginSetting) -> str:
    if not setting.set:
        return ""
    return "********" if setting.secret else jsontext.dumps(setting.value)
