"""`solward hold list|show|approve|deny`: what waits for a person, and the decision."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from solward_cli.named import hold_argument, wallet_option
from solward_cli.options import limit_option, yes_option
from solward_cli.render import Output, amount, show
from solward_cli.service_call import EXIT_FAILED, ServiceCall, confirmed, service_call
from solward_cli.shown_answers import answer_fields, answer_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from solward.client import Hold

_note_option = click.option("--note", help="One line for the record.")


@click.group()
def hold() -> None:
    """Transactions that wait for a person."""


@hold.command("list")
@wallet_option
@click.option("--all", "all_", is_flag=True, help="Those that have ended too.")
@limit_option
@service_call
async def listing(call: ServiceCall, wallet_id: str | None, all_: bool, limit: int) -> Output:
    """List what waits for a person, newest first."""
    is_open = None if all_ else True
    found = await call.client.holds.list(wallet_id=wallet_id, is_open=is_open, limit=limit)
    cells = ("id", "state", "expires_at", "sentence")
    return answer_table(found, *cells, empty="Nothing waits for a person.")


@hold.command("show")
@hold_argument
@service_call
async def show_one(call: ServiceCall, hold: Hold) -> Output:
    """Show all of HOLD: an id, or the beginning of one."""
    call.set_json(hold.raw)
    return _render(hold, await _refusal(call, hold))


@hold.command()
@hold_argument
@_note_option
@yes_option
@service_call
async def approve(call: ServiceCall, hold: Hold, note: str | None, yes: bool) -> Output:
    """Show all of HOLD, and let it be made, once.

    It exits with 1 where it was refused when it was judged again.
    """
    if not yes:
        show(_render(hold), err=call.as_json)
        confirmed("Approve this?", yes)
    decided = await call.client.holds.approve(hold.id, note=note)
    refusal = await _refusal(call, decided)
    if decided.state == "refused":
        click.echo("It was approved, and refused when it was judged again.", err=True)
        call.exit_code = EXIT_FAILED
    return _render(decided, refusal)


@hold.command()
@hold_argument
@_note_option
@service_call
async def deny(call: ServiceCall, hold: Hold, note: str | None) -> Output:
    """Refuse HOLD for good; its caller is told."""
    return _render(await call.client.holds.deny(hold.id, note=note))


async def _refusal(call: ServiceCall, found: Hold) -> str | None:
    """Why an approved one was refused when it was judged again, where the caller may read that."""
    from solward.client import ApiError

    if found.state != "refused" or found.transaction_id is None:
        return None
    try:
        return (await call.client.transactions.get(found.transaction_id)).transaction.error
    except ApiError:
        return None


def _render(found: Hold, refusal: str | None = None) -> Output:
    """All of it; recipients and mints are whole."""
    arrives = [f"at least {units} units of {mint}" for mint, units in found.arrives.items()]
    again = "It is not made by the approval: its caller has to ask again."
    return answer_fields(
        found,
        *("id", "state", "sentence"),
        ("reasons", "\n".join(found.reasons)),
        ("Refused", refusal),
        "type",
        ("Leaves", "\n".join(map(_line, found.lines)) or "nothing but costs"),
        ("Costs", f"at most {amount(found.costs_sol)} SOL"),
        ("arrives", "\n".join(arrives) or None),
        *("principal", "chain", "wallet_id", "created_at", "expires_at"),
        ("Then", again if found.repeats else None),
        *("decided_by", "decided_at", "note", "transaction_id"),
    )


def _line(line: Mapping[str, Any]) -> str:
    units, decimals = int(line["units"]), line.get("decimals")
    what = f"{units} units" if decimals is None else amount(Decimal(units).scaleb(-decimals))
    of = what + (" SOL" if line["asset"] == "SOL" else f" of {line['asset']}")
    account, owner = line.get("account"), line.get("owner")
    to = "" if account is None else f" to {account}"
    return f"{line['operation']} {of}{to}" + (f", which is of {owner}" if owner else "")
