"""Helpers of commands: settings, databases, refusals and shared options. An error that the user can
fix is printed on one line, with exit code 2."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from solward.support.extras import UNUSED, hide_modules
from solward.types.errors import (
    ConfigError,
    FolderError,
    HomeLocked,
    InvalidRequest,
    KeystoreError,
    LedgerError,
    LocalnetError,
    PluginError,
    StoreError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from solward.database.database import Database
    from solward.settings import Settings
    from solward.vault.custody import Wallets


EXIT_REFUSED = 2

# Errors the user can mend; any other is a bug and keeps its traceback.
_REFUSALS = (
    ConfigError,
    FolderError,
    HomeLocked,
    InvalidRequest,
    KeystoreError,
    LedgerError,
    PluginError,
    StoreError,
    LocalnetError,
)


def refuse(text: str) -> NoReturn:
    """Print the error on one line of standard error, and end with exit code 2."""
    click.echo(f"Error: {' '.join(text.split())}", err=True)
    sys.exit(EXIT_REFUSED)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """End the command with one line of text for an error that the user can fix."""
    try:
        yield
    except _REFUSALS as error:
        refuse(str(error))


def read_settings(**options: Any) -> Settings:
    """Return the settings, overridden by options, and remove secrets from the environment.

    Raises:
        ConfigError: a setting is wrong; the text names its variable.
    """
    from solward.settings import Settings
    from solward.settings.secrecy import forget_secrets

    settings = Settings(**{name: value for name, value in options.items() if value is not None})
    forget_secrets(Settings)
    return settings


def serving_settings(host: str | None, port: int | None) -> Settings:
    """Return the settings of a server; raises `ConfigError` if they are unsafe to serve with."""
    settings = read_settings(api_host=host, api_port=port)
    settings.check_serving()
    return settings


def keystore_settings() -> Settings:
    """Protect the process's memory, and return the settings of a command that opens keys."""
    from solward.support.hardening import protect_memory

    protect_memory()
    with refusals():
        return read_settings()


def home_command(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a command of a coroutine `(settings, **parameters)` that opens this home's keys.

    A refusal is one line on standard error, and exit code 2.
    """

    @functools.wraps(function)
    def command(**parameters: Any) -> None:
        settings = keystore_settings()
        with refusals():
            asyncio.run(function(settings, **parameters))

    return command


@contextlib.asynccontextmanager
async def offline_database(settings: Settings, *, begins: bool = False) -> AsyncIterator[Database]:
    """Open the settings' database, unless another process uses it.

    On SQLite the home's lock proves it. On PostgreSQL no process holds a lease, and the lock
    keeps two such commands from running on one home.

    Args:
        begins: whether to make a missing home and database, as a service's first start does. Other
            commands would leave an empty service behind in a home that was mistyped.

    Raises:
        HomeLocked: a process runs on this home, or on this database.
        KeystoreError: no service was ever started there.
        ConfigError, StoreError: home or database cannot be used.
    """
    from solward.audit.acts import CLI, act_as
    from solward.database.database import Database
    from solward.settings.home import Home
    from solward.vault.store import processes

    if not begins:
        async with inspected_database(settings) as existing:
            await refuse_unused(existing, settings.solward_home)
    with Home.opened(settings.solward_home) as home:
        database = await Database.open(settings.database_url, home.path)
        try:
            act_as(CLI)
            if database.shared:
                async with database.read() as connection:
                    living = await processes.list_living(connection)
                if living:
                    raise HomeLocked(
                        f"The database is in use by {', '.join(living)}; stop these processes"
                        " first (a killed process counts for 10 seconds more)"
                    )
            yield database
        finally:
            await database.close()


@contextlib.asynccontextmanager
async def inspected_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the settings' database for reading only; a service may be running.

    Raises:
        ConfigError, StoreError: there is none, or it cannot be read.
    """
    from solward.database.database import Database

    database = Database.inspect(settings.database_url, settings.solward_home)
    try:
        yield database
    finally:
        await database.close()


async def read_audit_key(settings: Settings, database: Database) -> None:
    """Set the key that authenticates the database's audit log, from the keystore's secret."""
    from solward.vault.custody.keystore import audit_key
    from solward.vault.custody.service import key_source

    source = key_source(settings, settings.solward_home)
    database.audit_key = await audit_key(database, source)


@contextlib.asynccontextmanager
async def offline_wallets(
    settings: Settings, *, begins: bool = False
) -> AsyncIterator[tuple[Database, Wallets]]:
    """Open the database as `offline_database` does, with the keystore for the audit log."""
    from solward.vault.custody import Wallets

    async with offline_database(settings, begins=begins) as database:
        yield database, await Wallets.open(database, settings, settings.solward_home)


async def refuse_unused(database: Database, home: Path) -> None:
    """Refuse a database that no service ever used.

    Raises:
        KeystoreError: it has no keystore and no audit log.
    """
    from solward.audit.log import heads
    from solward.database.schema import has_schema
    from solward.vault.store.wallets import keystore_rows

    async with database.read() as connection:
        if await has_schema(connection) and (
            await keystore_rows(connection) or await heads(connection)
        ):
            return
    where = "the database of DATABASE_URL" if database.shared else f"SOLWARD_HOME {home}"
    raise KeystoreError(f"No service ever used {where}: it has no keystore and no wallet")


def run(
    work: Callable[[], Coroutine[Any, Any, None]],
    *,
    log_level: str = "INFO",
    service: str = "solward-api",
) -> None:
    """Run a service's main coroutine to its end, on uvloop if it is installed.

    Args:
        service: the service name of its traces.
    """
    from solward import __version__
    from solward.support.hardening import protect_memory
    from solward.telemetry import logs, tracing

    logs.configure(log_level)
    protect_memory()
    stop_tracing = tracing.start(service, __version__)
    try:
        with refusals(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(work())
    finally:
        stop_tracing()


def import_lean() -> None:
    """Import the logs and the HTTP client without their optional imports, to save memory."""
    with hide_modules(*UNUSED):
        import httpcore  # noqa: F401
        import httpx  # noqa: F401
        import structlog  # noqa: F401


def begin_service() -> None:
    """Import as `import_lean` does, and collect no garbage until `freeze_gc` or the command's end.
    A start makes almost no garbage, and searching for it took a fifth of the time."""
    gc.disable()
    # The process may run more commands after one that is refused.
    click.get_current_context().call_on_close(gc.enable)
    import_lean()


def freeze_gc() -> None:
    """Collect garbage again, except the objects made so far, which live as long as the process.

    A full collection of a service's 150 MB stops it for 0.1 s, and a thousand agents
    (`benchmarks/fleet.py`) caused several in each second.
    """
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    gc.enable()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory of uvloop's event loop, or of asyncio's if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def combine_parameters(*parameters: Callable[[F], F]) -> Callable[[F], F]:
    """Combine several arguments and options into one decorator, in their order."""

    def decorated(command: F) -> F:
        for each in reversed(parameters):
            command = each(command)
        return command

    return decorated


host_option = click.option(
    "--host", default=None, help="Address to listen on.  [default: API_HOST or 127.0.0.1]"
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port of the API; 0 takes a free one.  [default: API_PORT or 3001]",
)
log_level_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="Lowest level of log lines on standard error.",
)


def parse_past(text: str) -> datetime:
    """Parse an ISO 8601 time, in UTC if it has no zone, or a span before now such as `7d`."""
    return _parse_time(text, -1)


def parse_expiry(text: str) -> datetime:
    """Parse an ISO 8601 time, in UTC if it has no zone, or a span from now such as `90d`."""
    return _parse_time(text, 1)


def _parse_time(text: str, direction: int) -> datetime:
    span = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)
    if span is not None:
        return datetime.now(UTC) + direction * timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            "it must be a time such as 2026-12-31T00:00:00Z or 2026-12-31, or a span such as "
            "90d, 12h or 30m"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
count_option = click.option("--count", type=click.IntRange(1), help="Stop after this many events.")
