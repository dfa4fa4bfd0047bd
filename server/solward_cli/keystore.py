"""`solward keystore rotate`: seal every wallet's key under a new secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

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
def rotate(kind: str | None) -> None:
    """Seal every wallet's key under a new secret, while the service is stopped.

    A new key file takes the place of the old one; a new passphrase is asked for. The old secret
    opens nothing afterwards, except older backups. Interrupted, the next start finishes it.
    """
    import asyncio

    from solward_cli.entrypoint import keystore_settings, refusals

    settings = keystore_settings()
    with refusals():
        kind = kind or ("file" if settings.keystore_passphrase is None else "passphrase")
        count = asyncio.run(_rotate(settings, kind))
    click.echo(f"Sealed {count} {'key' if count == 1 else 'keys'} under the new {kind}.")
    if kind == "passphrase":
        click.echo("Set KEYSTORE_PASSPHRASE to it, and KEYSTORE_KEY_FILE to nothing.")
    elif settings.keystore_passphrase is not None:
        click.echo("Take KEYSTORE_PASSPHRASE out of the environment: the key file replaces it.")
    click.echo("Make a backup now: older ones open with the old secret only.")


async def _rotate(settings: Settings, kind: str) -> int:
    from solward.vault.custody import KeySource, Wallets
    from solward.vault.custody.service import KEY_FILE
    from solward_cli.offline import offline_database

    home = settings.solward_home
    async with offline_database(settings) as database:
        wallets = await Wallets.open(database, settings, home)
        # Asked for once nothing else is in the way.
        if kind == "passphrase":
            source = KeySource(_new_passphrase())
        else:
            source = KeySource(file=settings.keystore_key_file or home / KEY_FILE)
        return await wallets.rotate(source)


def _new_passphrase() -> str:
    from solward.settings.secret_rules import weaknesses
    from solward.types.errors import ConfigError

    passphrase = str(
        click.prompt("New passphrase", hide_input=True, confirmation_prompt=True, err=True)
    )
    weak = next(weaknesses({"KEYSTORE_PASSPHRASE": passphrase}), None)
    # What is blank is refused with the reason for that.
    if weak is not None and passphrase.strip():
        raise ConfigError(weak)
    return passphrase
