"""`solward plugins install`, `upgrade`, `remove`, `enable`, `disable`: plugins in folders of their
own, in the home and not in the service's environment.

`remove --purge` deletes entries and settings too, by the running service, or in its database where
none runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from solward.plugins.check_results import CheckResult
    from solward.plugins.folders.install import Proposal
    from solward.plugins.folders.layout import Installed, Plugin
    from solward.plugins.state import Purged
    from solward.settings import Settings
    from solward.types.manifest import Terms

_YES = click.option("--yes", is_flag=True, help="Accept what it needs without being asked.")
_RESULT = click.option(
    "--result",
    type=click.Path(path_type=Path),
    help="A signed result of `plugins check`, verified with --key and shown.",
)
_KEY = click.option("--key", "public", help="The public key of whoever checked.")

# A service looks at its folders every second, and lets what runs of a plugin end.
_UNLOADS_WITHIN_S = 60.0
_PAUSE_S = 0.5


@click.command("install")
@click.argument("target", metavar="NAME-or-FILE")
@_YES
@_RESULT
@_KEY
def install(target: str, yes: bool, result: Path | None, public: str | None) -> None:
    """Install a distribution's wheels into a folder of its own.

    NAME may have versions (`acme-tools==1.2`); FILE is a wheel. What its plugins declare is read in
    a confined process; nothing else of it runs, and the service's environment stays as it is.
    """
    _install(target, yes=yes, upgrade=False, checked=_checked(result, public))


@click.command("upgrade")
@click.argument("target", metavar="NAME-or-FILE")
@_YES
@_RESULT
@_KEY
def upgrade(target: str, yes: bool, result: Path | None, public: str | None) -> None:
    """Replace an installed distribution by another version.

    Asks where the new version needs more than was accepted, or lacks a plugin.
    """
    _install(target, yes=yes, upgrade=True, checked=_checked(result, public))


@click.command("remove")
@click.argument("name")
@click.option(
    "--lost", is_flag=True, help="Also where its folder is lost, so that the service does without."
)
@click.option(
    "--purge", is_flag=True, help="Delete its files, entries and settings, too, not to be undone."
)
def remove(name: str, lost: bool, purge: bool) -> None:
    """Remove a distribution's folder.

    The files and entries that its plugins keep, and what is set for its skills, stay for when it is
    installed again, but with --purge, which also deletes those of a distribution that is not
    installed any more. Where a service runs, it is asked to, with the admin secret.
    """
    from solward.plugins.folders.install import not_installed
    from solward.plugins.folders.install import remove as removed
    from solward_cli.entrypoint import keystore_settings, refusals

    with refusals():
        settings = keystore_settings()
        was_here = removed(settings.solward_home, name, lost=lost, purge=purge)
        purged = purge_state(settings, name) if purge else ""
        if not (was_here or purged):
            raise not_installed(name)
    _done(f"Removed {name}.{purged if purge else _kept(name)}")


def _kept(name: str) -> str:
    from solward.plugins.folders.layout import canonical
    from solward.plugins.folders.storage import storage_folder

    also = "--purge deletes them, its entries and its settings."
    folder = storage_folder(_home(), canonical(name))
    if folder is None or not folder.exists():
        return " Its entries and settings stay; --purge deletes them."
    return f" The files that its plugins keep stay in {folder}; {also}"


@click.command("enable")
@click.argument("name")
def enable(name: str) -> None:
    """Have a distribution of its own folder loaded again."""
    _enable(name, True)


@click.command("disable")
@click.argument("name")
def disable(name: str) -> None:
    """Keep a distribution of its own folder, and load nothing of it."""
    _enable(name, False)


COMMANDS = (install, upgrade, remove, enable, disable)


def _checked(result: Path | None, public: str | None) -> CheckResult | None:
    """The result that is to be shown, verified."""
    from solward.plugins.check_results import read_result
    from solward_cli.entrypoint import refusals

    if (result is None) != (public is None):
        raise click.UsageError("--result and --key belong together")
    if result is None or public is None:
        return None
    with refusals():
        return read_result(result, public)


def _install(target: str, *, yes: bool, upgrade: bool, checked: CheckResult | None) -> None:
    from solward.plugins.discovery import is_allowed
    from solward.plugins.folders.install import install as installed
    from solward.settings import Settings
    from solward_cli.entrypoint import refusals
    from solward_cli.plugins.results import summary

    def accept(proposal: Proposal) -> bool:
        _show(proposal)
        if yes:
            return True
        if not sys.stdin.isatty():
            click.echo("Nobody can be asked here; --yes accepts it.", err=True)
            return False
        return click.confirm("Install it?")

    def declare(new: Installed) -> Mapping[str, Terms]:
        from solward.hosts.declarations import loadable_terms

        if checked is not None:
            # First: of other bytes than were checked nothing runs, not even in a host.
            checked.check_installed(new)
            _echo(f"Result: {summary(checked)} It is of these wheels.")
        return loadable_terms(new, settings.solward_plugins_unconfined)

    with refusals():
        settings = Settings()
        one = installed(
            settings.solward_home, target, accept=accept, declare=declare, upgrade=upgrade
        )
    if is_allowed(one.name, settings.plugins):
        _done(f"Installed {one.name} {one.version}: {_kinds(one.plugins)}.")
    else:
        _echo(
            f"Installed {one.name} {one.version}: {_kinds(one.plugins)}. SOLWARD_PLUGINS does not"
            f" name it, so nothing of it is loaded: add {one.name} there, and start the service"
            " again."
        )


def _enable(name: str, enabled: bool) -> None:
    from solward.plugins.folders.install import enable as changed
    from solward_cli.entrypoint import refusals

    with refusals():
        one = changed(_home(), name, enabled)
    _done(f"{'Enabled' if enabled else 'Disabled'} {one.name} {one.version}.")


def _show(proposal: Proposal) -> None:
    """What somebody is asked about: all of it strangers' text."""
    new = proposal.new
    before = "" if proposal.before is None else f", instead of {proposal.before.version}"
    lines = [f"{new.name} {new.version}{before}: {_kinds(new.plugins)}"]
    lines += [f"  {each.file}  sha256:{each.sha256}" for each in new.wheels]
    lines += [f"  left out, as it would run by itself: {each}" for each in new.left_out]
    for plugin, more in proposal.more.items():
        # At first all of it, what it is held to as well; later what is asked for beyond that.
        wants = new.accepted[plugin].needs() if proposal.before is None else more
        lines += [f"  {plugin.partition(':')[2]} needs {each}" for each in wants]
    if proposal.dropped:
        lines.append(f"  no longer in it: {_kinds(proposal.dropped)}")
    _echo(*lines)


def _kinds(plugins: Iterable[Plugin]) -> str:
    return ", ".join(
        f"{each.group.removeprefix('solward.').removesuffix('s')} {each.name}" for each in plugins
    )


def _done(text: str) -> None:
    from solward.plugins.folders.layout import is_in_use

    when = (
        "The running service takes it over; what it could not, `solward plugins list` says."
        if is_in_use(_home())
        else "Takes effect at the service's next start."
    )
    _echo(f"{text} {when}")


def _echo(*lines: str) -> None:
    from solward_cli.render import visible

    for line in lines:
        click.echo(visible(line))


def _home() -> Path:
    from solward.settings import Settings

    return Settings().solward_home


def purge_state(settings: Settings, name: str) -> str:
    """Delete them; what was deleted in words, empty where there was nothing.

    Raises:
        ConfigError: the running service did not do it, and why.
        KeystoreError, StoreError: the database cannot be used.
    """
    from solward.database.database import database_file
    from solward.types.errors import HomeLocked

    file = database_file(settings.database_url, settings.solward_home)
    if file is not None and not file.exists():
        return ""
    try:
        entries, settings_ = asyncio.run(_offline(settings, name))
    except HomeLocked:
        entries, settings_ = asyncio.run(_by_service(settings, name))
    return f" Deleted {entries} entries and {settings_} settings." if entries or settings_ else ""


async def _offline(settings: Settings, name: str) -> tuple[int, int]:
    from solward.plugins.folders.layout import canonical
    from solward.plugins.state import PluginSettings, purge
    from solward.vault.custody import Wallets
    from solward_cli.offline import offline_database

    async with offline_database(settings) as database:
        # The audit log goes on only with the keystore open.
        await Wallets.open(database, settings, settings.solward_home)
        found: Purged = await purge(PluginSettings(database), canonical(name))
        return found.entries, found.settings


async def _by_service(settings: Settings, name: str) -> tuple[int, int]:
    from solward.client import BadRequest, SolwardClient
    from solward.types.errors import ConfigError, SolwardError

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
                    f" the running service answered: {error}. The same command deletes them"
                ) from None
            return answer.entries, answer.settings
