"""The group `solward wallet`."""

from __future__ import annotations

import click

from solward_cli.wallet_keys import export, import_


@click.group()
def wallet() -> None:
    """Bring a wallet of your own, and take it along."""


wallet.add_command(import_)
wallet.add_command(export)
