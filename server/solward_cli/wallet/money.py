"""`solward wallet transfer|swap|stake ...`: what moves a wallet's money, by the running service."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from solward_cli.service_call import (
    ServiceCall,
    confirmed,
    exact,
    service_call,
    waiting,
    wallet_argument,
    yes_option,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Operations, Transaction, Trial

    Made: TypeAlias = Transaction | Trial


@dataclass(frozen=True, slots=True)
class Pay:
    """How one transaction is made: `way` for real, or as a dry run; under `key`, once."""

    call: ServiceCall
    way: Operations[Transaction] | Operations[Trial]
    key: str | None
    dry_run: bool


Money: TypeAlias = "Callable[..., Coroutine[Any, Any, Made]]"


def money_command(name: str) -> Callable[[Money], click.Command]:
    """A command of a coroutine `(pay, wallet_id, **parameters)` that makes a transaction.

    Adds the argument WALLET, `--dry-run` and `--idempotency-key`.
    """

    def made(function: Money) -> click.Command:
        @click.option(
            "--idempotency-key", "key", help="Pay once under this key, however often it is asked."
        )
        @click.option("--dry-run", is_flag=True, help="Show what would become of it; send nothing.")
        @service_call
        @functools.wraps(function)
        async def command(
            call: ServiceCall, wallet: str, key: str | None, dry_run: bool, **parameters: Any
        ) -> RenderableType:
            found = await call.wallet(wallet)
            wallets = call.client.wallets
            pay = Pay(call, wallets.dry_run if dry_run else wallets, key, dry_run)
            return _shown(await function(pay, found.id, **parameters))

        return click.command(name)(wallet_argument(command))

    return made


@money_command("transfer")
@click.argument("to")
@click.argument("amount", type=exact)
async def transfer(pay: Pay, wallet: str, to: str, amount: Decimal) -> Made:
    """Send AMOUNT SOL to TO: an address, or a wallet of the service."""
    address = await pay.call.address(to)
    with waiting("Sending"):
        return await pay.way.transfer(wallet, to=address, amount=amount, idempotency_key=pay.key)


@money_command("token-transfer")
@click.argument("mint")
@click.argument("to")
@click.argument("amount", type=exact)
async def token_transfer(pay: Pay, wallet: str, mint: str, to: str, amount: Decimal) -> Made:
    """Send AMOUNT tokens of MINT, an address or a symbol, to TO."""
    address = await pay.call.address(to)
    with waiting("Sending"):
        return await pay.way.token_transfer(
            wallet, mint=mint, to=address, amount=amount, idempotency_key=pay.key
        )


@money_command("airdrop")
@click.argument("amount", type=exact, required=False)
async def airdrop(pay: Pay, wallet: str, amount: Decimal | None) -> Made:
    """Ask the faucet for AMOUNT SOL, at most 2 and by default 1. Not on mainnet."""
    with waiting("Asking the faucet"):
        return await pay.way.airdrop(wallet, amount=amount, idempotency_key=pay.key)


@money_command("swap")
@click.argument("input_token", metavar="FROM")
@click.argument("output_token", metavar="INTO")
@click.argument("amount", type=exact)
@click.option("--slippage-bps", type=click.IntRange(0, 10_000), help="50, 0.5%, by default.")
async def swap(
    pay: Pay,
    wallet: str,
    input_token: str,
    output_token: str,
    amount: Decimal,
    slippage_bps: int | None,
) -> Made:
    """Sell AMOUNT of the token FROM for the token INTO; each a mint or a symbol."""
    with waiting("Swapping"):
        return await pay.way.swap(
            wallet,
            input_token=input_token,
            output_token=output_token,
            amount=amount,
            slippage_bps=slippage_bps,
            idempotency_key=pay.key,
        )


@money_command("launch-token")
@click.argument("name")
@click.argument("symbol")
@click.option("--decimals", type=click.IntRange(0, 9), help="9 by default.")
@click.option("--supply", type=exact, help="1000000 whole tokens by default.")
async def launch_token(
    pay: Pay, wallet: str, name: str, symbol: str, decimals: int | None, supply: Decimal | None
) -> Made:
    """Make a token with a NAME and a SYMBOL; the wallet gets its supply."""
    with waiting("Launching"):
        return await pay.way.launch_token(
            wallet,
            name=name,
            symbol=symbol,
            decimals=decimals,
            initial_supply=supply,
            idempotency_key=pay.key,
        )


@money_command("mint-supply")
@click.argument("mint")
@click.argument("amount", type=exact)
async def mint_supply(pay: Pay, wallet: str, mint: str, amount: Decimal) -> Made:
    """Mint AMOUNT more tokens of MINT."""
    with waiting("Minting"):
        return await pay.way.mint_supply(wallet, mint=mint, amount=amount, idempotency_key=pay.key)


@money_command("revoke-authority")
@click.argument("mint")
@click.option(
    "--type", "kind", type=click.Choice(["mint", "freeze"]), default="mint", show_default=True
)
@yes_option
async def revoke_authority(pay: Pay, wallet: str, mint: str, kind: str, yes: bool) -> Made:
    """Give up an authority over MINT, for ever."""
    confirmed(f"Give up the {kind} authority for ever?", yes or pay.dry_run)
    with waiting("Revoking"):
        return await pay.way.revoke_authority(
            wallet, mint=mint, authority_type=kind, idempotency_key=pay.key
        )


@money_command("burn")
@click.argument("mint")
@click.argument("amount", type=exact)
@yes_option
async def burn(pay: Pay, wallet: str, mint: str, amount: Decimal, yes: bool) -> Made:
    """Burn AMOUNT tokens of MINT."""
    confirmed(f"Burn {amount:f} tokens?", yes or pay.dry_run)
    with waiting("Burning"):
        return await pay.way.burn(wallet, mint=mint, amount=amount, idempotency_key=pay.key)


@money_command("close-account")
@click.argument("mint")
async def close_account(pay: Pay, wallet: str, mint: str) -> Made:
    """Close the empty account of MINT; its rent comes back."""
    with waiting("Closing"):
        return await pay.way.close_account(wallet, mint=mint, idempotency_key=pay.key)


@money_command("stake")
@click.argument("amount", type=exact)
@click.option("--validator", help="A vote account.  [default: the network's largest]")
async def stake(pay: Pay, wallet: str, amount: Decimal, validator: str | None) -> Made:
    """Stake AMOUNT SOL, the account's rent included."""
    with waiting("Staking"):
        return await pay.way.stake(
            wallet, amount=amount, validator=validator, idempotency_key=pay.key
        )


@money_command("unstake")
@click.argument("stake_account")
async def unstake(pay: Pay, wallet: str, stake_account: str) -> Made:
    """Deactivate a stake; it cools down until the epoch's end."""
    with waiting("Unstaking"):
        return await pay.way.unstake(wallet, stake_account=stake_account, idempotency_key=pay.key)


@money_command("withdraw-stake")
@click.argument("stake_account")
async def withdraw_stake(pay: Pay, wallet: str, stake_account: str) -> Made:
    """Take back all of an inactive stake."""
    with waiting("Withdrawing"):
        return await pay.way.withdraw_stake(
            wallet, stake_account=stake_account, idempotency_key=pay.key
        )


@money_command("wrap-sol")
@click.argument("amount", type=exact)
async def wrap_sol(pay: Pay, wallet: str, amount: Decimal) -> Made:
    """Turn AMOUNT SOL into wrapped SOL."""
    with waiting("Wrapping"):
        return await pay.way.wrap_sol(wallet, amount=amount, idempotency_key=pay.key)


@money_command("unwrap-sol")
async def unwrap_sol(pay: Pay, wallet: str) -> Made:
    """Turn all wrapped SOL back into SOL."""
    with waiting("Unwrapping"):
        return await pay.way.unwrap_sol(wallet, idempotency_key=pay.key)


def _shown(made: Made) -> RenderableType:
    from solward.client import Transaction
    from solward_cli.tx.render import render_record, render_trial

    return render_record(made) if isinstance(made, Transaction) else render_trial(made)


COMMANDS = (
    transfer,
    token_transfer,
    airdrop,
    swap,
    launch_token,
    mint_supply,
    revoke_authority,
    burn,
    close_account,
    stake,
    unstake,
    withdraw_stake,
    wrap_sol,
    unwrap_sol,
)
