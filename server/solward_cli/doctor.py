"""`solward doctor`: what this machine can do, and what to do where it cannot."""

from __future__ import annotations

import json
import platform
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from pathlib import Path

    from solward.hosts.confinement import Availability

_MINIMUM = "Linux 6.2"
_ALREADY = "nothing"


class Line(NamedTuple):
    """One ability of the machine: what was found, and what to do about it."""

    name: str
    found: str
    advice: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Print what this machine can do; exit code 1 where plugin hosts cannot be confined."""
    from solward.hosts.confinement import available
    from solward.settings import Settings
    from solward_cli.entrypoint import refusals
    from solward_cli.render import show, table

    with refusals():
        settings = Settings()
    found = available()
    lines = diagnosis(found, settings.solward_plugins_unconfined)
    lines.append(_models(settings.models_folder))
    if as_json:
        confined = {"confinement": found.available, "lines": [line._asdict() for line in lines]}
        click.echo(json.dumps(confined, indent=2))
    else:
        show(table(("Part", "Found", "To do"), lines, ""))
    sys.exit(0 if found.available else 1)


def diagnosis(found: Availability, unconfined: tuple[str, ...]) -> list[Line]:
    """The lines of `solward doctor`.

    Args:
        unconfined: the names in SOLWARD_PLUGINS_UNCONFINED.
    """
    from solward.hosts.confinement import seccomp

    abi = found.landlock_abi
    kernel = f"{platform.system()} {platform.release()}, {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    known = seccomp.supported()
    return [
        Line("Python", f"{python}, {sys.maxsize.bit_length() + 1} bits", _ALREADY),
        Line("Platform", kernel, _ALREADY if _linux() else f"run the service on {_MINIMUM}"),
        Line("Landlock", {-1: "switched off", 0: "none"}.get(abi, f"ABI {abi}"), _landlock(abi)),
        Line(
            "seccomp",
            "calls of this architecture are known" if known else "unknown architecture",
            _ALREADY if known else "use x86-64 or ARM with a Python of 64 bits",
        ),
        Line(
            "Confinement",
            f"tried in a child process: {found.reason or 'holds'}",
            _ALREADY if found.available else "see the lines above" if _lacks(abi) else _CONTAINER,
        ),
        _hosts(found, unconfined),
    ]


_CONTAINER = "let the container's seccomp profile pass prctl, seccomp and landlock_* calls"


def _linux() -> bool:
    return sys.platform == "linux"


def _lacks(abi: int) -> bool:
    from solward.hosts.confinement import landlock, seccomp

    return not _linux() or abi < landlock.MINIMUM_ABI or not seccomp.supported()


def _landlock(abi: int) -> str:
    from solward.hosts.confinement.landlock import MINIMUM_ABI

    if abi >= MINIMUM_ABI:
        return _ALREADY
    if abi == -1:
        return "add landlock to the kernel's parameter lsm= and restart the machine"
    if abi:
        return f"run {_MINIMUM} or later"
    return f"run {_MINIMUM} or later; in a container, {_CONTAINER}"


def _models(root: Path) -> Line:
    from solward.folders.models import COMMAND, beside_the_service, installed

    folder = installed(root)
    if beside_the_service():
        remove = "take litellm out (pip uninstall litellm)"
        return Line(
            "Language models",
            "litellm is in the service's environment: what it runs at each start runs beside keys",
            remove if folder is not None else f"{remove}, then `{COMMAND}`",
        )
    if folder is not None:
        return Line("Language models", "litellm is in a folder of its own", _ALREADY)
    return Line("Language models", "litellm is not installed", COMMAND)


def _hosts(found: Availability, unconfined: tuple[str, ...]) -> Line:
    if not _linux():
        return Line("Plugin hosts", f"none on {sys.platform}", f"run the service on {_MINIMUM}")
    if found.available:
        text = "hosts of third parties are confined"
        advice = "take out SOLWARD_PLUGINS_UNCONFINED" if unconfined else _ALREADY
    elif unconfined:
        text = f"run unconfined: {', '.join(unconfined)}; other third parties are refused"
        advice = "remove them, or mend the lines above; mainnet refuses them"
    else:
        text = "hosts of third parties are refused"
        advice = (
            "mend the lines above, or name a distribution that you trust with this machine in"
            " SOLWARD_PLUGINS_UNCONFINED"
        )
    return Line("Plugin hosts", text, advice)
