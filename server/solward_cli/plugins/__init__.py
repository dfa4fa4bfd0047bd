"""`solward plugins`, which lists plugins without a service, and `solward plugins new`, which copies
and renames the shipped template."""

from __future__ import annotations

import asyncio
import json
import keyword
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from solward.types.errors import SolwardError
from solward_cli.entrypoint import refusals, refuse
from solward_cli.plugins import folders
from solward_cli.plugins.check import check, key, verify
from solward_cli.render import visible
from solward_cli.skills import settings, store

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
# If a service does not answer within this time, the list goes without it.
_ASK_S = 5.0


@click.group()
def plugins() -> None:
    """Install, check and configure plugins."""


for _command in (check, key, verify, settings, store, *folders.COMMANDS):
    plugins.add_command(_command)


@dataclass(frozen=True, slots=True)
class Row:
    """A plugin's row in the list.

    Attributes:
        problem: why it is left out, with `detail`; else empty.
        needs: what it declares, or what was accepted if it is left out, in words; with the secrets
            that are not set.
        where: its own folder; empty if it is in the service's environment.
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
    """List the plugins that load, and why others are left out.

    If a service runs in this home, its plugin problems are listed too.
    """
    from solward.plugins.folders.layout import folder_fields
    from solward.settings import Settings

    with refusals():
        settings = Settings()
        registry = asyncio.run(_load_registry(settings))
    rows = list(rows_of(registry, settings))
    known = {(row.name, row.distribution, row.problem) for row in rows}
    rows += [
        row
        for row in _running_service_rows(settings)
        if (row.name, row.distribution, row.problem) not in known
    ]
    if as_json:
        places = [
            {
                "name": place.distribution,
                "version": place.version,
                "own": None if place.installed is None else folder_fields(place.installed),
                "runsInService": list(place.runs),
                "trust": place.trust,
            }
            for place in registry.places
        ]
        listed = {"plugins": [asdict(row) for row in rows], "distributions": places}
        click.echo(json.dumps(listed))
        return
    _print_rows(rows)
    # The home is named because a shell without the service's settings lists another one.
    click.echo(f"Plugins of SOLWARD_HOME {settings.solward_home}.", err=True)
    # Third-party code in the service's environment is named, with what it is trusted with.
    for place in registry.places:
        if place.trust is not None:
            name = f"{place.distribution} {place.version}"
            text = f"{name} is in the service's environment: {place.trust}"
            click.echo(visible(text), err=True)


def rows_of(registry: Registry, settings: Settings) -> Iterator[Row]:
    """Yield a row for each loaded plugin, built-ins first, then for each plugin left out."""
    from solward.plugins.discovery import BUILT_IN
    from solward.types.manifest import KINDS, Terms

    def needs(terms: Terms) -> tuple[str, ...]:
        return terms.needs(settings.unset(terms))

    own = {each.distribution: each.installed for each in registry.places}
    left_out = {(KINDS.get(each.group, ""), each.plugin) for each in registry.problems}
    loaded = {
        (plugin.distribution != BUILT_IN, kind, name): plugin
        for kind, name, plugin in registry.all_plugins()
        # What refuses everything in place of a guardrail that is left out is not listed.
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
            needs=needs(Terms.from_spec(spec)),
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


def _running_service_rows(settings: Settings) -> list[Row]:
    """Return the plugin problems that the service running in this home reports."""
    from solward.client import SolwardClient
    from solward.plugins.folders.layout import is_in_use

    async def service_problems() -> Sequence[PluginProblem]:
        client = SolwardClient(*settings.client_target)
        async with asyncio.timeout(_ASK_S), client:
            return (await client.plugins()).problems

    if not is_in_use(settings.solward_home):
        return []
    try:
        return [
            Row(each.plugin, "", each.distribution or "", "", RUNNING, each.code, each.detail)
            for each in asyncio.run(service_problems())
        ]
    except (SolwardError, TimeoutError) as error:
        text = f"The running service did not report its plugin problems: {error}"
        click.echo(visible(text), err=True)
        return []


async def _load_registry(settings: Settings) -> Registry:
    """Load the plugins as a service would, third parties' in plugin hosts."""
    from solward.hosts.plugins import plugin_hosts
    from solward.plugins import open_registry

    async with plugin_hosts(settings.solward_plugins_unconfined) as hosts:
        return await open_registry(
            settings.plugins, hosts=hosts, demo=True, home=settings.solward_home
        )


def _print_rows(rows: Sequence[Row]) -> None:
    """Print a row for each plugin; a terminal gets the long texts in lines below the table."""
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


TEMPLATE = "solward_plugin_template"
MAX_NAME = 40
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_ENTRY_POINTS = re.compile(r'\[project\.entry-points\."[^"]*"\]\n(?:[^\[\n].*\n)*\n')
_SECTION = re.compile(r"^## (\w+)\n(?:(?!## ).*\n?)*", re.M)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of plugin, and its part of the template.

    Attributes:
        group: the entry-point group.
        plugins: what follows NAME in an entry point's name -> its module in the template.
        heading: its section of the template's README.
    """

    group: str
    plugins: Mapping[str, str]
    heading: str

    def entry_points(self, package: str) -> dict[str, str]:
        """Map the names of entry points to modules, for a plugin package."""
        return {f"{package}{end}": f"{package}.{module}" for end, module in self.plugins.items()}


KINDS = {
    "skill": Kind("solward.skills", {"": "tip", "_total": "total"}, "Skill"),
    "provider": Kind("solward.providers", {"": "provider"}, "Provider"),
    "guardrail": Kind("solward.guardrails", {"": "guardrail"}, "Guardrail"),
    "venue": Kind("solward.venues", {"": "venue"}, "Venue"),
    "payment": Kind("solward.payments", {"": "payment"}, "Payment"),
}


@plugins.command("new")
@click.argument("name")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="skill",
    show_default=True,
    help="Kind of the plugin.",
)
def new(name: str, directory: Path | None, kind: str) -> None:
    """Create a plugin project with passing tests.

    DIR is ./NAME by default. The kind `skill` makes two skills: one spends, one reads.
    """
    folder = Path(name) if directory is None else directory
    try:
        problem = _name_problem(name) or _folder_problem(folder) or _conflict(name, KINDS[kind])
        if problem is not None:
            refuse(problem)
        create(name, KINDS[kind], folder)
    except OSError as error:
        refuse(f"{folder} cannot be made: {error.strerror or error}")
    plugins = " and ".join(KINDS[kind].entry_points(name))
    path = str(folder) if folder.is_absolute() else f"./{folder}"
    click.echo(f"Made {path}: {kind} {plugins}. Next:")
    click.echo(f"  pip install -e {shlex.quote(f'{path}[test]')}")
    click.echo(f"  pytest {shlex.quote(path)}")
    click.echo(f"  solward plugins check {shlex.quote(path)}")


def create(name: str, kind: Kind, folder: Path) -> None:
    """Write the plugin's folder completely, or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        draft = temporary / name
        draft.mkdir()
        for path, text in project_files(name, kind):
            target = draft / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        draft.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def project_files(name: str, kind: Kind) -> Iterator[tuple[Path, str]]:
    """Yield each file of a new plugin: its path in the project, and its text."""
    root = template_root()
    others = {module for each in KINDS.values() for module in each.plugins.values()}
    others -= set(kind.plugins.values())
    for source in sorted(root.rglob("*")):
        path = source.relative_to(root)
        generated = any(part in _GENERATED for part in path.parts)
        if generated or not source.is_file() or path.stem.removeprefix("test_") in others:
            continue
        text = source.read_text(encoding="utf-8")
        if path.name == "pyproject.toml":
            points = kind.entry_points(TEMPLATE).items()
            lines = "".join(f'{name} = "{module}"\n' for name, module in points)
            table = f'[project.entry-points."{kind.group}"]\n{lines}\n'
            first = _ENTRY_POINTS.search(text)
            assert first is not None
            rest = _ENTRY_POINTS.sub("", text[first.start() :])
            text = text[: first.start()] + table + rest
        elif path.name == "README.md":
            left_out = {each.heading for each in KINDS.values()} - {kind.heading}
            sections = _SECTION.sub(lambda each: "" if each[1] in left_out else each[0], text)  # noqa: B023 - used at once
            text = sections.rstrip() + "\n"
        yield Path(_rename_template(str(path), name)), _rename_template(text, name)


# Left by tests, builds, and pip, which compiles the installed template.
_GENERATED = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv", "dist"}


def template_root() -> Path:
    """Return the template's folder: in the wheel with `solward_cli`, else in the source tree."""
    package = Path(__file__).parents[1]
    shipped = package / "plugin_template"
    return shipped if shipped.is_dir() else package.parents[1] / "plugin_template"


def _rename_template(text: str, name: str) -> str:
    text = text.replace(TEMPLATE, name).replace(TEMPLATE.upper(), name.upper())
    return text.replace(TEMPLATE.replace("_", "-"), name.replace("_", "-"))


def _name_problem(name: str) -> str | None:
    if len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        return (
            f"NAME must be like tip_jar: a-z, 0-9 and single _ between them, at most {MAX_NAME} "
            f"characters, a letter first; got {name[: 2 * MAX_NAME]!r}"
        )
    if keyword.iskeyword(name) or name in sys.stdlib_module_names:
        return f"{name} is a module or keyword of Python; choose another name"
    return None


def _folder_problem(folder: Path) -> str | None:
    if folder.exists() or folder.is_symlink():
        return f"{folder} exists; name a new folder, or remove it"
    if not folder.parent.is_dir():
        return f"{folder.parent} is not a folder; make it first"
    return None


def _conflict(name: str, kind: Kind) -> str | None:
    """Return why the name conflicts with what is installed, or None."""
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec

    from solward.plugins.discovery import discover
    from solward.vault.guardrails.rules import RULES

    wanted = kind.entry_points(name)
    for candidate in discover(("*",))[0]:
        if candidate.name in wanted:
            owner = "is built in" if candidate.built_in else f"belongs to {candidate.distribution}"
            word = candidate.group.removeprefix("solward.").removesuffix("s")
            return f"the {word} {candidate.name} {owner}; choose another name"
    for rule in RULES:
        if rule in wanted:
            return f"the guardrail {rule} is built in; choose another name"
    found = find_spec(name)
    # A mere folder of that name in the working directory has no origin.
    if found is not None and found.origin is not None:
        return f"a module {name} is installed already; choose another name"
    try:
        # pip would treat the plugin as a new version of that distribution, and remove it.
        installed = distribution(name).metadata["Name"]
    except PackageNotFoundError:
        return None
    return f"a distribution {installed} is installed already; choose another name"
