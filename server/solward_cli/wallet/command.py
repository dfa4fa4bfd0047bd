"""The group `solward wallet`."""

from __future__ import annotations

import click

from solward_cli.wallet import money
from solward_cli.wallet import show as wallet_show
from solward_cli.wallet.keys import export, import_
from solward_cli.wallet.sweep_command import sweep


@click.group()
def wallet() -> None:
    """Wallets of the running service; a key of your own brought in, or taken along."""


for command in (*wallet_show.COMMANDS, *money.COMMANDS):
    wallet.add_command(command)
wallet.add_command(import_)
wallet.add_command(export)
wallet.add_command(sweep)
