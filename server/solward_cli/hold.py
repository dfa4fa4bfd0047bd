"""`solward hold list|show|approve|deny`: what waits for a person, and the decision."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from solward_cli.completed_names import wallet_names
from solward_cli.service_call import (
    EXIT_FAILED,
    ServiceCall,
    confirmed,
    limit_option,
    service_call,
    yes_option,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from solward.client import Hold

_PAGE = 500
_note_option = click.option("--note", help="One line for the record.")


@click.group()
def hold() -> None:
    """Transactions that wait for a person."""


@hold.command("list")
@click.option("--wallet", shell_complete=wallet_names, help="Only this wallet's.")
@click.option("--all", "all_", is_flag=True, help="Those that have ended too.")
@limit_option
@service_call
async def listing(call: ServiceCall, wallet: str | None, all_: bool, limit: int) -> RenderableType:
    """List what waits for a person, newest first."""
    from solward_cli.render import moment, short, status, table

    wallet_id = None if wallet is None else (await call.wallet(wallet)).id
    is_open = None if all_ else True
    found = await call.client.holds.list(wallet_id=wallet_id, is_open=is_open, limit=limit)
    rows = [
        (short(each.id), status(each.state), moment(each.expires_at), each.sentence)
        for each in found
    ]
    return table(("ID", "STATE", "UNTIL (UTC)", "WHAT"), rows, "Nothing waits for a person.")


@hold.command()
@click.argument("hold_id", metavar="HOLD")
@service_call
async def show(call: ServiceCall, hold_id: str) -> RenderableType:
    """Show all of HOLD: an id, or the beginning of one."""
    found = await _find(call, hold_id)
    call.set_json(found.raw)
    return _render(found, await _refusal(call, found))


@hold.command()
@click.argument("hold_id", metavar="HOLD")
@_note_option
@yes_option
@service_call
async def approve(call: ServiceCall, hold_id: str, note: str | None, yes: bool) -> RenderableType:
    """Show all of HOLD, and let it be made, once.

    It exits with 1 where it was refused when it was judged again.
    """
    from solward_cli.render import show

    found = await _find(call, hold_id)
    if not yes:
        show(_render(found), err=call.as_json)
        confirmed("Approve this?", yes)
    decided = await call.client.holds.approve(found.id, note=note)
    refusal = await _refusal(call, decided)
    if decided.state == "refused":
        click.echo("It was approved, and refused when it was judged again.", err=True)
        call.exit_code = EXIT_FAILED
    return _render(decided, refusal)


@hold.command()
@click.argument("hold_id", metavar="HOLD")
@_note_option
@service_call
async def deny(call: ServiceCall, hold_id: str, note: str | None) -> RenderableType:
    """Refuse HOLD for good; its caller is told."""
    found = await _find(call, hold_id)
    return _render(await call.client.holds.deny(found.id, note=note))


async def _refusal(call: ServiceCall, found: Hold) -> str | None:
    """Why an approved one was refused when it was judged again, where the caller may read that."""
    from solward.client import ApiError

    if found.state != "refused" or found.transaction_id is None:
        return None
    try:
        return (await call.client.transactions.get(found.transaction_id)).transaction.error
    except ApiError:
        return None


async def _find(call: ServiceCall, name: str) -> Hold:
    """The hold of this id, or of the beginning of one that is open or one of the newest."""
    from solward.client import AmbiguousName, NotFoundError
    from solward.client.wallets import MIN_ID_PREFIX

    try:
        return await call.client.holds.get(name)
    except NotFoundError:
        if len(name) < MIN_ID_PREFIX:
            raise
    found = {
        each.id: each
        for is_open in (True, None)
        for each in await call.client.holds.list(is_open=is_open, limit=_PAGE)
    }
    fits = [each for each in found.values() if each.id.startswith(name)]
    if len(fits) > 1:
        raise AmbiguousName(f"{len(fits)} holds begin with {name!r}; give more of it")
    if not fits:
        raise NotFoundError(404, f"No hold has the id {name!r}")
    return fits[0]


def _render(found: Hold, refusal: str | None = None) -> RenderableType:
    """All of it; recipients and mints are whole."""
    from solward_cli.render import amount, fields, moment, status

    arrives = "\n".join(
        f"at least {units} units of {mint}" for mint, units in found.arrives.items()
    )
    decided = None
    if found.decided_by is not None:
        decided = f"by {found.decided_by}, {moment(found.decided_at)} UTC"
    again = (
        "It is not made by the approval: its caller has to ask again." if found.repeats else None
    )
    return fields(
        {
            "Hold": found.id,
            "State": status(found.state),
            "Asked": found.sentence,
            "Why": "\n".join(found.reasons),
            "Refused": refusal,
            "Type": found.type,
            "Leaves": "\n".join(map(_line, found.lines)) or "nothing but costs",
            "Costs": f"at most {amount(found.costs_sol)} SOL",
            "Arrives": arrives or None,
            "By": found.principal,
            "Needs": ", ".join(found.chain),
            "Wallet": found.wallet_id,
            "Asked at": f"{moment(found.created_at)} UTC",
            "Until": f"{moment(found.expires_at)} UTC",
            "Then": again,
            "Decided": decided,
            "Note": found.note,
            "Transaction": found.transaction_id,
        }
    )


def _line(line: Mapping[str, Any]) -> str:
    from solward_cli.render import amount

    units, decimals = int(line["units"]), line.get("decimals")
    what = f"{units} units" if decimals is None else amount(Decimal(units).scaleb(-decimals))
    of = what + (" SOL" if line["asset"] == "SOL" else f" of {line['asset']}")
    account, owner = line.get("account"), line.get("owner")
    to = "" if account is None else f" to {account}"
    return f"{line['operation']} {of}{to}" + (f", which is of {owner}" if owner else "")
