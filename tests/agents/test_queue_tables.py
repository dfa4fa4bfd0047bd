"""The queue's tables on a real PostgreSQL, beside older and newer releases of procrastinate."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from procrastinate.schema import SchemaManager
from sqlalchemy import text

from solward.agents import queue
from solward.agents.queue import QueuePlacement
from solward.database.database import Database
from solward.types.errors import StoreError

SHIPPED = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
LATER = "03.99.00_01_pre_add_mood.sql"

# What the release's own tables consist of, and what migrations change.
CATALOG = (
    "SELECT proname || '(' || pg_get_function_identity_arguments(oid) || ')' FROM pg_proc"
    " WHERE proname LIKE 'procrastinate%'",
    "SELECT enumtypid::regtype || '.' || enumlabel FROM pg_enum",
    "SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns"
    " WHERE table_name LIKE 'procrastinate%'",
    "SELECT tgname::text FROM pg_trigger WHERE tgname LIKE 'procrastinate%'",
)


@pytest.fixture
async def database(postgres_database: Database) -> Database:
    await start(postgres_database)
    return postgres_database


async def start(database: Database) -> None:
    """As each process does."""
    await QueuePlacement(database).open()


async def run(database: Database, *scripts: str) -> None:
    async with database.write() as connection:
        for each in scripts:
            options = {"no_parameters": True}
            await connection.exec_driver_sql(each, execution_options=options)


async def catalog(database: Database) -> list[set[Any]]:
    async with database.read() as connection:
        return [set((await connection.execute(text(each))).scalars()) for each in CATALOG]


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A migration that a later release ships, which is installed."""
    folder = tmp_path / "migrations"
    shutil.copytree(SchemaManager.get_migrations_path(), folder)
    monkeypatch.setattr(SchemaManager, "get_migrations_path", lambda: str(folder))
    later = folder / LATER
    later.write_text("ALTER TABLE procrastinate_jobs ADD mood text DEFAULT '100%';")
    return later


async def test_tables_of_an_older_release_are_refused_until_they_are_upgraded(
    database: Database,
) -> None:
    fresh = await catalog(database)
    old = [each for each in SHIPPED if each.name < "03.02"]
    await run(
        database,
        "DROP SCHEMA public CASCADE; CREATE SCHEMA public",
        "CREATE TABLE queue_migrations (name text)",
    )
    for each in old:
        await run(
            database,
            each.read_text("utf-8"),
            f"INSERT INTO queue_migrations VALUES ('{each.name}')",
        )
    lacking = [each.name for each in SHIPPED if each not in old]
    with pytest.raises(StoreError, match=rf"older .* {lacking[0]}: .*solward database upgrade"):
        await start(database)
    assert await catalog(database) != fresh
    assert await queue.upgrade(database) == lacking
    assert await catalog(database) == fresh
    await start(database)
    assert await queue.upgrade(database) == []


async def test_tables_made_before_migrations_were_stored_are_of_release_3_10(
    database: Database, later: Path
) -> None:
    await run(database, "DROP TABLE queue_migrations")
    with pytest.raises(StoreError, match=LATER):
        await start(database)
    assert await queue.upgrade(database) == [LATER]
    await start(database)


async def test_tables_of_a_later_release_are_refused(
    database: Database, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.upgrade(database)
    monkeypatch.undo()
    with pytest.raises(StoreError, match=rf"newer than .*{LATER}: .*solward database upgrade"):
        await start(database)
    with pytest.raises(StoreError, match="newer than"):
        await queue.upgrade(database)


async def test_a_migration_that_fails_leaves_nothing_and_those_before_it_stay(
    database: Database, later: Path
) -> None:
    second = later.with_name("03.99.00_50_post_add_mood.sql")
    second.write_text("ALTER TABLE procrastinate_jobs ADD half text; SELECT 1 / 0;")
    with pytest.raises(StoreError, match=rf"{second.name} failed: division by zero"):
        await queue.upgrade(database)
    columns = (await catalog(database))[2]
    assert "procrastinate_jobs.mood text" in columns
    assert "procrastinate_jobs.half text" not in columns
    second.write_text("ALTER TABLE procrastinate_jobs ADD half text;")
    assert await queue.upgrade(database) == [second.name]
