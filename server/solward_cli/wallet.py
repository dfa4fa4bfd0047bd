"""The group `solward wallet`."""

from __future__ import annotations

import click

from solward_cli import wallet_money, wallet_show
from solward_cli.sweep import sweep
from solward_cli.wallet_keys import export, import_


@click.group()
def wallet() -> None:
    """Wallets of the running service; a key of your own brought in, or taken along."""


for command in (*wallet_show.COMMANDS, *wallet_money.COMMANDS):
    wallet.add_command(command)
wallet.add_command(import_)
wallet.add_command(export)
wallet.add_command(sweep)
