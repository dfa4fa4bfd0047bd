"""`solward audit verify` on a real file: whole, tampered with, and while somebody writes it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import ANY

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text as sql
from tests.promises import promise
from tests.support.database import AuditLog

from solward.database.database import Database
from solward.service.retention import delete_old_rows
from solward.settings import Settings
from solward.settings.home import Home
from solward.support import jsontext
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS
from solward.vault.custody import Wallets
from solward_cli import main

ENTRIES = 5


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    asyncio.run(write(tmp_path / "home", ENTRIES))
    return tmp_path / "home"


async def opened(home: Path, url: str | None = None) -> Database:
    """The database with its keystore, which has the audit key."""
    database = await Database.open(url, home)
    await Wallets.open(database, Settings(_env_file=None), home)
    return database


async def write(home: Path, count: int) -> None:
    home.mkdir(exist_ok=True)
    database = await opened(home)
    for number in range(count):
        await AuditLog(database).append("key:created", {"number": number})
    await database.close()


@pytest.fixture
def connection(home: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(home / "solward.db", isolation_level=None)
    yield opened
    opened.close()


def verify(home: Path, *options: str, url: str | None = None) -> Result:
    # A test run on PostgreSQL may have one in its environment.
    given = {"SOLWARD_HOME": str(home), "DATABASE_URL": url}
    return CliRunner(env=given).invoke(main, ["audit", "verify", *options])


def head_of(result: Result) -> str:
    return re.findall(r"^Head: +(\w{64})$", result.output, re.MULTILINE)[0]


def test_a_whole_log_is_told_with_its_times_and_its_head(
    home: Path, connection: sqlite3.Connection
) -> None:
    result = verify(home)
    assert result.exit_code == 0, result.output
    (hash_,) = connection.execute("SELECT hash FROM audit_heads WHERE chain = ''").fetchone()
    lines = result.output.splitlines()
    assert lines[0] == f"Entries: {ENTRIES}"
    assert lines[1] == "Chains:  1"
    assert [line.split(":")[0] for line in lines[2:4]] == ["First", "Last"]
    assert lines[4] == f"Head:    {hash_}"


def test_the_first_broken_entry_is_named(home: Path, connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM audit WHERE seq = 2")
    result = verify(home)
    assert result.exit_code == 1
    assert re.search(r"^Error: .*broken at entry 2\b", result.stderr)
    assert result.stdout == ""


def test_a_broken_entry_is_named_by_its_number_in_lists_too(
    home: Path, connection: sqlite3.Connection
) -> None:
    asyncio.run(fill(home))
    at = "SELECT seq FROM audit WHERE chain = 'agent:a' AND number = 2"
    (seq,) = connection.execute(at).fetchone()
    first = "chain = 'agent:a' AND number = 1"
    connection.execute(f"UPDATE audit SET data = '{{}}' WHERE {first}")
    told = f"broken at entry 1 of agent:a, NO {seq - 2} of `solward audit list`"
    assert told in verify(home).stderr
    connection.execute(f"DELETE FROM audit WHERE {first}")
    told = f"broken at entry 1 of agent:a, before NO {seq} of `solward audit list`"
    assert told in verify(home).stderr


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
    connection.execute(
        "UPDATE audit_heads SET hash = ?, service_number = 0, service_hash = NULL", (previous,)
    )


def test_a_head_kept_elsewhere_shows_a_rewritten_and_a_cut_history(
    home: Path, connection: sqlite3.Connection
) -> None:
    head = head_of(verify(home))
    asyncio.run(write(home, 3))
    longer = verify(home, "--head", head)
    assert longer.exit_code == 0, longer.output
    assert longer.output.startswith(f"Entries: {ENTRIES + 3}\n")
    rewrite(connection)
    assert verify(home, "--hashes-only").exit_code == 0
    result = verify(home, "--hashes-only", "--head", head)
    assert result.exit_code == 1
    assert head in result.stderr


async def fill(home: Path) -> None:
    """Entries in chains of their own beside the common one."""
    database = await opened(home)
    for chain in ("a", "b", "a"):
        await AuditLog(database).append("agent:stopped", {"agentId": chain})
    await database.close()


def test_saved_ends_are_continued_and_saved_again(home: Path, tmp_path: Path) -> None:
    asyncio.run(fill(home))
    file = tmp_path / "ends.json"
    result = verify(home, "--save", str(file))
    assert (result.exit_code, result.output.splitlines()[1]) == (0, "Chains:  3")
    assert file.stat().st_mode & 0o777 == 0o600
    ends = jsontext.loads(file.read_bytes())
    assert ends == {"": [5, head_of(result)], "agent:a": [2, ANY], "agent:b": [1, ANY]}
    asyncio.run(write(home, 1))
    asyncio.run(fill(home))
    again = verify(home, "--against", str(file), "--save", str(file))
    assert again.exit_code == 0, again.output
    assert {chain: end[0] for chain, end in jsontext.loads(file.read_bytes()).items()} == {
        "": 6, "agent:a": 4, "agent:b": 2
    }  # fmt: skip
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "home"] == [file.name]


@promise("older-copy-found")
def test_an_older_copy_of_the_database_is_held_to_the_saved_ends(
    home: Path, connection: sqlite3.Connection, tmp_path: Path
) -> None:
    """What nobody can tell from the database alone."""
    asyncio.run(fill(home))
    with sqlite3.connect(tmp_path / "older.db") as older:
        connection.backup(older)
        asyncio.run(fill(home))
        file = tmp_path / "ends.json"
        assert verify(home, "--save", str(file)).exit_code == 0
        saved = file.read_bytes()
        older.backup(connection)
    older.close()
    assert verify(home).exit_code == 0
    result = verify(home, "--against", str(file), "--save", str(file))
    assert result.exit_code == 1
    assert re.search(r"^Error: .*does not continue chain 'agent:a'", result.stderr)
    assert file.read_bytes() == saved


def forged(connection: sqlite3.Connection, chain: str) -> None:
    """Rewrite a chain's last entry and move its end there, with all that needs no secret."""
    row = "SELECT seq, created_ms, event, previous_hash FROM audit WHERE chain = ?"
    seq, ms, kind, previous = connection.execute(
        f"{row} ORDER BY number DESC LIMIT 1", (chain,)
    ).fetchone()
    text = jsontext.dumps([seq, ms, kind, "{}", previous], canonical=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    connection.execute("UPDATE audit SET data = '{}', hash = ? WHERE seq = ?", (digest, seq))
    connection.execute("UPDATE audit_heads SET hash = ? WHERE chain = ?", (digest, chain))


CUT_A = [
    "DELETE FROM audit WHERE chain = 'agent:a' AND number = 2",
    "UPDATE audit_heads SET number = 1, hash = "
    "(SELECT hash FROM audit WHERE chain = 'agent:a') WHERE chain = 'agent:a'",
]
PRUNED_A = [
    "UPDATE audit_heads SET pruned_number = 1, pruned_hash = "
    "(SELECT hash FROM audit WHERE chain = 'agent:a' AND number = 1) WHERE chain = 'agent:a'",
    "DELETE FROM audit WHERE chain = 'agent:a' AND number = 1",
]
NOT_AUTHENTIC = r"broken at entry {} of agent:a: the chain's end is not authenticated"


@pytest.mark.parametrize(
    ("tampering", "told"),
    [
        pytest.param(CUT_A, NOT_AUTHENTIC.format(1), id="cut"),
        pytest.param(PRUNED_A, NOT_AUTHENTIC.format(2), id="pruned by hand"),
        pytest.param(
            ["UPDATE audit_heads SET mac = NULL WHERE chain = 'agent:a'"],
            NOT_AUTHENTIC.format(2),
            id="mac removed",
        ),
        pytest.param(
            [
                "UPDATE audit_heads SET mac = (SELECT mac FROM audit_heads WHERE chain = 'agent:b')"
                " WHERE chain = 'agent:a'"
            ],
            NOT_AUTHENTIC.format(2),
            id="mac of another chain",
        ),
        pytest.param(
            [
                "UPDATE keystore SET kdf = json_remove(kdf, '$.audit')",
                "UPDATE audit_heads SET mac = NULL",
            ],
            "is not this keystore's key",
            id="key removed",
        ),
        pytest.param(["DELETE FROM keystore"], "is not authenticated", id="keystore removed"),
        pytest.param(
            [
                "DELETE FROM audit WHERE chain = 'agent:a'",
                "DELETE FROM audit_heads WHERE chain = 'agent:a'",
            ],
            "7 entries were written, but its chains have 6",
            id="a chain removed with all its traces",
        ),
    ],
)
def test_what_needs_no_secret_is_found_with_it(
    home: Path, connection: sqlite3.Connection, tampering: list[str], told: str
) -> None:
    asyncio.run(fill(home))
    for statement in tampering:
        connection.execute(statement)
    result = verify(home)
    assert result.exit_code in (1, 2)
    assert re.search(rf"^Error: .*{told}", result.stderr), result.stderr


@promise("log-rewrite-is-noticed", "database-writer-reads-no-key", "log-tampering-found")
def test_a_history_rewritten_and_rebased_is_found_and_stays_found(
    home: Path, connection: sqlite3.Connection, tmp_path: Path
) -> None:
    asyncio.run(fill(home))
    # Ends saved after the deed agree with it.
    forged(connection, "agent:a")
    file = tmp_path / "ends.json"
    assert verify(home, "--hashes-only", "--save", str(file)).exit_code == 0
    assert "not authenticated" in verify(home, "--hashes-only").stdout
    for options in ([], ["--against", str(file)]):
        result = verify(home, *options)
        assert result.exit_code == 1
        assert "broken at entry 2 of agent:a: the chain's end is not authenticated" in result.stderr
    # The service goes on; what follows does not make it authentic.
    asyncio.run(fill(home))
    result = verify(home)
    assert result.exit_code == 1
    assert "broken at entry 4 of agent:a: the chain's end is not authenticated" in result.stderr


def test_a_chain_taken_back_to_an_authentic_end_that_it_once_had_is_found(
    home: Path, connection: sqlite3.Connection
) -> None:
    asyncio.run(fill(home))
    end = connection.execute("SELECT * FROM audit_heads WHERE chain = 'agent:a'").fetchone()
    asyncio.run(fill(home))
    connection.execute("DELETE FROM audit WHERE chain = 'agent:a' AND number > 2")
    marks = ", ".join("?" * len(end))
    connection.execute("DELETE FROM audit_heads WHERE chain = 'agent:a'")
    connection.execute(f"INSERT INTO audit_heads VALUES ({marks})", end)
    result = verify(home)
    assert result.exit_code == 1
    assert "10 entries were written, but its chains have 9" in result.stderr


def test_without_the_secret_the_check_is_refused_unless_it_is_for_hashes(home: Path) -> None:
    (home / "keystore.key").unlink()
    result = verify(home)
    assert (result.exit_code, "key file" in result.stderr) == (2, True)
    assert verify(home, "--hashes-only").exit_code == 0


def test_what_retention_cut_is_counted_and_saved_ends_are_still_continued(
    home: Path, tmp_path: Path
) -> None:
    async def cut() -> None:
        database = await opened(home)
        in_a_week = now_ms() + 7 * DAY_MS
        await delete_old_rows(database, Settings(_env_file=None, event_retention_days=1), in_a_week)
        await database.close()

    file = tmp_path / "ends.json"
    head = head_of(verify(home, "--save", str(file)))
    asyncio.run(write(home, 2))
    asyncio.run(cut())
    result = verify(home, "--against", str(file))
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[:3] == [
        "Entries: 2", "Chains:  1", "Pruned:  7 older entries, after their retention"
    ]  # fmt: skip
    gone = verify(home, "--head", head)
    assert gone.exit_code == 1
    assert "or the entry is older than EVENT_RETENTION_DAYS" in gone.stderr


def test_a_file_that_is_none_of_saved_ends_is_refused(
    home: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for text in (
        "",
        "[]",
        '{"": 1}',
        '{"": [1]}',
        '{"": [-1, "%s"]}' % ("0" * 64),
        '{"": [true, "x"]}',
        '{"": [1, "x"]}',
        '{"": ["1", "%s"]}' % ("0" * 64),
    ):
        with subtests.test(text=text):
            file = tmp_path / "ends.json"
            file.write_text(text)
            result = verify(home, "--against", str(file))
            assert result.exit_code == 2
            assert "ends.json: expected what" in result.stderr


def test_files_that_cannot_be_read_or_written_are_named(home: Path, tmp_path: Path) -> None:
    for option, told in (("--against", "cannot be read"), ("--save", "cannot be written")):
        result = verify(home, option, str(tmp_path / "nowhere" / "ends.json"))
        assert result.exit_code == 2
        assert re.search(rf"nowhere/ends\.json {told}: No such file", result.stderr)


@pytest.mark.more
def test_a_log_on_postgresql_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    async def tell(*statements: str) -> None:
        database = await opened(tmp_path, postgres_url)
        await AuditLog(database).append("key:created", {"keyId": "k"})
        await AuditLog(database).append("agent:stopped", {"agentId": "a"})
        async with database.write() as writing:
            for statement in statements:
                await writing.execute(sql(statement))
        await database.close()

    monkeypatch.chdir(tmp_path)
    check = partial(verify, tmp_path, url=postgres_url)
    file = tmp_path / "ends.json"
    asyncio.run(tell())
    assert check("--save", str(file)).output.startswith("Entries: 2\nChains:  2\n")
    asyncio.run(tell())
    again = check("--against", str(file))
    assert again.exit_code == 0, again.output
    asyncio.run(tell("UPDATE audit SET data = '{}' WHERE chain = 'agent:a' AND number = 2"))
    result = check()
    assert result.exit_code == 1
    assert "broken at entry 2 of agent:a" in result.stderr


def test_it_reads_while_a_service_owns_the_home_and_writes(home: Path) -> None:
    async def serving() -> Result:
        with Home.opened(home):
            database = await opened(home)
            async with database.write():
                await AuditLog(database).latest()
                found = await asyncio.to_thread(verify, home)
            await database.close()
        return found

    result = asyncio.run(serving())
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Entries: {ENTRIES}\n")


def test_it_changes_nothing(home: Path, connection: sqlite3.Connection) -> None:
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


@pytest.mark.parametrize("options", [(), ("--hashes-only",)])
def test_the_empty_log_of_a_home_that_no_service_used_is_no_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """A watch on the wrong home would be green for ever."""

    async def make() -> None:
        await (await Database.open(None, tmp_path)).close()

    monkeypatch.chdir(tmp_path)
    asyncio.run(make())
    result = verify(tmp_path, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"No service ever used SOLWARD_HOME {tmp_path}" in result.stderr


def test_an_empty_postgresql_database_is_no_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = verify(tmp_path, url=postgres_url)
    assert result.exit_code == 2
    assert "No service ever used the database of DATABASE_URL" in result.stderr
