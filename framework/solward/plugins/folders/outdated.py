"""Newer versions of plugins' distributions, as pip finds them where it is configured to look."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from solward.plugins.folders.layout import canonical
from solward.plugins.folders.resolve import PipFailed, environment, resolve
from solward.types.errors import FolderError

# Somebody waits for it; each pip takes a second or two where the index answers.
PIP_S = 30
_AT_ONCE = 4
# What pip says where the index did not answer, and of a name that it knows.
_NO_ANSWER = re.compile(
    r"after connection broken|Could not fetch URL|[Cc]onnection error|timed out|not done after"
)
_VERSIONS = re.compile(r"\(from versions: (?!none\))")
# One try beside the first, each short: pip's own five would be minutes.
_SOON = ("--retries", "1", "--timeout", "5")


@dataclass(frozen=True, slots=True)
class Newer:
    """What pip says of one distribution.

    Attributes:
        newest: the newest version that is newer than the installed one and has a wheel for this
            machine and Python; None where there is none, or `unknown`.
        conflict: why it cannot be installed beside this Solward; None where it can.
        unknown: why nothing is known; None where something is.
        offline: whether that is because no package index answered.
    """

    distribution: str
    installed: str
    newest: str | None = None
    conflict: str | None = None
    unknown: str | None = None
    offline: bool = False


def newer(installed: Mapping[str, str]) -> Sequence[Newer]:
    """Ask pip about distributions, in their order; nothing is installed and nothing of them runs.

    Args:
        installed: version by name.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda each: _newer(*each), installed.items()))


def _newer(distribution: str, version: str) -> Newer:
    name = canonical(distribution)
    with tempfile.TemporaryDirectory(prefix="solward-outdated-") as folder:
        # A local part, as of one's own build, cannot be compared.
        wanted = f"{name}>{version.partition('+')[0]}"
        try:
            found = resolve(
                wanted, Path(folder), (*_SOON, "--no-deps", "--ignore-installed"), seconds=PIP_S
            )
            newest = str(found[name]["metadata"]["version"])
        except (FolderError, KeyError) as error:
            return _without(distribution, version, error)
        return Newer(distribution, version, newest, _conflict(name, newest, Path(folder)))


def _without(distribution: str, version: str, error: Exception) -> Newer:
    said = error.said if isinstance(error, PipFailed) else str(error)
    offline = _NO_ANSWER.search(said) is not None
    if not offline and _VERSIONS.search(said):
        return Newer(distribution, version)
    why = "no version of it is there"
    if offline:
        why = "the package index did not answer"
    elif not isinstance(error, PipFailed):
        why = said
    return Newer(distribution, version, unknown=why, offline=offline)


def _conflict(name: str, newest: str, folder: Path) -> str | None:
    """What installing it would change of the service's environment; None for nothing."""
    have = {key: each for key, each in environment().items() if key != name}
    try:
        found = resolve(f"{name}=={newest}", folder, _SOON, seconds=PIP_S)
    except PipFailed as error:
        return error.reason
    for key, item in found.items():
        if key in have:
            needed = item["metadata"]["version"]
            return f"it needs {key} {needed}, and the service has {key} {have[key]}"
    return None
