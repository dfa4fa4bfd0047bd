"""`solward plugins` and `solward skills`; what is installed is listed without a service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from solward.types.errors import SolwardError
from solward_cli.entrypoint import refusals
from solward_cli.plugins import folders
from solward_cli.plugins.check import check, key, verify
from solward_cli.plugins.new import new
from solward_cli.plugins.skills import settings, store
from solward_cli.render import visible

if TYPE_CHECKING:
    from solward.client import PluginProblem
    from solward.plugins import Registry
    from solward.settings import Settings
    from solward.types.manifest import Terms

LOADED = "loaded"
DEMO = "with --demo"
LEFT_OUT = "left out"
RUNNING = "running service"

_STYLES = {LOADED: "green", DEMO: "cyan", LEFT_OUT: "bold red", RUNNING: "bold red"}
# A service answers within a moment, or the list goes without it.
_ASK_S = 5.0


@click.group()
def plugins() -> None:
    """Plugins of all kinds: skills, providers, guardrails, venues, payments."""


for _command in (new, check, key, verify, settings, store, *folders.COMMANDS):
    plugins.add_command(_command)


@dataclass(frozen=True, slots=True)
class Row:
    """One plugin as it is listed.

    Attributes:
        problem: why it is left out, with `detail`; else empty.
        needs: what it declares, in words, of one that is left out what was accepted; with the
            secrets that are not set.
        where: the folder of its own, or empty for the service's environment.
    """

    name: str
    kind: str
    distribution: str
    version: str
    status: str
    problem: str = ""
    detail: str = ""
    needs: tuple[str, ...] = ()
    where: str = ""


@plugins.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_plugins(as_json: bool) -> None:
    """List every plugin found: to be loaded, or left out and why.

    Where a service runs in this home, its own problems too.
    """
    from solward.plugins.folders.layout import described
    from solward.settings import Settings

    with refusals():
        settings = Settings()
        registry = asyncio.run(_registry(settings))
    rows = list(rows_of(registry, settings))
    known = {(row.name, row.distribution, row.problem) for row in rows}
    rows += [
        row
        for row in _of_running_service(settings)
        if (row.name, row.distribution, row.problem) not in known
    ]
    if as_json:
        places = [
            {
                "name": place.distribution,
                "version": place.version,
                "own": None if place.installed is None else described(place.installed),
                "runsInService": list(place.runs),
                "trust": place.trust,
            }
            for place in registry.places
        ]
        listed = {"plugins": [asdict(row) for row in rows], "distributions": places}
        click.echo(json.dumps(listed))
        return
    _show(rows)
    # A shell without the service's settings has another home, whose list looks as whole.
    click.echo(f"Of SOLWARD_HOME {settings.solward_home}.", err=True)
    # Where third parties' code is, and what that trusts.
    for place in registry.places:
        if place.trust is not None:
            name = f"{place.distribution} {place.version}"
            text = f"{name} is in the service's environment: {place.trust}"
            click.echo(visible(text), err=True)


def rows_of(registry: Registry, settings: Settings) -> Iterator[Row]:
    """Loaded plugins, built-ins first, then those left out."""
    from solward.plugins.discovery import BUILT_IN
    from solward.types.manifest import KINDS, Terms

    def needs(terms: Terms) -> tuple[str, ...]:
        return terms.needs(settings.unset(terms))

    own = {each.distribution: each.installed for each in registry.places}
    left_out = {(KINDS.get(each.group, ""), each.plugin) for each in registry.problems}
    loaded = {
        (plugin.distribution != BUILT_IN, kind, name): plugin
        for kind, name, plugin in registry.every()
        # What refuses in place of a guardrail that is left out is none.
        if kind != "guardrail" or (kind, name) not in left_out
    }
    for (_, kind, name), plugin in sorted(loaded.items(), key=lambda each: each[0]):
        spec = getattr(plugin, "spec", None)
        folder = own.get(plugin.distribution)
        yield Row(
            name,
            kind,
            plugin.distribution,
            plugin.version,
            DEMO if getattr(spec, "demo", False) else LOADED,
            needs=needs(Terms.of(spec)),
            where="" if folder is None else str(folder.folder),
        )
    accepted = {
        (place.distribution, plugin): terms
        for place in registry.places
        if place.installed is not None
        for plugin, terms in place.installed.accepted.items()
    }
    for problem in registry.problems:
        terms = accepted.get((problem.distribution, f"{problem.group}:{problem.plugin}"))
        yield Row(
            problem.plugin,
            KINDS.get(problem.group, ""),
            problem.distribution,
            problem.version,
            LEFT_OUT,
            problem.code.value,
            problem.detail,
            needs=() if terms is None else needs(terms),
        )


def _of_running_service(settings: Settings) -> list[Row]:
    """Problems that a service has which runs in this home, such as another version elsewhere."""
    from solward.client import SolwardClient
    from solward.plugins.folders.layout import is_in_use

    async def asked() -> Sequence[PluginProblem]:
        client = SolwardClient(*settings.client_target)
        async with asyncio.timeout(_ASK_S), client:
            return (await client.plugins()).problems

    if not is_in_use(settings.solward_home):
        return []
    try:
        return [
            Row(each.plugin, "", each.distribution or "", "", RUNNING, each.code, each.detail)
            for each in asyncio.run(asked())
        ]
    except (SolwardError, TimeoutError) as error:
        text = f"The service that runs in this home does not say its problems: {error}"
        click.echo(visible(text), err=True)
        return []


async def _registry(settings: Settings) -> Registry:
    """The plugins as a service would load them, third parties' in plugin hosts."""
    from solward.hosts.plugins import plugin_hosts
    from solward.plugins import open_registry

    async with plugin_hosts(settings.solward_plugins_unconfined) as hosts:
        return await open_registry(
            settings.plugins, hosts=hosts, demo=True, home=settings.solward_home
        )


def _show(rows: Sequence[Row]) -> None:
    """A row a plugin. A terminal is too narrow for what many words say: it has that in lines
    below."""
    from solward_cli.render import is_terminal, plain, show, table

    columns = ["NAME", "KIND", "DISTRIBUTION", "VERSION", "STATUS"]
    cells = [
        (row.name, row.kind, row.distribution, row.version, plain(row.status, _STYLES[row.status]))
        for row in rows
    ]
    if not is_terminal():
        columns += ["PROBLEM", "DETAIL", "NEEDS", "FOLDER"]
        words = [(row.problem, row.detail, "; ".join(row.needs), row.where) for row in rows]
        show(table(columns, [(*one, *two) for one, two in zip(cells, words, strict=True)], ""))
        return
    show(table(columns, cells, ""))
    for row in rows:
        if row.needs:
            show(plain(f"{row.name} needs {'; '.join(row.needs)}"))
        if row.where:
            show(plain(f"{row.name} is in {row.where}"))
    for row in rows:
        if row.problem:
            show(plain(f"{row.name} of {row.distribution}: {row.problem}: {row.detail}"))
