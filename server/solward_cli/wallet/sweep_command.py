"""`solward wallet sweep`: everything a wallet holds, to an address."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

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
    from solward_cli.wallet.sweep import Left, Sweep


@click.command()
@wallet_argument
@click.argument("to")
@click.option("--dry-run", is_flag=True, help="Show what would be moved; move nothing.")
@yes_option
@service_call
async def sweep(
    call: ServiceCall, wallet: str, to: str, dry_run: bool, yes: bool
) -> RenderableType:
    """Send all that WALLET holds to TO, an address or a wallet, within the guardrails.

    Unwraps SOL, sends every token, closes the emptied accounts, withdraws inactive stakes, and
    then sends all SOL but the fees, in as many transfers as the limits ask for; it waits for the
    rate limit. What a limit holds back is listed, with what to do. Interrupted, run it again.
    """
    from solward_cli.render import visible
    from solward_cli.wallet.sweep import Sweep

    found = await call.wallet(wallet)
    receiver = await _receiver(call, found, to)
    await refuse_others_at_work(call, found)
    planned = await _plan(call, found)
    if dry_run:
        return _planned(call, receiver, planned)
    if planned:
        for line in planned:
            click.echo(visible(line), err=True)
        confirmed(f"Send all of this from {visible(found.name)} to {receiver}?", yes)

    def tell(step: str) -> None:
        click.echo(visible(step), err=True)

    swept = Sweep(call.client, found, receiver, tell)
    await swept.run()
    return _ended(call, swept)


async def _receiver(call: ServiceCall, wallet: Wallet, to: str) -> str:
    from solders.pubkey import Pubkey

    from solward.errors import InvalidRequest

    address = await call.address(to)
    try:
        Pubkey.from_string(address)
    except ValueError:
        raise InvalidRequest(f"TO must be a base58 Solana address; {to!r} is none") from None
    if address == wallet.address:
        raise InvalidRequest("TO is this wallet itself")
    return address


async def refuse_others_at_work(call: ServiceCall, wallet: Wallet) -> None:
    """Raise `InvalidRequest` while an agent runs on the wallet, or a freeze holds it."""
    from solward.errors import InvalidRequest
    from solward_cli.wallet.sweep_limits import Room

    for agent in await call.client.agents.list():
        # One that shows `error` keeps trying.
        if agent.wallet_id == wallet.id and agent.status in ("running", "error"):
            raise InvalidRequest(
                f"The agent {agent.name} runs on this wallet; stop it first: solward agent stop"
                f" {agent.id}"
            )
    if Room.of(await call.client.wallets.limits(wallet.id)).frozen:
        raise InvalidRequest("Transactions of this wallet are frozen; first: solward unfreeze")


async def _plan(call: ServiceCall, wallet: Wallet) -> list[str]:
    """What there is to move, and what would stay, as of now."""
    from solward.money import format_amount
    from solward.solana.programs import WRAPPED_SOL_MINT
    from solward_cli.wallet.sweep import unstaking
    from solward_cli.wallet.sweep_limits import Room

    client = call.client
    balance = await client.wallets.balance(wallet.id, empty=True)
    room = Room.of(await client.wallets.limits(wallet.id))
    lines = []
    for stake in await client.wallets.stakes(wallet.id):
        way = "withdraw" if stake.state == "inactive" else "stays:  "
        more = "" if stake.state == "inactive" else f"; {unstaking(stake.state)}"
        lines.append(f"{way} stake {stake.address}, {stake.balance} SOL, {stake.state}{more}")
    for token in balance.tokens:
        amount, name = format_amount(token.amount), token.symbol or token.mint
        if not token.units:
            lines.append(f"close    the empty account of {name}")
        elif token.mint == WRAPPED_SOL_MINT:
            lines.append(f"unwrap   {amount} SOL")
        else:
            limited = room.tokens.get(token.mint, token.units) < token.units
            limit = ", as far as TOKEN_LIMITS leaves room today" if limited else ""
            lines.append(f"send     {amount} {name}{limit}, and close its account")
    if balance.sol:
        lines.append(f"send     {format_amount(balance.sol)} SOL less fees{_parts(room)}")
    return lines


def _parts(room: Any) -> str:
    from solward.money import format_sol

    limits = []
    if room.per_tx is not None:
        limits.append(f"at most {format_sol(room.per_tx)} SOL at once")
    if room.today is not None:
        limits.append(f"{format_sol(room.today)} SOL more today")
    if room.per_minute is not None:
        limits.append(f"{room.per_minute} transactions a minute")
    return f" ({', '.join(limits)})" if limits else ""


def _planned(call: ServiceCall, receiver: str, planned: list[str]) -> RenderableType:
    from solward_cli.render import plain

    call.json_is({"dryRun": True, "to": receiver, "steps": planned})
    text = "\n".join((*planned, f"To {receiver}. Nothing was sent."))
    return plain(text if planned else "The wallet holds nothing.", lines=True)


def _ended(call: ServiceCall, swept: Sweep) -> RenderableType:
    from solward_cli.render import plain, show, together

    signatures = [made.signature for made in swept.sent]
    left = [asdict(each) for each in swept.left]
    call.json_is({"to": swept.to, "signatures": signatures, "left": left})
    count = len(signatures)
    made = "1 transaction" if count == 1 else f"{count} transactions"
    done = plain(f"{made}, to {swept.to}." if count else "Nothing was moved.")
    if not swept.left:
        return done if count else plain("The wallet holds nothing.")
    shown = together(done, plain("Not moved:", "bold"), *map(_left, swept.left))
    if call.as_json:
        click.echo(call.json_text())
    else:
        show(shown)
    sys.exit(EXIT_FAILED)


def _left(left: Left) -> RenderableType:
    from rich.padding import Padding

    from solward_cli.render import plain, together

    why = Padding(plain(f"{left.why}\n{left.advice}", lines=True), (0, 0, 0, 4))
    return together(plain(f"- {left.what}"), why)
