"""One SQLite database belongs to one process, whatever path or home leads to it."""

from __future__ import annotations

import gc
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.promises import promise

from solward.database.database import Database
from solward.service.service import Solward
from solward.settings import Settings
from solward.types.errors import HomeLocked

pytestmark = pytest.mark.sqlite("the file")

HOLD = """
import asyncio, sys
from pathlib import Path
from solward.database.database import Database

async def hold():
    database = await Database.open(sys.argv[1], Path(sys.argv[2]))
    print("held", flush=True)
    await asyncio.sleep(60)

asyncio.run(hold())
"""


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def names(tmp_path: Path) -> dict[str, Path]:
    """Paths of one database file, which exists."""
    file = tmp_path / "data" / "solward.db"
    file.parent.mkdir()
    file.touch()
    (tmp_path / "other").mkdir()
    symbolic, hard = tmp_path / "other" / "symbolic.db", tmp_path / "other" / "hard.db"
    symbolic.symlink_to(file)
    hard.hardlink_to(file)
    return {"itself": file, "symbolic": symbolic, "hard": hard}


@promise("one-process-per-database")
@pytest.mark.parametrize("name", ["itself", "symbolic", "hard"])
async def test_a_second_service_on_the_file_from_another_home_is_refused(
    tmp_path: Path, names: dict[str, Path], name: str
) -> None:
    first, second = (
        Settings(
            _env_file=None,
            solward_home=tmp_path / home,
            database_url=url_of(names[path]),
            keystore_key_file=tmp_path / "keystore.key",
        )
        for home, path in (("one", "itself"), ("two", name))
    )
    async with Solward.open(first):
        with pytest.raises(HomeLocked, match=r"in use by process \d+; stop it, or set another"):
            async with Solward.open(second):
                pass
    async with Solward.open(second) as service:
        await service.wallets.list()


async def test_another_process_has_it_until_it_is_killed(
    tmp_path: Path, names: dict[str, Path]
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, url_of(names["itself"]), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for path in names.values():
            with pytest.raises(HomeLocked) as caught:
                await Database.open(url_of(path), tmp_path)
            assert str(caught.value) == (
                f"The database {path} is in use by process {holder.pid}; stop it, or set another"
                " DATABASE_URL"
            )
        reader = Database.inspect(url_of(names["itself"]), tmp_path)
        async with reader.read():
            pass
        await reader.close()
    finally:
        holder.send_signal(signal.SIGKILL)
        with holder:
            pass
    await (await Database.open(url_of(names["hard"]), tmp_path)).close()


async def test_a_refusal_leaves_the_locks_of_who_has_it(
    tmp_path: Path, names: dict[str, Path]
) -> None:
    """Closing any descriptor of a file drops the process's locks on it, SQLite's own too."""
    database = await Database.open(url_of(names["itself"]), tmp_path)
    async with database.read():
        for path in names.values():
            with pytest.raises(HomeLocked):
                await Database.open(url_of(path), tmp_path)
        gc.collect()
        # A process that finds the file without a reader would take it over and delete its log.
        other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute(sys.argv[2])"
        exclusive = "PRAGMA journal_mode = DELETE"
        taken = subprocess.run(
            [sys.executable, "-c", other, str(names["itself"]), exclusive],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "database is locked" in taken.stderr
    await database.close()
    with sqlite3.connect(names["itself"]) as alone:
        assert alone.execute(exclusive).fetchone() == ("delete",)
    alone.close()


async def test_a_database_that_cannot_be_opened_keeps_no_lock(tmp_path: Path) -> None:
    file = tmp_path / "solward.db"
    file.write_bytes(b"no database at all, but long enough" * 100)
    for _ in range(2):
        with pytest.raises(Exception, match="not a database"):
            await Database.open(None, tmp_path)
