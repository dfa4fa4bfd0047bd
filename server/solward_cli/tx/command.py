"""`solward tx list|show|watch`: records of transactions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from solward_cli.completed_names import wallet_names
from solward_cli.service_call import (
    EXIT_FAILED,
    ServiceCall,
    count_option,
    limit_option,
    service_call,
    waiting,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Event, Transaction

_PAGE = 500
_MOST_PAGES = 20
_POLL_S = 1.0
_KINDS = (
    "transaction:pending",
    "transaction:confirmed",
    "transaction:failed",
    "transaction:blocked",
)


@click.group()
def tx() -> None:
    """Transactions of the running service."""


@tx.command("list")
@click.option("--wallet", shell_complete=wallet_names, help="Only this wallet's.")
@limit_option
@click.option("--before", help="Only those older than the transaction of this id.")
@service_call
async def listing(
    call: ServiceCall, wallet: str | None, limit: int, before: str | None
) -> RenderableType:
    """List transactions, newest first."""
    from solward.solana.token_list import token_list
    from solward_cli.tx.render import render_records

    # Before the records: `--json` prints the last answer.
    one = None if wallet is None else await call.wallet(wallet)
    wallets = () if call.as_json else await call.client.wallets.list()
    network = "" if call.as_json else (await call.client.health()).network
    if one is None:
        records = await call.client.transactions.list(limit, before)
    else:
        records = await call.client.wallets.transactions(one.id, limit, before)
    return render_records(records, wallets, token_list(network))


@tx.command()
@click.argument("transaction")
@service_call
async def show(call: ServiceCall, transaction: str) -> RenderableType:
    """Show one of the latest 10,000: by its id, the beginning of it, or its signature."""
    from solward_cli.tx.render import render_record

    found = await _find(call, transaction)
    call.set_json(found.raw)
    return render_record(found)


@tx.command()
@click.argument("transaction", required=False)
@click.option("--wallet", shell_complete=wallet_names, help="Only this wallet's.")
@count_option
@service_call
async def watch(
    call: ServiceCall, transaction: str | None, wallet: str | None, count: int | None
) -> RenderableType | None:
    """Print transactions as they happen, or wait for the end of one.

    Waiting for one exits with 1 unless it is confirmed. Watching all needs the admin secret.
    """
    if transaction is not None:
        return await _wait_for(call, transaction)
    only = None if wallet is None else (await call.wallet(wallet)).id

    def render(event: Event) -> RenderableType | None:
        from solward.client import Transaction
        from solward_cli.tx.render import render_line

        if only is not None and event.data.get("walletId") != only:
            return None
        return render_line(Transaction.of(event.data))

    await call.print_events(call.client.events(types=_KINDS), render, count)
    return None


async def _wait_for(call: ServiceCall, transaction: str) -> RenderableType:
    from solward_cli.tx.render import render_record

    found = await _find(call, transaction)
    with waiting("Waiting for the ledger"):
        while found.status == "pending":
            await asyncio.sleep(_POLL_S)
            found = await _find(call, found.id)
    call.set_json(found.raw)
    if found.status != "confirmed":
        click.echo(f"The transaction is {found.status}.", err=True)
        call.exit_code = EXIT_FAILED
    return render_record(found)


async def _find(call: ServiceCall, name: str) -> Transaction:
    from solward.client import AmbiguousName, NotFoundError

    before = None
    for _ in range(_MOST_PAGES):
        page = await call.client.transactions.list(_PAGE, before)
        fits = [each for each in page if name in (each.id, each.signature)]
        fits = fits or [each for each in page if len(name) >= 4 and each.id.startswith(name)]
        if len(fits) > 1:
            raise AmbiguousName(f"{len(fits)} transactions begin with {name!r}; give more of it")
        if fits:
            return fits[0]
        if len(page) < _PAGE:
            break
        before = page[-1].id
    raise NotFoundError(404, f"No transaction has the id or signature {name!r}")
