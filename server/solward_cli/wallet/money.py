"""`solward wallet transfer|swap|stake ...`: a command for each declared operation.

Required fields are arguments, the others options; the running service has the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from solward.operations.declared import OPERATIONS, Field, Operation
from solward.operations.declared.fields import Amount, Choice, Recipient, Whole
from solward_cli.completed_names import wallet_names
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

    from solward.client import Transaction, Trial

_Decorator: TypeAlias = Callable[[Any], Any]


def money_command(declared: Operation) -> click.Command:
    """The command of an operation: WALLET, its fields, `--dry-run`, `--idempotency-key`."""

    async def command(
        call: ServiceCall, wallet: str, key: str | None, dry_run: bool, **values: Any
    ) -> RenderableType:
        found = await call.wallet(wallet)
        agreed = values.pop("yes", False) or dry_run
        for field in declared.fields:
            if isinstance(field, Recipient):
                values[field.name] = await call.address(values[field.name])
        if declared.question:
            # What was confirmed is sent, not left to the service's default.
            values = _with_defaults(declared, values)
            from solward_cli.render import visible

            confirmed(visible(declared.question.format(wallet=found.name, **values)), agreed)
        wallets = call.client.wallets
        method = getattr(wallets.dry_run if dry_run else wallets, declared.name)
        with waiting(declared.progress):
            return _render(await method(found.id, idempotency_key=key, **values))

    command.__doc__ = _help(declared)
    made: Any = service_call(command)
    made = click.option("--dry-run", is_flag=True, help="Show what it would do; send nothing.")(
        made
    )
    made = click.option(
        "--idempotency-key", "key", help="Pay once under this key, however often it is sent."
    )(made)
    if declared.question:
        made = yes_option(made)
    for field in reversed(declared.fields):
        made = _parameter(field)(made)
    return click.command(declared.path)(wallet_argument(made))


def _parameter(field: Field) -> _Decorator:
    kind = _kind(field)
    if field.is_required or field.cli.isupper():
        name = _argument(field) if field.is_required else f"[{_argument(field)}]"
        complete = wallet_names if field.name == "to" else None
        return click.argument(
            field.name,
            type=kind,
            required=field.is_required,
            metavar=name,
            shell_complete=complete,
        )
    default = "" if field.default is None else f"  [default: {field.default}]"
    option = field.cli or f"--{field.name.replace('_', '-')}"
    return click.option(option, field.name, type=kind, help=f"{field.text}{default}")


def _argument(field: Field) -> str:
    return field.cli if field.cli.isupper() else field.name.upper()


def _kind(field: Field) -> Any:
    match field:
        case Whole():
            return click.IntRange(field.least, field.most)
        case Amount():
            return exact
        case Choice():
            return click.Choice(field.options)
        case _:
            return str


def _help(declared: Operation) -> str:
    """Its sentence with fields as the usage line writes them."""
    shown = {field.name: _argument(field) for field in declared.fields}
    text = re.sub(r"`(\w+)`", lambda found: shown.get(found[1], found[1]), declared.does)
    named = any(isinstance(field, Recipient) for field in declared.fields)
    return f"{text} TO may name a wallet of the service." if named else text


def _with_defaults(declared: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field.name: field.default if values[field.name] is None else values[field.name]
        for field in declared.fields
    }


def _render(made: Transaction | Trial) -> RenderableType:
    from solward.client import Transaction
    from solward_cli.tx.render import render_record, render_trial

    return render_record(made) if isinstance(made, Transaction) else render_trial(made)


COMMANDS = tuple(money_command(declared) for declared in OPERATIONS.values())
