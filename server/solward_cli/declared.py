"""Commands made from declared calls: their arguments and options are the fields of the request, and
they print its answer.

    lists(hold, LIST_HOLDS, "List what waits for a person, newest first.", "id", "state", empty="-")
    asks(hold, GET_HOLD, "Show all of HOLD.", _render)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from solward.resources.declare import Part, declared_fields, fields_of
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
    Principal,
    Recipient,
    Setting,
    Texts,
    Time,
    Usd,
    WalletId,
    Whole,
)
from solward_cli.entrypoint import combine_parameters, parse_expiry, parse_past, yes_option
from solward_cli.named import AGENT_ID, BY_NAME, PRINCIPAL, RECIPIENT, WALLET_ID
from solward_cli.render import Cell, Output, answer_table, plain, visible
from solward_cli.service_call import ServiceCall, amount, confirmed, service_call, waiting

if TYPE_CHECKING:
    from solward.resources.declare import Call, Request

Decorator: TypeAlias = Callable[[Any], Any]


def asks(
    group: click.Group | None,
    asked: Call[Any],
    does: str,
    shown: str | Callable[..., Any],
    *,
    name: str = "",
    question: str | Callable[..., str] = "",
    progress: str = "",
    without: Collection[str] = (),
    **given: Any,
) -> click.Command:
    """Add the command of a declared call to the group, and return it.

    Its arguments are the records that the call's path names (`solward_cli.named`), and texts for
    the path's other parts.

    Args:
        does: the command's help.
        shown: the text to print, which may name the answer and the records, as `{agent.name}:
            {answer.status}`; or a function of the answer; or a coroutine function of the command's
            call and the answer.
        name: if it is not that of the client's method.
        question: asked before what cannot be undone; it may name the records. A function makes it
            from the options; if it is empty, nothing is asked.
        progress: shown on a terminal while the service works.
        without: fields of the request that are no options.
        given: fields of the request that the user does not choose.
    """
    parts = [each.removesuffix("_id") for each in asked.parts]
    request = asked.request

    async def command(call: ServiceCall, **values: Any) -> Output:
        call.given = {**values}
        named = {each: values.pop(each) for each in parts}
        if question:
            agreed = values.pop("yes")
            text = question if isinstance(question, str) else question(**values)
            confirmed(visible(text.format(**named)), agreed or not text)
        fields = given if request is None else given | call_args(request, values)
        # A contact's id is its address.
        ids = (getattr(each, "id", getattr(each, "address", each)) for each in named.values())
        with waiting(progress):
            answer = await call.ask(asked, *ids, **fields)
        if isinstance(shown, str):
            return plain(shown.format(answer=answer, **named))
        if inspect.iscoroutinefunction(shown):
            return await shown(call, answer)  # type: ignore[no-any-return]
        return shown(answer)  # type: ignore[no-any-return]

    command.__doc__ = does
    decorated: Any = service_call(command)
    if question:
        decorated = yes_option(decorated)
    if request is not None:
        decorated = request_options(request, without={*without, *given})(decorated)
    for each in reversed(parts):
        decorated = click.argument(each, type=BY_NAME.get(each, str))(decorated)
    made = click.command(name or asked.client_name)(decorated)
    if group is not None:
        group.add_command(made)
    return made


def lists(
    group: click.Group,
    asked: Call[Any],
    does: str,
    *cells: Cell,
    empty: str,
    name: str = "",
    **given: Any,
) -> None:
    """Add the command of a declared call, which prints its answers as a table of the cells."""

    def table(found: Any) -> Output:
        return answer_table(found, *cells, empty=empty)

    asks(group, asked, does, table, name=name, **given)


def request_options(kind: type[Request], *, without: Collection[str] = ()) -> Decorator:
    """Return a decorator that adds a request's fields, except those in `without`, to a command."""
    return options(each for each in fields_of(kind) if each.name not in without)


def options(fields: Iterable[Field]) -> Decorator:
    """Return a decorator that adds required fields as arguments, and the others as options."""
    shown: list[Field] = []
    for each in fields:
        if isinstance(each, Part) and "cli" not in each.left_out:
            # An object's fields are options of their own.
            shown += fields_of(each.kind)
        else:
            shown.append(each)
    return combine_parameters(*(_parameter(each) for each in shown if "cli" not in each.left_out))


def argument(field: Field) -> str:
    """Return the field's name as an argument."""
    return field.cli if field.cli.isupper() else field.name.upper()


def option_name(field: Field) -> str:
    """Return the field's name as an option, such as `--max-runs`."""
    return field.cli or f"--{field.name.replace('_', '-')}"


def _parameter(field: Field) -> Decorator:
    kind = _click_type(field)
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
            text = "A parameter, or a JSON object of parameters; may be given more than once."
        case Moment():
            more = {"metavar": "TIME"}
            text = f"{field.text} Or a span from now, such as 90d."
        case Past():
            more = {"metavar": "TIME"}
            text = f"{field.text} ISO 8601 (UTC), or a span before now, such as 7d."
        case Time():
            more = {"metavar": "TIME"}
            text = "When the credential expires: an ISO 8601 time, or a span such as 90d."
        case Choices() | Texts():
            more = {"multiple": True}
            text = f"{field.text} May be given more than once."
        case Json():
            more = {"multiple": True, "metavar": "NAME=VALUE"}
            text = f"{field.text} May be given more than once."
        case _:
            more = {"required": field.is_required}
    return click.option(option, field.name, type=kind, help=text, **more)


def _click_type(field: Field) -> Any:
    match field:
        case Whole():
            return click.IntRange(field.least, field.most)
        case Amount() | Usd():
            return amount
        case Choice():
            return click.Choice(field.options)
        case Past():
            return parse_past
        case Time() | Moment():
            return parse_expiry
        case AgentId():
            return AGENT_ID
        case WalletId():
            return WALLET_ID
        case Principal():
            return PRINCIPAL
        case Recipient():
            return RECIPIENT
        case _:
            return str


def default_of(kind: type[Request], name: str) -> Any:
    """Return the default of a request's field."""
    return declared_fields(kind)[name].default


def call_args(kind: type[Request], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the client's call that the command line gave."""
    found: dict[str, Any] = {}
    for each in fields_of(kind):
        value = values.get(each.name)
        if isinstance(each, Part) and "cli" not in each.left_out:
            given = {part.json: values[part.name] for part in fields_of(each.kind)}
            value = {name: of for name, of in given.items() if of is not None}
        # `in` would also drop a limit of 0, because 0 equals False.
        if value is None or value is False or value == () or value == {}:
            continue
        found[each.name] = value
    return found
