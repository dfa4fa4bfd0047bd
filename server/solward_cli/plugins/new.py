"""`solward plugins new`: a plugin copied and renamed from the shipped template."""

from __future__ import annotations

import keyword
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from solward_cli.entrypoint import refuse

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
        """Entry point name -> module, for a plugin package."""
        return {f"{package}{end}": f"{package}.{module}" for end, module in self.plugins.items()}


KINDS = {
    "skill": Kind("solward.skills", {"": "tip", "_total": "total"}, "Skill"),
    "provider": Kind("solward.providers", {"": "provider"}, "Provider"),
    "guardrail": Kind("solward.guardrails", {"": "guardrail"}, "Guardrail"),
    "venue": Kind("solward.venues", {"": "venue"}, "Venue"),
    "payment": Kind("solward.payments", {"": "payment"}, "Payment"),
}


@click.command("new")
@click.argument("name")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="skill",
    show_default=True,
    help="What the plugin is to be.",
)
def new(name: str, directory: Path | None, kind: str) -> None:
    """Make a plugin NAME in the new folder DIR, with tests that pass.

    DIR is ./NAME where it is not given. The kind `skill` makes two, one that spends and one that
    reads.
    """
    folder = Path(name) if directory is None else directory
    try:
        problem = _wrong_name(name) or _wrong_folder(folder) or _conflict(name, KINDS[kind])
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
        for path, text in contents(name, kind):
            target = draft / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        draft.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def contents(name: str, kind: Kind) -> Iterator[tuple[Path, str]]:
    """Each file of the plugin, by its path in it."""
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
        yield Path(_renamed(str(path), name)), _renamed(text, name)


# Left by tests, builds, and pip, which compiles the installed template.
_GENERATED = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv", "dist"}


def template_root() -> Path:
    """The template: in the wheel beside `solward_cli`'s modules, else at the top of the source
    tree."""
    package = Path(__file__).parents[1]
    shipped = package / "plugin_template"
    return shipped if shipped.is_dir() else package.parents[1] / "plugin_template"


def _renamed(text: str, name: str) -> str:
    text = text.replace(TEMPLATE, name).replace(TEMPLATE.upper(), name.upper())
    return text.replace(TEMPLATE.replace("_", "-"), name.replace("_", "-"))


def _wrong_name(name: str) -> str | None:
    if len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        return (
            f"NAME must be like tip_jar: a-z, 0-9 and single _ between them, at most {MAX_NAME} "
            f"characters, a letter first; got {name[: 2 * MAX_NAME]!r}"
        )
    if keyword.iskeyword(name) or name in sys.stdlib_module_names:
        return f"{name} is a module or a word of Python; choose another name"
    return None


def _wrong_folder(folder: Path) -> str | None:
    if folder.exists() or folder.is_symlink():
        return f"{folder} exists; name a new folder, or remove it"
    if not folder.parent.is_dir():
        return f"{folder.parent} is no folder; make it first"
    return None


def _conflict(name: str, kind: Kind) -> str | None:
    """Why the name conflicts with what is installed, else None."""
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec

    from solward.plugins.discovery import discover
    from solward.vault.guardrails.rules import RULES

    wanted = kind.entry_points(name)
    for candidate in discover(("*",))[0]:
        if candidate.name in wanted:
            owner = "is built in" if candidate.built_in else f"is of {candidate.distribution}"
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
