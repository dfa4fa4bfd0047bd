"""`context.storage`: files that plugins keep, where they were declared and not beyond it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.promises import promise
from tests.support.hosts import QUICK, Hosted, Opened, opened_hosts
from tests.support.plugins import HEAD, Shelf, shelf, skill_source, wheel

from solward import Manifest, SkillError
from solward.hosts import supervisor
from solward.plugins.folders import storage
from solward.plugins.folders.install import install
from solward.testing.stand import open_stand
from solward.types.manifest import Terms
from solward_cli import main

pytestmark = pytest.mark.samples("test_files_outlive_calls_hosts_and_services")

__all__ = ["shelf"]

ANY = '{"type": "object", "properties": {"do": {"type": "string"}}, "additionalProperties": False}'
# Runs what a test asks for, in a folder that it may write to.
DOES = """
import os, errno, socket, time
names = {"root": context.storage, "os": os, "socket": socket, "time": time, "answer": "done"}
try:
    exec(params["do"], names)
except OSError as error:
    return f"refused {errno.errorcode.get(error.errno)}"
return str(names["answer"])
"""


def source(name: str, storage_mb: int | None = 1, body: str = DOES) -> str:
    manifest = "None" if storage_mb is None else f"Manifest(storage_mb={storage_mb})"
    made = skill_source(name, schema=ANY, body=body, manifest=manifest)
    return f"{HEAD}\nfrom solward import Manifest\n{made}"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    return opened_hosts(monkeypatch, tmp_path)


def home_of(hosted: Hosted) -> Path:
    return hosted.stand.service.settings.solward_home


async def gone(hosted: Hosted) -> None:
    """Wait until the only host has ended."""
    [host] = hosted.stand.service.live.hosts.hosts.hosts
    async with asyncio.timeout(20):
        while host.pid is not None:
            await asyncio.sleep(QUICK.watch_s / 10)


async def full(hosted: Hosted, name: str, wallet: str) -> str:
    """Why the host is not started."""
    with pytest.raises(SkillError) as caught:
        await hosted.run(name, wallet, do="pass")
    assert caught.value.code == "plugin_storage_full"
    return str(caught.value)


@promise("plugin-files-are-its-own")
async def test_files_outlive_calls_hosts_and_services(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shelf.install("acme", {"keeps": source("keeps")})
    shelf.install("other", {"also": source("also"), "none": source("none", None)})
    for _ in range(2):
        async with open_stand(tmp_path / "home") as stand:
            hosted = Hosted(stand)
            wallet = (await stand.wallet()).id
            count = "file = root / 'n'; n = int(file.read_text()) + 1 if file.exists() else 0\n"
            count += "file.write_text(str(n)); answer = n"
            told = [await hosted.run("keeps", wallet, do=count)]
            # The distribution without a declaration shares a host with one that has it, not with
            # another distribution.
            told.append(await hosted.run("also", wallet, do="answer = os.listdir(root)"))
            for each in stand.service.live.hosts.hosts.hosts:
                if each.name == "acme":
                    assert each.process is not None
                    each.process.kill("a test", blameless=True)
            told.append(await hosted.run("keeps", wallet, do=count))
            elsewhere = f"open({str(tmp_path / 'home' / 'storage' / 'acme' / 'n')!r})"
            assert await hosted.run("also", wallet, do=elsewhere) == "refused EACCES"
            outside = f"open({str(tmp_path / 'home' / 'x')!r}, 'w')"
            assert await hosted.run("keeps", wallet, do=outside) == "refused EACCES"
    assert told == ["2", "[]", "3"]
    kept = tmp_path / "home" / "storage"
    assert sorted(os.listdir(kept)) == ["acme", "other"]
    assert {each.stat().st_mode & 0o077 for each in (kept, kept / "acme")} == {0}


@promise("plugin-files-are-its-own")
async def test_without_a_declaration_nothing_can_be_kept(shelf: Shelf, opened: Opened) -> None:
    shelf.install("acme", {"keeps": source("keeps", None)})
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        with pytest.raises(SkillError) as caught:
            await hosted.run("keeps", wallet.id, do="pass")
        assert caught.value.code == "no_storage"
        assert not (home_of(hosted) / "storage").exists()


async def test_in_process_it_is_a_folder_of_the_home(tmp_path: Path) -> None:
    async with open_stand(tmp_path / "home") as stand:
        wallet = await stand.wallet()
        loaded = stand.skill("check_balance")
        keeps = replace(loaded, spec=replace(loaded.spec, manifest=Manifest(storage_mb=1)))
        assert wallet.context(keeps).storage == tmp_path / "home" / "storage" / "solward"
        assert wallet.context(keeps).storage.is_dir()
        with pytest.raises(SkillError, match="storage_mb"):
            wallet.context(loaded).storage  # noqa: B018


PLANTED = {
    "a symbolic link": ("os.symlink('/etc/passwd', root / 'x')", "refused E"),
    "a fifo": ("os.mkfifo(root / 'x')", "refused E"),
    "a device": ("os.mknod(root / 'x', 0o20600, os.makedev(1, 3))", "refused E"),
    "a socket": ("socket.socket(socket.AF_UNIX).bind(str(root / 'x'))", "refused E"),
    "a hard link from elsewhere": ("os.link(os.__file__, root / 'x')", "refused E"),
    "a hard link inside": (
        "(root / 'a').write_text('1'); os.link(root / 'a', root / 'x')",
        "refused EPERM",
    ),
    "a move to another folder": (
        "(root / 'd').mkdir(exist_ok=True); (root / 'a').touch();"
        " answer = os.rename(root / 'a', root / 'd' / 'a')",
        "refused EXDEV",
    ),
    "another's rights": ("(root / 'x').touch(); os.chmod(root / 'x', 0o777)", "refused EPERM"),
    "a name of 255 bytes": ("(root / ('n' * 255)).touch()", "done"),
    "a name that is no text": ("open(os.fsencode(root) + b'/\\xff', 'w').close()", "done"),
    "a longer name": ("(root / ('n' * 256)).touch()", "refused ENAMETOOLONG"),
    "a file beyond the limit": (
        "file = open(root / 'x', 'wb'); file.truncate(1 << 20); file.truncate((1 << 20) + 1)",
        "refused EFBIG",
    ),
}


@promise("plugin-files-are-its-own")
async def test_what_is_planted_is_a_plain_file_or_refused(shelf: Shelf, opened: Opened) -> None:
    shelf.install("acme", {"keeps": source("keeps", 2)})
    bigger = PLANTED["a file beyond the limit"][0].replace("1 << 20", "2 << 20")
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        for name, (do, expected) in PLANTED.items():
            body = bigger if name == "a file beyond the limit" else do
            told = await hosted.run("keeps", wallet.id, do=body)
            assert told.startswith(expected), (name, told)
            folder = home_of(hosted) / "storage" / "acme"
            for each in os.scandir(os.fsencode(folder)):
                plain = each.is_file(follow_symlinks=False) or each.name == b"d"
                assert plain, name
            storage.empty_folder(folder)
        assert await hosted.run("keeps", wallet.id, do="answer = 'still there'") == "still there"


@promise("confinement-stays-open")
async def test_a_host_learns_where_links_point_and_locks_what_it_reads(
    shelf: Shelf, opened: Opened, tmp_path: Path
) -> None:
    """Of what stays open to it: no more than is said."""
    (tmp_path / "hidden").symlink_to("/somewhere/secret")
    shelf.install("acme", {"keeps": source("keeps")})
    async with opened() as hosted:
        wallet = (await hosted.stand.wallet()).id
        reads = f"answer = os.readlink({str(tmp_path / 'hidden')!r})"
        assert await hosted.run("keeps", wallet, do=reads) == "/somewhere/secret"
        locks = "import fcntl; fcntl.flock(open({!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        assert await hosted.run("keeps", wallet, do=locks.format(os.__file__)) == "done"
        lock = str(home_of(hosted) / "solward.lock")
        assert await hosted.run("keeps", wallet, do=locks.format(lock)) == "refused EACCES"
        for name in ("exe", "cwd", "fd/0"):
            reads = f"answer = os.readlink('/proc/{os.getpid()}/{name}')"
            assert (await hosted.run("keeps", wallet, do=reads)).startswith("refused E"), name


FILLED = {
    "bytes": "[(root / str(n)).write_bytes(bytes(600_000)) for n in range(2)]",
    "holes": "[open(root / str(n), 'wb').truncate(600_000) for n in range(2)]",
    "files": "[(root / str(n)).touch() for n in range(1001)]",
    "folders deeper than a path is long": (
        "os.chdir(root)\nfor _ in range(20): os.mkdir('d' * 250); os.chdir('d' * 250)\n"
        "open('x', 'w').close()"
    ),
}


@promise("plugin-files-are-its-own")
async def test_more_than_was_declared_ends_the_host_and_is_kept(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shelf.install("acme", {"keeps": source("keeps")})
    # One more than the hosts that are ended here: refusals are no crashes.
    opened = opened_hosts(monkeypatch, tmp_path, replace(QUICK, crashes=len(FILLED) + 1))
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        folder = home_of(hosted) / "storage" / "acme"
        for how, do in FILLED.items():
            await hosted.run("keeps", wallet.id, do="(root / 'precious').write_text('kept')")
            # Its call may be over before somebody looks.
            try:
                await hosted.run("keeps", wallet.id, do=f"{do}\ntime.sleep(5)")
            except SkillError as error:
                assert "it stored" in str(error), how  # noqa: PT017
            await gone(hosted)
            for _ in range(2):
                assert "it stored" in await full(hosted, "keeps", wallet.id), how
            assert (folder / "precious").read_text() == "kept"
            storage.empty_folder(folder)
            assert os.listdir(folder) == []
            assert await hosted.run("keeps", wallet.id, do="answer = 'room'") == "room", how
        assert {*hosted.problems.values()} <= {"faulty_calls"}


@promise("full-disk-ends-hosts")
async def test_a_disk_without_room_ends_the_hosts_that_could_fill_it(
    shelf: Shelf, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without a name, which a mapping keeps, are in no folder that anybody could count."""
    shelf.install("acme", {"keeps": source("keeps")})
    room = 256 << 20
    monkeypatch.setattr(supervisor, "_free_bytes", lambda _folder: room)
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        assert await hosted.run("keeps", wallet.id, do="pass") == "done"
        room -= 1
        await gone(hosted)
        assert "the disk of its storage has less than 268435456 bytes free" in await full(
            hosted, "keeps", wallet.id
        )
        room += 1
        assert await hosted.run("keeps", wallet.id, do="pass") == "done"


def test_a_folder_is_emptied_and_copied_however_deep_it_is(tmp_path: Path) -> None:
    root = tmp_path / "storage"
    root.mkdir()
    here = os.getcwd()
    os.chdir(root)
    try:
        for _ in range(1_500):
            os.mkdir("dddddddd")
            os.chdir("dddddddd")
        Path("x").touch()
    finally:
        os.chdir(here)
    try:
        assert list(storage.stored_files(root)) == []
        storage.empty_folder(root)
        assert os.listdir(root) == []
    finally:
        # Of what is too deep for pytest to delete nothing may be left.
        subprocess.run(["rm", "-rf", str(root)], check=True)


@pytest.mark.more
async def test_an_upgrade_keeps_it_and_a_removal_asks_to_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pip takes a second, and has nothing to find.
    monkeypatch.setattr(
        "solward.plugins.folders.install._checked_report", lambda *_: {"acme-tools": {}}
    )
    home = tmp_path / "home"
    monkeypatch.setenv("SOLWARD_HOME", str(home))

    def put(version: str, storage_mb: int, accepted: int, upgrade: bool) -> None:
        install(
            home,
            str(wheel(tmp_path, version=version, source=source("acme", storage_mb))),
            accept=lambda _proposal: True,
            declare=lambda _new: {"solward.skills:acme": Terms(Manifest(storage_mb=accepted))},
            upgrade=upgrade,
        )

    async def run(do: str) -> str:
        async with open_stand(home) as stand:
            wallet = await stand.wallet()
            return await Hosted(stand).run("acme", wallet.id, do=do)

    async def solward(*arguments: str, status: int = 0) -> str:
        # It runs a loop of its own.
        result = await asyncio.to_thread(CliRunner().invoke, main, ["plugins", *arguments])
        assert result.exit_code == status, result.output
        return str(result.output)

    put("1.0", 1, 1, upgrade=False)
    await run("(root / 'kept').write_text('by 1.0')")
    put("1.1", 1, 1, upgrade=True)
    assert await run("answer = (root / 'kept').read_text()") == "by 1.0"
    kept = home / "storage" / "acme-tools"
    assert f"stay in {kept}; --purge deletes them" in await solward("remove", "acme-tools")
    assert (kept / "kept").exists()
    put("1.1", 1, 1, upgrade=False)
    assert await run("answer = (root / 'kept').read_text()") == "by 1.0"
    await solward("remove", "acme-tools")
    await solward("remove", "Acme.Tools", "--purge")
    assert list(kept.iterdir()) == []
    assert "not installed" in await solward("remove", "nothing", "--purge", status=2)


async def test_a_neighbours_declaration_that_was_not_accepted_gives_nobody_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "solward.plugins.folders.install._checked_report", lambda *_: {"acme-tools": {}}
    )
    files = {"acme_tools_greedy.py": source("greedy", 100)}
    points = "[solward.skills]\ngreedy = acme_tools_greedy\n"
    path = wheel(tmp_path, files, source=source("acme", 1), entry_points=points)
    accepted = {"solward.skills:acme": Terms(Manifest(storage_mb=1))}
    install(
        tmp_path / "home",
        str(path),
        accept=lambda _proposal: True,
        declare=lambda _new: accepted,
    )
    async with open_stand(tmp_path / "home") as stand:
        hosted = Hosted(stand)
        assert hosted.problems == {"greedy": "not_accepted"}
        wallet = await stand.wallet()
        grows = "open(root / 'x', 'wb').truncate({})"
        assert await hosted.run("acme", wallet.id, do=grows.format(1 << 19)) == "done"
        assert await hosted.run("acme", wallet.id, do=grows.format(2 << 20)) == "refused EFBIG"
