"""`solward tx list|export|show|watch`: records of transactions."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from rich.text import Text

from solward.resources.transactions import ListedTransactions, TransactionFilter
from solward.solana.token_list import token_list
from solward.support.atomic_files import whole_file
from solward.types.money import format_sol
from solward_cli.declared import call_args, default_of, request_options
from solward_cli.entrypoint import count_option
from solward_cli.named import TRANSACTION, WALLET_ID, find_transaction
from solward_cli.render import (
    Output,
    amount,
    answer_fields,
    answer_table,
    is_terminal,
    moment,
    plain,
    short,
    status,
    summary,
    verdict,
    visible,
)
from solward_cli.service_call import EXIT_FAILED, ServiceCall, service_call, waiting

if TYPE_CHECKING:
    from solward.client import Event, NetworkFee, Transaction, Trial, Wallet
    from solward.solana.token_list import TokenList

_POLL_S = 1.0
_KINDS = (
    "transaction:pending",
    "transaction:confirmed",
    "transaction:failed",
    "transaction:blocked",
)


@click.group()
def tx() -> None:
    """List, watch and export transactions."""


# The service resolves the name, because only it knows the policy's @names.
_to_option = click.option(
    "--to",
    "recipient",
    metavar="RECIPIENT",
    help="Only payments to this address, contact, wallet or @group of the policy.",
)


@tx.command("list")
@request_options(ListedTransactions, without=("recipient", "fees"))
@_to_option
@service_call
async def listing(
    call: ServiceCall, limit: int | None, before: str | None, **filters: Any
) -> Output:
    """List transactions, newest first."""
    # These are read before the records, because `--json` prints the last answer.
    only = TransactionFilter(**call_args(TransactionFilter, filters))
    most = limit or default_of(ListedTransactions, "limit")
    wallets = () if call.as_json else await call.client.wallets.list()
    network = "" if call.as_json else (await call.client.health()).network
    others = replace(only, wallet_id=None)
    if only.wallet_id is None:
        records = await call.client.transactions.list(most, before, only)
    else:
        records = await call.client.wallets.transactions(only.wallet_id, most, before, others)
    if others != TransactionFilter():
        # A filtered list may have taken several answers.
        call.set_json({"transactions": [each.raw for each in records]})
    return render_records(records, wallets, token_list(network))


@tx.command()
@request_options(TransactionFilter, without=("recipient",))
@_to_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file.  [standard output]",
)
@service_call
async def export(call: ServiceCall, output: Path | None, **filters: Any) -> None:
    """Export all matching transactions as CSV, newest first.

    A file is complete, or is not written. Cells that a spreadsheet would run as a formula begin
    with a quote.
    """
    if call.as_json:
        raise click.UsageError("An export is CSV; `solward tx list --json` is JSON.")
    if output is not None and not output.name:
        raise click.BadParameter("it must name a file", param_hint="--output")
    only = TransactionFilter(**call_args(TransactionFilter, filters))
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


@tx.command()
@click.argument("transaction", type=TRANSACTION)
@service_call
async def show(call: ServiceCall, transaction: Transaction) -> Output:
    """Show one of the latest 10,000 transactions, by its id or signature."""
    call.set_json(transaction.raw)
    return render_record(transaction)


@tx.command()
@click.argument("transaction", type=TRANSACTION, required=False)
@click.option("--wallet", "wallet_id", type=WALLET_ID, help="This wallet only.")
@count_option
@service_call
async def watch(
    call: ServiceCall, transaction: Transaction | None, wallet_id: str | None, count: int | None
) -> Output | None:
    """Print transactions as they happen, or wait for one to end.

    With TRANSACTION, exits with 1 unless it is confirmed. Without, the admin secret is needed.
    """
    if transaction is not None:
        found = transaction
        with waiting("Waiting for the ledger"):
            while found.status == "pending":
                await asyncio.sleep(_POLL_S)
                found = await find_transaction(call.client, found.id, {})
        call.set_json(found.raw)
        if found.status != "confirmed":
            click.echo(f"The transaction was not confirmed; its status: {found.status}.", err=True)
            call.exit_code = EXIT_FAILED
        return render_record(found)

    def render(event: Event) -> Output | None:
        from solward.client import Transaction

        if wallet_id is not None and event.data.get("walletId") != wallet_id:
            return None
        record = Transaction.of(event.data)
        line = plain(f"{moment(record.timestamp)}  {short(record.id)}  {record.type} ")
        return line.append_text(status(record.status)).append(" ").append_text(_summary(record))

    await call.print_events(call.client.events(types=_KINDS), render, count)
    return None


def render_records(
    records: Sequence[Transaction], wallets: Iterable[Wallet], tokens: TokenList
) -> Output:
    """Make a table of records; a blocked or failed one has its error.

    Args:
        wallets: shown by their names, as senders and recipients.
        tokens: shown by their symbols; a symbol that others chose could imitate a known one.
    """
    names = {each.id: each.name for each in wallets}
    addresses = {each.address: each.name for each in wallets}

    def named(text: object) -> str:
        found = addresses.get(str(text))
        if found is not None:
            # Several wallets may have one name, so files and pipes get the address too.
            return visible(found if is_terminal() else f"{found} ({text})")
        return tokens.symbol_of(str(text)) or short(text)

    return answer_table(
        records,
        *("timestamp", "id"),
        ("wallet_id", lambda each: names.get(each.wallet_id, short(each.wallet_id))),
        *("type", "status"),
        ("WHAT", lambda each: _summary(each, named)),
        empty="There are no transactions.",
    )


def render_record(record: Transaction) -> Output:
    """Render all fields of a record."""
    return answer_fields(
        record,
        *("id", "type"),
        # The details below have no units.
        ("What", summary(record, visible) or None),
        *("status", "error", "timestamp", "wallet_id", "agent_id", "principal", "signature"),
        ("fee", None if record.fee is None else network_fee_text(record.fee)),
        *((f"  {visible(name)}", _detail_text(value)) for name, value in record.details.items()),
        "guardrails_applied",
    )


def network_fee_text(fee: NetworkFee) -> str:
    """Format a fee in SOL, with the compute units and their price if they are known."""
    parts = [f"{format_sol(fee.lamports)} SOL"]
    if fee.compute_units is not None:
        of = "" if fee.compute_unit_limit is None else f" of {fee.compute_unit_limit:,}"
        parts.append(f"{fee.compute_units:,}{of} compute units")
    if fee.priority_fee_micro_lamports:
        parts.append(f"{fee.priority_fee_micro_lamports:,} micro-lamports a unit")
    return ", ".join(parts)


def render_trial(trial: Trial, paid: str | None, units: Callable[[str, int], str]) -> Output:
    """Render the verdict and effects of a dry run.

    Args:
        paid: the recipient, with its whole address.
        units: writes an amount of a mint's smallest unit.
    """
    effects = {} if trial.effects is None else _effects(trial.effects, units)
    return answer_fields(
        trial,
        ("Dry run", verdict(trial.allowed, trial.held)),
        *("rule", "reason"),
        ("To", paid),
        *effects.items(),
        "guardrails_applied",
    )


def _effects(effects: Mapping[str, Any], units: Callable[[str, int], str]) -> dict[str, object]:
    leaves = [f"{amount(effects['solOut'])} SOL"] if effects["solOut"] else []
    leaves += [units(mint, int(count)) for mint, count in effects["tokensOut"].items()]
    opened = effects["accountsCreated"]
    accounts = "1 new account" if opened == 1 else f"{opened} new accounts"
    passed = [
        f"{visible(each['kind'])} of {each['account']} to {each['to'] or 'nobody'}"
        for each in effects["authorityChanges"]
    ]
    closed = [f"{one}, its SOL to {whom}" for one, whom in effects["closedAccounts"].items()]
    return {
        "Leaves": "\n".join(leaves) or "nothing but costs",
        "Arrives": "\n".join(units(mint, int(n)) for mint, n in effects["tokensIn"].items())
        or None,
        "Fee": f"{amount(effects['fee'])} SOL",
        "Rent": f"{amount(effects['rent'])} SOL for {accounts}" if effects["rent"] else None,
        "Passes": "\n".join(passed) or None,
        "Closes": "\n".join(closed) or None,
    }


def _summary(record: Transaction, named: Callable[[object], str] = short) -> Text:
    text = plain(summary(record, named))
    if record.error is not None:
        text.append(f"{' - ' if text.plain else ''}{visible(record.error)}", style="dim")
    return text


def _detail_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{visible(name)} {_detail_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_detail_text, value))
    return amount(value)
