"""`solward hold list|show|approve|deny`: transactions that wait for a person, and the decision."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import click

from solward.resources.holds import (
    APPROVE_HOLD,
    DENY_HOLD,
    GET_HOLD,
    LIST_HOLDS,
    Hold,
    HoldNote,
    ListedHolds,
)
from solward_cli.declared import asks, request_options
from solward_cli.entrypoint import yes_option
from solward_cli.named import argument
from solward_cli.render import Output, amount, answer_fields, answer_table, show
from solward_cli.service_call import EXIT_FAILED, ServiceCall, confirmed, service_call


@click.group()
def hold() -> None:
    """List, approve and deny held transactions."""


@hold.command("list")
@request_options(ListedHolds)
@click.option("--all", "all_", is_flag=True, help="Also list holds that have ended.")
@service_call
async def listing(call: ServiceCall, all_: bool, **only: Any) -> Output:
    """List open holds, newest first."""
    found = await call.ask(LIST_HOLDS, is_open=None if all_ else True, **only)
    cells = ("id", "state", "expires_at", "sentence")
    return answer_table(found, *cells, empty="Nothing waits for a person.")


@hold.command()
@argument("hold")
@request_options(HoldNote)
@yes_option
@service_call
async def approve(call: ServiceCall, hold: Hold, note: str | None, yes: bool) -> Output:
    """Show a hold, then approve it once you confirm.

    All limits are checked again. Exits with 1 if the transaction is refused then.
    """
    if not yes:
        show(_hold_fields(hold), err=call.as_json)
        confirmed("Approve this?", yes)
    decided = await call.ask(APPROVE_HOLD, hold.id, note=note)
    if decided.state == "refused":
        click.echo("The hold was approved, but the second check refused its transaction.", err=True)
        call.exit_code = EXIT_FAILED
    return await _render_hold(call, decided)


async def _read_refusal(call: ServiceCall, found: Hold) -> str | None:
    """Return why an approved hold was refused at its second check, if the caller may know."""
    from solward.client import ApiError

    if found.state != "refused" or found.transaction_id is None:
        return None
    try:
        return (await call.client.transactions.get(found.transaction_id)).transaction.error
    except ApiError:
        return None


async def _render_hold(call: ServiceCall, found: Hold) -> Output:
    return _hold_fields(found, await _read_refusal(call, found))


def _hold_fields(found: Hold, refusal: str | None = None) -> Output:
    """Render all fields of a hold; recipients and mints are never shortened."""
    arrives = [f"at least {units} units of {mint}" for mint, units in found.arrives.items()]
    again = "Approving sends nothing: the caller has to repeat the request."
    return answer_fields(
        found,
        *("id", "state", "sentence"),
        ("reasons", "\n".join(found.reasons)),
        ("Refused", refusal),
        "type",
        ("Leaves", "\n".join(map(_effect_text, found.lines)) or "nothing but costs"),
        ("Costs", f"at most {amount(found.costs_sol)} SOL"),
        ("arrives", "\n".join(arrives) or None),
        *("principal", "chain", "wallet_id", "created_at", "expires_at"),
        ("Then", again if found.repeats else None),
        *("decided_by", "decided_at", "note", "transaction_id"),
    )


def _effect_text(line: Mapping[str, Any]) -> str:
    units, decimals = int(line["units"]), line.get("decimals")
    what = f"{units} units" if decimals is None else amount(Decimal(units).scaleb(-decimals))
    of = what + (" SOL" if line["asset"] == "SOL" else f" of {line['asset']}")
    account, owner = line.get("account"), line.get("owner")
    to = "" if account is None else f" to {account}"
    return f"{line['operation']} {of}{to}" + (f", owned by {owner}" if owner else "")


asks(hold, GET_HOLD, "Show a hold.", _render_hold, name="show")
asks(hold, DENY_HOLD, "Deny a hold for good.", _render_hold)
