"""Declared fields as arguments and options of commands, and what is sent of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from solward.resources.declare import Part, fields_of
from solward.resources.fields import (
    AgentId,
    Amount,
    Choice,
    Choices,
    Field,
    Flag,
    GrantList,
    Json,
    Moment,
    Parameters,
    Past,
    Recipient,
    Setting,
    Texts,
    Time,
    Usd,
    WalletId,
    Whole,
)
from solward_cli.completed_names import agent_names, wallet_names
from solward_cli.options import expiry, past
from solward_cli.service_call import exact

if TYPE_CHECKING:
    from solward.resources.declare import Request
    from solward_cli.service_call import ServiceCall

Decorator: TypeAlias = Callable[[Any], Any]


def request_options(kind: type[Request], *, without: Collection[str] = ()) -> Decorator:
    """Arguments and options for the fields of a request, but for those `without`."""
    return options(each for each in fields_of(kind) if each.name not in without)


def options(fields: Iterable[Field]) -> Decorator:
    """An argument for each field that is required, an option for each other one."""
    shown = [part for each in fields for part in _parts(each) if "cli" not in part.left_out]

    def decorated(command: Any) -> Any:
        for field in reversed(shown):
            command = _parameter(field)(command)
        return command

    return decorated


def _parts(field: Field) -> tuple[Field, ...]:
    """An object's fields are options of their own."""
    if isinstance(field, Part) and "cli" not in field.left_out:
        return fields_of(field.kind)
    return (field,)


def argument(field: Field) -> str:
    """Its name as an argument."""
    return field.cli if field.cli.isupper() else field.name.upper()


def option_name(field: Field) -> str:
    """Its name as an option, such as `--max-runs`."""
    return field.cli or f"--{field.name.replace('_', '-')}"


def _parameter(field: Field) -> Decorator:
    kind, complete = _kind(field), None
    if isinstance(field, Recipient | WalletId):
        complete = wallet_names
    if isinstance(field, AgentId):
        complete = agent_names
    is_option = field.cli.startswith("--")
    if not is_option and (field.is_required or field.cli):
        name = argument(field) if field.is_required else f"[{argument(field)}]"
        return click.argument(
            field.name, type=kind, required=field.is_required, metavar=name, shell_complete=complete
        )
    option = option_name(field)
    text = f"{field.text}{_default(field)}"
    match field:
        case Flag():
            return click.option(option, field.name, is_flag=True, help=text)
        case GrantList():
            more: dict[str, Any] = {"multiple": True, "metavar": "SENTENCE"}
            text = field.said
        case Parameters():
            more = {"multiple": True, "metavar": "NAME=VALUE"}
            text = "A parameter of the skill, or all of them as a JSON object; several."
        case Moment():
            more = {"metavar": "TIME"}
            text = f"{field.text} Or a span from now, such as 90d."
        case Past():
            more = {"metavar": "TIME"}
            text = f"{field.text} ISO 8601 (UTC), or a span before now, such as 7d."
        case Choices():
            more = {"multiple": True}
            text = f"{field.text} May be given more than once."
        case Time():
            more = {"metavar": "TIME"}
            text = "When it ends: ISO 8601, or 90d."
        case Texts():
            more = {"multiple": True}
            text = f"{field.text} May be given more than once."
        case Json():
            more = {"multiple": True, "metavar": "NAME=VALUE"}
            text = f"{field.text} May be given more than once."
        case _:
            more = {"required": field.is_required, "shell_complete": complete}
    return click.option(option, field.name, type=kind, help=text, **more)


def _default(field: Field) -> str:
    if isinstance(field.default, Setting):
        return f"  [default: {field.default.name}]"
    if field.is_required or field.default in (None, False, ()):
        return ""
    return f"  [default: {field.default}]"


def _kind(field: Field) -> Any:
    match field:
        case Whole():
            return click.IntRange(field.least, field.most)
        case Amount() | Usd():
            return exact
        case Choice():
            return click.Choice(field.options)
        case Past():
            return past
        case Time() | Moment():
            return expiry
        case _:
            return str


async def sent(call: ServiceCall, kind: type[Request], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the client's call for a command's options: wallets by their ids; what was
    left out is left to the service."""
    found: dict[str, Any] = {}
    for each in fields_of(kind):
        value = values.get(each.name)
        if isinstance(each, Part):
            given = {part.json: values[part.name] for part in fields_of(each.kind)}
            value = {name: of for name, of in given.items() if of is not None}
        # Not by `in`: 0 equals False, and a limit of 0 is one.
        if value is None or value is False or value == () or value == {}:
            continue
        match each:
            case WalletId():
                value = (await call.wallet(value)).id
            case AgentId():
                value = (await call.agent(value)).id
        found[each.name] = value
    return found
