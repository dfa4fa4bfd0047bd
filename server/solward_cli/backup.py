"""`solward backup`, `solward backup verify` and `solward restore`."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solward.types.errors import BackupError
from solward_cli.entrypoint import keystore_settings, refusals
from solward_cli.render import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from solward.backup import Manifest
    from solward.backup.restore import RestoredBackup
    from solward.settings import Settings

MIN_PASSPHRASE = 8
_MAX_FILE_BYTES = 4096

_passphrase_file = click.option(
    "--passphrase-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Read the passphrase from the first line of this file (mode 0600) instead of asking.",
)


_existing_file = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


class _BackupGroup(click.Group):
    """A group that runs `backup FILE` as `backup create FILE`; `./verify` names a file `verify`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_BackupGroup)
def backup() -> None:
    """Back up SOLWARD_HOME into one encrypted file; the service may be running.

    \b
    solward backup [--passphrase-file FILE] FILE
    solward backup verify [--passphrase-file FILE] FILE
    """


@backup.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_passphrase_file
def create(file: Path, passphrase_file: Path | None) -> None:
    """Back up the database, key file, local ledger and plugins of SOLWARD_HOME."""
    from solward.backup import create_backup

    settings = _settings()
    with refusals():
        passphrase = _passphrase(passphrase_file, new=True)
        created = asyncio.run(create_backup(settings, file.absolute(), passphrase))
    manifest = created.manifest
    click.echo(f"Backup:  {file} ({file.stat().st_size:,} bytes)")
    _print_manifest(manifest)
    _print_left_out(created.left_out)
    if manifest.keystore == "passphrase":
        click.echo("The backup does not contain the keystore's passphrase: keep that elsewhere.")
    elif manifest.wallets and "keystore.key" not in manifest.files:
        click.echo(
            "The keystore's key came from a descriptor and is not in the backup: keep it elsewhere."
        )
    click.echo(f"Now verify that it can be restored: solward backup verify {file}")


@backup.command()
@_existing_file
@_passphrase_file
def verify(file: Path, passphrase_file: Path | None) -> None:
    """Restore a backup into a temporary folder to verify it, then delete the folder."""
    from solward.backup import verify_backup

    _print_restored(_run_restoring(verify_backup, _settings(), file, passphrase_file))


@click.command()
@_existing_file
@_passphrase_file
def restore(file: Path, passphrase_file: Path | None) -> None:
    """Restore a backup into an empty SOLWARD_HOME, once all its keys have been opened.

    The service then starts frozen: check what was sent since the backup, then run `solward
    unfreeze`.
    """
    from solward.backup import restore_backup

    settings = _settings()
    restored = _run_restoring(restore_backup, settings, file, passphrase_file)
    click.echo(f"Home:    {settings.solward_home}")
    _print_restored(restored)
    if restored.manifest.network != settings.solana_network:
        click.echo(
            f"Notice: the backup is of {restored.manifest.network}, but this environment is set to"
            f" {settings.solana_network}; set SOLANA_RPC_URL and SOLANA_NETWORK first."
        )
    click.echo(
        "The service starts frozen: no record or limit includes transactions since the backup."
        " Check the balances, then run: solward unfreeze"
    )


def _run_restoring(
    restoring: Callable[..., Coroutine[Any, Any, RestoredBackup]],
    settings: Settings,
    file: Path,
    passphrase_file: Path | None,
) -> RestoredBackup:
    def keystore_passphrase() -> str:
        if settings.keystore_passphrase is not None:
            return settings.keystore_passphrase.get_secret_value()
        return str(click.prompt("Keystore passphrase", hide_input=True, err=True))

    with refusals():
        passphrase = _passphrase(passphrase_file)
        return asyncio.run(restoring(settings, file.absolute(), passphrase, keystore_passphrase))


def _settings() -> Settings:
    # SIGTERM removes the temporary copies, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    return keystore_settings()


def _passphrase(file: Path | None, *, new: bool = False) -> str:
    """Return the backup's passphrase, from the file or a prompt; a new one is typed twice.

    Raises:
        BackupError: it is too short, or the file cannot be read.
    """
    if file is None:
        passphrase = str(
            click.prompt("Backup passphrase", hide_input=True, confirmation_prompt=new, err=True)
        )
    else:
        passphrase = _first_line(file)
    if new and len(passphrase) < MIN_PASSPHRASE:
        raise BackupError(f"The passphrase must have at least {MIN_PASSPHRASE} characters")
    return passphrase


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise BackupError(
                    f"The passphrase file {path} is open to other users; run: chmod 600 {path}"
                )
            line = file.read(_MAX_FILE_BYTES).partition(b"\n")[0]
            return line.removesuffix(b"\r").decode()
    except OSError as error:
        reason = error.strerror
        raise BackupError(f"The passphrase file {path} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise BackupError(f"The passphrase file {path} must be UTF-8 text") from None


def _print_manifest(manifest: Manifest) -> None:
    click.echo(f"Created: {manifest.created} by Solward {manifest.version}")
    click.echo(f"Network: {manifest.network}")
    click.echo(f"Content: {', '.join(manifest.content_names)}")


def _print_left_out(left_out: Iterable[str]) -> None:
    for each in left_out:
        click.echo(visible(f"Left out: {each}"))


def _print_restored(restored: RestoredBackup) -> None:
    _print_manifest(restored.manifest)
    click.echo(f"{restored.keys} of {len(restored.manifest.wallets)} keys open and match")
    _print_left_out(restored.left_out.values())
