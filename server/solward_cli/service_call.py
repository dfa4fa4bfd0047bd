"""Commands that call a running service: options, errors, JSON, waiting."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shlex
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import click

from solward.resources.declare import declared_fields
from solward.support import jsontext
from solward.types.errors import InvalidRequest, SolwardError
from solward_cli.entrypoint import read_settings, refusals
from solward_cli.named import Lookup
from solward_cli.render import Output, moment, plain, show, visible

if TYPE_CHECKING:
    from solward.client import Event, Held, SolwardClient
    from solward.resources.declare import Call
    from solward.settings import Settings
    from solward_cli.recording_transport import RecordingTransport

EXIT_FAILED = 1
EXIT_HELD = 3
EXIT_INTERRUPTED = 130

Command: TypeAlias = "Callable[..., Coroutine[Any, Any, Output | None]]"


@dataclass(slots=True)
class ServiceCall:
    """A command's client of the service, and how the command prints.

    Attributes:
        settings: the command's own, not the service's.
        as_json: whether JSON goes to standard output, and nothing else.
        exit_code: the command's exit code, used once its result is printed.
        given: a declared command's arguments and options.
    """

    client: SolwardClient
    settings: Settings
    as_json: bool
    _transport: RecordingTransport
    exit_code: int = 0
    given: Mapping[str, Any] = field(default_factory=dict)
    _json: Any = None
    _text: str = ""

    async def ask(self, call: Call[Any], *parts: str, **fields: Any) -> Any:
        """Return the answer of a declared call, which `--json` prints; unset fields are left out.

        Args:
            parts: the parts of its path.
        """
        given = {} if call.request is None else dict.fromkeys(declared_fields(call.request))
        answer = await self.client._ask(call, *parts, **given | fields)
        self._text = self._transport.last_text
        return answer

    def set_json(self, raw: Any) -> None:
        """Set what `--json` prints, if it is not the service's last response."""
        self._json = raw

    def note(self, text: str) -> None:
        """Print a remark on standard error, except with `--json`, whose output is complete."""
        if not self.as_json:
            click.echo(text, err=True)

    def json_text(self) -> str:
        """Return what `--json` prints."""
        if self._json is not None:
            return jsontext.dumps(self._json)
        return self._text or self._transport.last_text

    async def print_events(
        self,
        events: AsyncGenerator[Event, None],
        render: Callable[[Event], Output | None],
        count: int | None,
    ) -> None:
        """Print events as they arrive, `count` of them at most; with `--json` as lines of JSON."""
        printed = 0
        async with contextlib.aclosing(events):
            async for event in events:
                rendered = render(event)
                if rendered is None:
                    continue
                if self.as_json:
                    click.echo(jsontext.dumps(dict(event.raw)))
                else:
                    show(rendered)
                printed += 1
                if printed == count:
                    return


def service_call(function: Command) -> Callable[..., None]:
    """Make a command of a coroutine `(call, **parameters)`, and print the coroutine's result.

    The command has `--url` and `--json`; a parameter that names a record (`solward_cli.named`) is
    the record. An error is one line on standard error, with the key of a payment whose result is
    not known on another, and exit code 1; a held transaction exits with 3.
    """

    @click.option("--url", default=None, help="Address of the service.  [default: SOLWARD_API_URL]")
    @click.option("--json", "as_json", is_flag=True, help="Print the service's answer as JSON.")
    @functools.wraps(function)
    def command(url: str | None, as_json: bool, **parameters: Any) -> None:
        from solward.client import Held, SolwardClient
        from solward_cli.recording_transport import RecordingTransport

        with refusals():
            settings = read_settings()
            address = settings.client_target[0] if url is None else url
        transport = RecordingTransport()

        async def called() -> int:
            async with SolwardClient(address, settings.client_token, transport=transport) as client:
                call = ServiceCall(client, settings, as_json, transport)
                given: dict[str, Any] = {}
                for name, each in parameters.items():
                    is_lookup = isinstance(each, Lookup)
                    given[name] = await each.find(client, each.text, given) if is_lookup else each
                result = await function(call, **given)
            if result is not None and as_json:
                click.echo(call.json_text())
            elif result is not None:
                show(result)
            return call.exit_code

        try:
            with _tell_key_on_signal(transport):
                code = asyncio.run(called())
        except Held as held:
            tell_held(held, as_json)
            sys.exit(EXIT_HELD)
        except SolwardError as error:
            tell_error(error)
            sys.exit(EXIT_FAILED)
        except KeyboardInterrupt:
            click.echo(_interruption_line(transport), err=True, nl=False)
            sys.exit(EXIT_INTERRUPTED)
        if code:
            sys.exit(code)

    return command


def fail(text: str) -> NoReturn:
    """Print the error on one line of standard error, and end with exit code 1."""
    print_error(text)
    sys.exit(EXIT_FAILED)


def print_error(text: str) -> None:
    """Print an error on one line of standard error."""
    # Spaces within a line stay, because they may belong to a key.
    lines = filter(None, map(str.strip, text.splitlines()))
    click.echo(f"Error: {visible(' '.join(lines))}", err=True)


def tell_error(error: SolwardError) -> None:
    """Print an error, and the key of a payment whose result is not known, on standard error."""
    from solward.client import Unauthorized

    text = str(error)
    if isinstance(error, Unauthorized):
        # Another API key does not help where the admin secret is needed.
        needed = "the admin secret" if "admin" in text else "an API key or the admin secret"
        text += f" (set SOLWARD_API_KEY to {needed})"
    print_error(text)
    if (key := getattr(error, "idempotency_key", None)) is not None:
        click.echo(f"Ask again with {_key_option(key)}", err=True)


def tell_held(held: Held, as_json: bool) -> None:
    """Print to standard error that a person must decide; with `as_json` also the answer's JSON."""
    if as_json:
        click.echo(jsontext.dumps(dict(held.raw)))
    then = f"A person may approve it until {moment(held.expires_at)} UTC"
    if held.state != "held":
        then = "Approved, but not carried out yet"
    click.echo(f"Held, nothing was sent: {visible(held.sentence)}", err=True)
    click.echo(f"{then}: solward hold approve {visible(held.hold_id)}", err=True)
    if held.idempotency_key is not None:
        click.echo(f"Then ask again with {_key_option(held.idempotency_key)}", err=True)


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a spinner on standard error if that is a terminal and there is a text."""
    if not text or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(plain(text)):
        yield


def confirmed(question: str, yes: bool) -> None:
    """Ask a question unless `yes`, and end the command if the user does not agree."""
    if not yes:
        with interruptible():
            click.confirm(question, abort=True, err=True)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end a prompt.

    asyncio takes the first Ctrl-C as a cancellation, which a blocked read does not notice.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def amount(text: str) -> Decimal:
    """Parse a plain decimal number exactly. As a click type, its name is shown in the help."""
    from solward.client.arguments import exact_number

    # A long text would push the reason off the screen.
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    try:
        return Decimal(exact_number(text, "it"))
    except InvalidRequest as error:
        raise click.BadParameter(str(error).replace(repr(text), repr(shown))) from None


def _key_option(key: str) -> str:
    return f"--idempotency-key {shlex.quote(key)}"


def _interruption_line(transport: RecordingTransport) -> str:
    """Return the line to print if a command is interrupted; empty if no payment was sent."""
    key = transport.sent_key
    if key is None:
        return ""
    return f"Interrupted; the payment may have been made. Ask again with {_key_option(key)}\n"


@contextlib.contextmanager
def _tell_key_on_signal(transport: RecordingTransport) -> Iterator[None]:
    """Tell the key of a payment that was sent if a signal ends the process."""

    def tell(number: int, _frame: object) -> None:
        # A stream may be in the middle of a write here, and the terminal may be gone.
        with contextlib.suppress(OSError):
            os.write(2, _interruption_line(transport).encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    # Ignored signals, as under `nohup`, stay ignored. Only the main thread may set handlers.
    is_main = threading.current_thread() is threading.main_thread()
    endings = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP") if is_main]
    taken = [each for each in endings if each and signal.getsignal(each) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, tell)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
