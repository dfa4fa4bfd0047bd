"""`solward localnet`: the embedded ledger, served to any Solana client."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Any, get_args

import click

from solward.service.cluster import localnet_options
from solward.solana.protocol import LOCALNET_RENT_PER_BYTE, MAX_LOCALNET_RENT_PER_BYTE
from solward.types.errors import ConfigError
from solward_cli.entrypoint import loop_factory, read_settings, refuse
from solward_localnet.node import Localnet
from solward_localnet.options import MIN_SLOTS_PER_EPOCH, Finality, LocalnetOptions
from solward_localnet.server import serving
from solward_localnet.storage import LedgerLocked, LedgerMismatch, reset

_PORT = click.IntRange(0, 65535)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=_PORT, default=8899, show_default=True, help="JSON-RPC port; 0 takes a free one."
)
@click.option("--ws-port", type=_PORT, default=None, help="WebSocket port.  [default: port + 1]")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="The ledger's file.  [default: localnet.db in SOLWARD_HOME]",
)
@click.option("--reset", "do_reset", is_flag=True, help="Delete the ledger and start a new one.")
@click.option(
    "--slot-ms",
    "localnet_slot_ms",
    type=click.IntRange(1),
    help="Milliseconds of a slot.  [default: LOCALNET_SLOT_MS or 200]",
)
@click.option(
    "--finality",
    "localnet_finality",
    type=click.Choice(get_args(Finality)),
    help="When a block is final: at once (alpenglow), a slot later (tower), or at once without the "
    "commitment `confirmed` (finalized).  [default: LOCALNET_FINALITY or alpenglow]",
)
@click.option(
    "--version-1",
    "localnet_version_1",
    type=click.Choice(("on", "off")),
    help="Accept transactions of version 1, or not.  [default: LOCALNET_VERSION_1 or on]",
)
@click.option(
    "--slots-per-epoch",
    "localnet_slots_per_epoch",
    type=click.IntRange(MIN_SLOTS_PER_EPOCH),
    help="Slots of an epoch; used only when the ledger is created.  "
    "[default: LOCALNET_SLOTS_PER_EPOCH or 432]",
)
@click.option(
    "--rent-per-byte",
    "localnet_rent_per_byte",
    type=click.IntRange(1, MAX_LOCALNET_RENT_PER_BYTE),
    help="Lamports of rent for each byte of an account; used only when the ledger is created.  "
    f"[default: LOCALNET_RENT_PER_BYTE or {LOCALNET_RENT_PER_BYTE}]",
)
def localnet(
    host: str,
    port: int,
    ws_port: int | None,
    ledger: Path | None,
    do_reset: bool,
    **values: Any,
) -> None:
    """Serve a local Solana ledger: JSON-RPC over HTTP and WebSocket, without a network."""
    try:
        settings = read_settings(**values)
        path = settings.localnet_path if ledger is None else ledger
        options = localnet_options(settings)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if do_reset:
            reset(path)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(path, options, host, port, ws_port))
    except (ConfigError, LedgerLocked, LedgerMismatch) as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"the localnet could not start: {error}")


async def _serve(
    path: Path, options: LocalnetOptions, host: str, port: int, ws_port: int | None
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Windows has no signal handlers on its loops; there Ctrl-C cancels the runner.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    node = await Localnet.open(path, options)
    try:
        async with serving(node, host, port, ws_port) as addresses:
            click.echo(f"Ledger:    {path}")
            click.echo(f"JSON-RPC:  {addresses.http}")
            click.echo(f"WebSocket: {addresses.ws}")
            await stop.wait()
    finally:
        await node.close()


if __name__ == "__main__":
    localnet()
