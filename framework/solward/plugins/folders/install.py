"""Install, upgrade, remove, enable and disable distributions in folders of their own.

pip resolves and downloads the wheels of a distribution and of its dependencies.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

from solward.plugins.folders import layout
from solward.plugins.folders.layout import InstalledDistribution, Plugin, canonical
from solward.plugins.folders.storage import empty_folder, storage_folder
from solward.plugins.folders.wheels import Tree, check_modules, parse_wheel_name
from solward.support import jsontext
from solward.support.child_processes import child_environment
from solward.types.errors import FolderError
from solward.types.manifest import GROUPS, Terms, misspelt_group

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?)"
    r"(?:\[[A-Za-z0-9._,-]{1,200}\])?"
    r"(?:(?:==|>=|<=|~=|!=|<|>)[A-Za-z0-9.*+!]{1,60}(?:,(?=[=<>~!])|\Z))*"
)
_SOURCES = (".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar")
# pip builds a requirement with a URL even if only wheels are allowed, and a build runs its code.
# No code of a wheel runs in pip's process, so nothing there can bypass the hook.
_BOOTSTRAP = """\
import runpy, sys
def refuse(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
                 "os.forkpty", "os.system"):
        raise PermissionError("only wheels are installed: nothing is built and no program runs")
sys.addaudithook(refuse)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
_OPTIONS = ("--no-input", "--disable-pip-version-check", "--quiet", "--no-color")
# Variables of pip's configuration and network; none changes where pip writes or its interpreter.
_PASSED = (
    "ALL_PROXY",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "PIP_CACHE_DIR",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_NO_CACHE_DIR",
    "PIP_NO_INDEX",
    "PIP_PROXY",
    "PIP_RETRIES",
    "PIP_TIMEOUT",
    "PIP_TRUSTED_HOST",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
_PIP_S = 900
_MAX_REPORT = 64 << 20
_MAX_SAID = 600


class FetchedWheels(NamedTuple):
    """Downloaded wheels, in a folder that the caller owns.

    Attributes:
        name: canonical name of the distribution that was asked for.
        files: the wheels, that of the distribution first.
    """

    name: str
    files: tuple[Path, ...]


def target_name(target: str) -> str:
    """Return the canonical name of the distribution to install.

    Raises:
        FolderError: if the target is neither a wheel's file nor a name.
    """
    path = Path(target)
    if target.endswith(".whl"):
        return canonical(parse_wheel_name(path.name).name)
    if target.endswith(_SOURCES) or os.sep in target or path.exists():
        raise FolderError(
            f"{target} is no wheel. Building a source distribution or a folder would run its code:"
            " make a wheel of it first, such as with `python -m build --wheel`"
        )
    found = _REQUIREMENT.fullmatch(target)
    if found is None:
        raise FolderError(
            f"expected a wheel's file, or a name such as acme-tools==1.2; got {target!r}"
        )
    return canonical(found["name"])


def download_wheels(target: str, into: Path) -> FetchedWheels:
    """Download the wheels of a distribution and of the dependencies that the service lacks.

    Args:
        target: a wheel's file, or a name with or without versions.
        into: an empty folder of the caller's own.

    Raises:
        FolderError: if pip finds no wheels, a dependency conflicts with the service, or a file
            differs from what was resolved.
    """
    name = target_name(target)
    have = environment()
    if name in have:
        raise FolderError(
            f"{name} {have[name]} is installed in the service's environment; remove it there first"
            f" (pip uninstall {name})"
        )
    own: Path | None = None
    if target.endswith(".whl"):
        own = into / Path(target).name
        try:
            shutil.copyfile(target, own)
        except OSError as error:
            raise FolderError(f"{target} cannot be read: {error.strerror}") from None
        target = str(own)
    items = _checked_report(target, name, into, have)
    rest = {key: item for key, item in items.items() if own is None or key != name}
    if rest:
        _download(rest, into)
    files: dict[str, Path] = {}
    for path in sorted(into.glob("*.whl")):
        key = canonical(parse_wheel_name(path.name).name)
        expected = _expected_sha256(items.get(key, {}))
        if key not in items or key in files:
            raise FolderError(f"pip fetched {path.name}, which was not requested")
        with path.open("rb") as file:
            if expected not in (None, hashlib.file_digest(file, "sha256").hexdigest()):
                raise FolderError(
                    f"{path.name} is not the file that pip resolved: its hash differs"
                )
        files[key] = path
    if missing := items.keys() - files.keys():
        raise FolderError(f"pip fetched no wheel for {', '.join(sorted(missing))}")
    return FetchedWheels(name, (files.pop(name), *files.values()))


def environment() -> dict[str, str]:
    """Return the versions of the distributions in the service's environment, by canonical name."""
    have: dict[str, str] = {}
    for each in distributions():
        if each.metadata["Name"]:
            have.setdefault(canonical(each.metadata["Name"]), each.version or "")
    return have


def _checked_report(
    target: str, name: str, into: Path, have: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    """Return pip's report of each distribution to install, by canonical name; refuse conflicts."""
    found = _pip_report(target, into)
    for key, item in found.items():
        version = item["metadata"]["version"]
        if key in have:
            raise FolderError(
                f"{name} needs {key} {version}, but the service shares {key} {have[key]} with"
                f" its plugins; look for a version of {name} that accepts {have[key]}"
            )
        if item.get("is_direct") and key != name:
            raise FolderError(f"{name} needs {key} from a URL, which is not allowed")
    if name not in found:
        raise FolderError(f"pip found no {name} for {target}")
    return found


def _pip_report(requirement: str, into: Path) -> dict[str, Mapping[str, Any]]:
    """Return pip's report of all that it would install from wheels, by canonical name."""
    report = into / "report.json"
    given = ("--dry-run", "--no-user", "--only-binary", ":all:", "--report", str(report))
    run_pip(["install", *given, "--", requirement], into)
    with report.open("rb") as file:
        items = jsontext.loads(file.read(_MAX_REPORT))["install"]
    report.unlink()
    return {canonical(each["metadata"]["name"]): each for each in items}


def _download(items: Mapping[str, Mapping[str, Any]], into: Path) -> None:
    exact = [f"{key}=={item['metadata']['version']}" for key, item in items.items()]
    options = ("--no-deps", "--only-binary", ":all:", "--dest", str(into))
    run_pip(["download", *options, "--", *exact], into)


def _expected_sha256(item: Mapping[str, Any]) -> str | None:
    archive = item.get("download_info", {}).get("archive_info", {})
    found = archive.get("hashes", {}).get("sha256")
    return None if found is None else str(found)


def run_pip(arguments: Sequence[str], folder: Path) -> None:
    """Run pip in the service's interpreter, isolated.

    Raises:
        FolderError: if it fails, takes too long, or is not installed.
    """
    command = [sys.executable, "-I", "-c", _BOOTSTRAP, *_OPTIONS, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - this very interpreter
            command,
            env=child_environment(*_PASSED, values={"TMPDIR": str(folder)}),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PIP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FolderError(f"pip did not finish within {_PIP_S} s") from None
    if done.returncode != 0:
        said = " ".join(done.stdout.decode(errors="replace").split())
        if "No module named pip" in said:
            raise FolderError(
                "the service's environment has no pip: add it with `python -m ensurepip`"
            )
        raise FolderError(f"pip failed: …{said[-_MAX_SAID:]}")


Declare = Callable[[InstalledDistribution], Mapping[str, Terms]]
"""Returns the needs of a folder's plugins by `group:name`; this process does not import them."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An installation that an operator may have to accept.

    Attributes:
        before: the distribution's present installation; None if there is none.
        more: needs of the plugins beyond the accepted needs, as text, by `group:name`.
    """

    new: InstalledDistribution
    before: InstalledDistribution | None
    more: Mapping[str, tuple[str, ...]]

    @property
    def dropped(self) -> tuple[Plugin, ...]:
        """The plugins that are installed now and absent in the new version."""
        had = () if self.before is None else self.before.plugins
        has = {(each.group, each.name) for each in self.new.plugins}
        return tuple(each for each in had if (each.group, each.name) not in has)

    @property
    def needs_acceptance(self) -> bool:
        """True if somebody has to accept it: a first installation, or an upgrade that needs more or
        drops a plugin, which may be a guardrail."""
        return self.before is None or any(self.more.values()) or bool(self.dropped)


Accept = Callable[[Proposal], bool]


def install(
    home: Path,
    target: str,
    *,
    accept: Accept,
    declare: Declare | None = None,
    upgrade: bool = False,
) -> InstalledDistribution:
    """Install a distribution, or another version of it, into its own folder.

    None of its code runs here, and nothing outside the home changes. A crash leaves either the
    former installation or all of the new one.

    Args:
        home: the service's home.
        target: a wheel's file, or a name with or without versions.
        accept: called before anything changes if `Proposal.needs_acceptance`.
        declare: returns the needs of the plugins; None accepts no new needs.
        upgrade: whether the distribution must be installed already; otherwise it must not be.

    Raises:
        FolderError: if it cannot be installed, or was not accepted.
    """
    with layout.prepare_change(home) as staging:
        wheels, unpacked = staging / "wheels", staging / "tree"
        wheels.mkdir(mode=0o700)
        unpacked.mkdir(mode=0o700)
        # Checked before pip asks an index.
        name = target_name(target)
        before = layout.read(home, name)
        if upgrade and before is None:
            raise FolderError(f"{name} is not installed; use `solward plugins install`")
        if before is not None and not upgrade:
            raise FolderError(
                f"{name} {before.version} is already installed; use `solward plugins upgrade`"
            )
        found = download_wheels(target, wheels)
        tree = Tree(unpacked)
        records = tuple(map(tree.unpack, found.files))
        check_modules(tree, found.name)
        version = records[0].version
        new = InstalledDistribution(
            found.name, version, unpacked, records, (), {}, tuple(tree.left_out),
            before is None or before.enabled, layout.tree_digest(unpacked),
            layout.next_act(home, found.name),
        )  # fmt: skip
        new = replace(new, plugins=_entry_points(new))
        if not new.plugins:
            raise FolderError(
                f"{found.name} {version} has no plugins: no entry point in {', '.join(GROUPS)}"
            )
        had = {} if before is None else before.accepted
        new = replace(new, accepted=had if declare is None else declare(new))
        more = {name: each.needs_beyond(had.get(name)) for name, each in new.accepted.items()}
        proposal = Proposal(new, before, more)
        if proposal.needs_acceptance and not accept(proposal):
            raise FolderError(f"{found.name} {version} was not accepted; nothing has changed")
        folder = layout.move_into_place(home, found.name, unpacked, f"{version}-{new.digest[:32]}")
        new = replace(new, folder=folder)
        layout.write(home, new)
        return new


def remove(home: Path, name: str, *, lost: bool = False, purge: bool = False) -> bool:
    """Remove a distribution; a running service ends its plugins.

    Args:
        lost: also accept that its files are missing here, so that the service stops expecting them.
        purge: also delete the files that its plugins keep, even if it is not installed.

    Returns:
        Whether there was something to remove; False only with `purge`.

    Raises:
        FolderError: if it is not installed, or cannot be removed.
    """
    with layout.prepare_change(home):
        own = canonical(name)
        if not layout.is_name(own):
            raise FolderError(f"{name!r} is not a distribution's name")
        kept = storage_folder(home, own) if purge else None
        keeps = kept is not None and kept.is_dir()
        if lost or layout.read(home, own) is not None:
            layout.remove_record(home, own)
        elif not keeps:
            if purge:
                return False
            raise not_installed(name)
        if kept is not None and keeps:
            empty_folder(kept)
        return True


def enable(home: Path, name: str, enabled: bool) -> InstalledDistribution:
    """Allow or forbid loading a distribution; a running service loads or ends its plugins.

    Raises:
        FolderError: if it is not installed.
    """
    with layout.prepare_change(home):
        one = _installed(home, name)
        one = replace(one, enabled=enabled, act=layout.next_act(home, one.name))
        layout.write(home, one)
        return one


def _installed(home: Path, name: str) -> InstalledDistribution:
    one = layout.read(home, canonical(name))
    if one is None:
        raise not_installed(name)
    return one


def not_installed(name: str) -> FolderError:
    """Return the error for a distribution without a folder of its own."""
    return FolderError(f"{name} is not installed in a folder of its own")


def _entry_points(one: InstalledDistribution) -> tuple[Plugin, ...]:
    try:
        points = one.distribution().entry_points
    except Exception as error:  # a third party's file can make importlib.metadata raise anything
        raise FolderError(f"{one.name}: its entry points cannot be read: {error}") from None
    if wrong := misspelt_group(each.group for each in points):
        raise FolderError(f"{one.name} {one.version}: {wrong}")
    return tuple(
        Plugin(each.group, each.name, each.value) for each in points if each.group in GROUPS
    )
