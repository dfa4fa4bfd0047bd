"""`solward models install`: the vendors' libraries, away from the service's environment."""

from __future__ import annotations

import click

from solward_cli.entrypoint import refusals


@click.group()
def models() -> None:
    """The libraries that language models of the vendors are called with."""


@models.command("install")
def install() -> None:
    """Unpack litellm and what it needs into a folder of their own.

    65 MB are downloaded and 270 MB unpacked: wheels alone, with the hashes of this release. Nothing
    of them runs here, and the service's environment stays as it is; model hosts alone import them.
    """
    from solward.plugins.folders.models import beside_the_service, installed, others
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
    for each in others(root):
        click.echo(f"Of another release or Python, yours to remove: {each}", err=True)
    if beside_the_service():
        click.echo(
            "litellm is in the service's environment too: what it runs at each start runs beside"
            " keys, and model hosts import that one. Take it out: pip uninstall litellm",
            err=True,
        )
