"""`solward keystore rotate`, `solward wallet import` and `solward wallet export`, while the service
is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solward.types.errors import ConfigError, InvalidRequest, KeystoreError, LedgerError
from solward_cli.entrypoint import home_command, offline_database, offline_wallets

if TYPE_CHECKING:
    from solward.settings import Settings
    from solward.vault.custody import KeySource, Wallet
    from solward.vault.custody.keyring import KeystoreRow

# A keypair file has 64 numbers of at most three digits; a larger file is something else.
_MAX_FILE_BYTES = 4096


@click.group()
def keystore() -> None:
    """Change the secret that encrypts the wallets' keys."""


@keystore.command()
@click.option(
    "--to",
    "kind",
    type=click.Choice(["file", "passphrase"]),
    default=None,
    help="Kind of the new secret.  [default: the old one's]",
)
@home_command
async def rotate(settings: Settings, kind: str | None) -> None:
    """Encrypt every wallet's key with a new secret, while the service is stopped.

    A new key file replaces the old one; a new passphrase is asked for. The old secret
    opens only older backups afterwards. The next start finishes an interrupted rotation.
    """
    from solward.settings.secrecy import weaknesses
    from solward.vault.custody import KeySource
    from solward.vault.custody.service import KEY_FILE

    kind = kind or ("file" if settings.keystore_passphrase is None else "passphrase")
    async with offline_wallets(settings) as (_, wallets):
        # Asked for last, after everything that can refuse.
        if kind == "passphrase":
            typed = click.prompt(
                "New passphrase", hide_input=True, confirmation_prompt=True, err=True
            )
            weak = next(weaknesses({"KEYSTORE_PASSPHRASE": str(typed)}), None)
            # A blank passphrase is refused later, with its own reason.
            if weak is not None and str(typed).strip():
                raise ConfigError(weak)
            source = KeySource(str(typed))
        else:
            source = KeySource(file=settings.keystore_key_file or settings.solward_home / KEY_FILE)
        count = await wallets.rotate(source)
    click.echo(f"Encrypted {count} {'key' if count == 1 else 'keys'} with the new {kind}.")
    if kind == "passphrase":
        click.echo("Set KEYSTORE_PASSPHRASE to the new passphrase, and clear KEYSTORE_KEY_FILE.")
    elif settings.keystore_passphrase is not None:
        click.echo("Remove KEYSTORE_PASSPHRASE from the environment: the key file replaces it.")
    click.echo("Make a backup now: older ones open with the old secret only.")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", default=None, help="The wallet's name.  [default: the file's]")
@home_command
async def import_(settings: Settings, file: Path, name: str | None) -> None:
    """Import a Solana CLI keypair file, while the service is stopped.

    The key is stored encrypted in SOLWARD_HOME; the file stays as it is. A key is refused while
    others have rights on its accounts, such as a delegate, because no limit binds them.
    """
    from solward.database.ledger_network import bind_network
    from solward.vault.custody.envelope import parse_keypair_file

    with file.open("rb") as opened:
        text = opened.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
    # A file without a key is refused before a home is made.
    address = str(parse_keypair_file(text).pubkey())
    async with offline_wallets(settings, begins=True) as (database, wallets):
        await _refuse_foreign_rights(settings, address)
        # Others' rights were checked on this network only: a service of another must not use it.
        await bind_network(database, settings.solana_network)
        wallet = await wallets.import_keypair(text, name or file.stem)
    click.echo(f"Wallet:  {wallet.id}")
    click.echo(f"Name:    {wallet.name}")
    click.echo(f"Address: {wallet.address}")


async def _refuse_foreign_rights(settings: Settings, address: str) -> None:
    """Raise `InvalidRequest` if others may take a key's assets, or if no node can tell."""
    from solward.service.cluster import open_cluster
    from solward.solana.foreign_rights import foreign_rights

    try:
        async with open_cluster(settings) as cluster:
            await cluster.verify()
            rights = await foreign_rights(cluster.ledger, address)
    except LedgerError as error:
        raise InvalidRequest(
            f"The key's accounts could not be read, so it is not imported: {error}"
        ) from None
    for each in rights.noted:
        click.echo(f"Note: {each}", err=True)
    if rights.taking:
        raise InvalidRequest(
            "Others may take what this key holds, so it is not imported. End their rights with"
            f" the key's file, then import it again: {'; '.join(rights.taking)}"
        )


@click.command()
@click.argument("wallet")
@click.option(
    "--out",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to create; it must not exist.",
)
@home_command
async def export(settings: Settings, wallet: str, file: Path) -> None:
    """Write a wallet's key to a Solana CLI keypair file, while the service is stopped.

    Asks for the keystore's passphrase, or for the wallet's address if the keystore has a key file.
    Only the owner can read the new file: anybody who reads it can spend from the wallet. The audit
    log records the export.
    """
    from solward.vault.custody.export import check_file_free, choose, export_wallet, newest_keystore
    from solward.vault.custody.model import wallet_of
    from solward.vault.store import wallets as store

    path = Path.cwd() / file
    check_file_free(path)
    async with offline_database(settings) as database:
        newest = await newest_keystore(database)
        async with database.read() as connection:
            rows = await store.list_wallets(connection)
        exported = choose([wallet_of(row) for row in rows], wallet)
        click.echo(f"Wallet {exported.id} ({exported.name}), address {exported.address}", err=True)
        source = _prompt_secret(settings, newest, exported)
        try:
            await export_wallet(database, source, newest, exported, path)
        except KeystoreError as error:
            raise KeystoreError(
                str(error).replace("KEYSTORE_PASSPHRASE", "What was typed")
            ) from None
    click.echo(f"Address: {exported.address}")
    click.echo(f"File:    {file}")
    click.echo(
        "Anybody who reads this file can spend from the wallet without limits. This home still"
        " holds the key: freeze the wallet here if it is used elsewhere. Only Solward derives the"
        " keys of the wallet's pockets: empty them first with solward wallet sweep."
    )


def _prompt_secret(settings: Settings, newest: KeystoreRow, wallet: Wallet) -> KeySource:
    """Return the keystore's secret, typed at the terminal.

    The environment's passphrase is not used: a program that can run this command must not
    be able to export keys.
    """
    from solward.vault.custody import KeySource
    from solward.vault.custody.service import KEY_FILE

    if newest.kdf.get("kind") == "argon2id":
        return KeySource(passphrase=click.prompt("Keystore passphrase", hide_input=True, err=True))
    typed = str(click.prompt("Type the wallet's address to export its key", err=True))
    if typed.strip() != wallet.address:
        raise InvalidRequest("That is not the wallet's address; nothing was exported")
    return KeySource(file=settings.keystore_key_file or settings.solward_home / KEY_FILE)
