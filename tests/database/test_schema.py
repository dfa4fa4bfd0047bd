"""A database has this version's schema or is empty; any other is refused as it is."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Column, Index, Integer, MetaData, Table, create_engine, text
from tests.promises import promise
from tests.support.database import connected, rows_of
from tests.support.services import serving_api

from solward.database import schema as schema_module
from solward.database.database import Database
from solward.database.schema import has_schema, schema_of, statements
from solward.database.tables import AFTERWARDS, metadata
from solward.types.errors import OtherSchema

pytestmark = promise("other-schema-refused")

# What a database of another commit, of a later release or of another program has.
OTHERS = {
    "another hash": "UPDATE schema_hash SET hash = 'another'",
    "no hash": "DELETE FROM schema_hash",
    "no table of it": "DROP TABLE schema_hash",
    "two hashes": "INSERT INTO schema_hash (hash) VALUES ('another')",
}


@pytest.mark.parametrize("statement", OTHERS.values(), ids=OTHERS)
async def test_a_database_of_another_schema_is_refused_as_it_is(
    tmp_path: Path, statement: str
) -> None:
    async with serving_api(tmp_path) as api:
        await api.wallet(1)
    with connected(tmp_path) as connection:
        connection.execute(text(statement))
    before = rows_of(tmp_path, "SELECT * FROM audit ORDER BY seq")
    for _ in range(2):
        with pytest.raises(OtherSchema, match="export the wallets' keys with the version"):
            await Database.open(None, tmp_path)
    assert rows_of(tmp_path, "SELECT * FROM audit ORDER BY seq") == before


@pytest.mark.sqlite("a file")
@pytest.mark.parametrize("made", ["TABLE wallets (id TEXT)", "VIEW ours AS SELECT 1"])
@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
async def test_a_file_of_another_program_keeps_every_byte(
    tmp_path: Path, mode: str, made: str
) -> None:
    file = tmp_path / "solward.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(f"CREATE {made}")
        connection.commit()
    before = hashlib.sha256(file.read_bytes()).digest()
    with pytest.raises(OtherSchema):
        await Database.open(None, tmp_path)
    assert hashlib.sha256(file.read_bytes()).digest() == before


def more_tables(copy: MetaData) -> None:
    Table("more", copy, Column("id", Integer))


def more_columns(copy: MetaData) -> None:
    copy.tables["wallets"].append_column(Column("more", Integer))


def more_indexes(copy: MetaData) -> None:
    Index("more", copy.tables["wallets"].c.tags)


@pytest.fixture(params=["sqlite", "postgresql"])
def schema_now(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], str]:
    """The hash of what is declared at each call."""
    monkeypatch.setattr(schema_module, "statements", schema_module.statements.__wrapped__)
    return partial(schema_of.__wrapped__, request.param)


@pytest.mark.parametrize("change", [more_tables, more_columns, more_indexes])
def test_each_change_of_a_table_is_another_schema(
    schema_now: Callable[[], str],
    change: Callable[[MetaData], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = MetaData(naming_convention=metadata.naming_convention)
    for table in metadata.tables.values():
        table.to_metadata(copy)
    monkeypatch.setattr(schema_module, "metadata", copy)
    before = schema_now()
    change(copy)
    assert schema_now() != before


def test_each_change_of_a_trigger_or_a_first_row_is_another_schema(
    schema_now: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = schema_now()
    for at, (dialect, statement) in enumerate(AFTERWARDS):
        changed = [*AFTERWARDS[:at], (None, f"{statement} "), *AFTERWARDS[at + 1 :]]
        monkeypatch.setattr(schema_module, "AFTERWARDS", changed)
        assert schema_now() != before, dialect


def test_every_process_makes_it_in_the_same_order() -> None:
    """SQLite chooses between two indexes by the order in which they were made."""
    shown = (
        "from solward.database.schema import statements; print(*statements('sqlite'), sep='\\n')"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", shown], env={"PYTHONHASHSEED": seed}, check=True,
            capture_output=True,
        ).stdout
        for seed in "123"
    }  # fmt: skip
    assert made == {("\n".join(statements("sqlite")) + "\n").encode()}


async def test_processes_that_start_together_make_it_once(
    postgres_url: str, tmp_path: Path
) -> None:
    opened = await asyncio.gather(*(Database.open(postgres_url, tmp_path) for _ in range(4)))
    for database in opened:
        await database.close()
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT hash FROM schema_hash")).all() == [
            (schema_of("postgresql"),)
        ]
    engine.dispose()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_first_start_that_is_cut_off_leaves_an_empty_database(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / "empty.db"
    file.touch(0o600)
    url = f"sqlite:///{file}" if kind == "sqlite" else request.getfixturevalue("postgres_url")

    def cut_off(_connection: object) -> str:
        raise RuntimeError("cut off")

    monkeypatch.setattr(schema_module, "_own_hash", cut_off)
    with pytest.raises(RuntimeError, match="cut off"):
        await Database.open(url, tmp_path)
    monkeypatch.undo()
    database = await Database.open(url, tmp_path)
    async with database.read() as connection:
        assert await has_schema(connection)
    await database.close()
