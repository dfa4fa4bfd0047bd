"""`solward tx list|export|show|watch`: records of transactions."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from solward.resources.transactions import TransactionFilter
from solward_cli.completed_names import agent_names, wallet_names
from solward_cli.declared import request_options, sent
from solward_cli.options import since_option, until_option
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

F = TypeVar("F", bound=Callable[..., Any])

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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


def filter_options(command: F) -> F:
    """The options that say which records are meant; the command gets them as `filters`."""
    options: tuple[Callable[[F], F], ...] = (
        request_options(TransactionFilter, without=("agent_id", "since", "until")),
        click.option(
            "--agent",
            "agent_id",
            shell_complete=agent_names,
            help="Only what this agent asked for.",
        ),
        since_option,
        until_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@tx.command("list")
@filter_options
@limit_option
@click.option("--before", help="Only those older than the transaction of this id.")
@service_call
async def listing(
    call: ServiceCall, limit: int, before: str | None, **filters: Any
) -> RenderableType:
    """List transactions, newest first."""
    from solward.solana.token_list import token_list
    from solward_cli.tx.render import render_records

    # Before the records: `--json` prints the last answer.
    only = await _filter(call, **filters)
    wallets = () if call.as_json else await call.client.wallets.list()
    network = "" if call.as_json else (await call.client.health()).network
    others = replace(only, wallet_id=None)
    if only.wallet_id is None:
        records = await call.client.transactions.list(limit, before, only)
    else:
        records = await call.client.wallets.transactions(only.wallet_id, limit, before, others)
    if others != TransactionFilter():
        # Several answers may have been needed for it.
        call.set_json({"transactions": [each.raw for each in records]})
    return render_records(records, wallets, token_list(network))


@tx.command()
@filter_options
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file.  [standard output]"
)
@service_call
async def export(call: ServiceCall, output: Path | None, **filters: Any) -> None:
    """Write all that fit as CSV, newest first.

    A file is complete, or is not written. Cells that a spreadsheet would run as a formula begin
    with a quote.
    """
    from solward.support.atomic_files import whole_file

    if call.as_json:
        raise click.UsageError("An export is CSV; `solward tx list --json` is JSON.")
    if output is not None and not output.name:
        raise click.BadParameter("it must name a file", param_hint="--output")
    only = await _filter(call, **filters)
    if output is None:
        return await _write_export(call, only, sys.stdout.buffer)
    try:
        with whole_file(output) as file:
            await _write_export(call, only, file)
    except OSError as error:
        told = f"{output} cannot be written: {error.strerror}"
        raise click.BadParameter(told, param_hint="--output") from None


async def _write_export(call: ServiceCall, only: TransactionFilter, file: BinaryIO) -> None:
    async with contextlib.aclosing(call.client.transactions.export(only)) as pieces:
        async for piece in pieces:
            file.write(piece)


async def _filter(call: ServiceCall, **filters: Any) -> TransactionFilter:
    agent = filters["agent_id"]
    if agent is not None and _ID.fullmatch(agent) is None:
        # Of an agent that is deleted the id alone is left.
        filters["agent_id"] = (await call.agent(agent)).id
    return TransactionFilter(**await sent(call, TransactionFilter, filters))


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
        click.echo(f"It was not confirmed; its status: {found.status}.", err=True)
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
