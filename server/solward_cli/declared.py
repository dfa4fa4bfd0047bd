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
from solward_cli.named import AGENT_ID, RECIPIENT, WALLET_ID
from solward_cli.options import expiry, past, several
from solward_cli.service_call import exact

if TYPE_CHECKING:
    from solward.resources.declare import Request

Decorator: TypeAlias = Callable[[Any], Any]


def request_options(kind: type[Request], *, without: Collection[str] = ()) -> Decorator:
    """Arguments and options for the fields of a request, but for those `without`."""
    return options(each for each in fields_of(kind) if each.name not in without)


def options(fields: Iterable[Field]) -> Decorator:
    """An argument for each field that is required, an option for each other one."""
    shown: list[Field] = []
    for each in fields:
        if isinstance(each, Part) and "cli" not in each.left_out:
            # An object's fields are options of their own.
            shown += fields_of(each.kind)
        else:
            shown.append(each)
    return several(*(_parameter(each) for each in shown if "cli" not in each.left_out))


def argument(field: Field) -> str:
    """Its name as an argument."""
    return field.cli if field.cli.isupper() else field.name.upper()


def option_name(field: Field) -> str:
    """Its name as an option, such as `--max-runs`."""
    return field.cli or f"--{field.name.replace('_', '-')}"


def _parameter(field: Field) -> Decorator:
    kind = _kind(field)
    is_option = field.cli.startswith("--")
    if not is_option and (field.is_required or field.cli):
        name = argument(field) if field.is_required else f"[{argument(field)}]"
        return click.argument(field.name, type=kind, required=field.is_required, metavar=name)
    option = option_name(field)
    text = field.text
    if isinstance(field.default, Setting):
        text += f"  [default: {field.default.name}]"
    elif not field.is_required and field.default not in (None, False, ()):
        text += f"  [default: {field.default}]"
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
        case Time():
            more = {"metavar": "TIME"}
            text = "When it ends: ISO 8601, or 90d."
        case Choices() | Texts():
            more = {"multiple": True}
            text = f"{field.text} May be given more than once."
        case Json():
            more = {"multiple": True, "metavar": "NAME=VALUE"}
            text = f"{field.text} May be given more than once."
        case _:
            more = {"required": field.is_required}
    return click.option(option, field.name, type=kind, help=text, **more)


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
        case AgentId():
            return AGENT_ID
        case WalletId():
            return WALLET_ID
        case Recipient():
            return RECIPIENT
        case _:
            return str


def sent(kind: type[Request], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the client's call for a command's options; what was left out is left to the
    service."""
    found: dict[str, Any] = {}
    for each in fields_of(kind):
        value = values.get(each.name)
        if isinstance(each, Part) and "cli" not in each.left_out:
            given = {part.json: values[part.name] for part in fields_of(each.kind)}
            value = {name: of for name, of in given.items() if of is not None}
        # Not by `in`: 0 equals False, and a limit of 0 is one.
        if value is None or value is False or value == () or value == {}:
            continue
        found[each.name] = value
    return found
