"""`solward plugins install`, `upgrade`, `remove`, `enable`, `disable`: plugins in folders of their
own, in the home and not in the service's environment.

`remove --purge` also deletes entries and settings, through the running service, else in the
database. `solward models install` puts the vendors' libraries into a folder of their own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solward.types.errors import ConfigError, HomeLocked, SolwardError
from solward_cli.entrypoint import combine_parameters, home_command, offline_wallets, refusals
from solward_cli.render import visible

if TYPE_CHECKING:
    from solward.plugins.folders.install import Proposal
    from solward.plugins.folders.layout import InstalledDistribution, Plugin
    from solward.settings import Settings
    from solward.types.manifest import Terms

# A service reads its folders every second, and lets a plugin's calls end first.
_UNLOADS_WITHIN_S = 60.0
_PAUSE_S = 0.5


_install_parameters = combine_parameters(
    click.argument("target", metavar="NAME-or-FILE"),
    click.option("--yes", is_flag=True, help="Accept what the plugin needs without asking."),
    click.option(
        "--result",
        type=click.Path(path_type=Path),
        help="A signed result of `plugins check`, verified with --key and shown.",
    ),
    click.option("--key", "public", help="Public key of the result's signer."),
)


@click.command("install")
@_install_parameters
def install(target: str, **options: Any) -> None:
    """Install a plugin distribution into a folder of its own.

    NAME may include a version (`acme-tools==1.2`); FILE is a wheel. A confined process reads what
    the plugins declare. No other code of them runs, and the service's environment does not change.
    """
    _install(target, upgrade=False, **options)


@click.command("upgrade")
@_install_parameters
def upgrade(target: str, **options: Any) -> None:
    """Replace an installed distribution with another version.

    Asks first if the new version needs more than was accepted, or lacks a plugin.
    """
    _install(target, upgrade=True, **options)


@click.command("remove")
@click.argument("name")
@click.option(
    "--lost",
    is_flag=True,
    help="Remove a distribution whose folder is lost, so that the service starts without it.",
)
@click.option(
    "--purge", is_flag=True, help="Also delete its files, entries and settings; cannot be undone."
)
@home_command
async def remove(settings: Settings, name: str, lost: bool, purge: bool) -> None:
    """Remove an installed distribution.

    The plugins' files and entries and the skills' settings stay for a later installation. --purge
    deletes them, even if the distribution is no longer installed. If the service is running, the
    service deletes them, which needs the admin secret.
    """
    from solward.plugins.folders.install import not_installed
    from solward.plugins.folders.install import remove as removed
    from solward.plugins.folders.layout import canonical
    from solward.plugins.folders.storage import storage_folder

    was_here = removed(settings.solward_home, name, lost=lost, purge=purge)
    told = await purge_state(settings, name) if purge else ""
    if not (was_here or told):
        raise not_installed(name)
    if not purge:
        folder = storage_folder(settings.solward_home, canonical(name))
        told = " Its entries and settings stay; --purge deletes them."
        if folder is not None and folder.exists():
            kept = f"The files that its plugins keep stay in {folder}"
            told = f" {kept}; --purge deletes them, its entries and its settings."
    _print_done(f"Removed {name}.{told}")


@click.command("enable")
@click.argument("name")
def enable(name: str) -> None:
    """Load a disabled distribution again."""
    _set_enabled(name, True)


@click.command("disable")
@click.argument("name")
def disable(name: str) -> None:
    """Stop loading an installed distribution, without removing it."""
    _set_enabled(name, False)


COMMANDS = (install, upgrade, remove, enable, disable)


def _install(
    target: str, *, yes: bool, upgrade: bool, result: Path | None, public: str | None
) -> None:
    from solward.plugins.check_results import read_result
    from solward.plugins.discovery import is_allowed
    from solward.plugins.folders.install import install as installed
    from solward.settings import Settings
    from solward_cli.plugins.check import summary

    if (result is None) != (public is None):
        raise click.UsageError("--result and --key belong together")
    checked = None
    if result is not None and public is not None:
        with refusals():
            checked = read_result(result, public)

    def accept(proposal: Proposal) -> bool:
        _print_proposal(proposal)
        if yes:
            return True
        if not sys.stdin.isatty():
            click.echo("There is no terminal to ask on; --yes accepts the installation.", err=True)
            return False
        return click.confirm("Install it?")

    def declare(new: InstalledDistribution) -> Mapping[str, Terms]:
        from solward.hosts.plugins import loadable_terms

        if checked is not None:
            # Checked first, so that other bytes do not run, not even in a plugin host.
            checked.check_installed(new)
            _echo(f"{summary(checked)} The result is for these wheels.")
        return loadable_terms(new, settings.solward_plugins_unconfined)

    with refusals():
        settings = Settings()
        one = installed(
            settings.solward_home, target, accept=accept, declare=declare, upgrade=upgrade
        )
    told = f"Installed {one.name} {one.version}: {_describe_plugins(one.plugins)}."
    if is_allowed(one.name, settings.plugins):
        _print_done(told)
    else:
        _echo(
            f"{told} SOLWARD_PLUGINS does not name it, so its plugins are not loaded: add"
            f" {one.name} to SOLWARD_PLUGINS, and restart the service."
        )


def _set_enabled(name: str, enabled: bool) -> None:
    from solward.plugins.folders.install import enable as changed

    with refusals():
        one = changed(_home(), name, enabled)
    _print_done(f"{'Enabled' if enabled else 'Disabled'} {one.name} {one.version}.")


def _print_proposal(proposal: Proposal) -> None:
    """Print the proposal that the user must accept; its texts are third parties'."""
    new = proposal.new
    before = "" if proposal.before is None else f", instead of {proposal.before.version}"
    lines = [f"{new.name} {new.version}{before}: {_describe_plugins(new.plugins)}"]
    lines += [f"  {each.file}  sha256:{each.sha256}" for each in new.wheels]
    lines += [f"  left out, as it would run by itself: {each}" for each in new.left_out]
    for plugin, more in proposal.more.items():
        # A first install lists all needs and bounds, an upgrade only what is new.
        wants = new.accepted[plugin].needs() if proposal.before is None else more
        lines += [f"  {plugin.partition(':')[2]} needs {each}" for each in wants]
    if proposal.dropped:
        lines.append(f"  no longer included: {_describe_plugins(proposal.dropped)}")
    _echo(*lines)


def _describe_plugins(plugins: Iterable[Plugin]) -> str:
    from solward.types.manifest import KINDS

    return ", ".join(f"{KINDS[each.group]} {each.name}" for each in plugins)


def _print_done(text: str) -> None:
    from solward.plugins.folders.layout import is_in_use

    when = (
        "The running service applies it. Run `solward plugins list` to see any errors."
        if is_in_use(_home())
        else "Takes effect at the service's next start."
    )
    _echo(f"{text} {when}")


def _echo(*lines: str) -> None:
    for line in lines:
        click.echo(visible(line))


def _home() -> Path:
    from solward.settings import Settings

    return Settings().solward_home


async def purge_state(settings: Settings, name: str) -> str:
    """Delete entries and settings, and say how many; empty if there were none.

    Raises:
        ConfigError: the running service refused; the text says why.
        KeystoreError, StoreError: the database cannot be used.
    """
    from solward.database.database import database_file
    from solward.plugins.folders.layout import canonical
    from solward.plugins.state import PluginSettings, purge

    file = database_file(settings.database_url, settings.solward_home)
    if file is not None and not file.exists():
        return ""
    try:
        async with offline_wallets(settings) as (database, _):
            purged = await purge(PluginSettings(database), canonical(name))
        counts = purged.entries, purged.settings
    except HomeLocked:
        counts = await _purge_by_service(settings, name)
    return " Deleted {} entries and {} settings.".format(*counts) if any(counts) else ""


async def _purge_by_service(settings: Settings, name: str) -> tuple[int, int]:
    from solward.client import BadRequest, SolwardClient

    ends = asyncio.get_running_loop().time() + _UNLOADS_WITHIN_S
    async with SolwardClient.from_settings(settings) as client:
        while True:
            try:
                answer = await client.plugin_state.purge(plugin=name)
            except SolwardError as error:
                waits = isinstance(error, BadRequest) and "is loaded" in str(error)
                if waits and asyncio.get_running_loop().time() < ends:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                raise ConfigError(
                    f"The folder of {name} is removed; its entries and settings are not, because"
                    f" the running service answered: {error}. Run the same command again"
                ) from None
            return answer.entries, answer.settings


@click.group()
def models() -> None:
    """Install the libraries that call model vendors."""


@models.command("install")
def install_models() -> None:
    """Install litellm and its dependencies into a folder of their own.

    Downloads 65 MB of wheels with the hashes of this release, and unpacks 270 MB. Nothing in them
    runs now, and the service's environment does not change: only model hosts import them.
    """
    from solward.plugins.folders.models import beside_the_service, installed, other_folders
    from solward.plugins.folders.models import install as unpack
    from solward.settings import Settings

    with refusals():
        root = Settings().models_folder
        if installed(root) is None:
            click.echo(f"Fetching the language models' libraries into {root} ...", err=True)
        made = unpack(root)
    if made is None:
        click.echo(f"Installed already: {installed(root)}")
    else:
        for wheel in made.wheels:
            click.echo(f"  {wheel.file}  sha256:{wheel.sha256}")
        for left in made.left_out:
            click.echo(f"  left out, as it would run by itself: {left}")
        click.echo(f"Installed {len(made.wheels)} wheels: {made.folder}")
    for each in other_folders(root):
        click.echo(f"For another release or Python; you may remove this folder: {each}", err=True)
    if beside_the_service():
        click.echo(
            "litellm is also in the service's environment: its code runs in the process that holds"
            " the keys, and model hosts import it. Remove it: pip uninstall litellm",
            err=True,
        )
