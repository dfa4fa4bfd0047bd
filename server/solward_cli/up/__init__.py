"""`solward up`: ledger, API and agents in this process, the dashboard in another."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from solward.support.child_processes import child_environment
from solward.types.errors import ConfigError
from solward_cli.entrypoint import (
    begin_service,
    freeze_gc,
    host_option,
    log_level_option,
    port_option,
    refusals,
    run,
    serving_settings,
)

if TYPE_CHECKING:
    from solward.service.service import Solward
    from solward.settings import Settings

_STOP_S = 5.0
# Where Solana's tools expect a local validator; its WebSocket port is one above.
RPC_HOST = "127.0.0.1"
RPC_PORT = 8899


@click.command()
@click.option("--demo", is_flag=True, help="Add a rule-based agent and a seller that it buys from.")
@host_option
@port_option
@click.option("--reset", is_flag=True, help="Delete the local ledger and start a new one.")
@click.option("--no-rpc", is_flag=True, help="Do not serve the ledger to other Solana clients.")
@click.option(
    "--rpc-port",
    type=click.IntRange(0, 65535),
    default=RPC_PORT,
    show_default=True,
    help="JSON-RPC port of the ledger; 0 takes a free one.",
)
@click.option("--no-dashboard", is_flag=True, help="Do not serve the dashboard.")
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port of the dashboard; 0 takes a free one.  [default: DASHBOARD_PORT or 3000]",
)
@log_level_option
def up(
    demo: bool,
    host: str | None,
    port: int | None,
    reset: bool,
    no_rpc: bool,
    rpc_port: int,
    no_dashboard: bool,
    dashboard_port: int | None,
    log_level: str,
) -> None:
    """Start the ledger, the API and the dashboard; Ctrl-C stops them all."""
    begin_service()
    from solward_server.listening import listen

    with refusals():
        settings = serving_settings(host, port)
        if reset:
            from solward.service.cluster import localnet_errors
            from solward.settings.home import Home
            from solward_localnet.storage import reset as reset_ledger

            if settings.solana_rpc_url is not None:
                raise ConfigError("--reset is for the embedded ledger, and SOLANA_RPC_URL is set")
            with Home.opened(settings.solward_home), localnet_errors():
                reset_ledger(settings.localnet_path)
        listening = listen(settings.api_host, settings.api_port)
    pages_port = settings.dashboard_port if dashboard_port is None else dashboard_port

    async def serve_all(pages: str | None, pages_problem: str | None) -> None:
        from solward.service.service import Solward
        from solward_cli.up.demo import (
            last_seller,
            listen_for_buyers,
            seed_demo,
            selling,
            site_of,
        )
        from solward_cli.up.screen import Screen, demo_story, frozen_notice, ledger_notice, show
        from solward_server.serve import Address, serve, stop_on_signals

        # Only a localnet has the faucet that opens the seller's account.
        sells = demo and settings.solana_rpc_url is None
        shop = listen_for_buyers(await last_seller(settings)) if sells else None
        seller = None if shop is None else site_of(shop)
        private = (*settings.payments_private_sites, *filter(None, (seller,)))
        own = settings.model_copy(update={"payments_private_sites": private})
        with shop or contextlib.nullcontext():
            async with stop_on_signals() as stop, Solward.open(own, demo=demo) as service:
                seed = await seed_demo(service, seller) if demo else None
                states = (await frozen_notice(service), await ledger_notice(service))
                # People may open the pages at another address than the one that they listen on.
                opened_at = settings.dashboard_address if settings.dashboard_url else pages
                async with (
                    selling(service.localnet, shop),
                    _serve_ledger(service, None if no_rpc else rpc_port) as (rpc, rpc_problem),
                    demo_story(service, seed, opened_at) as begin_story,
                ):

                    def ready(address: Address) -> None:
                        notices = tuple(filter(None, (*states, rpc_problem, pages_problem)))
                        show(Screen(service, address, rpc, pages, notices, seed))
                        begin_story()

                    freeze_gc()
                    async with _run_agents(service, stop):
                        await serve(service, listening, stop, ready=ready)

    async def work() -> None:
        # The dashboard's process starts while this one still imports the service and opens it.
        port_of_pages = None if no_dashboard else pages_port
        async with dashboard_process(settings, listening, port_of_pages) as (pages, problem):
            await serve_all(pages, problem)
        click.echo("Solward has stopped; the next start continues where it ended.")

    with listening:
        run(work, log_level=log_level)


@contextlib.asynccontextmanager
async def _serve_ledger(
    service: Solward, port: int | None
) -> AsyncIterator[tuple[tuple[str, str] | None, str | None]]:
    """Serve the embedded ledger to others; yield its addresses, or a notice why not."""
    from solward_localnet.server import serving

    if service.localnet is None or port is None:
        yield None, None
        return
    async with contextlib.AsyncExitStack() as stack:
        try:
            addresses = await stack.enter_async_context(serving(service.localnet, RPC_HOST, port))
        except OSError as error:
            reason = error.strerror or str(error)
            yield (
                None,
                "The ledger is not served to other clients. Port "
                f"{port} or {port + 1} cannot be used ({reason}); see --rpc-port",
            )
            return
        yield (addresses.http, addresses.ws), None


@contextlib.asynccontextmanager
async def _run_agents(service: Solward, stop: asyncio.Event) -> AsyncIterator[None]:
    """Run a worker in this process on PostgreSQL; on SQLite the service runs its own agents."""
    if not service.database.shared:
        yield
        return
    from solward_cli.server import run_workers

    task = asyncio.create_task(run_workers(service, stop))
    try:
        yield
    finally:
        stop.set()
        await task


@contextlib.asynccontextmanager
async def dashboard_process(
    settings: Settings, api: socket.socket, port: int | None
) -> AsyncIterator[tuple[str | None, str | None]]:
    """Run the dashboard's process until the block ends; yield its address, or a notice why not.

    It ends when this process ends, even if killed, because its standard input closes then.

    Args:
        api: the service's listening socket.
        port: port of the pages; None serves no pages.
    """
    from solward.settings.access import local_url
    from solward_dashboard.options import Options
    from solward_server.listening import listen

    if port is None:
        yield None, None
        return
    with contextlib.ExitStack() as stack:
        try:
            variables = ("--dashboard-port", "DASHBOARD_PORT")
            host = settings.dashboard_host
            listening = stack.enter_context(listen(host, port, variables=variables))
            # Checked here, because nobody reads the child's output.
            options = Options.from_settings(
                settings,
                host,
                listening.getsockname()[1],
                api_url=local_url(*api.getsockname()[:2]),
            )
        except ConfigError as error:
            yield None, f"The dashboard is not served. {error}"
            return
        process = _start(settings, options.api_url, listening)
    watching = asyncio.create_task(_log_exit(process))
    try:
        yield options.url, None
    finally:
        watching.cancel()
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.to_thread(process.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)


def _start(settings: Settings, api_url: str, listening: socket.socket) -> subprocess.Popen[bytes]:
    password = settings.dashboard_password
    environment = child_environment(
        values={
            "NEXT_PUBLIC_API_URL": api_url,
            "NEXT_PUBLIC_API_SECRET": settings.api_secret.get_secret_value(),
            "DASHBOARD_PASSWORD": password.get_secret_value() if password else "",
        },
    )
    command = ["dashboard", "--host", settings.dashboard_host, "--fd", str(listening.fileno())]
    return subprocess.Popen(  # noqa: S603 - our own program and arguments
        [sys.executable, "-m", "solward_cli", *command],
        stdin=subprocess.PIPE,
        pass_fds=(listening.fileno(),),
        env=environment,
        # Ctrl-C goes to the parent, which ends the child.
        start_new_session=True,
    )


async def _log_exit(process: subprocess.Popen[bytes]) -> None:
    import structlog

    code = await asyncio.to_thread(process.wait)
    # The service goes on, because agents do not depend on the dashboard.
    _log = structlog.get_logger(__name__)
    _log.error(
        "dashboard_ended",
        code=code,
        detail="the service keeps running; `solward dashboard` serves the pages again",
    )
