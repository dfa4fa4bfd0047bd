"""`solward freeze` and `solward unfreeze`: the switch that stops every new transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from solward.resources.switches import Freeze, Unfreeze
from solward_cli.declared import request_options, sent
from solward_cli.options import limit_option
from solward_cli.render import Output, moment, plain, together, visible
from solward_cli.service_call import ServiceCall, service_call
from solward_cli.shown_answers import answer_table

if TYPE_CHECKING:
    from solward.client import Switch


@click.command()
@request_options(Freeze)
@service_call
async def freeze(call: ServiceCall, **values: Any) -> Output:
    """Stop every new transaction at once, until `unfreeze`; it needs the admin secret."""
    return _render(await call.client.freeze(**sent(Freeze, values)))


@click.command()
@request_options(Unfreeze)
@service_call
async def unfreeze(call: ServiceCall, **values: Any) -> Output:
    """Allow transactions again; the service's switch and a wallet's are two."""
    return _render(await call.client.unfreeze(**sent(Unfreeze, values)))


@click.command()
@limit_option
@service_call
async def frozen(call: ServiceCall, limit: int) -> Output:
    """Say what is frozen, since when and why; it needs the admin secret."""
    found = await call.client.frozen(limit=limit)
    service = "The service is not frozen."
    if found.since is not None:
        why = f": {visible(found.reason)}" if found.reason else ""
        service = f"The service is frozen since {moment(found.since)} UTC{why}"
    none = "No wallet is frozen by itself."
    wallets = answer_table(
        found.wallets, ("WALLET", lambda each: each.name), "since", "reason", empty=none
    )
    more = found.frozen_wallets - len(found.wallets)
    return together(plain(service), wallets, *([plain(f"and {more} more wallets")] if more else []))


def _render(switch: Switch) -> Output:
    what = "The service" if switch.wallet_id is None else f"The wallet {switch.wallet_id}"
    return plain(f"{what} is {'frozen' if switch.frozen else 'not frozen'}.")
