"""`solward freeze` and `solward unfreeze`: the switch that stops every new transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solward_cli.completed_names import wallet_names
from solward_cli.service_call import ServiceCall, limit_option, service_call

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Switch

_wallet_option = click.option(
    "--wallet", shell_complete=wallet_names, help="This wallet only.  [default: the whole service]"
)


@click.command()
@_wallet_option
@click.option("--reason", help="Shown to whoever is refused.")
@service_call
async def freeze(call: ServiceCall, wallet: str | None, reason: str | None) -> RenderableType:
    """Stop every new transaction at once, until `unfreeze`; it needs the admin secret."""
    wallet_id = None if wallet is None else (await call.wallet(wallet)).id
    return _render(await call.client.freeze(wallet_id, reason))


@click.command()
@_wallet_option
@service_call
async def unfreeze(call: ServiceCall, wallet: str | None) -> RenderableType:
    """Allow transactions again; the service's switch and a wallet's are two."""
    wallet_id = None if wallet is None else (await call.wallet(wallet)).id
    return _render(await call.client.unfreeze(wallet_id))


@click.command()
@limit_option
@service_call
async def frozen(call: ServiceCall, limit: int) -> RenderableType:
    """Say what is frozen, since when and why; it needs the admin secret."""
    from rich.console import Group

    from solward_cli.render import moment, plain, table, visible

    found = await call.client.frozen(limit)
    service = "The service is not frozen."
    if found.since is not None:
        why = f": {visible(found.reason)}" if found.reason else ""
        service = f"The service is frozen since {moment(found.since)} UTC{why}"
    rows = [
        (visible(each.name), moment(each.since), visible(each.reason or ""))
        for each in found.wallets
    ]
    more = found.frozen_wallets - len(rows)
    return Group(
        plain(service),
        table(("WALLET", "SINCE (UTC)", "REASON"), rows, "No wallet is frozen by itself."),
        *([plain(f"and {more} more wallets")] if more else []),
    )


def _render(switch: Switch) -> RenderableType:
    from solward_cli.render import plain

    what = "The service" if switch.wallet_id is None else f"The wallet {switch.wallet_id}"
    return plain(f"{what} is {'frozen' if switch.frozen else 'not frozen'}.")
