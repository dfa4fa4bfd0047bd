"""Writes the typed methods of operations and of requests, and tables of docs: `make operations`.

Static checkers read signatures, so the methods of `SkillContext` and of the client are written out.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import click
from quart import Quart
from tests.docs import context_page, events_page, metrics_page, plugins_page

import solward
from solward import resources
from solward.operations.declared import OPERATIONS, SWAP, Operation
from solward.operations.policies.grant_words import EXAMPLES
from solward.resources import (
    agents,
    credentials,
    events,
    holds,
    payments,
    plugins,
    policy,
    schedules,
    service,
    totals,
    transactions,
    wallets,
)
from solward.resources.declare import Call, Request, fields_of
from solward.resources.fields import REQUIRED, Amount, Field, Required, Setting, Whole
from solward.support import jsontext
from solward.support.child_processes import child_environment
from solward_cli import main as main_command
from solward_server.http.auth import rule_of
from solward_server.http.route_context import RouteContext
from solward_server.resources import BLUEPRINTS

_PACKAGE = Path(solward.__file__).parent
_DOCS = _PACKAGE.parents[1] / "docs"
_HEADER = "# Written by `make operations` from the declarations; change it there.\n"
_WIDTH = 100

_CONTEXT = '''\
from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from solward.types.record import TransactionRecord

if TYPE_CHECKING:
    from solward.types.entries import Remember
    from solward.types.venue import Quote


class OperationMethods:
    """The operations of a wallet. Amounts are whole units, of SOL or of the token; a float is
    refused. A token is a mint address, or a symbol known on the network. `remember` takes a `Put`,
    or up to 16: entries of the store that are written with the pending record, or not at all."""

    __slots__ = ()

    async def _perform(
        self, operation: str, params: Mapping[str, Any], remember: Remember = ()
    ) -> TransactionRecord:
        raise NotImplementedError

    async def _quote(self, params: Mapping[str, Any]) -> Quote:
        raise NotImplementedError
'''

_CLIENT = '''\
from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from solward.client.arguments import Amount, exact_number, json_fields, optional_number

T = TypeVar("T")

Pay: TypeAlias = Callable[[str, str, Mapping[str, Any], str | None], Awaitable[T]]


class Operations(Generic[T]):
    """Calls that move money. They return a `Transaction`, or a `Trial` in a dry run.

    Amounts are whole units, SOL or tokens, as `Decimal`, `int` or `str`; a float is a
    `TypeError`. Tokens are mint addresses, or symbols known on the network. Every call makes an
    Idempotency-Key unless it is given one, and repeats it where a lost connection makes it send
    again, so that it pays once.

    Raises:
        Refused: a guardrail blocked it, or it failed; the message says why.
        BadRequest: a field is wrong; the message names it.
        Unreachable: no answer came; where money may have moved, the error has the key.
        ClientError: anything else that the service refuses.
    """

    def __init__(self, pay: Pay[T]) -> None:
        self._pay = pay
'''


def context() -> str:
    """`solward/context/operations.py`."""
    methods = [
        _method(
            f"{each.name}({_signature('self', _remembering(each))}) -> TransactionRecord",
            each.does,
            f"return await self._perform({each.name!r}, {_params(each)}, remember)",
        )
        for each in OPERATIONS.values()
    ]
    quote = _method(
        f"quote({_signature('self', [_in_context(field) for field in SWAP.fields])}) -> Quote",
        "Return the venue's offer for `amount` whole units of `input_token`. It sends nothing.",
        f"return await self._quote({_params(SWAP)})",
    )
    return _formatted("Money operations of a skill on its wallet.", _CONTEXT, [*methods, quote])


def client() -> str:
    """`solward/client/operations.py`."""
    methods = []
    for each in OPERATIONS.values():
        fields = [*map(_in_client, each.fields), "idempotency_key: str | None = None"]
        sent = ", ".join(f"{field.name}={_sent(field)}" for field in each.fields)
        methods.append(
            _method(
                f"{each.name}({_signature('self, wallet_id: str', fields)}) -> T",
                _documented(each),
                f"body = json_fields({sent})",
                f"return await self._pay(wallet_id, {each.path!r}, body, idempotency_key)",
            )
        )
    title = "Money operations of a wallet: one method for each money route."
    return _formatted(title, _CLIENT, methods)


_REQUESTS = """\
# The bodies are of `asks`.
# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from solward.client.arguments import Amount
from solward.client.http import RequestMaker, asks
from solward.resources import {modules}
from solward.resources.declare import Raw

Grants: TypeAlias = Sequence[Raw | str]
"""


def _calls(module: ModuleType, *paths: str) -> tuple[Call[Any], ...]:
    """The calls that a module declares, those below the paths where some are given."""
    found = (each for each in vars(module).values() if isinstance(each, Call))
    return tuple(each for each in found if not paths or each.path.startswith(paths))


# The client's class with the methods -> what it calls.
CALLS: Mapping[str, tuple[Call[Any], ...]] = {
    "Keys": _calls(credentials, "/keys"),
    "Admins": _calls(credentials, "/admins"),
    "Holds": _calls(holds),
    "Payments": _calls(payments),
    "PolicyRequests": _calls(policy, "/policy"),
    "AgentRequests": _calls(agents),
    "Contacts": _calls(policy, "/contacts"),
    "PluginStateRequests": _calls(plugins, "/plugins/", "/wallets/"),
    "TransactionRequests": _calls(transactions),
    "Schedules": _calls(schedules),
    "ServiceRequests": (
        *_calls(service),
        *_calls(totals),
        plugins.LIST_SKILLS,
        plugins.LIST_PLUGINS,
        events.LIST_AUDIT,
    ),
    "WalletRequests": _calls(wallets),
}


def requests() -> str:
    """`solward/client/requests.py`."""
    made = []
    for name, calls in CALLS.items():
        made.append(f'\nclass {name}(RequestMaker):\n    """The declared requests."""\n')
        made += [_request(each) for each in calls if each.client_name]
    named = sorted(
        {module.partition(".")[0] for module in re.findall(r"\b(\w+)\.[A-Z]", "".join(made))}
    )
    head = _REQUESTS.replace("{modules}", ", ".join(named))
    return _formatted("Requests of the client: one method for each declared call.", head, made)


def _request(call: Call[Any]) -> str:
    fields = () if call.request is None else fields_of(call.request)
    placed = [f"{each}: str" for each in call.parts]
    asked = list(map(_asked, fields))
    said = [f"    {each.name}: {_about(each)}" for each in fields]
    if call.takes_key:
        asked.append("idempotency_key: str | None = None")
        said.append("    idempotency_key: with the same one it happens once; None makes a new one.")
    signature = _signature(", ".join(["self", *placed]), asked)
    if call.takes_json:
        signature, said = ", ".join(["self", *placed, "fields: Mapping[str, Any]"]), []
    kind = "Raw" if call.answer is None or call.is_raw else _qualified(call.answer)
    method = _method(
        f"{call.client_name}({signature}) -> {f'tuple[{kind}, ...]' if call.listed else kind}",
        call.does,
        arguments=said,
    )
    return f"    @asks({_constant(call)})\n{method}"


def _declared() -> Iterator[tuple[str, Call[Any]]]:
    """Each declared call, with its name as the client's module has it."""
    for each in pkgutil.iter_modules(resources.__path__, f"{resources.__name__}."):
        module = importlib.import_module(each.name)
        for name, found in vars(module).items():
            if isinstance(found, Call):
                yield f"{module.__name__.rpartition('.')[2]}.{name}", found


def _constant(call: Call[Any]) -> str:
    """The declaration of a call, as the client names it."""
    return next(name for name, found in _declared() if found is call)


def _qualified(kind: type) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


def _asked(field: Field) -> str:
    # The service knows its default.
    return f"{field.name}: {field.argument}" + ("" if field.is_required else " | None = None")


def _about(field: Field) -> str:
    words, default = field.text, field.default
    text = words if words[1].isupper() else words[0].lower() + words[1:]
    if isinstance(default, Setting):
        default = f"the service's `{default.name}`"
    if default in (REQUIRED, None, False, ()):
        return text
    shown = ", ".join(default) if isinstance(default, tuple) else default
    return f"{text.rstrip('.')}; {shown} where it is None."


def page(path: Path) -> str:
    """A page of the docs, with the generated tables between their marks."""

    def written(found: re.Match[str]) -> str:
        kind, *words = found[2].split()
        return f"{found[1]}\n" + "".join(f"{each}\n" for each in TABLES[kind](text, *words))

    text = path.read_text()
    marks = rf"(<!-- (?:generated: )?((?:{'|'.join(TABLES)})\b.*?) -->)\n.*?(?=<!-- end -->)"
    return re.sub(marks, written, text, flags=re.DOTALL)


def _fields(_page: str, _of: str, name: str) -> Iterator[str]:
    asked = filter(None, (each.request for calls in CALLS.values() for each in calls))
    yield from _table({each.__name__: each for each in asked}[name])


def _operations(_page: str, *paths: str) -> Iterator[str]:
    """The fields of money routes."""
    yield "| path | field | takes | default | what it is |"
    yield "|---|---|---|---|---|"
    for of in OPERATIONS.values():
        for each in of.fields if of.path in paths else ():
            default = _shown_default(each)
            yield f"| `{of.path}` | `{each.json}` | {each.takes} | {default} | {each.text} |"


def _routes(page: str) -> Iterator[str]:
    """Each route with its credential, its role and its section: the page's last that calls it."""
    does = {each.id: each.does for _, each in _declared()}
    does |= {each.name: each.title for each in OPERATIONS.values()}
    app = Quart(__name__)
    for each in BLUEPRINTS:
        app.register_blueprint(each(cast(RouteContext, None)))
    rows = {"GET /openapi.json": ("public", "-", "Describe the API as OpenAPI 3.1")}
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:\w+_(id)|(\w+))>", lambda part: f":{part[1] or part[2]}", rule.rule)
        known = rule_of(app.view_functions[rule.endpoint])
        about = does.get(rule.endpoint.rpartition(".")[2], "").removesuffix(".")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            if about:
                rows[f"{method} {path}"] = (known.access.value, known.role or "-", about)
    yield "| method and path | credential | role | |"
    yield "|---|---|---|---|"
    sections = called(page)
    for route in sorted(rows, key=[*sections, *rows].index):
        access, role, about = rows[route]
        section = sections.get(route, "routes")
        yield f"| `{route}` | {access} | {role} | [{about}](#{section}) |"


def called(page: str) -> dict[str, str]:
    """Each route that a sample of the page calls, as its table writes it, and the section of the
    last such sample."""
    found: dict[str, str] = {}
    section = ""
    parts = re.findall(r"^##+ ([^\n]+)$|^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for heading, language, text in parts:
        section = heading.lower().replace(" ", "-") or section
        for command in [] if language else re.split(r"^curl ", text, flags=re.MULTILINE)[1:]:
            (path,) = re.findall(r"\$B(/[\w/$.-]+)", command)
            path = re.sub(r"/settings/\w+$", "/settings/:name", path)
            path = re.sub(r"/skills/\w+$", "/skills/:name", path)
            path = re.sub(r"\$(PRINCIPAL|SKILL|PLUGIN)", lambda each: f":{each[1].lower()}", path)
            path = re.sub(r"\$[A-Z]+", ":id", path)
            method = re.search(r"-X (\w+)", command)
            route = f"{method[1] if method else 'POST' if ' -d ' in command else 'GET'} {path}"
            found.pop(route, None)
            found[route] = section
    return found


def _commands(_page: str, *names: str) -> Iterator[str]:
    """The commands of these names, or of the groups."""
    yield "| command | |"
    yield "|---|---|"
    for usage, command in commands(main_command):
        if usage.partition(" ")[0] in names:
            about = " ".join((command.help or "").partition("\n\n")[0].split())
            yield f"| `solward {usage}` | {about.removesuffix('.')} |"


def commands(group: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each command with its usage, arguments included."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, f"{path} {name}".lstrip())
    # A group may be a command of its own as well.
    if not group.hidden and getattr(group, "invoke_without_command", True):
        for each in group.params:
            if isinstance(each, click.Argument):
                name = each.human_readable_name.strip("[]")
                path += f" {name}" if each.required else f" [{name}]"
        yield path, group


def _phrases(_page: str) -> Iterator[str]:
    """Ways to write each part of a grant."""
    yield "| part | for example |"
    yield "|---|---|"
    for part, (_, *phrases) in EXAMPLES.items():
        yield f"| {part} | {', '.join(f'`{each}`' for each in phrases)} |"


TABLES: Mapping[str, Callable[..., Iterable[str]]] = {
    "fields": _fields,
    "operations": _operations,
    "routes": _routes,
    "commands": _commands,
    "events": events_page.table,
    "metrics": metrics_page.table,
    "context": context_page.table,
    "phrases": _phrases,
    "tiers": plugins_page.tiers,
    "problems": plugins_page.problems,
}
"""By the first word of a mark, such as `<!-- generated: commands wallet -->`: what makes a table's
lines of the page's text and the other words."""


def _table(kind: type[Request]) -> Iterator[str]:
    yield "| field | takes | default | what it is |"
    yield "|---|---|---|---|"
    for each in fields_of(kind):
        yield f"| `{each.json}` | {each.takes} | {_shown_default(each)} | {each.text} |"


def _shown_default(field: Field) -> str:
    match field.default:
        case Required():
            return "required"
        case None:
            return ""
        case Setting():
            return f"[`{field.default.name}`](settings.md)"
        case _:
            return f"`{jsontext.dumps(field.default)}`"


FILES: Mapping[Path, Callable[[], str]] = {
    _PACKAGE / "context" / "operations.py": context,
    _PACKAGE / "client" / "operations.py": client,
    _PACKAGE / "client" / "requests.py": requests,
    # Last, since they read the commands, which import the client.
    **{
        each: partial(page, each)
        for each in _DOCS.rglob("*.md")
        if "<!-- end -->" in each.read_text()
    },
}


def main() -> None:
    """Write the files."""
    for path, made in FILES.items():
        path.write_text(made())


def _formatted(title: str, head: str, methods: Iterable[str]) -> str:
    text = f'{_HEADER}"""{title}"""\n\n{head}\n' + "\n".join(methods)
    command = [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={_WIDTH}", "-"]
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=True,
        env=child_environment(),
    ).stdout


def _method(signature: str, about: str, *body: str, arguments: Sequence[str] = ()) -> str:
    documented = textwrap.wrap(f'"""{about}"""', _WIDTH - 8)
    if arguments:
        wrapped = (textwrap.wrap(each, _WIDTH - 8, subsequent_indent=8 * " ") for each in arguments)
        said = textwrap.wrap(f'"""{about}', _WIDTH - 8)
        documented = [*said, "", "Args:", *itertools.chain(*wrapped), '"""']
    lines = "".join(f"        {line}\n" for line in (*documented, *body))
    return f"    async def {signature}:\n{lines}"


def _signature(first: str, keywords: list[str]) -> str:
    return ", ".join([first, "*", *keywords] if keywords else [first])


def _remembering(operation: Operation) -> list[str]:
    return [*map(_in_context, operation.fields), "remember: Remember = ()"]


def _in_context(field: Field) -> str:
    return _parameter(field, "Decimal | int", field.default)


def _in_client(field: Field) -> str:
    # The service knows its default.
    return _parameter(field, "Amount", None)


def _parameter(field: Field, amount: str, default: object) -> str:
    kind = "int" if isinstance(field, Whole) else amount if isinstance(field, Amount) else "str"
    if field.is_required:
        return f"{field.name}: {kind}"
    return f"{field.name}: {kind}" + (" | None" if default is None else "") + f" = {default!r}"


def _params(operation: Operation) -> str:
    return "{" + ", ".join(f"{each.json!r}: {each.name}" for each in operation.fields) + "}"


def _sent(field: Field) -> str:
    if not isinstance(field, Amount):
        return field.name
    read = "exact_number" if field.is_required else "optional_number"
    return f"{read}({field.name}, {field.name!r})"


def _documented(operation: Operation) -> str:
    defaults = (
        f"`{each.name}` is {each.default!r} by default."
        for each in operation.fields
        if not each.is_required and each.default is not None and "default" not in operation.does
    )
    return " ".join((operation.does, *defaults))


if __name__ == "__main__":
    main()
