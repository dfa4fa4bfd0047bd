"""`solward wallet sweep`: everything a wallet holds, to an address."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from solward_cli.completed_names import wallet_names
from solward_cli.service_call import (
    EXIT_FAILED,
    ServiceCall,
    confirmed,
    service_call,
    wallet_argument,
    yes_option,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Wallet
    from solward_cli.wallet.sweep_run import Left, Sweep


@click.command()
@wallet_argument
@click.argument("to", shell_complete=wallet_names)
@click.option("--dry-run", is_flag=True, help="Show what would be moved; move nothing.")
@yes_option
@service_call
async def sweep(
    call: ServiceCall, wallet: str, to: str, dry_run: bool, yes: bool
) -> RenderableType:
    """Send all that WALLET holds to TO, an address, contact or wallet, within the guardrails.

    Empties the wallet's pockets, withdraws inactive stakes, unwraps SOL, sends every token, closes
    the emptied accounts, and then sends all SOL but the fees, in as many transfers as the limits
    require; it waits for the rate limit. What a limit holds back is listed, with what to do.
    Interrupted, run it again.
    """
    from solward_cli.render import visible
    from solward_cli.wallet.sweep_run import Sweep, plan

    found = await call.wallet(wallet)
    receiver = await _receiver(call, found, to)
    await check_idle(call, found)
    steps = await plan(call.client, found)
    if dry_run:
        return _render_plan(call, receiver, steps)
    if steps:
        for step in steps:
            click.echo(visible(step), err=True)
        confirmed(f"Send all of this from {visible(found.name)} to {receiver}?", yes)

    def print_step(step: str) -> None:
        click.echo(visible(step), err=True)

    run = Sweep(call.client, found, receiver, print_step)
    await run.run()
    return _render_result(call, run)


async def _receiver(call: ServiceCall, wallet: Wallet, to: str) -> str:
    from solders.pubkey import Pubkey

    from solward.types.errors import InvalidRequest

    address = (await call.recipient(to)).address
    try:
        Pubkey.from_string(address)
    except ValueError:
        raise InvalidRequest(f"TO must be a base58 Solana address; {to!r} is none") from None
    if address == wallet.address:
        raise InvalidRequest("TO is this wallet itself")
    return address


async def check_idle(call: ServiceCall, wallet: Wallet) -> None:
    """Raise `InvalidRequest` while an agent or a schedule runs on the wallet, or it is frozen."""
    from solward.types.errors import InvalidRequest
    from solward_cli.wallet.sweep_run import Headroom

    for agent in await call.client.agents.list():
        # An agent in `error` goes on with its cycles.
        if agent.wallet_id == wallet.id and agent.status in ("running", "error"):
            raise InvalidRequest(
                f"The agent {agent.name} runs on this wallet; stop it first: solward agent stop"
                f" {agent.id}"
            )
    for schedule in await call.client.schedules.list(wallet.id):
        if schedule.status == "active":
            raise InvalidRequest(
                f"The schedule {schedule.name} runs on this wallet; pause it first: solward"
                f" schedule pause {wallet.id} {schedule.id}"
            )
    if Headroom.of(await call.client.wallets.limits(wallet.id)).frozen:
        raise InvalidRequest("Transactions of this wallet are frozen; first: solward unfreeze")


def _render_plan(call: ServiceCall, receiver: str, steps: list[str]) -> RenderableType:
    from solward_cli.render import plain

    call.set_json({"dryRun": True, "to": receiver, "steps": steps})
    text = "\n".join((*steps, f"To {receiver}. Nothing was sent."))
    return plain(text if steps else "The wallet holds nothing.", lines=True)


def _render_result(call: ServiceCall, run: Sweep) -> RenderableType:
    from solward_cli.render import plain, show, together

    # A pocket is emptied by as many transactions as it takes; its record has no signature.
    signatures = [record.signature for record in run.sent if record.signature is not None]
    left = [asdict(each) for each in run.left]
    call.set_json({"to": run.to, "signatures": signatures, "left": left})
    count = len(run.sent)
    transactions = "1 transaction" if count == 1 else f"{count} transactions"
    done = plain(f"{transactions}, to {run.to}." if count else "Nothing was moved.")
    if not run.left:
        return done if count else plain("The wallet holds nothing.")
    rendered = together(done, plain("Not moved:", "bold"), *map(_render_left, run.left))
    if call.as_json:
        click.echo(call.json_text())
    else:
        show(rendered)
    sys.exit(EXIT_FAILED)


def _render_left(left: Left) -> RenderableType:
    from rich.padding import Padding

    from solward_cli.render import plain, together

    why = Padding(plain(f"{left.why}\n{left.advice}", lines=True), (0, 0, 0, 4))
    return together(plain(f"- {left.what}"), why)
