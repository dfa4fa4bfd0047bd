"""`solward wallet transfer|swap|stake ...`: a command for each declared operation.

Required fields are arguments, the others options; the running service has the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from solward.operations.declared import OPERATIONS, Operation
from solward.resources.fields import Recipient
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import known_decimals, token_list
from solward.types.money import SOL_DECIMALS, from_units
from solward_cli.declared import argument, options
from solward_cli.named import argument as named_argument
from solward_cli.options import yes_option
from solward_cli.render import Output, amount, together, visible
from solward_cli.service_call import (
    EXIT_FAILED,
    EXIT_HELD,
    ServiceCall,
    confirmed,
    service_call,
    waiting,
)
from solward_cli.tx import render_record, render_trial

if TYPE_CHECKING:
    from solward.client import Trial, Wallet
    from solward.types.address_book import NamedAddress


_dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    help="Show what it would do; send nothing. Exits with 1 where it is refused, 3 where held.",
)
_key_option = click.option(
    "--idempotency-key", "key", help="Pay once under this key, however often it is sent."
)


def money_command(declared: Operation) -> click.Command:
    """The command of an operation: WALLET, its fields, `--dry-run`, `--idempotency-key`."""

    async def command(
        call: ServiceCall, wallet: Wallet, key: str | None, dry_run: bool, **values: Any
    ) -> Output:
        paid = None
        agreed = values.pop("yes", False) or dry_run
        for field in declared.fields:
            if isinstance(field, Recipient):
                paid = values[field.name]
                values[field.name] = paid.address
        if declared.question:
            for field in declared.fields:
                # What was confirmed is sent, not left to the service's default.
                if values[field.name] is None:
                    values[field.name] = field.default
            confirmed(visible(declared.question.format(wallet=wallet.name, **values)), agreed)
        wallets = call.client.wallets
        method = getattr(wallets.dry_run if dry_run else wallets, declared.name)
        with waiting(declared.progress):
            if declared.repeats and not dry_run:
                from solward.client.wallets import until_done

                every = await until_done(method, wallet.id, idempotency_key=key, **values)
                call.set_json({"transactions": [each.raw for each in every]})
                return together(*map(render_record, every))
            made = await method(wallet.id, idempotency_key=key, **values)
        return await _render_trial(call, made, wallet.id, paid) if dry_run else render_record(made)

    # Its sentence with fields as the usage line writes them.
    shown = {field.name: argument(field) for field in declared.fields}
    does = re.sub(r"`(\w+)`", lambda found: shown.get(found[1], found[1]), declared.does)
    if any(isinstance(field, Recipient) for field in declared.fields):
        does += " TO may name a contact or a wallet of the service."
    command.__doc__ = does
    decorated: Any = service_call(command)
    for option in (_dry_run_option, _key_option):
        decorated = option(decorated)
    if declared.question:
        decorated = yes_option(decorated)
    decorated = options(declared.fields)(decorated)
    return click.command(declared.path)(named_argument("wallet")(decorated))


async def _render_trial(
    call: ServiceCall, trial: Trial, wallet_id: str, paid: NamedAddress | None
) -> Output:
    call.set_json(trial.raw)
    if not trial.allowed:
        call.exit_code = EXIT_HELD if trial.held else EXIT_FAILED
    units = await _units(call, wallet_id)
    to = None
    if paid is not None:
        to = paid.address if paid.name == paid.address else f"{paid.name} ({paid.address})"
    return render_trial(trial, to, units)


async def _units(call: ServiceCall, wallet_id: str) -> Callable[[str, int], str]:
    """What writes an amount of a mint's smallest unit, in whole tokens where its decimals are
    known: by the network's list, or by the wallet that holds some."""
    tokens = token_list((await call.client.health()).network)
    balance = await call.client.wallets.balance(wallet_id, empty=True)
    held = {each.mint: each.decimals for each in balance.tokens}

    def written(mint: str, count: int) -> str:
        if mint == WRAPPED_SOL_MINT:
            return f"{amount(from_units(count, SOL_DECIMALS))} SOL"
        listed = known_decimals(mint)
        decimals = held.get(mint) if listed is None else listed
        symbol = tokens.symbol_of(mint)
        token = visible(mint if symbol is None else f"{symbol} ({mint})")
        if decimals is None:
            return f"{count} smallest units of {token}"
        return f"{amount(from_units(count, decimals))} of {token}"

    return written


COMMANDS = tuple(money_command(declared) for declared in OPERATIONS.values())
