"""Hostile wheels: after `solward plugins install` nothing of one ran, and only its folder changed.
The control is what pip does with the same wheel, in an environment of the test's own."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.plugins import skill_source, wheel

from solward.plugins.folders import layout, wheels
from solward.plugins.folders.wheels import Budget, Tree

SOURCES = Path(__file__).parents[2]


class Service:
    """An environment like a service's: Solward and what it needs, with an installer of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "env", symlinks=True)
        [self.site] = (folder / "env" / "lib").glob("python*/site-packages")
        theirs = [each for each in sys.path if Path(each).name == "site-packages"]
        ours = [str(SOURCES / each) for each in ("framework", "plugins", "server")]
        (self.site / "service.pth").write_text("\n".join([*ours, *theirs]) + "\n")
        # What hostile wheels would like to overwrite.
        (self.site / "victim").mkdir()
        (self.site / "victim" / "__init__.py").write_text("WHOSE = 'the service'\n")
        info = self.site / "victim-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: victim\nVersion: 1.0\n")
        command = folder / "env" / "bin" / "solward"
        command.write_text(
            f"#!{self.python}\nimport sys\nfrom solward_cli import main\nsys.exit(main())\n"
        )
        command.chmod(0o755)

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    def solward(self, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {
            "HOME": str(home.parent),
            "PATH": "/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "SOLWARD_HOME": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.run(
            [str(self.folder / "env" / "bin" / "solward"), *arguments],
            env=variables,
            cwd=home.parent,
            capture_output=True,
            text=True,
            check=False,
        )

    def state(self) -> dict[str, str]:
        """Every file of the environment, but for what the interpreter compiles itself."""
        return {
            str(path): (
                os.readlink(path)
                if path.is_symlink()
                else hashlib.sha256(path.read_bytes()).hexdigest()
            )
            for path in (self.folder / "env").rglob("*")
            if "__pycache__" not in path.parts and (path.is_symlink() or path.is_file())
        }


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    return Service(tmp_path_factory.mktemp("service"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def ran(tmp_path: Path) -> Iterator[Path]:
    """What hostile code makes when it runs."""
    path = tmp_path / "ran"
    yield path
    assert not path.exists()


def touch(ran: Path) -> str:
    return f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n"


@pytest.mark.more
@promise("pth-files-run-nowhere")
def test_what_runs_by_itself_is_left_out_and_never_runs(
    service: Service, home: Path, tmp_path: Path, ran: Path
) -> None:
    path = wheel(
        tmp_path,
        {
            "acme.pth": touch(ran),
            "sitecustomize.py": touch(ran),
            "usercustomize/__init__.py": touch(ran),
            "acme_tools-1.0.data/purelib/distutils-precedence.pth": touch(ran),
            "acme_tools-1.0.data/scripts/solward": f"#!/bin/sh\ntouch {ran}\n",
            "acme_tools-1.0.data/data/lib/x.pth": touch(ran),
            "acme_tools-1.0.data/headers/x.pth": touch(ran),
            "acme_lib/__init__.py": touch(ran),
            "acme_lib/__pycache__/__init__.cpython-311.pyc": b"\x00" * 64,
        },
        # Its own module runs where it can write nothing.
        source="try:\n    " + touch(ran) + "except OSError: pass\n" + skill_source("acme"),
        entry_points="[console_scripts]\nsolward = acme_lib:main\npip = acme_lib:main\n",
    )
    before = service.state()
    done = service.solward(home, "plugins", "install", str(path), "--yes")
    assert done.returncode == 0, done.stderr
    assert service.state() == before
    for flags in ([], ["-I"], ["-P"]):
        subprocess.run([str(service.python), *flags, "-c", "pass"], check=True)
    assert service.solward(home, "--help").returncode == 0
    assert service.solward(home, "plugins", "enable", "acme-tools").returncode == 0
    [one], _ = layout.installed(home)
    assert {each.name for each in one.folder.iterdir()} == {
        "acme_lib",
        "acme_tools_acme.py",
        "acme_tools-1.0.dist-info",
    }
    assert [each.name for each in (one.folder / "acme_lib").iterdir()] == ["__init__.py"]
    for left in ("acme.pth", "sitecustomize.py", "usercustomize/__init__.py"):
        assert f"left out, as it would run by itself: {left}" in done.stdout
    assert not any(each.stat().st_mode & 0o111 for each in one.folder.rglob("*") if each.is_file())


@promise("pth-files-run-nowhere")
@pytest.mark.more
def test_pip_runs_and_overwrites_what_solward_does_not(tmp_path: Path) -> None:
    """The control: the same wheel in an environment of its own by pip."""
    service, ran = Service(tmp_path), tmp_path / "ran"
    path = wheel(
        tmp_path,
        {"acme.pth": touch(ran), "victim/__init__.py": "WHOSE = 'mine'\n"},
        entry_points="[console_scripts]\nsolward = acme_lib:main\n",
    )
    before = service.state()
    pip = [str(service.python), "-m", "pip", "install", "--no-index", "--no-deps", "-q", str(path)]
    subprocess.run(pip, check=True)
    subprocess.run([str(service.python), "-c", "pass"], check=True)
    after = service.state()
    changed = {each for each in before if after[each] != before[each]}
    assert ran.exists()
    assert changed == {
        str(service.site / "victim" / "__init__.py"),
        str(service.folder / "env" / "bin" / "solward"),
    }


def refused(service: Service, home: Path, target: Path | str, said: str) -> None:
    """The installation ends with one line and has changed nothing."""
    before = service.state()
    done = service.solward(home, "plugins", "install", str(target), "--yes")
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert service.state() == before
    assert layout.installed(home) == ([], {})
    assert [each for each in (home / "plugins").iterdir() if each.is_dir()] == []


@promise("plugin-replaces-no-module")
@pytest.mark.more
@pytest.mark.parametrize(
    "module", ["victim/__init__.py", "pluggy/__init__.py", "solward/types/manifest.py", "json.py"]
)
def test_a_module_that_the_service_has_is_refused(
    service: Service, home: Path, tmp_path: Path, ran: Path, module: str
) -> None:
    path = wheel(tmp_path, {module: touch(ran)})
    name = module.partition("/")[0].removesuffix(".py")
    refused(service, home, path, f"has a module '{name}' that the service has too")


@promise("nothing-built-at-install")
@pytest.mark.more
def test_what_would_have_to_be_built_is_refused_and_not_run(
    service: Service, home: Path, tmp_path: Path, ran: Path
) -> None:
    source = tmp_path / "evil"
    source.mkdir()
    (source / "setup.py").write_text(touch(ran) + "from setuptools import setup; setup()\n")
    sdist = tmp_path / "evil-1.0.tar.gz"
    subprocess.run(["tar", "-C", str(tmp_path), "-czf", str(sdist), "evil"], check=True)
    refused(service, home, sdist, "is no wheel. Building a source distribution")
    refused(service, home, source, "is no wheel. Building a source distribution")
    # pip builds this one although it is told to take wheels alone.
    path = wheel(tmp_path, requires=(f"evil @ file://{sdist}",))
    refused(service, home, path, "only wheels are installed: nothing is built")


@pytest.mark.more
def test_a_dependency_with_an_address_of_its_own_is_refused(
    service: Service, home: Path, tmp_path: Path
) -> None:
    other = wheel(tmp_path / "far", name="far", plugin=None)
    path = wheel(tmp_path, requires=(f"far @ file://{other}",))
    refused(service, home, path, "needs far from a URL, which is not allowed")


Change = Callable[[zipfile.ZipFile], None]


def entry(name: str, content: bytes = b"x", *, mode: int = 0, twice: bool = False) -> Change:
    def add(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("placeholder")
        # Beyond what ZipInfo would tidy up.
        info.filename = name
        info.external_attr = mode << 16
        archive.writestr(info, content)

    return add


LINK = stat.S_IFLNK | 0o777


def unpacked(path: Path, folder: Path, **budget: int) -> Tree:
    """Unpack a wheel as an installation does, in this process."""
    folder.mkdir()
    tree = Tree(folder, Budget(**budget))
    tree.unpack(path)
    return tree


@promise("wheel-stays-in-its-folder")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (entry("../outside.py"), "not a path below its folder"),
        (entry("acme/../../outside.py"), "not a path below its folder"),
        (entry("/tmp/outside.py"), "not a path below its folder"),
        (entry("//outside.py"), "not a path below its folder"),
        (entry("./outside.py"), "not a path below its folder"),
        (entry("C:/outside.py"), "not a path below its folder"),
        (entry("..\\outside.py"), "not a path below its folder"),
        (entry("acme\n.py"), "not a path below its folder"),
        (entry("a" * 300), "not a path below its folder"),
        (entry("a/" * 600 + "a"), "not a path below its folder"),
        (entry("acme_tools-1.0.data/purelib/../../../outside.py"), "not a path below its folder"),
        (entry("link", b"/etc/passwd", mode=LINK), "neither a file nor a folder"),
        (entry("link/", mode=LINK), "neither a file nor a folder"),
        (entry("fifo", mode=stat.S_IFIFO | 0o600), "neither a file nor a folder"),
        (entry("device", mode=stat.S_IFCHR | 0o600), "neither a file nor a folder"),
        (entry("acme_tools_acme.py", b"other"), "the wheel contains .* twice"),
        (entry("acme_tools_acme.py/"), "the wheel contains .* twice"),
        (entry("unrecorded.py"), "its RECORD does not name 'unrecorded.py'"),
        (entry("other-1.0.dist-info/METADATA"), "must be for acme_tools 1.0"),
        (entry("other-1.0.data/purelib/x.py"), "must be for acme_tools 1.0"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_more_than_plain_files_is_refused(
    tmp_path: Path, change: Change, said: str
) -> None:
    path = wheel(tmp_path, change=change)
    with pytest.raises(wheels.FolderError, match=said):
        unpacked(path, tmp_path / "tree")
    assert not (tmp_path / "outside.py").exists()
    assert not Path("/tmp/outside.py").exists()
    assert not any(each.is_symlink() for each in (tmp_path / "tree").rglob("*"))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"acme": "x", "acme/b.py": "y"}, "is both a file and a folder"),
        ({"acme/b.py": "y", "acme": "x"}, "is both a file and a folder"),
        # Two names of one file: where a folder of data unpacks to, there is one already.
        ({"a.py": "x", "acme_tools-1.0.data/platlib/a.py": "y"}, "another wheel has a different"),
    ],
)
def test_paths_that_collide_are_refused(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(wheels.FolderError, match=said):
        unpacked(wheel(tmp_path, files), tmp_path / "tree")


@promise("wheel-stays-in-its-folder")
def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path) -> None:
    big = wheel(tmp_path, {"big.bin": b"\x00" * (8 << 20)})
    assert big.stat().st_size < 100_000
    with pytest.raises(wheels.FolderError, match="too large once unpacked"):
        unpacked(big, tmp_path / "a", unpacked_bytes=1 << 20)
    assert list((tmp_path / "a").iterdir()) == []
    many = wheel(tmp_path, {f"f{number}": "" for number in range(200)}, name="many")
    with pytest.raises(wheels.FolderError, match="too large once unpacked"):
        unpacked(many, tmp_path / "b", files=100)
    with pytest.raises(wheels.FolderError, match="too many files"):
        unpacked(many, tmp_path / "c", directory_bytes=5_000)
    with pytest.raises(wheels.FolderError, match="is larger than"):
        unpacked(many, tmp_path / "d", archive_bytes=5_000)
    # Both fit together into what one installation may take, each alone.
    tree = Tree(tmp_path / "e", Budget(unpacked_bytes=10 << 20))
    tree.root.mkdir()
    tree.unpack(big)
    with pytest.raises(wheels.FolderError, match="too large once unpacked"):
        tree.unpack(wheel(tmp_path / "x", {"more.bin": b"\x00" * (8 << 20)}, name="more"))


def test_a_file_that_says_it_is_smaller_is_refused(tmp_path: Path) -> None:
    """A size that lies: no more is unpacked than was counted."""
    content = b"\x00" * (4 << 20)
    path = wheel(tmp_path, {"big.bin": content})
    data = path.read_bytes()
    sized = struct.pack("<I", len(content))
    assert data.count(sized) == 2
    path.write_bytes(data.replace(sized, struct.pack("<I", 1000)))
    with pytest.raises(wheels.FolderError, match="is not a readable wheel"):
        unpacked(path, tmp_path / "tree", unpacked_bytes=1 << 20)
    assert sum(each.stat().st_size for each in (tmp_path / "tree").rglob("*")) < 1 << 20


@promise("wheel-stays-in-its-folder")
@pytest.mark.parametrize(
    ("record", "said"),
    [
        (lambda text: text.replace("sha256=", "sha256=A", 1), "does not match its RECORD"),
        (lambda text: text.replace("sha256=", "md5=", 1), "does not match its RECORD"),
        (lambda text: "\n".join(text.splitlines()[1:]), "its RECORD does not name"),
        (lambda text: f"{text}\n../other.py,sha256=x,1", "which the wheel lacks"),
        (lambda text: f"{text}\n{text}", "twice"),
        (lambda text: "", "its RECORD does not name"),
        (lambda text: '"', "is not a readable wheel"),
        (lambda text: "acme\n", "without a hash"),
    ],
)
def test_a_record_that_lies_is_refused(
    tmp_path: Path, record: Callable[[str], str], said: str
) -> None:
    with pytest.raises(wheels.FolderError, match=said):
        unpacked(wheel(tmp_path, record=record), tmp_path / "tree")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"file": "other-1.0-py3-none-any.whl"}, "its only metadata must be for other 1.0"),
        (
            {"file": "acme_tools-1.1-py3-none-any.whl"},
            "its only metadata must be for acme_tools 1.1",
        ),
        ({"metadata": "Name: solward\nVersion: 1.0\n"}, "its metadata names 'solward'"),
        ({"metadata": "Name: acme-tools\nVersion: 2.0\n"}, "its metadata names 'acme-tools' '2.0'"),
        ({"metadata": "\n"}, "its metadata names 'None'"),
        ({"file": "acme_tools.whl"}, "is no wheel: expected NAME-VERSION"),
        ({"file": "-r-1.0-py3-none-any.whl"}, "is no wheel: expected NAME-VERSION"),
    ],
)
def test_a_wheel_under_another_name_is_refused(
    tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    path = wheel(tmp_path, **changes)  # type: ignore[arg-type]
    with pytest.raises(wheels.FolderError, match=said):
        unpacked(path, tmp_path / "tree")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: b"no archive" * 10,
        lambda data: data[:-30],
        lambda data: data + b"\x00" * 40,
        # Another archive in front, which a program that reads from the start would take.
        lambda data: data + data,
        lambda data: data[:-22] + b"PK\x06\x07" + b"\x00" * 16 + data[-22:],
        lambda data: data.replace(b"acme_tools_acme.py", b"acme_tools_evil.py", 1),
    ],
)
def test_an_archive_that_programs_read_differently_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    path = wheel(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(wheels.FolderError):
        unpacked(path, tmp_path / "tree")
    assert wheel(tmp_path).exists()
    unpacked(path, tmp_path / "good")


@pytest.mark.more
def test_what_is_no_plugin_is_refused(service: Service, home: Path, tmp_path: Path) -> None:
    path = wheel(tmp_path, plugin=None)
    refused(service, home, path, "has no plugins: no entry point in solward.skills, ")


@pytest.mark.more
def test_a_group_that_is_misspelt_is_refused(service: Service, home: Path, tmp_path: Path) -> None:
    said = "acme-tools 1.0: solward.types.skill is no group of Solward's entry points, which are "
    refused(service, home, wheel(tmp_path, group="solward.types.skill"), said)
    groups = ("Solward.guardrails", "solward-skills", "solwards.skills", "solward")
    for at, group in enumerate(groups):
        (tmp_path / str(at)).mkdir()
        said_of = said.replace("solward.types.skill ", f"{group} ", 1)
        refused(service, home, wheel(tmp_path / str(at), group=group), said_of)
    beside = "[solward.types.skill]\nother = acme_tools_acme\n"
    refused(service, home, wheel(tmp_path, entry_points=beside), said)
