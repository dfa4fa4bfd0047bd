"""`solward plugins key` and `verify`: who ran the conformance kit, and on which bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from solward.plugins.check_results import CheckResult


@click.command("key")
@click.argument("file", type=click.Path(path_type=Path))
def key(file: Path) -> None:
    """Make a key that signs results of `plugins check`, in the new FILE.

    Only its user can read FILE. What is printed is the public key, for those who verify results.
    """
    from solward.plugins.check_results import create_key
    from solward_cli.entrypoint import refusals

    with refusals():
        made = create_key(file)
    click.echo(made.public)


@click.command("verify")
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--key", "public", required=True, help="The public key of whoever checked.")
@click.argument("target", metavar="[WHEEL-or-NAME]", required=False)
def verify(result: Path, public: str, target: str | None) -> None:
    """Verify a signed RESULT of `plugins check`, and that it is of this wheel or installed plugin.

    NAME is a distribution in a folder of its own. A result says who ran the kit on which bytes, not
    that the plugin is harmless.
    """
    from solward.plugins.check_results import read_result
    from solward_cli.entrypoint import refusals
    from solward_cli.render import visible

    with refusals():
        said = read_result(result, public)
        about = (
            "No wheel or plugin was given to compare." if target is None else _same(said, target)
        )
    click.echo(visible(f"{summary(said)} {about}"))


COMMANDS = (key, verify)


def summary(said: CheckResult) -> str:
    """A verified result in a sentence."""
    tier = "a check failed, so no tier" if said.tier is None else said.tier
    return (
        f"{said.distribution} {said.version}: {tier}; checked on {said.date} with Solward"
        f" {said.solward}."
    )


def _same(said: CheckResult, target: str) -> str:
    from solward.plugins.folders.layout import canonical, read
    from solward.settings import Settings
    from solward.types.errors import FolderError

    if target.endswith(".whl"):
        said.check_wheel(Path(target))
        more = len(said.wheels) - 1
        needs = f" The {more} wheels that it needs were not compared." if more else ""
        return f"It is of this wheel.{needs}"
    one = read(Settings().solward_home, canonical(target))
    if one is None:
        raise FolderError(f"{target} is no wheel, and is not installed in a folder of its own")
    said.check_installed(one)
    return "It is of what is installed, with all that it needs."
