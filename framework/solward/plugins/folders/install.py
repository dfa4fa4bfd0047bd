"""Install, upgrade, remove, enable and disable distributions in folders of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from solward.plugins.folders import layout
from solward.plugins.folders.layout import Installed, Plugin, canonical
from solward.plugins.folders.resolve import gather, wanted
from solward.plugins.folders.storage import empty, storage_folder
from solward.plugins.folders.wheels import Tree, check_modules
from solward.types.errors import FolderError
from solward.types.manifest import GROUPS, Terms, misspelt_group

Declare = Callable[[Installed], Mapping[str, Terms]]
"""Reads the needs of a folder's plugins, by `group:name`, without importing them here."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an operator is asked before it is installed.

    Attributes:
        before: what is installed now, None for nothing.
        more: what the plugins need beyond what was accepted, in words, by `group:name`.
    """

    new: Installed
    before: Installed | None
    more: Mapping[str, tuple[str, ...]]

    @property
    def dropped(self) -> tuple[Plugin, ...]:
        """Plugins that are installed now and not in the new version."""
        had = () if self.before is None else self.before.plugins
        has = {(each.group, each.name) for each in self.new.plugins}
        return tuple(each for each in had if (each.group, each.name) not in has)

    @property
    def asks(self) -> bool:
        """Whether somebody has to agree: at first, and where an upgrade needs more or lacks a
        plugin, which may be a guardrail."""
        return self.before is None or any(self.more.values()) or bool(self.dropped)


Accept = Callable[[Proposal], bool]


def install(
    home: Path,
    target: str,
    *,
    accept: Accept,
    declare: Declare | None = None,
    upgrade: bool = False,
) -> Installed:
    """Install a distribution, or another version of it, into its own folder.

    Nothing of it runs here, and nothing outside the home changes. A crash leaves what was installed
    before, or all of the new version.

    Args:
        home: the service's.
        target: a wheel's file, or a name, also with versions.
        accept: asked before anything changes, where `Proposal.asks`.
        declare: None accepts no needs.
        upgrade: it must be installed already; else it must not.

    Raises:
        FolderError: it cannot be installed, or was not accepted.
    """
    with layout.changing(home) as staging:
        wheels, unpacked = staging / "wheels", staging / "tree"
        wheels.mkdir(mode=0o700)
        unpacked.mkdir(mode=0o700)
        # Before an index is asked.
        name = wanted(target)
        before = layout.read(home, name)
        if upgrade and before is None:
            raise FolderError(f"{name} is not installed; install it with plugins install")
        if before is not None and not upgrade:
            raise FolderError(
                f"{name} {before.version} is installed; change it with plugins upgrade"
            )
        found = gather(target, wheels)
        tree = Tree(unpacked)
        records = tuple(map(tree.unpack, found.files))
        check_modules(tree, found.name)
        version = records[0].version
        new = Installed(
            found.name, version, unpacked, records, (), {}, tuple(tree.left_out),
            before is None or before.enabled, layout.tree_digest(unpacked),
            layout.next_act(home, found.name),
        )  # fmt: skip
        new = replace(new, plugins=_plugins(new))
        if not new.plugins:
            raise FolderError(
                f"{found.name} {version} is no plugin: it has no entry point of {', '.join(GROUPS)}"
            )
        had = {} if before is None else before.accepted
        new = replace(new, accepted=had if declare is None else declare(new))
        more = {name: each.wider_than(had.get(name)) for name, each in new.accepted.items()}
        proposal = Proposal(new, before, more)
        if proposal.asks and not accept(proposal):
            raise FolderError(f"{found.name} {version} was not accepted; nothing has changed")
        folder = layout.place(home, found.name, unpacked, f"{version}-{new.digest[:32]}")
        new = replace(new, folder=folder)
        layout.write(home, new)
        return new


def remove(home: Path, name: str, *, lost: bool = False, purge: bool = False) -> bool:
    """Remove a distribution; a running service ends what runs of it.

    Args:
        lost: also where nothing of it is here, so that the service expects it no more.
        purge: delete the files that its plugins keep, too, also where it is not installed.

    Returns:
        Whether there was something of it; false only with `purge`.

    Raises:
        FolderError: it is not installed, or cannot be.
    """
    with layout.changing(home):
        own = canonical(name)
        if not layout.is_name(own):
            raise FolderError(f"{name!r} is no distribution's name")
        kept = storage_folder(home, own) if purge else None
        keeps = kept is not None and kept.is_dir()
        if lost or layout.read(home, own) is not None:
            layout.forget(home, own)
        elif not keeps:
            if purge:
                return False
            raise not_installed(name)
        if kept is not None and keeps:
            empty(kept)
        return True


def enable(home: Path, name: str, enabled: bool) -> Installed:
    """Have a distribution loaded, or not; by a running service too.

    Raises:
        FolderError: it is not installed.
    """
    with layout.changing(home):
        one = _installed(home, name)
        one = replace(one, enabled=enabled, act=layout.next_act(home, one.name))
        layout.write(home, one)
        return one


def _installed(home: Path, name: str) -> Installed:
    one = layout.read(home, canonical(name))
    if one is None:
        raise not_installed(name)
    return one


def not_installed(name: str) -> FolderError:
    """The error of a distribution that has no folder of its own."""
    return FolderError(f"{name} is not installed in a folder of its own")


def _plugins(one: Installed) -> tuple[Plugin, ...]:
    try:
        points = one.distribution().entry_points
    except Exception as error:  # a stranger's file; importlib.metadata does not say what it raises
        raise FolderError(f"{one.name}: its entry points cannot be read: {error}") from None
    if wrong := misspelt_group(each.group for each in points):
        raise FolderError(f"{one.name} {one.version}: {wrong}")
    return tuple(
        Plugin(each.group, each.name, each.value) for each in points if each.group in GROUPS
    )
