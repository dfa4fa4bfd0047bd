"""`solward mcp config`: a key for one wallet, in the configuration of a host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solward_cli.expiries import expiry
from solward_cli.service_call import ServiceCall, confirmed, exact, service_call, yes_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import ApiKey, CreatedKey, Wallet
    from solward_cli.mcp.hosts import HostFile

_HOSTS = ("claude-desktop", "claude-code", "cursor", "vscode")
# Hosts put it before the names of tools, of which models' vendors take 64 characters.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,20}")


def _entry_name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter("it must be 1 to 20 letters, digits, _ or -")
    return name


@click.command()
@click.argument("host", type=click.Choice(_HOSTS))
@click.option("--wallet", required=True, help="The wallet that the host may use, and no other.")
@click.option("--write", is_flag=True, help="Put the entry into the host's file; asks first.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The host's file, such as a project's.  [default: the user's own]",
)
@click.option(
    "--name",
    default="solward",
    show_default=True,
    callback=_entry_name,
    help="The entry's name; one for each wallet where the host has several.",
)
@click.option("--rate-limit", type=click.IntRange(1), help="Transactions a minute; 10.")
@click.option("--daily-sol", type=exact, help="SOL it may spend in 24 hours; 5. 0 only reads.")
@click.option("--costs-sol", type=exact, help="SOL of fees and rent in 24 hours; 0.05.")
@click.option(
    "--grant",
    "grants",
    multiple=True,
    metavar="SENTENCE",
    help="What it may do, such as 'may transfer up to 0.1 SOL a day, to anybody'; several.",
)
@click.option("--expires", type=expiry, metavar="TIME", help="When it ends: ISO 8601, or 90d.")
@yes_option
@service_call
async def config(
    call: ServiceCall,
    host: str,
    wallet: str,
    write: bool,
    file: Path | None,
    name: str,
    rate_limit: int | None,
    daily_sol: Decimal | None,
    costs_sol: Decimal | None,
    grants: tuple[str, ...],
    expires: datetime | None,
    yes: bool,
) -> RenderableType | None:
    """Make an API key for one wallet, and print the entry that gives an MCP host its tools.

    With --write the entry is put into the host's own file. What else that has stays; an entry of
    the same name is replaced, and its key revoked. The new key is in the file, which its owner
    alone can read, and on no command line.
    """
    from solward.support import jsontext
    from solward_cli.mcp.hosts import HOSTS, HostFile, file_of
    from solward_cli.render import plain, visible

    found = await call.wallet(wallet)
    told, path = HOSTS[host], file_of(host) if file is None else file
    replaced: ApiKey | None = None
    if write:
        before = HostFile.read(path, told.servers)
        replaced = await _key_of(call, before.entry(name))
        confirmed(_question(told.title, before, name, found, replaced), yes)
    made = await call.client.keys.create(
        name=f"{told.title}: {found.name}"[:100],
        rate_limit=rate_limit,
        spending_limit_sol=daily_sol,
        max_costs_sol_per_day=costs_sol,
        wallet_id=found.id,
        expires_at=expires,
        # It only reads until it has them: a sentence says whose it is by the new key's id, since
        # another key may have the name.
        grants=[] if grants else None,
    )
    if grants:
        await _grant(call, made, grants)
    entry = told.entry(call.client.url, made.api_key)
    if not write:
        _print(
            f"Key {visible(made.name)} ({made.id}); it is shown this once. It belongs into {path}:"
        )
        click.echo(jsontext.indented(told.snippet(name, entry)))
        return None
    await _put(call, made, path, name, told.servers, entry)
    if replaced is not None:
        await call.client.keys.revoke(replaced.id)
        _print(f"Key {visible(replaced.name)} ({replaced.id}): revoked")
    call.set_json({"file": str(path), "name": name, "keyId": made.id, "walletId": found.id})
    _print(f"Key {visible(made.name)} ({made.id}): made. {told.then}.")
    return plain(f"Written: {name} in {path}")


async def _grant(call: ServiceCall, made: CreatedKey, said: Sequence[str]) -> None:
    """Give the new key its grants; where one is refused, the key ends."""
    sentences = [f"Key {made.id} {each.rstrip('.')}." for each in said]
    try:
        await call.client.policy.put(f"key:{made.id}", sentences)
    except BaseException:
        await call.client.keys.revoke(made.id)
        raise


async def _key_of(call: ServiceCall, entry: Mapping[str, Any] | None) -> ApiKey | None:
    """The key of an entry, where it is one of this service that still works."""
    from solward.client import ClientError, SolwardClient
    from solward.types.errors import InvalidRequest
    from solward_cli.mcp.hosts import KEY, URL

    environment = {} if entry is None else entry.get("env")
    if not isinstance(environment, dict) or environment.get(URL) != call.client.url:
        # A key of another service is nothing to show to this one.
        return None
    try:
        async with SolwardClient(call.client.url, environment[KEY]) as client:
            return await client.keys.own()
    except (ClientError, InvalidRequest, KeyError, TypeError):
        return None


def _question(
    title: str, before: HostFile, name: str, wallet: Wallet, replaced: ApiKey | None
) -> str:
    from solward_cli.render import visible

    which = f"the wallet {visible(wallet.name)}"
    if before.entry(name) is None:
        return f"Give {title} {which}, as {name} in {before.path}?"
    ends = "" if replaced is None else f", and revoke its key {visible(replaced.name)}"
    return f"Replace {name} in {before.path} by one for {which}{ends}?"


async def _put(
    call: ServiceCall, made: CreatedKey, path: Path, name: str, servers: str, entry: dict[str, Any]
) -> None:
    """Write the entry; where that fails, the new key ends with it."""
    from solward_cli.mcp.hosts import HostFile

    try:
        # Read again: hosts write their files too, while a person is asked.
        HostFile.read(path, servers).write(name, entry)
    except BaseException:
        await call.client.keys.revoke(made.id)
        raise


def _print(text: str) -> None:
    click.echo(text, err=True)
