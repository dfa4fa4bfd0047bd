"""`solward key create|list|revoke`: API keys of the running service."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import click

from solward_cli.service_call import ServiceCall, confirmed, exact, service_call, yes_option

if TYPE_CHECKING:
    from rich.console import RenderableType


@click.group()
def key() -> None:
    """API keys of the running service; they need the admin secret."""


@key.command()
@click.argument("name")
@click.option("--rate-limit", type=click.IntRange(1), help="Transactions a minute; 10.")
@click.option("--daily-sol", type=exact, help="SOL it may spend in 24 hours; 5. 0 only reads.")
@click.option("--costs-sol", type=exact, help="SOL of fees and rent in 24 hours; 0.05.")
@click.option("--wallet", help="The only wallet it may use.  [default: all]")
@service_call
async def create(
    call: ServiceCall,
    name: str,
    rate_limit: int | None,
    daily_sol: Decimal | None,
    costs_sol: Decimal | None,
    wallet: str | None,
) -> RenderableType:
    """Create an API key and print it, this once."""
    from solward_cli.render import plain, visible

    wallet_id = None if wallet is None else (await call.wallet(wallet)).id
    created = await call.client.keys.create(
        name=name,
        rate_limit=rate_limit,
        spending_limit_sol=daily_sol,
        max_costs_sol_per_day=costs_sol,
        wallet_id=wallet_id,
    )
    if not call.as_json:
        # Standard output is the key alone, so that a shell can capture it.
        click.echo(f"Key {visible(created.name)} ({created.id}); it is shown this once:", err=True)
    return plain(created.api_key)


@key.command("list")
@service_call
async def listing(call: ServiceCall) -> RenderableType:
    """List the API keys, without the keys themselves."""
    from solward_cli.render import moment, short, table

    rows = [
        (
            short(each.id),
            each.name,
            "all" if each.wallet_id is None else short(each.wallet_id),
            moment(each.created_at),
            "never" if each.last_used_at is None else moment(each.last_used_at),
        )
        for each in await call.client.keys.list()
    ]
    columns = ("ID", "NAME", "WALLET", "CREATED (UTC)", "LAST USED (UTC)")
    return table(columns, rows, "There are no API keys.")


@key.command()
@click.argument("key")
@yes_option
@service_call
async def revoke(call: ServiceCall, key: str, yes: bool) -> RenderableType:
    """End an API key at once: by its name, its id, or the beginning of its id."""
    from solward.client.wallets import find_one
    from solward_cli.render import plain, visible

    revoked = find_one("key", key, await call.client.keys.list())
    confirmed(f"Revoke the API key {visible(revoked.name)} ({revoked.id})?", yes)
    await call.client.keys.revoke(revoked.id)
    return plain(f"{revoked.name}: revoked")
