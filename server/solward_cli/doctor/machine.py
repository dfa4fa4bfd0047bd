"""Check `machine`: what this machine can do, the confinement of plugin hosts above all."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

from solward_cli.doctor.report import NOTHING, Line, Status

if TYPE_CHECKING:
    from pathlib import Path

    from solward.hosts.confinement import Availability
    from solward_cli.doctor.subject import Subject

_MINIMUM = "Linux 6.2"
_CONFINEMENT = "Confinement"


async def check(subject: Subject) -> list[Line]:
    """Python, kernel, confinement of plugin hosts, and the language models' library."""
    from solward.hosts.confinement import available

    settings = subject.settings
    found = available()
    lines = diagnosis(found, settings.solward_plugins_unconfined)
    return [_judged(line, found.available) for line in [*lines, _models(settings.models_folder)]]


def _judged(line: Line, confines: bool) -> Line:
    """A line with its status: without confinement third parties' plugins are refused."""
    if line.name == _CONFINEMENT and not confines:
        return line._replace(status=Status.FAIL)
    return line if line.advice == NOTHING else line._replace(status=Status.WARN)


def diagnosis(found: Availability, unconfined: tuple[str, ...]) -> list[Line]:
    """The lines about the machine.

    Args:
        unconfined: the names in SOLWARD_PLUGINS_UNCONFINED.
    """
    from solward.hosts.confinement import seccomp

    abi = found.landlock_abi
    kernel = f"{platform.system()} {platform.release()}, {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    known = seccomp.supported()
    return [
        Line("Python", f"{python}, {sys.maxsize.bit_length() + 1} bits", NOTHING),
        Line("Platform", kernel, NOTHING if _linux() else f"run the service on {_MINIMUM}"),
        Line("Landlock", _known(abi), _landlock(abi)),
        Line(
            "seccomp",
            "calls of this architecture are known" if known else "unknown architecture",
            NOTHING if known else "use x86-64 or ARM with a Python of 64 bits",
        ),
        Line(
            _CONFINEMENT,
            f"tried in a child process: {found.reason or 'holds'}",
            NOTHING if found.available else "see the lines above" if _lacks(abi) else _FILTER,
        ),
        _hosts(found, unconfined),
    ]


_FILTER = (
    "let a container's seccomp profile, and a systemd unit's SystemCallFilter, pass prctl, seccomp"
    " and landlock_* calls"
)


def _linux() -> bool:
    return sys.platform == "linux"


def _lacks(abi: int) -> bool:
    from solward.hosts.confinement import landlock, seccomp

    return not _linux() or abi < landlock.MINIMUM_ABI or not seccomp.supported()


def _known(abi: int) -> str:
    from solward.hosts.confinement.landlock import FILTERED, SWITCHED_OFF

    absent = {SWITCHED_OFF: "switched off", FILTERED: "refused by a seccomp filter", 0: "none"}
    return absent.get(abi, f"ABI {abi}")


def _landlock(abi: int) -> str:
    from solward.hosts.confinement.landlock import FILTERED, MINIMUM_ABI, SWITCHED_OFF

    if abi >= MINIMUM_ABI:
        return NOTHING
    if abi == SWITCHED_OFF:
        return "add landlock to the kernel's parameter lsm= and restart the machine"
    if abi == FILTERED:
        return _FILTER
    if abi:
        return f"run {_MINIMUM} or later"
    return f"run {_MINIMUM} or later; {_FILTER}"


def _models(root: Path) -> Line:
    from solward.plugins.folders.models import COMMAND, beside_the_service, installed

    folder = installed(root)
    if beside_the_service():
        remove = "take litellm out (pip uninstall litellm)"
        return Line(
            "Language models",
            "litellm is in the service's environment: what it runs at each start runs beside keys",
            remove if folder is not None else f"{remove}, then `{COMMAND}`",
        )
    if folder is not None:
        return Line("Language models", "litellm is in a folder of its own", NOTHING)
    return Line("Language models", "litellm is not installed", COMMAND)


def _hosts(found: Availability, unconfined: tuple[str, ...]) -> Line:
    if not _linux():
        return Line("Plugin hosts", f"none on {sys.platform}", f"run the service on {_MINIMUM}")
    if found.available:
        text = "hosts of third parties are confined"
        advice = "take out SOLWARD_PLUGINS_UNCONFINED" if unconfined else NOTHING
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
