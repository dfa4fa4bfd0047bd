"""`solward plugins list --outdated`: which distributions have a newer version, as pip says."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from solward.plugins.folders.resolve import Newer
    from solward.settings import Settings

_EXIT_UNKNOWN = 1


def list_outdated(settings: Settings, as_json: bool) -> None:
    """Print what could be upgraded, and how; exits with 1 where no package index answered."""
    from solward.plugins.folders.resolve import newer
    from solward_cli.render import show, table, visible

    own, beside = _installed(settings)
    # What is in both runs from the environment.
    found = newer({**own, **beside})
    if as_json:
        click.echo(json.dumps({"distributions": [_json(each, beside) for each in found]}, indent=2))
    else:
        rows = [
            (each.distribution, each.installed, each.newest, each.conflict or _how(each, beside))
            for each in found
            if each.newest is not None
        ]
        columns = ("DISTRIBUTION", "INSTALLED", "NEWEST", "HOW, OR WHY NOT")
        show(table(columns, rows, "Nothing could be upgraded, as far as is known."))
        for each in found:
            if each.unknown is not None:
                text = f"{each.distribution} {each.installed}: not known: {each.unknown}"
                click.echo(visible(text), err=True)
    if any(each.offline for each in found):
        sys.exit(_EXIT_UNKNOWN)


def _installed(settings: Settings) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Version by name of the distributions in folders of their own, and of those with plugins in
    the service's environment."""
    from solward.plugins.discovery import survey
    from solward.plugins.folders import layout

    beside = {each.distribution: each.version for each in survey(("*",))[2]}
    own = {each.name: each.version for each in layout.installed(settings.solward_home)[0]}
    return own, beside


def _how(one: Newer, beside: Mapping[str, str]) -> str:
    if one.distribution in beside:
        return f"pip install --upgrade {one.distribution}"
    return f"solward plugins upgrade {one.distribution}"


def _json(one: Newer, beside: Mapping[str, str]) -> dict[str, Any]:
    known = one.newest is not None
    return {
        "name": one.distribution,
        "installed": one.installed,
        "newest": one.newest,
        "own": one.distribution not in beside,
        "compatible": one.conflict is None if known else None,
        "conflict": one.conflict,
        "upgrade": _how(one, beside) if known and one.conflict is None else None,
        "unknown": one.unknown,
    }
