"""`solward wallet import`: an existing key becomes a managed wallet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from solward.settings import Settings
    from solward.wallets import Wallet

# A keypair file has at most 64 numbers of three digits; more is another file, or a trap.
_MAX_FILE_BYTES = 4096


@click.group()
def wallet() -> None:
    """Bring a wallet of your own."""


@wallet.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", default=None, help="The wallet's name.  [default: the file's]")
def import_(file: Path, name: str | None) -> None:
    """Import a Solana CLI keypair file, while the service is stopped.

    The key is sealed in SOLWARD_HOME; the file stays as it is.
    """
    import asyncio

    from solward.errors import InvalidRequest
    from solward.masking import forget_secrets
    from solward.settings import Settings
    from solward.wallets.hardening import forbid_core_dumps
    from solward_cli.running import refusals, refuse

    forbid_core_dumps()
    with refusals():
        settings = Settings()
        forget_secrets(Settings)
        try:
            made = asyncio.run(_import(settings, file, name or file.stem))
        except InvalidRequest as error:
            refuse(str(error))
    click.echo(f"Wallet:  {made.id}")
    click.echo(f"Name:    {made.name}")
    click.echo(f"Address: {made.address}")


async def _import(settings: Settings, file: Path, name: str) -> Wallet:
    from solward.home import Home
    from solward.store.database import Database
    from solward.wallets import Wallets

    with file.open("rb") as opened:
        text = opened.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
    with Home.locked(settings.solward_home) as home:
        database = await Database.open(settings.database_url, home.path)
        try:
            wallets = await Wallets.open(database, settings, home.path)
            return await wallets.import_keypair(text, name)
        finally:
            await database.close()
