"""Plugins in folders of their own; a crash leaves the old state or the new one."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.plugins import wheel

from solward.plugins.folders import layout
from solward.plugins.folders.install import (
    Proposal,
    download_wheels,
    enable,
    environment,
    install,
    remove,
    target_name,
)
from solward.types.errors import FolderError
from solward.types.manifest import Manifest, Terms


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pip has no index, and finds what stands in `links`."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    (tmp_path / "links").mkdir()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def yes(_proposal: Proposal) -> bool:
    return True


def no(_proposal: Proposal) -> bool:
    return False


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's own file is what pip would find; pip takes a second each time.

    What the service's environment has is read once: it is a file for each distribution, and a test
    that kills before every `open` would end at each of them.
    """

    def alone(_target: str, name: str, _into: Path, _have: Mapping[str, str]) -> object:
        return {name: {}}

    have = environment()
    monkeypatch.setattr("solward.plugins.folders.install.environment", lambda: have)
    monkeypatch.setattr("solward.plugins.folders.install._checked_report", alone)
    monkeypatch.setattr("os.sync", lambda: None)


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.more
def test_a_file_is_installed_with_what_it_is_recorded(home: Path, tmp_path: Path) -> None:
    path = wheel(tmp_path, {"acme_data/words.txt": "one two"})
    made = install(home, str(path), accept=yes)
    [read], unreadable = layout.installed(home)
    assert read == made
    assert unreadable == {}
    assert (read.name, read.version, read.enabled) == ("acme-tools", "1.0", True)
    assert [(each.group, each.name, each.value) for each in read.plugins] == [
        ("solward.skills", "acme", "acme_tools_acme")
    ]
    assert [(each.file, each.sha256) for each in read.wheels] == [
        (path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    ]
    assert (read.folder / "acme_data" / "words.txt").read_text() == "one two"
    assert read.folder.parent == home / "plugins" / "acme-tools"
    # Nothing else is left in the home, and nothing that others of this machine may read.
    assert {each.name for each in (home / "plugins").iterdir()} == {"acme-tools", ".lock", ".used"}
    assert not any(path.stat().st_mode & 0o077 for path in read.folder.rglob("*"))


@pytest.mark.more
def test_a_dependency_that_the_service_lacks_comes_along(home: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    wheel(links, {"acme_core/__init__.py": ""}, name="acme_core", version="2.1", plugin=None)
    wheel(links, {"acme_core/__init__.py": ""}, name="acme_core", version="2.0", plugin=None)
    wheel(links, requires=("acme-core<2.1", "solward", "httpx>=0.1"))
    made = install(home, "acme.tools==1.0", accept=yes)
    # Neither Solward nor httpx: the service has both.
    assert [(each.name, each.version) for each in made.wheels] == [
        ("acme-tools", "1.0"),
        ("acme-core", "2.0"),
    ]
    assert (made.folder / "acme_core" / "__init__.py").is_file()


@pytest.mark.more
@pytest.mark.parametrize(
    ("requires", "said"),
    [
        ("httpx==99.0", "acme-tools needs httpx 99.0, but the service shares httpx "),
        ("solward>=99", "acme-tools needs solward 99.0, but the service shares solward "),
        ("nowhere-to-be-found", "pip failed: "),
    ],
)
def test_a_dependency_that_conflicts_is_refused(
    home: Path, tmp_path: Path, requires: str, said: str
) -> None:
    links = tmp_path / "links"
    for name in ("httpx", "solward"):
        wheel(links, name=name, version="99.0", plugin=None)
    path = wheel(tmp_path, requires=(requires,))
    with pytest.raises(FolderError, match=said):
        install(home, str(path), accept=yes)
    assert layout.installed(home) == ([], {})


@pytest.mark.more
def test_what_the_service_has_is_not_installed_again(home: Path, tmp_path: Path) -> None:
    path = wheel(tmp_path, name="pluggy", version="9.0")
    for target in (str(path), "pluggy", "solward"):
        with pytest.raises(FolderError, match="is installed in the service's environment"):
            install(home, target, accept=yes)


@pytest.mark.more
def test_a_file_that_is_not_the_resolved_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "links", name="acme_core", version="2.0", plugin=None)
    path = wheel(tmp_path, requires=("acme-core",))
    into = tmp_path / "into"
    into.mkdir()

    def exchanged(_items: Mapping[str, object], folder: Path) -> None:
        wheel(folder, {"other.py": ""}, name="acme_core", version="2.0", plugin=None)

    monkeypatch.setattr("solward.plugins.folders.install._download", exchanged)
    with pytest.raises(FolderError, match="its hash differs"):
        download_wheels(str(path), into)


@pytest.mark.parametrize(
    "target",
    ["-r", "--index-url=x", "acme @ file:///etc", "git+https://a.example/x", "a;b", "", "acme==1,"],
)
def test_what_is_no_name_never_reaches_pip(target: str) -> None:
    with pytest.raises(FolderError):
        target_name(target)


@pytest.mark.usefixtures("without_pip")
def test_who_does_not_accept_changes_nothing(home: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="not accepted"):
        install(home, str(wheel(tmp_path)), accept=no)
    assert layout.installed(home) == ([], {})
    assert [each for each in (home / "plugins").iterdir() if each.is_dir()] == []


NARROW = Manifest(sites=("api.example.com",))
WIDE = Manifest(sites=("api.example.com", "b.example.com"))


@pytest.mark.usefixtures("without_pip")
def test_an_upgrade_asks_where_it_needs_more(home: Path, tmp_path: Path) -> None:
    def declaring(manifest: Manifest | None):  # type: ignore[no-untyped-def]
        return lambda new: {"solward.skills:acme": Terms(manifest)}

    install(home, str(wheel(tmp_path)), accept=yes, declare=declaring(NARROW))
    second, third = (str(wheel(tmp_path, version=each)) for each in ("1.1", "1.2"))
    # The same needs: nobody is asked.
    install(home, second, accept=no, declare=declaring(NARROW), upgrade=True)
    asked: list[Proposal] = []

    def ask(proposal: Proposal) -> bool:
        asked.append(proposal)
        return False

    with pytest.raises(FolderError, match="not accepted"):
        install(home, third, accept=ask, declare=declaring(WIDE), upgrade=True)
    assert asked[0].more == {"solward.skills:acme": ("network: b.example.com",)}
    assert asked[0].before is not None
    [kept], _ = layout.installed(home)
    assert (kept.version, kept.accepted) == ("1.1", {"solward.skills:acme": Terms(NARROW)})
    install(home, third, accept=yes, declare=declaring(WIDE), upgrade=True)
    [now], _ = layout.installed(home)
    assert (now.version, now.accepted) == ("1.2", {"solward.skills:acme": Terms(WIDE)})
    assert [each.name for each in kept.folder.parent.iterdir() if each.is_dir()] == [
        now.folder.name
    ]


@promise("upgrade-asks-for-lost-plugin")
@pytest.mark.usefixtures("without_pip")
def test_an_upgrade_asks_where_it_lacks_a_plugin(home: Path, tmp_path: Path) -> None:
    install(home, str(wheel(tmp_path, group="solward.guardrails", plugin="cap")), accept=yes)
    other = wheel(tmp_path, version="1.1", group="solward.guardrails", plugin="other")
    asked: list[Proposal] = []

    def ask(proposal: Proposal) -> bool:
        asked.append(proposal)
        return False

    with pytest.raises(FolderError, match="not accepted"):
        install(home, str(other), accept=ask, upgrade=True)
    assert [(each.group, each.name) for each in asked[0].dropped] == [("solward.guardrails", "cap")]
    [kept], _ = layout.installed(home)
    assert kept.version == "1.0"


def test_an_index_is_not_asked_for_what_is_not_installed(home: Path) -> None:
    with pytest.raises(FolderError, match=r"^nope is not installed; use"):
        install(home, "nope==2", accept=yes, upgrade=True)


@pytest.mark.usefixtures("without_pip")
def test_install_upgrade_remove_and_enable_each_need_their_state(
    home: Path, tmp_path: Path
) -> None:
    path = str(wheel(tmp_path))
    for missing in (
        lambda: install(home, path, accept=yes, upgrade=True),
        lambda: remove(home, "acme-tools"),
        lambda: enable(home, "../acme-tools", enabled=False),
    ):
        with pytest.raises(FolderError, match="is not installed"):
            missing()
    install(home, path, accept=yes)
    with pytest.raises(FolderError, match=r"1\.0 is already installed"):
        install(home, path, accept=yes)
    assert not enable(home, "Acme_Tools", enabled=False).enabled
    # An upgrade does not enable what was disabled.
    newer = install(home, str(wheel(tmp_path, version="2")), accept=yes, upgrade=True)
    assert not newer.enabled
    assert enable(home, "acme-tools", enabled=True).enabled
    remove(home, "acme_tools")
    assert layout.installed(home) == ([], {})
    assert not newer.folder.parent.exists()


@pytest.mark.usefixtures("without_pip")
def test_a_folder_in_use_stays_until_nobody_uses_it(home: Path, tmp_path: Path) -> None:
    first = install(home, str(wheel(tmp_path)), accept=yes)
    with layout.keep_folders(home):
        second = install(home, str(wheel(tmp_path, version="2")), accept=yes, upgrade=True)
        remove(home, "acme-tools")
        assert first.folder.is_dir()
        assert second.folder.is_dir()
        # What is there is what it was: nothing is unpacked over what somebody imports.
        assert install(home, str(wheel(tmp_path)), accept=yes).folder == first.folder
    enable(home, "acme-tools", enabled=True)
    assert first.folder.is_dir()
    assert not second.folder.exists()


def test_two_commands_do_not_change_it_at_once(home: Path, tmp_path: Path) -> None:
    with layout.prepare_change(home), pytest.raises(FolderError, match="Another command"):
        install(home, str(wheel(tmp_path)), accept=yes)


@pytest.mark.usefixtures("without_pip")
@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 1, "name": "acme-tools", "folder": "../../x"}', "[" * 9999]
)
def test_a_broken_record_is_named_and_hides_no_other(home: Path, tmp_path: Path, text: str) -> None:
    install(home, str(wheel(tmp_path)), accept=yes)
    other = install(home, str(wheel(tmp_path, name="other")), accept=yes)
    (home / "plugins" / "acme-tools" / "installed.json").write_text(text)
    found, unreadable = layout.installed(home)
    assert found == [other]
    assert list(unreadable) == ["acme-tools"]


# Calls that change what is on the disk, and those around them.
CHANGES = {
    "open",
    "write",
    "close",
    "flush",
    "fsync",
    "mkdir",
    "rename",
    "replace",
    "unlink",
    "rmdir",
}


def killed_at(count: int, home: Path, path: str) -> bool:
    """Upgrade in a child that is killed before its `count`-th such call; False: it was done."""
    child = os.fork()
    if child == 0:
        left = count

        def profile(_frame: object, event: str, called: object) -> None:
            nonlocal left
            if event == "c_call" and getattr(called, "__name__", "") in CHANGES:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(profile)
            install(home, path, accept=yes, upgrade=True)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.more
@pytest.mark.usefixtures("without_pip")
def test_killed_anywhere_an_upgrade_leaves_the_old_or_the_new(home: Path, tmp_path: Path) -> None:
    old = install(home, str(wheel(tmp_path, {"acme_data/a.txt": "old"})), accept=yes)
    path = str(wheel(tmp_path, {"acme_data/a.txt": "new", "acme_b.py": ""}, version="2.0"))
    before = contents(old.folder)
    after = contents(install(tmp_path / "other", path, accept=yes).folder)
    seen: set[str] = set()
    killed, count = True, 0
    while killed:
        count += 1
        # A home of its own each time, so that every call is the last one once.
        copy = tmp_path / f"home-{count}"
        shutil.copytree(home, copy)
        killed = killed_at(count, copy, path)
        [found], unreadable = layout.installed(copy)
        assert unreadable == {}
        assert contents(found.folder) == (before if found.version == "1.0" else after)
        seen.add(found.version)
        # The next command removes what the killed one left.
        enable(copy, "acme-tools", enabled=True)
        folders = {each.name for each in (copy / "plugins").iterdir()}
        assert folders == {"acme-tools", ".lock", ".used"}
        kept = {each.name for each in found.folder.parent.iterdir()}
        assert kept == {"installed.json", found.folder.name}
        shutil.rmtree(copy)
    assert count > 50
    assert seen == {"1.0", "2.0"}
