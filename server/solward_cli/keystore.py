"""`solward keystore rotate`: seal every wallet's key under a new secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solward.types.errors import ConfigError
from solward_cli.entrypoint import home_command, offline_wallets

if TYPE_CHECKING:
    from solward.settings import Settings


@click.group()
def keystore() -> None:
    """The secret that the wallets' keys are sealed under."""


@keystore.command()
@click.option(
    "--to",
    "kind",
    type=click.Choice(["file", "passphrase"]),
    default=None,
    help="What the new secret is.  [default: what the old one is]",
)
@home_command
async def rotate(settings: Settings, kind: str | None) -> None:
    """Seal every wallet's key under a new secret, while the service is stopped.

    A new key file takes the place of the old one; a new passphrase is asked for. The old secret
    opens nothing afterwards, except older backups. Interrupted, the next start finishes it.
    """
    from solward.settings.secret_rules import weaknesses
    from solward.vault.custody import KeySource
    from solward.vault.custody.service import KEY_FILE

    kind = kind or ("file" if settings.keystore_passphrase is None else "passphrase")
    async with offline_wallets(settings) as (_, wallets):
        # Asked for once nothing else is in the way.
        if kind == "passphrase":
            typed = click.prompt(
                "New passphrase", hide_input=True, confirmation_prompt=True, err=True
            )
            weak = next(weaknesses({"KEYSTORE_PASSPHRASE": str(typed)}), None)
            # What is blank is refused with the reason for that.
            if weak is not None and str(typed).strip():
                raise ConfigError(weak)
            source = KeySource(str(typed))
        else:
            source = KeySource(file=settings.keystore_key_file or settings.solward_home / KEY_FILE)
        count = await wallets.rotate(source)
    click.echo(f"Sealed {count} {'key' if count == 1 else 'keys'} under the new {kind}.")
    if kind == "passphrase":
        click.echo("Set KEYSTORE_PASSPHRASE to it, and KEYSTORE_KEY_FILE to nothing.")
    elif settings.keystore_passphrase is not None:
        click.echo("Take KEYSTORE_PASSPHRASE out of the environment: the key file replaces it.")
    click.echo("Make a backup now: older ones open with the old secret only.")
