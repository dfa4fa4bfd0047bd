"""`solward plugins list` and `solward skills list`: what is installed, without a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from solward.registry import Registry


@click.group()
def plugins() -> None:
    """Skills, providers and venues that are installed."""


@click.group()
def skills() -> None:
    """What an agent can do."""


@plugins.command("list")
def list_plugins() -> None:
    """List every plugin found, and those left out with the reason."""
    registry = _registry()
    rows = [
        (kind, name, f"{plugin.distribution} {plugin.version}")
        for kind, found in (
            ("skill", registry.skills),
            ("provider", registry.providers),
            ("venue", registry.venues),
        )
        for name, plugin in found.items()
    ]
    rows += [("guardrail", name, "") for name, _check in registry.guardrails]
    _columns(rows)
    for problem in registry.problems:
        click.echo(f"not loaded: {problem}")


@skills.command("list")
def list_skills() -> None:
    """List the skills with their effects and descriptions."""
    _columns(
        [
            (name, skill.spec.effects.value, skill.spec.description)
            for name, skill in _registry().skills.items()
        ]
    )


def _registry() -> Registry:
    from solward.registry import load_registry
    from solward.settings import Settings
    from solward_cli.running import refusals

    with refusals():
        return load_registry(Settings().plugins, demo=True)


def _columns(rows: list[tuple[str, str, str]]) -> None:
    first = max((len(row[0]) for row in rows), default=0)
    second = max((len(row[1]) for row in rows), default=0)
    for one, two, three in rows:
        click.echo(f"{one:<{first}}  {two:<{second}}  {three}".rstrip())
