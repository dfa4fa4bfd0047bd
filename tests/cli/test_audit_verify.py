"""`solward audit verify` on a real file: whole, tampered with, and while somebody writes it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from solward import jsontext
from solward.audit import AuditLog
from solward.home import Home
from solward.store.database import Database
from solward_cli import main

ENTRIES = 5


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    asyncio.run(write(tmp_path / "home", ENTRIES))
    return tmp_path / "home"


async def write(home: Path, count: int) -> None:
    home.mkdir(exist_ok=True)
    database = await Database.open(None, home)
    for number in range(count):
        await AuditLog(database).append("key:created", {"number": number})
    await database.close()


@pytest.fixture
def connection(home: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(home / "solward.db", isolation_level=None)
    yield opened
    opened.close()


def verify(home: Path, *options: str) -> Result:
    given = {"SOLWARD_HOME": str(home)}
    return CliRunner(env=given).invoke(main, ["audit", "verify", *options])


def head_of(result: Result) -> str:
    return re.findall(r"^Head: +(\w{64})$", result.output, re.MULTILINE)[0]


def test_a_whole_log_is_told_with_its_times_and_its_head(
    home: Path, connection: sqlite3.Connection
) -> None:
    result = verify(home)
    assert result.exit_code == 0, result.output
    (hash_,) = connection.execute("SELECT hash FROM audit_head").fetchone()
    lines = result.output.splitlines()
    assert lines[0] == f"Entries: {ENTRIES}"
    assert [line.split(":")[0] for line in lines[1:3]] == ["First", "Last"]
    assert lines[3] == f"Head:    {hash_}"


def test_an_empty_log_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(write(tmp_path / "new", 0))
    result = verify(tmp_path / "new")
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "Entries: 0")
    assert verify(tmp_path / "new", "--head", head_of(result)).exit_code == 0


@pytest.mark.parametrize(
    ("tampering", "broken"),
    [
        ("UPDATE audit SET data = '{}' WHERE seq = 3", 3),
        ("DELETE FROM audit WHERE seq = 2", 2),
        ("DELETE FROM audit WHERE seq = 5", 5),
        ("UPDATE audit SET hash = '0' WHERE seq = 4", 4),
    ],
)
def test_the_first_broken_entry_is_named(
    home: Path, connection: sqlite3.Connection, tampering: str, broken: int
) -> None:
    connection.execute(tampering)
    result = verify(home)
    assert result.exit_code == 1
    assert re.search(rf"^Error: .*broken at entry {broken}\b", result.stderr)
    assert result.stdout == ""


def rewrite(connection: sqlite3.Connection) -> None:
    """What somebody with the whole database can do: another history, whole in itself."""
    previous = "0" * 64
    query = "SELECT seq, created_ms, event FROM audit ORDER BY seq"
    for seq, ms, kind in connection.execute(query).fetchall():
        data = '{"number":7}'
        text = jsontext.dumps([seq, ms, kind, data, previous], canonical=True)
        hash_ = hashlib.sha256(text.encode()).hexdigest()
        row = (data, previous, hash_, seq)
        connection.execute(
            "UPDATE audit SET data = ?, previous_hash = ?, hash = ? WHERE seq = ?", row
        )
        previous = hash_
    connection.execute("UPDATE audit_head SET hash = ?", (previous,))


def test_a_head_kept_elsewhere_shows_a_rewritten_and_a_cut_history(
    home: Path, connection: sqlite3.Connection
) -> None:
    head = head_of(verify(home))
    asyncio.run(write(home, 3))
    longer = verify(home, "--head", head)
    assert longer.exit_code == 0, longer.output
    assert longer.output.startswith(f"Entries: {ENTRIES + 3}\n")
    rewrite(connection)
    assert verify(home).exit_code == 0
    result = verify(home, "--head", head)
    assert result.exit_code == 1
    assert head in result.stderr


def test_it_reads_while_a_service_owns_the_home_and_writes(home: Path) -> None:
    async def serving() -> Result:
        with Home.locked(home):
            database = await Database.open(None, home)
            async with database.write():
                await AuditLog(database).latest()
                found = await asyncio.to_thread(verify, home)
            await database.close()
        return found

    result = asyncio.run(serving())
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Entries: {ENTRIES}\n")


def test_it_changes_nothing(home: Path, connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (home / "solward.db").read_bytes()
    assert verify(home).exit_code == 0
    assert (home / "solward.db").read_bytes() == before


def test_where_there_is_no_database_none_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = verify(tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "There is no database at" in result.stderr
    assert os.listdir(tmp_path) == []
