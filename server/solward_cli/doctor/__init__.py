"""`solward doctor`: the checks by name, what they print, and the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from solward.types.errors import ConfigError
from solward_cli.doctor import home, ledger
from solward_cli.doctor.subject import Check, Line, Subject, format_check, has_failure
from solward_cli.entrypoint import read_settings, refusals

if TYPE_CHECKING:
    from solward.settings import Settings
    from solward_cli.doctor.recording import Recorder

CHECKS: Final[dict[str, Check]] = {
    "settings": home.settings,
    "database": home.database,
    "keystore": home.keystore,
    "machine": home.machine,
    "plugins": home.plugins,
    "rpc": ledger.rpc,
    "clock": ledger.clock,
    "funds": ledger.funds,
    "venue": ledger.venue,
    "prices": ledger.prices,
    "models": ledger.models,
    "chats": ledger.chats,
    "limits": home.limits,
}
"""The checks by name, in the order in which a server is set up."""

# What a recording has: not `funds`, which would show the balances of the user's wallets.
_RECORDED: Final = ("rpc", "clock", "venue", "prices", "models")
_PROXY_EXCEPTIONS: Final = ("NO_PROXY", "no_proxy")


@click.command()
@click.argument("checks", nargs=-1, type=click.Choice(list(CHECKS)), metavar="[CHECK]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--record",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write all requests and answers to DIR, without secrets.",
)
def doctor(checks: tuple[str, ...], as_json: bool, folder: Path | None) -> None:
    """Check everything the service needs, and say how to mend what would not work.

    Without CHECK, all of them: settings, database, keystore, machine, plugins, rpc, clock, funds,
    venue, prices, models, chats, limits. Nothing is sent or changed; the service may be running.
    Language models are asked for one word, but only with the check `models` or --record.

    Exits with 1 if something would not work.
    """
    from solward.support.hardening import protect_memory

    names = checks or (_RECORDED if folder is not None else tuple(CHECKS))
    protect_memory()
    with refusals(), _silence_logs():
        if folder is not None:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if any(folder.iterdir()):
                    raise ConfigError(f"--record {folder} is not empty; name a new folder")
            except OSError as error:
                told = f"--record {folder} cannot be made: {error.strerror}"
                raise ConfigError(told) from None
        spends = folder is not None or "models" in checks
        found = asyncio.run(_run_checks(read_settings(), names, spends, folder, as_json))
    if as_json:
        from solward.support import jsontext

        lines = [line.to_json(name) for name, each in found.items() for line in each]
        good = not has_failure(line for each in found.values() for line in each)
        click.echo(jsontext.indented({"ok": good, "lines": lines}))
    sys.exit(1 if any(map(has_failure, found.values())) else 0)


@contextmanager
def _silence_logs() -> Iterator[None]:
    """Drop the product's log lines, because the checks report the same."""
    import structlog

    if structlog.is_configured():
        yield
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.reset_defaults()


async def _run_checks(
    settings: Settings, names: tuple[str, ...], spends: bool, folder: Path | None, quiet: bool
) -> dict[str, list[Line]]:
    found = {}
    recorder: Recorder | None = None
    async with AsyncExitStack() as stack:
        if folder is not None:
            from solward_cli.doctor.recording import record_requests

            # The relays are on this machine, so requests to them must not use a proxy.
            for name in _PROXY_EXCEPTIONS:
                os.environ[name] = ",".join(filter(None, (os.environ.get(name), "127.0.0.1")))
            settings, recorder = await stack.enter_async_context(record_requests(settings))
        real = {} if recorder is None else recorder.real
        subject = await stack.enter_async_context(Subject(settings, spends=spends, real=real))
        for name in names:
            found[name] = await CHECKS[name](subject)
            if not quiet:
                click.echo(format_check(name, found[name]))
    if recorder is not None and folder is not None:
        for file in recorder.write(folder):
            click.echo(f"Recorded: {file}", err=True)
    return found
