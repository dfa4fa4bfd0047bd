"""`solward freeze` and `solward unfreeze`: the switch that stops every new transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from solward.resources.switches import Freeze, Unfreeze
from solward_cli.declared import request_options, sent
from solward_cli.service_call import ServiceCall, limit_option, service_call

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Switch


@click.command()
@request_options(Freeze)
@service_call
async def freeze(call: ServiceCall, **values: Any) -> RenderableType:
    """Stop every new transaction at once, until `unfreeze`; it needs the admin secret."""
    return _render(await call.client.freeze(**await sent(call, Freeze, values)))


@click.command()
@request_options(Unfreeze)
@service_call
async def unfreeze(call: ServiceCall, **values: Any) -> RenderableType:
    """Allow transactions again; the service's switch and a wallet's are two."""
    return _render(await call.client.unfreeze(**await sent(call, Unfreeze, values)))


@click.command()
@limit_option
@service_call
async def frozen(call: ServiceCall, limit: int) -> RenderableType:
    """Say what is frozen, since when and why; it needs the admin secret."""
    from rich.console import Group

    from solward_cli.render import moment, plain, table, visible

    found = await call.client.frozen(limit=limit)
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
