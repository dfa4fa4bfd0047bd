"""`solward alerts test`: one message to the receiver of alerts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from solward_cli.entrypoint import home_command

if TYPE_CHECKING:
    from solward.settings import Settings


@click.group()
def alerts() -> None:
    """What an operator is told by the alerts' webhook."""


@alerts.command()
@home_command
async def test(settings: Settings) -> None:
    """Send one message to ALERT_WEBHOOK_URL from here, also while the service runs.

    It is signed and shaped as alerts are. Exit code 1 where the receiver does not take it.
    """
    from solward.notify.alert_webhook import send_test

    sent = await send_test(settings)
    if sent.failure is not None:
        click.echo(f"Not taken: {sent.failure}.", err=True)
        sys.exit(1)
    click.echo(f"Taken in {sent.seconds:.1f} s: delivery {sent.delivery}.")
