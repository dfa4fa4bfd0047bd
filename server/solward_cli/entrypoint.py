"""How a long-running command starts, ends, and says what is wrong: one line, exit code 2."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import click

from solward.errors import ConfigError, HomeLocked, KeystoreError, PluginError, StoreError
from solward_localnet.errors import LedgerLocked, LedgerMismatch

if TYPE_CHECKING:
    from solward.settings import Settings

EXIT_REFUSED = 2

# What the user can mend; anything else is a bug and keeps its traceback.
_REFUSALS = (
    ConfigError,
    HomeLocked,
    KeystoreError,
    PluginError,
    StoreError,
    LedgerLocked,
    LedgerMismatch,
)


def refuse(text: str) -> NoReturn:
    """Say why on one line of standard error, and end with exit code 2."""
    click.echo(f"Error: {' '.join(text.split())}", err=True)
    sys.exit(EXIT_REFUSED)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn what the user can mend into one clear line."""
    try:
        yield
    except _REFUSALS as error:
        refuse(str(error))


def overridden(host: str | None, port: int | None) -> Settings:
    """The settings, with what the command line says instead; their secrets leave the environment.

    Raises:
        ConfigError: naming the variable.
    """
    from solward.settings import Settings
    from solward.settings.masking import forget_secrets

    given: dict[str, Any] = {"api_host": host, "api_port": port}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    settings.check_serving()
    forget_secrets(Settings)
    return settings


def run(
    work: Callable[[], Coroutine[Any, Any, None]],
    *,
    log_level: str = "INFO",
    service: str = "solward-api",
) -> None:
    """Run a service's main coroutine to its end, on uvloop where there is one.

    Args:
        service: what its traces are filed under, where a collector is configured.
    """
    from solward import __version__
    from solward.telemetry import logs, tracing
    from solward.vault.wallets.hardening import forbid_core_dumps

    logs.configure(log_level)
    forbid_core_dumps()
    stop_tracing = tracing.start(service, __version__)
    try:
        with refusals(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(work())
    finally:
        stop_tracing()


def spare_what_started() -> None:
    """Keep the garbage collector from walking, again and again, what stays until the end.

    A full collection of a service's 150 MB holds up every answer for a tenth of a second; with a
    thousand agents (`benchmarks/fleet.py`) there were several in each second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's event loop, or asyncio's where uvloop does not exist."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
