"""`solward wallet sweep`: everything a wallet holds, to an address."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from solward.types.errors import InvalidRequest
from solward_cli.named import RECIPIENT, argument
from solward_cli.options import yes_option
from solward_cli.render import Output, plain, visible
from solward_cli.service_call import EXIT_FAILED, ServiceCall, confirmed, service_call

if TYPE_CHECKING:
    from solward.client import Wallet
    from solward.types.address_book import NamedAddress


@click.command()
@argument("wallet")
@click.argument("to", type=RECIPIENT)
@click.option("--dry-run", is_flag=True, help="Show what would be moved; move nothing.")
@yes_option
@service_call
async def sweep(
    call: ServiceCall, wallet: Wallet, to: NamedAddress, dry_run: bool, yes: bool
) -> Output:
    """Send all that WALLET holds to TO, an address, contact or wallet, within the guardrails.

    Empties the wallet's pockets, withdraws inactive stakes, unwraps SOL, sends every token, closes
    the emptied accounts, and then sends all SOL but the fees, in as many transfers as the limits
    require; it waits for the rate limit. What a limit holds back is listed, with what to do.
    Interrupted, run it again.
    """
    from solders.pubkey import Pubkey

    from solward_cli.wallet.sweep_run import Sweep, plan

    try:
        Pubkey.from_string(to.address)
    except ValueError:
        raise InvalidRequest(
            f"TO must be a base58 Solana address; {to.address!r} is none"
        ) from None
    if to.address == wallet.address:
        raise InvalidRequest("TO is this wallet itself")
    await check_idle(call, wallet)
    steps = await plan(call.client, wallet)
    if dry_run:
        call.set_json({"dryRun": True, "to": to.address, "steps": steps})
        text = "\n".join((*steps, f"To {to.address}. Nothing was sent."))
        return plain(text if steps else "The wallet holds nothing.", lines=True)

    def print_step(step: str) -> None:
        click.echo(visible(step), err=True)

    if steps:
        for step in steps:
            print_step(step)
        confirmed(f"Send all of this from {visible(wallet.name)} to {to.address}?", yes)
    run = Sweep(call.client, wallet, to.address, print_step)
    await run.run()
    # A pocket is emptied by as many transactions as it takes; its record has no signature.
    signatures = [record.signature for record in run.sent if record.signature is not None]
    left = [asdict(each) for each in run.left]
    call.set_json({"to": run.to, "signatures": signatures, "left": left})
    count = len(run.sent)
    transactions = "1 transaction" if count == 1 else f"{count} transactions"
    lines = [f"{transactions}, to {run.to}." if count else "Nothing was moved."]
    if not run.left:
        return plain(lines[0] if count else "The wallet holds nothing.")
    call.exit_code = EXIT_FAILED
    lines.append("Not moved:")
    for each in run.left:
        lines += [f"- {each.what}", f"    {each.why}", f"    {each.advice}"]
    return plain("\n".join(lines), lines=True)


async def check_idle(call: ServiceCall, wallet: Wallet) -> None:
    """Raise `InvalidRequest` while an agent or a schedule runs on the wallet, or it is frozen."""
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
